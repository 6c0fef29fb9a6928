"""How many store calls each kind of transaction makes, each named: docs/store-calls.md.

``--write`` writes the document, no option prints it. Measured on a store in memory with the storage
lock in it, whose calls count too. A worker is *cold* when it has just been started, and *opened*
when it made a transaction before, and nobody made another since. ``now`` is listed and counts as
none: an object store says its time with every response.
"""

from __future__ import annotations

import argparse
import re
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from kernel_faults import Call, Counting, StoreClock, TappedStore
from kernel_scenes import service_request
from kernel_tables import (
    Kernel,
    NoBackground,
    WriteOperation,
    ingest,
    metadata,
    show_groups,
    stage_data,
)
from lakehand.core.instants import Action
from lakehand.errors import Conflict
from lakehand.locks.leases import Surroundings
from lakehand.locks.storage import RECORD, storage_lock
from lakehand.protocol import (
    cancelling,
    claiming,
    committing,
    failed_writes,
    planning,
    rolling_back,
    writing,
)
from lakehand.protocol.planning import PlanRequest
from lakehand.protocol.transaction import transaction
from lakehand.store.memory import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Callable

    from lakehand.locks.lease_lock import LeaseLock
    from lakehand.ports import Store
    from lakehand.protocol.workbench import Workbench

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "store-calls.md"
SIZES = ((0, 0), (100, 0), (0, 100), (100, 100))
"""Pending and completed instants of the tables that are measured."""
PLAN = service_request(Action.COMPACTION, "mine")
CANCELLABLE = service_request(Action.CLUSTERING, "mine", cancellable=True)
WRITE = PlanRequest(action=Action.DELTA_COMMIT)


@dataclass(frozen=True)
class Measured:
    """The calls of one recipe, and those among them that were made under the lock."""

    calls: tuple[Call, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """All calls, in words that are the same on every table."""
        return tuple(_name(one) for one in self.calls)

    @property
    def locked(self) -> tuple[str, ...]:
        """The calls from the lock's taking to its giving back, both with all that they need."""
        return tuple(name for name, held in self.with_lock() if held)

    @property
    def requests(self) -> int:
        """How many of all are requests."""
        return sum(name != "now" for name in self.names)

    @property
    def locked_requests(self) -> int:
        """How many of those under the lock are requests."""
        return sum(name != "now" for name in self.locked)

    def with_lock(self) -> list[tuple[str, bool]]:
        """Each call, and whether it was made under the lock."""
        found: list[tuple[str, bool]] = []
        is_held = False
        for call in self.calls:
            of_lock = call.path == RECORD
            found.append((_name(call), is_held or of_lock))
            if of_lock and call.method != "get":
                is_held = not is_held
        return found


def _name(call: Call) -> str:
    path = re.sub(r"\d{17}", "T", call.path)
    path = re.sub(r"\d{12}$", "n", path)
    path = re.sub(r"[0-9]+-w-\d+$", "manifest", path)
    return f"{call.method} {path}".strip()


@cache
def _table(pending: int, completed: int) -> MemoryStore:
    """A table with so many instants: half of the pending ones plans, half of them live writes.

    Each ends with one more write and a checkpoint, so that all have the same to be read.
    """
    store = MemoryStore(clock=StoreClock())
    kernel = Kernel(store, locks=lambda _: _lock(store))
    writer = kernel.worker("writer")
    for number in range(completed):
        ingest(writer, f"done-{number}")
    for number in range(pending):
        if number % 2:
            planning.schedule(writer, service_request(Action.COMPACTION, f"pending-{number}"))
        else:
            begun = writing.begin_write(writer, WRITE)
            show_groups(writer, begun, (f"pending-{number}",))
    ingest(kernel.worker("last", checkpoint_every=1), "last")
    return store


def _lock(store: Store) -> LeaseLock:
    """The lock in the table, without its background."""
    return storage_lock(store, surroundings=Surroundings(background=NoBackground()))


def _copy(store: MemoryStore) -> MemoryStore:
    clock = StoreClock()
    copied = MemoryStore(clock=clock)
    copied._objects = {path: replace(one) for path, one in store._objects.items()}
    return copied


@dataclass
class Bed:
    """A table of its own for one measurement, and its workers."""

    pending: int
    completed: int
    opened: bool

    def __post_init__(self) -> None:
        self.store = _copy(_table(self.pending, self.completed))
        self.counting = Counting()
        self.time = ""

    def worker(self, name: str = "w", *, counted: bool = False, **settings: object) -> Workbench:
        store = TappedStore(self.store, self.counting) if counted else self.store
        kernel = Kernel(
            self.store, locks=lambda _: _lock(store), settings={"checkpoint_every": 10**6}
        )
        return replace(kernel.worker(name, **settings), store=store)

    def measure(self, act: Callable[[], object], *, opened: Workbench) -> Measured:
        """Measure an act of the worker ``opened``, which has been opened if the bed says so."""
        if self.opened:
            with transaction(opened):
                pass
        self.counting.take()
        act()
        return Measured(tuple(self.counting.take()))


def _schedule(bed: Bed) -> Measured:
    worker = bed.worker(counted=True)
    return bed.measure(lambda: planning.schedule(worker, PLAN), opened=worker)


def _begin_write(bed: Bed) -> Measured:
    worker = bed.worker(counted=True)
    return bed.measure(lambda: writing.begin_write(worker, WRITE), opened=worker)


def _begin_data(bed: Bed) -> Measured:
    worker = bed.worker(counted=True)
    begun = writing.begin_write(worker, WRITE)
    return bed.measure(lambda: show_groups(worker, begun, ("mine",)), opened=worker)


def _claim(bed: Bed) -> Measured:
    time = planning.schedule(bed.worker("scheduler"), PLAN)
    worker = bed.worker(counted=True)
    return bed.measure(lambda: claiming.claim(worker, time), opened=worker)


def _refused_claim(bed: Bed) -> Measured:
    time = planning.schedule(bed.worker("scheduler"), PLAN)
    claiming.claim(bed.worker("other"), time)
    worker = bed.worker(counted=True)

    def act() -> None:
        with suppress(Conflict):
            claiming.claim(worker, time)

    return bed.measure(act, opened=worker)


def _prepare(bed: Bed) -> Measured:
    time = planning.schedule(bed.worker("scheduler"), PLAN)
    worker = bed.worker(counted=True)
    attempt = claiming.claim(worker, time)
    files = (stage_data(worker, attempt, "mine"),)
    return bed.measure(lambda: committing.prepare(worker, attempt, files), opened=worker)


def _commit(bed: Bed, *, ingestion: bool = False) -> Measured:
    worker = bed.worker(counted=True)
    if ingestion:
        attempt = writing.begin_write(worker, WRITE)
        show_groups(worker, attempt, ("mine",))
    else:
        attempt = claiming.claim(worker, planning.schedule(bed.worker("scheduler"), PLAN))
    files = (stage_data(worker, attempt, "mine"),)
    committing.promote_outputs(worker, attempt, committing.prepare(worker, attempt, files))
    content = metadata(worker, attempt, files, WriteOperation.UPSERT)
    return bed.measure(lambda: committing.commit(worker, attempt, lambda _: content), opened=worker)


def _commit_write(bed: Bed) -> Measured:
    return _commit(bed, ingestion=True)


def _request_cancel(bed: Bed) -> Measured:
    time = planning.schedule(bed.worker("scheduler"), CANCELLABLE)
    worker = bed.worker(counted=True)
    return bed.measure(
        lambda: cancelling.request_cancel(worker, time, reason="measured"), opened=worker
    )


def _execute_cancel(bed: Bed) -> Measured:
    time = planning.schedule(bed.worker("scheduler"), CANCELLABLE)
    cancelling.request_cancel(bed.worker("other"), time, reason="measured")
    worker = bed.worker(counted=True)
    return bed.measure(lambda: cancelling.execute_cancel(worker, time), opened=worker)


def _dead(bed: Bed) -> str:
    worker = bed.worker("dead")
    attempt = claiming.claim(worker, planning.schedule(worker, PLAN))
    stage_data(worker, attempt, "mine")
    bed.store.delete(f".hoodie/.heartbeat/{attempt.time}")
    return attempt.time


def _schedule_rollback(bed: Bed) -> Measured:
    time = _dead(bed)
    worker = bed.worker(counted=True)
    return bed.measure(lambda: rolling_back.schedule_rollback(worker, time), opened=worker)


def _execute_rollback(bed: Bed) -> Measured:
    rollback = rolling_back.schedule_rollback(bed.worker("other"), _dead(bed))
    worker = bed.worker(counted=True)
    return bed.measure(lambda: rolling_back.execute_rollback(worker, rollback), opened=worker)


def _clean(bed: Bed) -> Measured:
    worker = bed.worker(counted=True)
    policy = failed_writes.FailedWritesPolicy.LAZY
    return bed.measure(
        lambda: failed_writes.roll_back_failed_writes(worker, policy=policy, left={}),
        opened=worker,
    )


RECIPES: dict[str, Callable[[Bed], Measured]] = {
    "schedule": _schedule,
    "begin write": _begin_write,
    "begin data": _begin_data,
    "claim": _claim,
    "claim, refused": _refused_claim,
    "prepare": _prepare,
    "commit of a plan": _commit,
    "commit of a write": _commit_write,
    "request cancel": _request_cancel,
    "execute cancel": _execute_cancel,
    "schedule rollback": _schedule_rollback,
    "execute rollback": _execute_rollback,
    "failed writes, none": _clean,
}


@cache
def measured(recipe: str, pending: int, completed: int, *, opened: bool) -> Measured:
    """Measure one recipe on a table with so many instants."""
    return RECIPES[recipe](Bed(pending, completed, opened))


def render() -> str:
    """Return the document."""
    lines = [
        "# Store calls of each kind of transaction",
        "",
        "Written by `tests/support/store_calls.py --write`, pinned by",
        "`tests/unit/protocol_budget/test_store_calls.py`; do not edit.",
        "",
        "Measured with the storage lock in the same store: lock, clock and journal are included.",
        "A worker is *cold* when it has just been started; *opened* when it made a transaction",
        "before, and nobody made another since. `open stage` and `close stage` are the start and",
        "the part of a multipart upload, `promote` completes it. `now` is listed and not counted:",
        "an object store says its time with every response. The other columns are the requests",
        "under the lock of an opened worker, on tables with so many pending + completed instants.",
        "",
        "| recipe | opened: all | opened: under the lock | cold: all | cold: under the lock | "
        + " | ".join(f"{pending}+{completed}" for pending, completed in SIZES)
        + " |",
        "|---|---|---|---|---|" + "---|" * len(SIZES),
    ]
    for recipe in RECIPES:
        opened = measured(recipe, *SIZES[0], opened=True)
        cold = measured(recipe, *SIZES[0], opened=False)
        figures = [opened.requests, opened.locked_requests, cold.requests, cold.locked_requests]
        figures += [measured(recipe, *size, opened=True).locked_requests for size in SIZES]
        lines.append(f"| {recipe} | " + " | ".join(str(figure) for figure in figures) + " |")
    lines += ["", "The calls of each, by an opened worker on the table without instants:", ""]
    for recipe in RECIPES:
        found = measured(recipe, *SIZES[0], opened=True)
        lines += [f"## {recipe}", ""]
        lines += [f"1. {name}{'' if held else ' (no lock)'}" for name, held in found.with_lock()]
        lines.append("")
    return "\n".join(lines).rstrip() + "\n"


def main() -> int:
    """Print or write the document."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="write docs/store-calls.md")
    options = parser.parse_args()
    if options.write:
        DOCUMENT.write_text(render(), encoding="utf-8")
    else:
        print(render(), end="")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
