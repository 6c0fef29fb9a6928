"""Rows for the model-based tests of writes: what a slot holds after a step, and as Arrow.

A *slot* is a number that names one place of the table for ever: a key in a partition. Sixty slots
make twenty keys, each in three partitions, so that one key means several records. The values of a
row follow from its slot and the step that wrote it: two rows that differ in either differ.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa

from lakehand.table import Table

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

Row = dict[str, Any]
Id = tuple[str, str]
"""Partition path and record key."""

SLOTS = 60
KEYS = 20
CITIES = ("oslo", "são paulo", "new york")
COMMIT_TIME, SEQUENCE = "_hoodie_commit_time", "_hoodie_commit_seqno"
RECORD_KEY, PARTITION_PATH = "_hoodie_record_key", "_hoodie_partition_path"
IS_DELETED = "_hoodie_is_deleted"


@dataclass(frozen=True, slots=True)
class Kind:
    """Which kind of table."""

    version: Literal[6, 8, 9] = 9
    table_type: Literal["cow", "mor"] = "mor"
    event_time: bool = True
    """Merged by ``ts``; else the newest commit wins."""
    partitioned: bool = True
    hive: bool = False

    def __str__(self) -> str:
        """Short, for the names of tests."""
        words = [f"v{self.version}", self.table_type]
        words += ["event-time" if self.event_time else "commit-time"]
        words += [] if self.partitioned else ["one-folder"]
        return "-".join(words + ["hive"] * self.hive)

    @property
    def disputes_row_deletions(self) -> bool:
        """Whether 0.x and 1.x (hudi-rs, too) disagree what a logged row's deletion wins against."""
        return self.version == 6 and self.merge_on_read and self.event_time

    @property
    def merge_on_read(self) -> bool:
        return self.table_type == "mor"

    def create(self, uri: str, storage_options: Mapping[str, Any] | None = None) -> Table:
        hive_style = "hoodie.datasource.write.hive_style_partitioning"
        return Table.create(
            uri,
            schema(),
            name="modelled",
            key=("id",),
            partition_by=("city",) if self.partitioned else (),
            ordering=("ts",) if self.event_time else (),
            table_type=self.table_type,
            version=self.version,
            storage_options=storage_options,
            properties={hive_style: "true"} if self.hive else None,
        )

    def partition_of(self, slot: int) -> str:
        if not self.partitioned:
            return ""
        city = CITIES[slot // KEYS]
        return f"city={city}" if self.hive else city

    def id_of(self, slot: int) -> Id:
        # Without partitions a slot has a key of its own.
        return self.partition_of(slot), key_of(self, slot)


def key_of(kind: Kind, slot: int) -> str:
    return f"k{slot % KEYS:02d}" if kind.partitioned else f"k{slot:02d}"


_PLACE = pa.struct(
    [
        pa.field("lat", pa.float64()),
        pa.field("label", pa.string()),
        pa.field("marks", pa.list_(pa.int32())),
    ]
)
_BASIC = (
    pa.field("id", pa.string()),
    pa.field("city", pa.string()),
    pa.field("ts", pa.int64()),
    pa.field("step", pa.int32()),
    pa.field("price", pa.decimal128(9, 2)),
    pa.field("huge", pa.decimal128(30, 10)),
    pa.field("day", pa.date32()),
    pa.field("seen", pa.timestamp("us", tz="UTC")),
    pa.field("flag", pa.bool_()),
    pa.field("ratio", pa.float32()),
    pa.field("raw", pa.binary()),
    pa.field("place", _PLACE),
    pa.field("tags", pa.list_(pa.string())),
    pa.field("counts", pa.map_(pa.string(), pa.int64())),
    pa.field(IS_DELETED, pa.bool_()),
)
_LATER = (
    pa.field("note", pa.string()),
    pa.field("extra", pa.struct([pa.field("x", pa.int64()), pa.field("y", pa.decimal128(12, 3))])),
)
LATER_COLUMNS = len(_LATER)


def schema(later: int = 0) -> pa.Schema:
    """The columns of a batch that brings so many of the columns that appear later."""
    return pa.schema([*_BASIC, *_LATER[:later]])


COLUMNS = tuple(schema(LATER_COLUMNS).names)


def make_row(kind: Kind, slot: int, step: int, ts: int, *, later: int = 0) -> Row:
    """The row that a step puts into a slot."""
    turn = slot * 7 + step * 13
    row = {
        "id": key_of(kind, slot),
        "city": CITIES[slot // KEYS],
        "ts": ts,
        "step": step,
        "price": (Decimal("-9999999.99"), Decimal(turn).scaleb(-2), None)[turn % 3],
        "huge": (Decimal("-12345678901234567890.0123456789"), Decimal(turn), None)[turn % 3],
        "day": (dt.date(1950, 1, 1) + dt.timedelta(days=turn * 31), None)[turn % 7 == 0],
        "seen": dt.datetime(1965, 6, 5, 4, 3, 2, 999_001, tzinfo=dt.UTC)
        + dt.timedelta(days=turn, microseconds=turn),
        "flag": (True, False, None)[turn % 3],
        "ratio": (0.5 * turn, float("inf"), -0.25, None)[turn % 4],
        "raw": (b"\x00\xff\x80#HUDI#", b"", None)[turn % 3],
        "place": _place(turn),
        "tags": None if turn % 4 == 0 else [f"t{n}" for n in range(turn % 3)],
        "counts": None if turn % 5 == 0 else {f"a{n}": turn * n for n in range(turn % 4)},
        IS_DELETED: (None, False)[turn % 2],
        "note": None,
        "extra": None,
    }
    if later > 0:
        row["note"] = (None, f"nöte {turn} ✓")[turn % 2]
    if later > 1:
        row["extra"] = (None, {"x": turn, "y": Decimal(turn).scaleb(-3)})[turn % 3 > 0]
    return row


def _place(turn: int) -> Row | None:
    if turn % 6 == 0:
        return None
    marks = None if turn % 5 == 0 else list(range(turn % 4))
    return {"lat": turn / 4, "label": None if turn % 4 == 0 else f"L{turn}", "marks": marks}


def to_table(rows: Iterable[Row], *, later: int = 0) -> pa.Table:
    """The rows as a writer is given them."""
    columns = schema(later)
    plain = [{name: row[name] for name in columns.names} for row in rows]
    for row in plain:
        if row["counts"] is not None:
            row["counts"] = list(row["counts"].items())
    return pa.Table.from_pylist(plain, columns)


def rows_of(found: pa.Table) -> list[Row]:
    """What a reader returned: meta columns and data, in Python's types, missing columns null."""
    meta = (COMMIT_TIME, SEQUENCE, RECORD_KEY, PARTITION_PATH)
    names = [name for name in (*meta, *COLUMNS) if name in found.column_names]
    whole = schema(LATER_COLUMNS)
    columns = {}
    for name in names:
        column = found.column(name)
        kind = whole.field(name).type if name in whole.names else pa.string()
        if not pa.types.is_nested(kind) and column.type != kind:
            column = column.cast(kind)
        values = column.to_pylist()
        if pa.types.is_map(kind):
            values = [None if value is None else dict(value) for value in values]
        columns[name] = values
    missing = dict.fromkeys(name for name in COLUMNS if name not in columns)
    return [
        missing | dict(zip(columns, values, strict=True))
        for values in zip(*columns.values(), strict=True)
    ]
