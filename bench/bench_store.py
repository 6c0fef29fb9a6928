"""Listing speed of the local store beside the machine's own: names, and one stat for each.

``python bench/bench_store.py [entries]``
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path

from lakehand.store.local import LocalStore

ROUNDS = 7


def best_ms(call) -> float:
    """The fastest of a few rounds, in milliseconds: the others waited for the machine."""
    times = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times) * 1000


def stat_all(folder: str) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        for name in os.listdir(descriptor):
            os.stat(name, dir_fd=descriptor)
    finally:
        os.close(descriptor)


def main() -> None:
    entries = int(sys.argv[1]) if len(sys.argv) > 1 else 30_000
    with tempfile.TemporaryDirectory() as base:
        timeline = Path(base) / ".hoodie" / "timeline"
        timeline.mkdir(parents=True)
        for number in range(entries):
            (timeline / f"2026{number:013d}.deltacommit").touch()
        store = LocalStore(base)
        rows = (
            ("store.list", lambda: store.list(".hoodie/timeline")),
            ("os.listdir", lambda: os.listdir(timeline)),
            ("os.listdir + os.stat", lambda: stat_all(str(timeline))),
            ("store.now x 1000", lambda: [store.now() for _ in range(1000)]),
        )
        for name, call in rows:
            sys.stdout.write(f"{name:24} {best_ms(call):8.1f} ms  ({entries} entries)\n")


if __name__ == "__main__":
    main()
