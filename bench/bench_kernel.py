"""What the protocol costs: opening journals, holding the lock, and guarding a plan's execution.

Run: ``python bench/bench_kernel.py [local] [s3]`` (both if none is named). Figures are medians
with the smallest and the largest; contestants take turns, so that a busy machine hits all of them.
The S3 server is versitygw on this machine, from ``tests/support/s3_server.py`` (needs Go once).
"""

from __future__ import annotations

import contextlib
import itertools
import statistics
import sys
import tempfile
import time
import uuid
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "support"))

import kernel_tables
import s3_server
from kernel_tables import Kernel, compaction_request
from lakehand.core.instants import Action, format_instant_time
from lakehand.core.journal_entries import Claim, Commit, LockUse, Plan, Prepare, Purpose, StagedFile
from lakehand.locks.storage import storage_lock
from lakehand.process import Threads
from lakehand.protocol import cancelling, claiming, committing, planning, rolling_back, writing
from lakehand.protocol.journal import FOLDER, Journal
from lakehand.store.memory import MemoryStore
from lakehand.store.open import open_store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lakehand.ports import HeldLock, LockProvider, Store
    from lakehand.protocol.workbench import Workbench

FIRST_MS = 1_700_000_000_000
REPEATS = {"local": 30, "s3": 10}
CHECKPOINT_EVERY = 32


class CountingStore:
    """A store that counts the calls of the port."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.calls = 0

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        if not callable(found):
            return found

        def counted(*args: Any, **named: Any) -> Any:
            self.calls += 1
            return found(*args, **named)

        return counted


class TimedLock:
    """A lock provider that notes for how long, and for how many store calls, it is held."""

    def __init__(self, locks: LockProvider, store: CountingStore) -> None:
        self._locks = locks
        self._store = store
        self.holds: list[tuple[float, int]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._locks, name)

    def acquire(self, owner: str, *, timeout_s: float) -> TimedHold:
        held = self._locks.acquire(owner, timeout_s=timeout_s)
        return TimedHold(held, self, self._store)


class TimedHold:
    """The time between taking the lock and giving it back."""

    def __init__(self, held: HeldLock, lock: TimedLock, store: CountingStore) -> None:
        self._held, self._lock, self._store = held, lock, store
        self._began, self._calls = time.perf_counter(), store.calls
        self.token = held.token

    def left_s(self) -> float:
        return self._held.left_s()

    def release(self) -> None:
        held_ms = (time.perf_counter() - self._began) * 1000
        self._lock.holds.append((held_ms, self._store.calls - self._calls))
        self._held.release()


def said(values: list[float]) -> str:
    """A median with its spread."""
    return f"{statistics.median(values):8.2f} ms ({min(values):.2f} - {max(values):.2f})"


def timed_ms(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return (time.perf_counter() - began) * 1000


# -- opening a journal ----------------------------------------------------------------------------


def write_journal(store: Store, entries: int, *, trims: bool) -> None:
    """Decide on one compaction after another: plan, claim, prepare, commit."""
    ids = itertools.count()
    journal = Journal(store, table=".trips", writer="bench", new_id=lambda: f"id-{next(ids)}")
    lock = LockUse("storage", "token")
    for number in itertools.count():
        time_of = format_instant_time(FIRST_MS + number * 60_000)
        end = format_instant_time(FIRST_MS + number * 60_000 + 30_000)
        folder = ".hoodie/timeline"
        staged = StagedFile(f"{folder}/{time_of}.x", "place", ("part",), "0" * 32)
        for body in (
            Plan(time_of, Action.COMPACTION, staged, groups=(("p", "group"),)),
            Claim(time_of, 1, "bench", Purpose.EXECUTE, time_of, staged),
            Prepare(time_of, 1, f".hoodie/.lakehand/manifests/{time_of}/1-x", "0" * 32),
            Commit(time_of, 1, end, staged),
        ):
            at_ms = FIRST_MS + number * 60_000
            journal.append(body, lock=lock, at_ms=at_ms)
            journal.published = journal.fold.tail.seq
            if journal.is_checkpoint_due(CHECKPOINT_EVERY):
                journal.write_checkpoint(lock=lock, at_ms=at_ms)
                if trims:
                    journal.trim()
            if journal.fold.tail.seq >= entries:
                return


def copied(journal: MemoryStore, open_empty: Callable[[], Store]) -> Store:
    """The same journal in another store."""
    store = open_empty()

    def copy(name: str) -> None:
        store.put(f"{FOLDER}/{name}", journal.get(f"{FOLDER}/{name}").content)

    with ThreadPoolExecutor(16) as copiers:
        list(copiers.map(copy, journal.names(FOLDER)))
    return store


def open_journals(place: str, open_empty: Callable[[], Store]) -> None:
    print(f"\n{place}: opening a journal")
    stores: dict[str, Store] = {}
    for what, entries, trims in (
        ("10 entries", 10, True),
        ("10,000 entries", 10_000, True),
        ("10,000 entries, none trimmed", 10_000, False),
    ):
        if place == "s3" and not trims:
            continue  # its listing takes ten requests; to fill the bucket takes minutes
        journal = MemoryStore()
        write_journal(journal, entries, trims=trims)
        stores[what] = copied(journal, open_empty)
    times: dict[str, list[float]] = defaultdict(list)
    calls: dict[str, int] = {}
    for _ in range(REPEATS[place]):
        for what, store in stores.items():
            counting: Any = CountingStore(store)
            journal_of = Journal(counting, table=".trips", writer="b", new_id=lambda: "x")
            times[what].append(timed_ms(journal_of.refresh))
            calls[what] = counting.calls
    for what, values in times.items():
        there = len(stores[what].names(FOLDER))
        print(f"  {what:32} {said(values):36} {calls[what]} store calls, {there} files")


# -- the lock -------------------------------------------------------------------------------------


def bench_of(store: Store, name: str, **settings: object) -> tuple[Workbench, TimedLock]:
    """A worker with real threads, a storage lock that is timed, and a store that counts."""
    counting: Any = CountingStore(store)
    lock = TimedLock(storage_lock(store), counting)
    kernel = Kernel(counting, locks=lambda _name: lock, background=Threads())
    return kernel.worker(name, **settings), lock


def one_of_each(bench: Workbench) -> Iterator[tuple[tuple[str, ...], Callable[[], object]]]:
    """Recipes, each with the names of its transactions."""
    request = compaction_request("f1", cancellable=True)
    removable = compaction_request("f1", action=Action.LOG_COMPACTION, removable=True)
    made: dict[str, Any] = {}

    def keep(name: str, work: Callable[[], object]) -> Callable[[], object]:
        return lambda: made.__setitem__(name, work())

    def outputs() -> None:
        attempt = made["attempt"]
        files = (kernel_tables.stage_data(bench, attempt, "f1"),)
        committing.promote_outputs(bench, attempt, committing.prepare(bench, attempt, files))
        made["content"] = kernel_tables.metadata(
            bench, attempt, files, kernel_tables.WriteOperation.COMPACT
        )

    def commit() -> object:
        return committing.commit(bench, made["attempt"], lambda _time: made["content"])

    def fail() -> None:
        claimed = claiming.claim(bench, made["time"])
        assert isinstance(claimed, claiming.Attempt)
        committing.give_up(bench, claimed)

    write = planning.PlanRequest(action=Action.DELTA_COMMIT)
    yield ("begin a write",), keep("attempt", lambda: writing.begin_write(bench, write))
    yield (
        ("begin its data",),
        lambda: kernel_tables.show_groups(bench, made["attempt"], ("f1",)),
    )
    yield (), outputs
    yield ("commit a write",), commit
    yield ("schedule a plan",), keep("time", lambda: planning.schedule(bench, request))
    yield ("claim a plan",), keep("attempt", lambda: claiming.claim(bench, made["time"]))
    yield (), outputs
    yield ("commit a plan",), commit
    yield (), keep("time", lambda: planning.schedule(bench, request))
    cancel: Any = lambda: cancelling.request_cancel(bench, made["time"], reason="bench")  # noqa: E731
    yield ("request a cancellation",), cancel
    yield ("claim to abort", "abort"), lambda: cancelling.execute_cancel(bench, made["time"])
    yield (), keep("time", lambda: planning.schedule(bench, removable))
    yield (), fail
    yield (
        ("schedule a rollback",),
        keep("rollback", lambda: rolling_back.schedule_rollback(bench, made["time"])),
    )
    yield (
        ("claim to roll back", "rolled back"),
        lambda: rolling_back.execute_rollback(bench, made["rollback"]),
    )


def hold_locks(place: str, open_empty: Callable[[], Store]) -> None:
    print(f"\n{place}: how long a transaction holds the table lock")
    bench, lock = bench_of(open_empty(), "bench")
    holds: dict[str, list[tuple[float, int]]] = defaultdict(list)
    for _ in range(REPEATS[place]):
        for names, work in one_of_each(bench):
            lock.holds.clear()
            work()
            for name, hold in zip(names, lock.holds, strict=bool(names)):
                holds[name].append(hold)
    for name, values in holds.items():
        calls = statistics.median(count for _, count in values)
        print(f"  {name:32} {said([held for held, _ in values]):36} {calls:.0f} store calls")


# -- the guard ------------------------------------------------------------------------------------


def execute(bench: Workbench, plan: str) -> None:
    kernel_tables.execute(bench, plan, ("f1", "f2"))


def write_bare(store: Store, number: int) -> None:
    """The files that an execution leaves, written by somebody who is alone in the world."""
    time_of = format_instant_time(FIRST_MS + number)
    folder = ".hoodie/timeline"
    store.put(f"{folder}/{time_of}.compaction.inflight", b"")
    for group in ("f1", "f2"):
        store.put(f"p/{group}_0-1-0_{time_of}.parquet", b"bench")
    store.put(f"{folder}/{time_of}_{time_of}.commit", b"{}" * 500)


def guard_plans(place: str, open_empty: Callable[[], Store]) -> None:
    print(f"\n{place}: executing a plan of two files")
    guarded, _ = bench_of(open_empty(), "guarded")
    unguarded, _ = bench_of(open_empty(), "unguarded", guard_enabled=False)
    bare: Any = CountingStore(open_empty())
    times: dict[str, list[float]] = defaultdict(list)
    calls: dict[str, list[int]] = defaultdict(list)

    def measure(what: str, store: Any, work: Callable[[], object]) -> None:
        before = store.calls
        times[what].append(timed_ms(work))
        calls[what].append(store.calls - before)

    for number in range(REPEATS[place]):
        for what, bench in (("guarded", guarded), ("guard_enabled=False", unguarded)):
            plan = planning.schedule(bench, compaction_request("f1", "f2"))
            measure(what, bench.store, lambda bench=bench, plan=plan: execute(bench, plan))
        measure("no protocol at all", bare, lambda number=number: write_bare(bare, number))
    for what, values in times.items():
        count = statistics.median(calls[what])
        print(f"  {what:32} {said(values):36} {count:.0f} store calls")
    added = statistics.median(times["guarded"]) - statistics.median(times["guard_enabled=False"])
    print(f"  the guard adds {added:.2f} ms")


# -- places ---------------------------------------------------------------------------------------


@contextlib.contextmanager
def local_place() -> Iterator[Callable[[], Store]]:
    with tempfile.TemporaryDirectory() as folder:
        yield lambda: open_store(f"{folder}/{uuid.uuid4().hex}")


@contextlib.contextmanager
def s3_place() -> Iterator[Callable[[], Store]]:
    with s3_server.running(s3_server.VERSITYGW) as server:
        s3_server.make_bucket(server, "bench")
        options = server.storage_options
        yield lambda: open_store(f"s3://bench/{uuid.uuid4().hex}", options)


PLACES = {"local": local_place, "s3": s3_place}


def main() -> None:
    for place in sys.argv[1:] or PLACES:
        try:
            with PLACES[place]() as open_empty:
                open_journals(place, open_empty)
                hold_locks(place, open_empty)
                guard_plans(place, open_empty)
        except s3_server.NoGo as no_go:
            print(f"\n{place}: {no_go}")


if __name__ == "__main__":
    main()
