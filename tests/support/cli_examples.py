"""The examples of docs/cli.md, run on a table whose clock stands still.

`python tests/support/cli_examples.py` writes what the commands answer now into the page; a test
compares (tests/unit/cli/test_cli_docs.py).
"""

from __future__ import annotations

import re
import shlex
import sys
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from unittest import mock

import lakehand.table
from cli_runs import FakeTime, run
from kernel_tables import Kernel, compaction_request, ingest
from lakehand.cli import exit_codes, unlock
from lakehand.locks.leases import LeaseTerms, Surroundings
from lakehand.locks.storage import storage_lock
from lakehand.protocol import claiming, planning
from lakehand.store.memory import MemoryStore

PAGE = Path(__file__).resolve().parents[2] / "docs" / "cli.md"
BLOCK = re.compile(r"```console\n\$ (.+)\n((?:.*\n)*?)```\n")
CODES = re.compile(r"(<!-- exit codes -->\n)[^<]*(<!-- /exit codes -->)")

_MORNING = 1_772_359_200_000  # 2026-03-01 10:00:00 UTC
_DEAD = LeaseTerms(lease_s=300.0, renew_every_s=100.0)


@dataclass
class Scene:
    """A table with a write, a plan that waits, one that is executed, and a lock that was left."""

    now_ms: int = _MORNING
    store: MemoryStore = field(init=False)

    def __post_init__(self) -> None:
        self.store = MemoryStore("s3://lake/trips", clock=lambda: self.now_ms)
        self.around = partial(Surroundings, wall_ms=lambda: self.now_ms)
        kernel = Kernel(
            self.store,
            locks=lambda _name: storage_lock(self.store, surroundings=self.around()),
        )
        ingest(kernel.worker("spark-7"), "f1")
        for group in ("f1", "f2"):
            self.now_ms += 60_000
            planner = kernel.worker(f"planner-{group}")
            time = planning.schedule(planner, compaction_request(group, cancellable=True))
        self.now_ms += 60_000
        claiming.claim(kernel.worker("spark-8"), time)
        self.now_ms += 20_000

    def answer(self, line: str) -> str:
        """Return what the command prints, on both streams, as in a terminal."""
        program, *arguments = shlex.split(line)
        assert program == "lakehand"
        held = None
        if arguments[0] == "unlock" and "--yes" in arguments:
            lock = storage_lock(self.store, terms=_DEAD, surroundings=self.around())
            held = lock.acquire("spark-9", timeout_s=1)
            self.now_ms += 130_000
        with (
            mock.patch.object(lakehand.table, "open_store", return_value=self.store),
            mock.patch.object(lakehand.table, "Surroundings", self.around),
            mock.patch.object(unlock, "time", FakeTime()),
        ):
            both = run(*arguments).both
        if held is not None:
            held.release()
        return both


def written(page: str) -> str:
    """Return the page with the answers, and the exit codes, of today."""
    scene = Scene()
    page = BLOCK.sub(lambda found: f"```console\n$ {found[1]}\n{scene.answer(found[1])}```\n", page)
    return CODES.sub(lambda found: f"{found[1]}{exit_codes.as_markdown()}\n{found[2]}", page)


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    sys.stdout.write(f"{PAGE.name} is up to date\n")
