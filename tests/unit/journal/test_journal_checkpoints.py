"""Checkpoints and trimming: nothing is lost, at any crash; and batches are remembered."""

from __future__ import annotations

import itertools
from contextlib import suppress

import pytest

from journal_entries import LOCK, TABLE, TIMES, claim, entry_on, plan, rolled_back
from kernel_faults import Counting, Fault, FaultAt, Killed, TappedStore
from kernel_scenes import EXPIRED_MINUTES, Scene, Step, work
from kernel_tables import ingest, show_groups
from lakehand.core.instants import Action
from lakehand.core.journal import RUNS_KEPT, Fold, fold_entries
from lakehand.core.journal_entries import Blank, Overtaken, Purpose, RollbackEnd, RunKey, Void
from lakehand.protocol import planning, writing
from lakehand.protocol.claiming import Attempt
from lakehand.protocol.failed_writes import clean_up
from lakehand.protocol.journal import FOLDER, Journal
from lakehand.protocol.planning import PlanRequest
from lakehand.protocol.writing import AlreadyWritten
from lakehand.store.memory import MemoryStore


def worker(store, name: str = "a") -> Journal:
    ids = itertools.count(1)
    return Journal(store, table=TABLE, writer=name, new_id=lambda: f"{name}-{next(ids)}")


def time_of(number: int) -> str:
    return f"20300101{number:09d}"


def write(journal: Journal, count: int, *, every: int = 0) -> None:
    """Append entries about instants that end at once, all published."""
    for number in range(journal.fold.tail.seq, journal.fold.tail.seq + count):
        body = plan(time_of(number))
        if number % 2:
            body = Void(journal.fold.last_time, Overtaken.COMPLETED)
        if not journal.fold.allows(body):
            body = Blank()
        journal.append(body, lock=LOCK, at_ms=1)
        journal.published = journal.fold.tail.seq
        if every and journal.is_checkpoint_due(every):
            journal.write_checkpoint(lock=LOCK, at_ms=1)
            journal.trim()


def test_a_checkpoint_says_all_that_was_said_before_it():
    store = MemoryStore()
    one = worker(store)
    write(one, 40)
    before = one.fold
    one.write_checkpoint(lock=LOCK, at_ms=1)
    fresh = worker(store, "fresh").refresh()
    assert fresh == one.fold
    assert fresh.instants == before.instants
    assert fresh.last_time == before.last_time
    assert fresh.checkpoint == fresh.tail.seq == 41


@pytest.mark.parametrize("length", [10, 400])
def test_opening_costs_two_listings_and_two_reads_whatever_the_length(length):
    store, counting = MemoryStore(), Counting()
    write(worker(store), length, every=32)
    opened = worker(TappedStore(store, counting), "fresh").refresh()
    assert opened.tail.seq >= length
    calls = [call.method for call in counting.calls]
    assert calls == ["names", "get", "names", "get"][: 3 if length < 32 else 4]


def test_entries_are_deleted_oldest_first_and_never_the_last_two_checkpoints():
    store, counting = MemoryStore(), Counting()
    one = worker(TappedStore(store, counting))
    for _ in range(3):
        write(one, 5)
        one.write_checkpoint(lock=LOCK, at_ms=1)
    counting.take()
    assert one.trim() == 11
    deleted = [call.path for call in counting.calls if call.method == "delete"]
    assert deleted == sorted(deleted)
    assert len(deleted) == 11
    left = [int(name) for name in store.names(FOLDER)]
    assert left == list(range(12, 19))
    assert one.trim() == 0


def test_with_one_checkpoint_nothing_is_trimmed():
    store = MemoryStore()
    one = worker(store)
    write(one, 5)
    one.write_checkpoint(lock=LOCK, at_ms=1)
    assert one.trim() == 0
    assert len(store.names(FOLDER)) == 6


def test_a_trim_killed_at_any_deletion_leaves_a_journal_that_opens_and_goes_on():
    for at in range(1, 30):
        store = MemoryStore()
        one = worker(store)
        for _ in range(3):
            write(one, 4)
            one.write_checkpoint(lock=LOCK, at_ms=1)
        laggard = worker(store, "laggard")
        expected = one.fold
        dying = worker(TappedStore(store, fault := FaultAt(at + 3, Fault.KILL_AFTER)), "dying")
        dying.refresh()
        with suppress(Killed):
            dying.trim()
        names = [int(name) for name in store.names(FOLDER)]
        assert names == list(range(names[0], 16)), "a hole"
        assert worker(store, "fresh").refresh() == expected
        assert laggard.refresh() == expected
        next_one = worker(store, "next")
        next_one.refresh()
        next_one.append(plan(time_of(999_999)), lock=LOCK, at_ms=1)
        next_one.trim()
        assert [int(name) for name in store.names(FOLDER)] == list(range(10, 17))
        if fault.hit is None:
            return
    raise AssertionError("the trim was never finished")


def test_a_worker_that_slept_over_several_trims_catches_up():
    store = MemoryStore()
    sleeper, busy = worker(store, "sleeper"), worker(store, "busy")
    write(busy, 3)
    sleeper.refresh()
    write(busy, 100, every=8)
    assert sleeper.refresh() == busy.fold
    sleeper.append(plan(time_of(999_999)), lock=LOCK, at_ms=1)
    assert busy.refresh() == sleeper.fold


# -- run keys -------------------------------------------------------------------------------------


def batch(application: str, number: int) -> RunKey:
    return RunKey(application, str(number))


def begin(bench, key: RunKey) -> Attempt | AlreadyWritten:
    return writing.begin_write(bench, PlanRequest(action=Action.DELTA_COMMIT, run=key))


def write_batch(bench, key: RunKey, group: str = "f1") -> str:
    begun = begin(bench, key)
    assert isinstance(begun, Attempt)
    show_groups(bench, begun, (group,))
    work(bench, begun, Step.COMMITTED, group)
    return begun.time


def test_a_batch_that_was_written_is_known_after_many_checkpoints_and_to_every_worker():
    scene = Scene(settings={"checkpoint_every": 4})
    time = write_batch(scene.worker("one"), batch("app", 7))
    for _ in range(10):
        ingest(scene.worker("busy"), "f1")
    names = scene.kernel.store.names(FOLDER)
    assert names[0] > f"{8:012d}", "the batch's own entries were trimmed"
    assert begin(scene.worker("two"), batch("app", 7)) == AlreadyWritten(time)
    assert isinstance(begin(scene.worker("two"), batch("app", 8)), Attempt)
    assert isinstance(begin(scene.worker("two"), batch("other app", 7)), Attempt)


def test_a_batch_whose_write_was_rolled_back_may_be_written_again():
    scene = Scene()
    begun = begin(scene.worker("dead"), batch("app", 1))
    assert begin(scene.worker("next"), batch("app", 1)) == AlreadyWritten(begun.time)
    scene.clock.pass_minutes(EXPIRED_MINUTES)
    clean_up(scene.worker("cleaner"))
    assert isinstance(begin(scene.worker("next"), batch("app", 1)), Attempt)


def test_scheduling_a_run_again_returns_its_plan():
    scene = Scene()
    request = PlanRequest(action=Action.CLEAN, run=batch("cleaner", 1))
    first = planning.schedule(scene.worker("one"), request)
    assert planning.schedule(scene.worker("two"), request) == first


def test_batches_are_remembered_for_each_application_up_to_a_number():
    fold = Fold(table=TABLE)
    fold = fold.apply(entry_on(fold, plan(time_of(0), run=batch("quiet", 0))))
    for number in range(1, RUNS_KEPT + 21):
        fold = fold.apply(entry_on(fold, plan(time_of(number), run=batch("busy", number))))
    assert fold.run_time(batch("quiet", 0)) == time_of(0)
    assert fold.run_time(batch("busy", 20)) is None
    assert fold.run_time(batch("busy", 21)) == time_of(21)
    assert fold.run_time(batch("busy", RUNS_KEPT + 20)) == time_of(RUNS_KEPT + 20)
    assert len(fold.runs) == RUNS_KEPT + 1


def test_a_removed_rollback_target_forgets_its_batch_and_no_other():
    time, rollback = TIMES[0], TIMES[1]
    fold = Fold(table=TABLE)
    bodies = (
        plan(time, is_ingestion=True, run=batch("app", 1)),
        plan(TIMES[2], is_ingestion=True, run=batch("app", 2)),
        plan(rollback, Action.ROLLBACK),
        claim(time, 1, Purpose.ROLL_BACK, beat=rollback),
        rolled_back(time, 1, RollbackEnd.REMOVED, rollback),
    )
    for body in bodies:
        fold = fold_entries([entry_on(fold, body)], fold)
    assert fold.run_time(batch("app", 1)) is None
    assert fold.run_time(batch("app", 2)) == TIMES[2]
