"""Open a timeline of 10,000 instants from a local disk, beside a bare listing of its folder.

Run: ``python bench/bench_timeline.py``. Figures are medians of five runs, with the smallest and
the largest; the listing is ``os.scandir`` with one ``stat`` a file, the least that any reader of
layout 1 must do.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from lakehand.core.instants import Action, Instant, State, format_instant_time
from lakehand.core.table_config import TableConfig
from lakehand.core.table_kinds import TableType, TableVersion
from lakehand.formats import instant_names
from lakehand.protocol.timeline_loader import load_timeline
from lakehand.store.local import LocalStore

if TYPE_CHECKING:
    from collections.abc import Callable

INSTANTS = 10_000
RUNS = 5
FIRST_MS = 1_700_000_000_000


def write_timeline(folder: Path, config: TableConfig) -> None:
    timeline = folder / config.timeline_path
    timeline.mkdir(parents=True)
    for number in range(INSTANTS):
        begin = format_instant_time(FIRST_MS + number * 60_000)
        end = format_instant_time(FIRST_MS + number * 60_000 + 30_000)
        action = Action.COMMIT if number % 10 == 0 else Action.DELTA_COMMIT
        for state in (State.REQUESTED, State.INFLIGHT, State.COMPLETED):
            completion = end if config.layout == 2 and state is State.COMPLETED else None
            instant = Instant(begin, action, state, completion)
            (timeline / instant_names.file_name(instant, config.layout)).touch()


def list_and_stat(folder: Path) -> int:
    with os.scandir(folder) as entries:
        return sum(entry.stat().st_size for entry in entries)


def measure(work: Callable[[], object]) -> float:
    begin = time.perf_counter()
    work()
    return (time.perf_counter() - begin) * 1000


def compare(version: TableVersion) -> None:
    with tempfile.TemporaryDirectory() as name:
        config = TableConfig("bench", TableType.MERGE_ON_READ, version)
        write_timeline(Path(name), config)
        store = LocalStore(name)
        folder = Path(name) / config.timeline_path
        assert len(load_timeline(store, config).completed) == INSTANTS
        ours, bare = [], []
        for _ in range(RUNS):
            ours.append(measure(lambda: load_timeline(store, config)))
            bare.append(measure(lambda: list_and_stat(folder)))
    for what, times in (("opened", ours), ("bare listing", bare)):
        print(
            f"v{int(version)} timeline of {INSTANTS:,} instants {what}: "
            f"{statistics.median(times):.0f} ms ({min(times):.0f}-{max(times):.0f})"
        )


def main() -> None:
    for version in (TableVersion.SIX, TableVersion.NINE):
        compare(version)


if __name__ == "__main__":
    main()
