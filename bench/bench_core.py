"""Rates of the pure core: timelines and views of many files, beside the machine's pass-through.

Run: ``python bench/bench_core.py``. Every figure is processor time, the median of five
runs. The pass-through of a view is splitting the same names and nothing else; that of a timeline
is sorting its entries.
"""

from __future__ import annotations

import gc
import statistics
import time
from typing import TYPE_CHECKING

from lakehand.core.file_names import split_base_name, split_log_name
from lakehand.core.file_slices import FileEntry, build_file_groups, latest_slices
from lakehand.core.instants import Action, Instant, State, format_instant_time
from lakehand.core.timeline import Timeline

if TYPE_CHECKING:
    from collections.abc import Callable

RUNS = 5
FIRST_MS = 1_700_000_000_000
TABLE_INSTANTS = 200


def median_ms(work: Callable[[], object]) -> float:
    times = []
    for _ in range(RUNS):
        gc.collect()
        begin = time.process_time()
        work()
        times.append((time.process_time() - begin) * 1000)
    return statistics.median(times)


def instant_time(number: int) -> str:
    return format_instant_time(FIRST_MS + number * 60_000)


def timeline_entries(count: int, version: int) -> list[Instant]:
    entries = []
    for number in range(count):
        begin = instant_time(number)
        end = format_instant_time(FIRST_MS + number * 60_000 + 30_000) if version >= 8 else None
        action = Action.COMMIT if number % 10 == 0 else Action.DELTA_COMMIT
        entries += [
            Instant(begin, action, State.COMPLETED, end),
            Instant(begin, action, State.REQUESTED),
            Instant(begin, action, State.INFLIGHT),
        ]
    return entries


def one_file_a_group(_version: int) -> dict[str, list[FileEntry]]:
    """1,000 partitions of 100 groups, each one base file: the most objects for 100,000 files."""
    return {
        f"day={part:04d}": [
            FileEntry(
                f"{part:08d}-aaaa-bbbb-cccc-{group:012d}-0_{group}-12-345_{instant_time(0)}.parquet",
                1_000_000,
            )
            for group in range(100)
        ]
        for part in range(1000)
    }


def layered_groups(version: int) -> dict[str, list[FileEntry]]:
    """1,000 partitions of 10 groups, each two base files with four logs on top of each."""
    partitions: dict[str, list[FileEntry]] = {}
    for part in range(1000):
        files = []
        for group in range(10):
            file_id = f"{part:08d}-aaaa-bbbb-cccc-{group:012d}-0"
            for base in (0, 100):
                files.append(FileEntry(f"{file_id}_1-2-3_{instant_time(base)}.parquet", 1_000_000))
                for log in range(1, 5):
                    instant = instant_time(base + log if version >= 8 else base)
                    number = 1 if version >= 8 else log
                    files.append(FileEntry(f".{file_id}_{instant}.log.{number}_7-8-9", 10_000))
        partitions[f"day={part:04d}"] = files
    return partitions


def view(partitions: dict[str, list[FileEntry]], timeline: Timeline, version: int) -> int:
    count = 0
    for partition, files in partitions.items():
        count += len(latest_slices(build_file_groups(partition, files, timeline, version)))
    return count


def split_only(partitions: dict[str, list[FileEntry]]) -> None:
    for files in partitions.values():
        for entry in files:
            name = entry.name
            _ = split_log_name(name) if name[0] == "." else split_base_name(name)


def main() -> None:
    for version in (6, 9):
        entries = timeline_entries(10_000, version)
        folded = median_ms(lambda entries=entries: Timeline.of(entries))
        passed = median_ms(lambda entries=entries: sorted(entries, key=lambda one: one.time))
        print(
            f"timeline v{version}: 10,000 instants in 30,000 entries folded in {folded:.1f} ms "
            f"(sorting alone {passed:.1f} ms)"
        )
        timeline = Timeline.of(timeline_entries(TABLE_INSTANTS, version))
        for shape in (one_file_a_group, layered_groups):
            partitions = shape(version)
            files = sum(map(len, partitions.values()))
            viewed = median_ms(lambda p=partitions, t=timeline, v=version: view(p, t, v))
            passed = median_ms(lambda p=partitions: split_only(p))
            print(
                f"view v{version}, {shape.__name__}: {files:,} files in {viewed:.0f} ms "
                f"(splitting the names alone {passed:.0f} ms)"
            )


if __name__ == "__main__":
    main()
