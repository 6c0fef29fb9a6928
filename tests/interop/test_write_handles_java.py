"""Java reads what write handles wrote: merged, appended, emptied and spilled, in both log formats.

The timelines are written by hand (``handle_tables``), so that the data files alone are judged.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from handle_tables import SMALL, HandleTable, read_back, row
from java_interop import read_all
from lakehand.store.local import LocalStore
from lakehand.write.shapes import FileSettings, LogFormat
from write_by_java import BUNDLE_OF

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.java, pytest.mark.timeout(900)]

KINDS = [
    {"merge_on_read": mor, "event_time": event} for mor in (False, True) for event in (True, False)
]


def story(table: HandleTable) -> None:
    table.upsert([row(f"k{number}", 1, f"first {number}") for number in range(8)])
    table.upsert(
        [
            row("k0", 2, "updated"),
            row("k1", 0, "late"),
            row("k2", 3, "", deleted=True),
            row("k6", 0, "", deleted=True),
            row("k9", 1, "inserted"),
        ]
    )
    table.delete(["k4", "k5"])
    table.upsert([row("k0", 2, "again"), row("k7", 5, "newer"), row("k7", 4, "older")])


@pytest.mark.parametrize("version", [9, 8, 6])
def test_java_reads_what_the_handles_wrote(version, javas, tmp_path: Path):
    tables: dict[Path, HandleTable] = {}
    for number, kind in enumerate(KINDS):
        for log_format in LogFormat:
            place = tmp_path / f"{number}-{log_format.value}"
            settings = FileSettings(
                base=SMALL, log_format=log_format, memory_bytes=2_000, log_block_bytes=400
            )
            store = LocalStore(str(place))
            tables[place] = HandleTable(store, version=version, settings=settings, **kind)
            story(tables[place])
    emptied = tmp_path / "emptied"
    tables[emptied] = HandleTable(LocalStore(str(emptied)), version=version)
    tables[emptied].upsert([row("a", 1, "x"), row("b", 1, "y")])
    tables[emptied].delete(["a", "b"])
    answers = read_all(javas[BUNDLE_OF[version]], tables, tmp_path)
    for (place, table), answer in zip(tables.items(), answers, strict=True):
        assert isinstance(answer, pa.Table), f"{place.name}: {answer}"
        assert read_back(answer) == table.model, place.name
