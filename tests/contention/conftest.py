"""The tables, and the seed, of the contention tests.

``CONTENTION_SEED`` replays a seed (all random choices; not the machine's own timing), and
``CONTENTION_SECONDS`` lets every crowd work for longer.
"""

from __future__ import annotations

import os
import random
import secrets
import sys
import time
import uuid
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import contention_audit
import contention_jobs
import kernel_tables
import s3_server
from contention_crowd import Crowd, Cruelty, Nursery
from lakehand.store.open import open_store

if TYPE_CHECKING:
    from collections.abc import Iterator

LOCAL_TERMS = {
    "lease_s": 0.45,
    "renew_every_s": 0.1,
    "first_pause_s": 0.002,
    "longest_pause_s": 0.03,
}
LOCAL_SETTINGS = {
    "heartbeat_interval_s": 0.2,
    "heartbeat_misses": 3,
    "lock_margin_s": 0.1,
    "lock_timeout_s": 20.0,
    "checkpoint_every": 100_000,
}
S3_TERMS = {"lease_s": 2.0, "renew_every_s": 0.5, "first_pause_s": 0.05, "longest_pause_s": 0.5}
S3_SETTINGS = {
    **LOCAL_SETTINGS,
    "heartbeat_interval_s": 0.5,  # S3 tells the time in whole seconds
    "heartbeat_misses": 6,
    "lock_margin_s": 0.6,
    "lock_timeout_s": 40.0,
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Sixteen processes on a busy machine take their time; a crowd has limits of its own."""
    for item in items:
        if item.path.parent == Path(__file__).parent:
            item.add_marker(pytest.mark.timeout(600))


@dataclass
class Arena:
    """A table that crowds can be let loose on."""

    nursery: Nursery
    uri: str
    options: dict[str, Any]
    terms: dict[str, Any]
    settings: dict[str, Any]
    seconds: float
    seed: int
    lock: str = "storage"
    figures: Counter[str] = field(default_factory=Counter)

    def contend(
        self,
        *,
        jobs: dict[str, int],
        plan: dict[str, Any] | None = None,
        groups: tuple[str, ...] = ("a", "b", "c", "d"),
        cruelty: Cruelty | None = None,
        at_least: dict[str, int],
        nursery: Nursery | None = None,
        **settings: Any,
    ) -> list[str]:
        """Let 16 workers do these jobs; settle, audit, wake the zombies, settle and audit again."""
        task = {
            "uri": self.uri,
            "options": self.options,
            "lock": self.lock,
            "terms": self.terms,
            "settings": {**self.settings, **settings},
            "jobs": jobs,
            "plan": plan or {"action": "compaction", "groups": ["one", "two"]},
            "groups": groups,
        }
        store = open_store(self.uri, self.options)
        kernel_tables.create(store)
        is_whole = task["settings"]["checkpoint_every"] >= 100_000
        began = time.monotonic()
        sys.stdout.write(f"CONTENTION_SEED={self.seed}\n")
        with Crowd(nursery or self.nursery, task, self.seed, cruelty or Cruelty()) as crowd:
            crowd.run(self.seconds, at_least)
            problems = [*crowd.problems]
            for number in (1, 2):
                if problems:
                    break
                bench = contention_jobs.open_bench(task, store, f"auditor-{number}")
                problems += contention_audit.settle(bench, task, random.Random(self.seed))
                found = contention_audit.audit(bench, crowd.history, is_whole=is_whole)
                problems += found.problems
                if number == 1:
                    crowd.counts["zombies woken at the end"] = crowd.wake_zombies()
                    problems += crowd.problems
        self.figures = crowd.counts + found.figures if not problems else crowd.counts
        took = time.monotonic() - began
        sys.stdout.write(f"{took:.1f} s: {dict(sorted(self.figures.items()))}\n")
        return problems


def _seed() -> int:
    return int(os.environ.get("CONTENTION_SEED", secrets.randbelow(2**32)))


def _seconds(default: float) -> float:
    return float(os.environ.get("CONTENTION_SECONDS", default))


@pytest.fixture(scope="session")
def nursery() -> Iterator[Nursery]:
    """The process that workers are forked from."""
    nursery = Nursery()
    yield nursery
    nursery.end()


@pytest.fixture
def local_arena(nursery, tmp_path) -> Arena:
    """A table on a local disk."""
    return Arena(
        nursery, str(tmp_path / "table"), {}, LOCAL_TERMS, LOCAL_SETTINGS, _seconds(2), _seed()
    )


@pytest.fixture(scope="session")
def s3_server_of_contention() -> Iterator[s3_server.S3Server]:
    try:
        with s3_server.running(s3_server.VERSITYGW) as server:
            s3_server.make_bucket(server, "contention")
            yield server
    except s3_server.NoGo as no_go:
        pytest.skip(str(no_go))


@pytest.fixture
def s3_arena(nursery, s3_server_of_contention) -> Arena:
    """A table on a real S3 server."""
    uri = f"s3://contention/{uuid.uuid4().hex}/table"
    options = s3_server_of_contention.storage_options
    return Arena(nursery, uri, options, S3_TERMS, S3_SETTINGS, _seconds(6), _seed())
