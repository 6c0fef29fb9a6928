"""Clean's failed writes: planned in one transaction on a fresh view, executed after the lock."""

from __future__ import annotations

import itertools

import pytest

from kernel_faults import Meanwhile, count_calls, on_store
from kernel_scenes import (
    EXPIRED_MINUTES,
    Scene,
    Step,
    WatchedLock,
    attempt,
    begin_ingestion,
    die_after,
    ingestion,
    planned,
    service_request,
)
from kernel_states import files_of, rollbacks, state_of, state_on_timeline, timeline
from kernel_tables import ingest
from lakehand.core.instants import Action, State
from lakehand.core.journal_entries import RollbackEnd
from lakehand.errors import LakehandError
from lakehand.protocol import claiming, planning, rolling_back
from lakehand.protocol.failed_writes import clean_up


def watched_clean(scene: Scene) -> list[str]:
    """The store calls and locks of one clean."""
    events: list[object] = []

    def tap(call, run):
        events.append(call)
        return run()

    bench = on_store(scene.worker("cleaner"), tap)
    bench.locks = WatchedLock(bench.locks._key, events)
    clean_up(bench)
    return [str(one) for one in events]


def many_failures() -> tuple[Scene, list[str]]:
    """Two dead writes, a dead removable plan, one never tried; their times."""
    scene = Scene(settings={"rollback_delay_minutes": 5.0})
    failed = [ingestion(scene.worker("dead-1"), Step.PROMOTED, "f2").time]
    failed.append(begin_ingestion(scene.worker("dead-2")).time)
    for action, group in ((Action.CLUSTERING, "f3"), (Action.LOG_COMPACTION, "f4")):
        request = service_request(action, group, removable=True)
        failed.append(planning.schedule(scene.worker("scheduler"), request))
    attempt(scene.worker("dead-3"), failed[2], Step.STAGED)
    scene.clock.pass_minutes(6)
    return scene, failed


@pytest.mark.req("A-23", "A-25")
def test_all_missing_rollbacks_are_planned_in_one_transaction_and_executed_after_it():
    scene, failed = many_failures()
    events = watched_clean(scene)
    first_lock = events.index("lock")
    first_unlock = events.index("unlock")
    plans = [n for n, one in enumerate(events) if one.startswith("promote") and "requested" in one]
    assert len(plans) == len(failed)
    assert all(first_lock < n < first_unlock for n in plans)
    deletions = [n for n, one in enumerate(events) if one.startswith(("delete p/", "discard p/"))]
    assert deletions
    assert min(deletions) > first_unlock
    for at in deletions:
        locks = events[:at].count("lock") - events[:at].count("unlock")
        assert locks == 0, "a data file was deleted under the lock"
    judge = scene.worker("judge")
    assert [one.state for one in rollbacks(judge)] == [State.COMPLETED] * len(failed)
    assert all(files_of(judge, time) == [] for time in failed)


@pytest.mark.req("A-23")
def test_the_timeline_is_loaded_again_after_the_lock():
    scene, _ = many_failures()
    events = watched_clean(scene)
    after_lock = events[events.index("lock") : events.index("unlock")]
    reload = after_lock.index("names .hoodie/timeline")
    first_plan = next(n for n, one in enumerate(after_lock) if one.startswith("open stage"))
    assert reload < first_plan


@pytest.mark.req("A-23")
def test_what_changed_between_the_listing_and_the_lock_counts():
    """Another clean comes in at any moment of a clean: each rollback is made once."""
    scene, failed = many_failures()
    number = len(count_calls(scene.worker("counted"), clean_up))
    for at in range(1, number + 1, 7):
        scene, failed = many_failures()
        others = scene.passer_by("other")
        tap = Meanwhile(at, lambda others=others: _try(lambda: clean_up(others)))
        clean_up(on_store(scene.worker("cleaner"), tap))
        judge = scene.worker("judge")
        clean_up(judge)
        assert len(rollbacks(judge)) == len(failed), tap.hit
        assert all(one.is_completed for one in rollbacks(judge))
        assert all(files_of(judge, time) == [] for time in failed)


def _try(act) -> None:
    try:
        act()
    except LakehandError:
        return


@pytest.mark.req("A-24")
@pytest.mark.parametrize(
    ("removable", "old", "live", "how_far", "rolled_back"),
    [
        (False, True, False, None, False),
        (False, True, False, Step.STAGED, False),
        (True, False, False, None, False),
        (True, False, False, Step.STAGED, False),
        (True, True, True, Step.STAGED, False),
        (True, False, True, Step.STAGED, False),
        (True, True, False, None, True),
        (True, True, False, Step.CLAIMED, True),
        (True, True, False, Step.PROMOTED, True),
    ],
)
def test_each_condition_alone_keeps_a_plan_and_without_any_it_is_rolled_back(
    removable, old, live, how_far, rolled_back
):
    scene = planned(Action.CLUSTERING, removable=removable)
    dead = scene.worker("dead")
    if how_far is not None:
        attempt(dead, scene.time, how_far)
    for _ in range(60 if old else 59):
        scene.clock.pass_minutes(1)
        if live:
            assert next(iter(dead.background.steps.values()))() is True
    before = files_of(dead, scene.time)
    done = clean_up(scene.worker("cleaner"))
    assert bool(done.rolled_back) is rolled_back
    assert files_of(dead, scene.time) == ([] if rolled_back else before)


@pytest.mark.req("A-24")
def test_a_removable_plan_gets_the_same_rollback_as_an_expired_write():
    scene = Scene(settings={"rollback_delay_minutes": 5.0})
    write = ingestion(scene.worker("dead-1"), Step.PROMOTED, "f2").time
    request = service_request(Action.CLUSTERING, "f3", removable=True)
    plan = planning.schedule(scene.worker("scheduler"), request)
    attempt(scene.worker("dead-2"), plan, Step.PROMOTED)
    scene.clock.pass_minutes(6)
    done = clean_up(scene.worker("cleaner"))
    assert set(done.rolled_back.values()) == {RollbackEnd.REMOVED}
    judge = scene.worker("judge")
    endings = [
        [name.partition(".")[2] for name in files_of(judge, one.time)] for one in rollbacks(judge)
    ]
    assert endings[0] == endings[1]
    assert files_of(judge, write) == files_of(judge, plan) == []


@pytest.mark.req("A-25")
def test_rollbacks_that_others_planned_and_did_not_execute_are_executed_too():
    scene, failed = many_failures()
    found = [rolling_back.schedule_rollback(scene.worker("dead author"), one) for one in failed[:2]]
    done = clean_up(scene.worker("cleaner"))
    assert set(found) < set(done.rolled_back)
    assert len(done.rolled_back) == len(failed)
    assert set(done.rolled_back.values()) == {RollbackEnd.REMOVED}


@pytest.mark.req("A-25")
def test_a_rollback_of_an_immutable_plan_is_executed_by_clean_and_the_plan_stays():
    scene = planned()
    attempt(scene.worker("dead"), scene.time, Step.PROMOTED)
    scene.clock.pass_minutes(EXPIRED_MINUTES)
    rollback = rolling_back.schedule_rollback(scene.worker("author"), scene.time)
    assert dict(clean_up(scene.worker("cleaner")).rolled_back) == {rollback: RollbackEnd.PLAN_KEPT}
    assert f"{scene.time}.compaction.requested" in files_of(scene.worker("judge"), scene.time)


def old_removable() -> Scene:
    scene = planned(Action.LOG_COMPACTION, removable=True, settings={"rollback_delay_minutes": 1.0})
    scene.clock.pass_minutes(2)
    return scene


@pytest.mark.req("A-26")
@pytest.mark.parametrize("first", ["clean", "execute"])
def test_an_executors_guard_and_a_clean_never_both_win_between_any_two_store_calls(first):
    def execute(bench, scene: Scene) -> str:
        claimed = claiming.claim(bench, scene.time)
        return "executes" if isinstance(claimed, claiming.Attempt) else "done"

    def clean(bench, _scene: Scene) -> str:
        return "rolls back" if clean_up(bench).rolled_back else "skips"

    one, other = (clean, execute) if first == "clean" else (execute, clean)
    number = len(count_calls((scene := old_removable()).worker("n"), lambda b: one(b, scene)))
    seen = set()
    for at in range(1, number + 1):
        scene = old_removable()
        said: dict[str, str] = {}
        passer_by = scene.passer_by("other")

        def meanwhile(scene=scene, said=said, bench=passer_by) -> None:
            said[other.__name__] = _said(other, bench, scene)

        worker = on_store(scene.worker("one"), Meanwhile(at, meanwhile))
        said[one.__name__] = _said(one, worker, scene)
        words = (said["clean"], said["execute"])
        assert words in _ONE_WINS, f"{words} at call {at}"
        left = files_of(scene.worker("judge"), scene.time)
        assert (left == []) is (said["clean"] == "rolls back")
        seen.add(words)
    assert ("skips", "executes") in seen or first == "execute"


_ONE_WINS = {
    ("rolls back", "LockTimeout"),
    ("rolls back", "MustRollBack"),
    ("rolls back", "PlanBusy"),  # the rollback itself is live
    ("rolls back", "PlanNotFound"),
    ("skips", "executes"),
    ("LockTimeout", "executes"),
}
"""What clean and the executor may say together: never do both win, and clean is never refused."""


def _said(act, bench, scene: Scene) -> str:
    try:
        return act(bench, scene)
    except LakehandError as error:
        return type(error).__name__


def rollback_left_behind(died_at: str) -> tuple[Scene, str]:
    """An immutable plan, a dead attempt, and a rollback whose executor died too."""
    scene = planned()
    attempt(scene.worker("dead"), scene.time, Step.PROMOTED)
    scene.clock.pass_minutes(EXPIRED_MINUTES)
    rollback = rolling_back.schedule_rollback(scene.worker("author"), scene.time)
    if died_at == "claimed":
        rolls = scene.worker("rolls")
        die_after("promote", rolls, lambda b: rolling_back.execute_rollback(b, rollback))
        scene.clock.pass_minutes(EXPIRED_MINUTES)
    return scene, rollback


@pytest.mark.req("A-27")
@pytest.mark.parametrize("died_at", ["planned", "claimed"])
def test_clean_executes_a_left_rollback_beside_a_newer_attempt_without_touching_it(died_at):
    def run(bench, scene: Scene) -> None:
        attempt(bench, scene.time, Step.COMMITTED)

    scene, _ = rollback_left_behind(died_at)
    number = len(count_calls(scene.worker("counted"), lambda b: run(b, scene)))
    expected = state_of(scene.worker("judge"))
    ended_by_clean = 0
    for at in range(1, number + 1):
        scene, rollback = rollback_left_behind(died_at)
        cleaner = scene.passer_by("cleaner")
        ends: list[object] = []

        def clean(cleaner=cleaner, ends=ends) -> None:
            _try(lambda: ends.append(dict(clean_up(cleaner).rolled_back)))

        tap = Meanwhile(at, clean)
        run(on_store(scene.worker("executor"), tap), scene)
        clean_up(cleaner)
        judge = scene.worker("judge")
        assert state_of(judge) == expected, tap.hit
        assert [one.time for one in rollbacks(judge)] == [rollback]
        assert state_on_timeline(judge, scene.time) is State.COMPLETED
        ended_by_clean += {rollback: RollbackEnd.NOTHING} in ends
    assert 0 < ended_by_clean < number, "clean and the attempt never met"


@pytest.mark.req("A-27")
@pytest.mark.parametrize("died_at", ["planned", "claimed"])
@pytest.mark.parametrize("until", [Step.CLAIMED, Step.PROMOTED, Step.COMMITTED])
def test_a_newer_attempt_at_any_moment_of_that_clean_keeps_its_files(died_at, until):
    scene, _ = rollback_left_behind(died_at)
    number = len(count_calls(scene.worker("counted"), clean_up))
    began = 0
    for at in range(1, number + 1):
        scene, rollback = rollback_left_behind(died_at)
        executor = scene.passer_by("executor")
        newer: list[object] = []

        def execute(executor=executor, scene=scene, newer=newer) -> None:
            _try(lambda: newer.append(attempt(executor, scene.time, until)))

        clean_up(on_store(scene.worker("cleaner"), Meanwhile(at, execute)))
        judge = scene.worker("judge")
        assert [(one.time, one.state) for one in rollbacks(judge)] == [
            (rollback, State.COMPLETED)
        ], at
        shown = timeline(judge).find(scene.time)
        files = [path for path in state_of(judge).data if scene.time in path]
        if newer:
            began += 1
            assert shown.state is (State.COMPLETED if until is Step.COMMITTED else State.INFLIGHT)
            assert len(files) == (0 if until is Step.CLAIMED else 1), at
        else:
            assert files == []
    assert began > number // 4


@pytest.mark.req("A-23", "A-25")
def test_any_order_of_workers_cleans_the_same():
    results = set()
    for names in itertools.product("ab", repeat=3):
        scene, failed = many_failures()
        workers = {name: scene.worker(name) for name in "ab"}
        for name in names:
            clean_up(workers[name])
        ingest(workers["a"], "f9")
        results.add(state_of(workers["a"]))
        assert len(rollbacks(workers["a"])) == len(failed)
    assert len(results) == 1
