"""Rollback: one plan per target, its files before its instant, to the same end after any crash."""

from __future__ import annotations

import itertools

import pytest

from kernel_faults import FaultAt, Killed, Meanwhile, count_calls, on_store
from kernel_scenes import (
    EXPIRED_MINUTES,
    Scene,
    Step,
    assert_any_crash_is_mended,
    attempt,
    crashes,
    ingestion,
    planned,
)
from kernel_states import files_of, rollbacks, state_of, timeline, walked
from lakehand.core.instants import Action, State
from lakehand.core.journal_entries import RollbackEnd
from lakehand.errors import LockTimeout, PlanNotFound
from lakehand.protocol import rolling_back
from lakehand.protocol.failed_writes import clean_up


def dead_write() -> Scene:
    """An ingestion write that died with a promoted, a prepared and a staged file behind it."""
    scene = Scene()
    scene.time = ingestion(scene.worker("dead"), Step.PROMOTED).time
    scene.clock.pass_minutes(EXPIRED_MINUTES)
    return scene


def dead_compaction() -> Scene:
    scene = planned()
    attempt(scene.worker("dead"), scene.time, Step.PROMOTED)
    scene.clock.pass_minutes(EXPIRED_MINUTES)
    return scene


def dead_removable() -> Scene:
    scene = planned(Action.LOG_COMPACTION, removable=True)
    attempt(scene.worker("dead"), scene.time, Step.PROMOTED)
    scene.clock.pass_minutes(60)
    return scene


TARGETS = [dead_write, dead_compaction, dead_removable]


def roll_back(worker, scene: Scene) -> RollbackEnd:
    """Make the rollback's plan, or take the one that is there, and execute it."""
    found = [one.time for one in rollbacks(worker) if one.is_pending]
    rollback = found[0] if found else rolling_back.schedule_rollback(worker, scene.time)
    return rolling_back.execute_rollback(worker, rollback)


@pytest.mark.req("A-04")
@pytest.mark.parametrize("make", TARGETS)
def test_files_go_first_and_the_targets_instant_files_last(make):
    scene = make()
    data = [path for path in walked(scene.kernel.store, "") if scene.time in path]
    calls = [str(call) for call in count_calls(scene.worker("r"), lambda b: roll_back(b, scene))]
    deleted = [call for call in calls if call.startswith("delete") and scene.time in call]
    of_data = [n for n, call in enumerate(deleted) if not call.startswith("delete .hoodie")]
    of_instant = [n for n, call in enumerate(deleted) if "/timeline/" in call]
    assert of_data
    assert data
    if make is dead_compaction:
        assert of_instant == []
    else:
        names = [deleted[n].rpartition(".")[2] for n in of_instant]
        assert names == ["inflight", "requested"]
        assert max(of_data) < min(of_instant)
    completed = next(n for n, call in enumerate(calls) if "promote" in call and "_" in call)
    assert all(calls.index(deleted[n]) < completed for n in of_data)
    assert all(calls.index(deleted[n]) > completed for n in of_instant)


@pytest.mark.req("A-04")
@pytest.mark.parametrize("make", TARGETS)
def test_a_rollback_killed_after_any_store_call_is_taken_to_its_end_by_the_next_clean(make):
    def mend(scene: Scene) -> None:
        cleaner = scene.worker("cleaner")
        if make is dead_compaction and not rollbacks(cleaner):
            roll_back(cleaner, scene)  # clean leaves immutable plans to their next attempt
        clean_up(cleaner)

    tried = assert_any_crash_is_mended(make, roll_back, mend)
    assert tried > 15


@pytest.mark.req("A-04", "A-05")
@pytest.mark.parametrize("make", TARGETS)
def test_the_next_run_takes_the_same_plan(make):
    scene = make()
    calls = count_calls(scene.worker("counted"), lambda b: roll_back(b, scene))
    for at, fault in crashes(calls):
        scene = make()
        with pytest.raises(Killed):
            roll_back(on_store(scene.worker("first"), FaultAt(at, fault)), scene)
        by_first = [one.time for one in rollbacks(scene.worker("judge"))]
        scene.clock.pass_minutes(EXPIRED_MINUTES)
        second = scene.worker("second")
        if not by_first or timeline(second).find(by_first[0]).is_pending:
            roll_back(second, scene)
        clean_up(second)
        done = rollbacks(second)
        assert [one.state for one in done] == [State.COMPLETED], f"{fault.value}: {at}"
        assert not by_first or [one.time for one in done] == by_first


@pytest.mark.req("A-04")
def test_a_rollback_without_a_plan_makes_one():
    scene = dead_write()
    assert rollbacks(scene.worker("judge")) == ()
    assert list(clean_up(scene.worker("cleaner")).rolled_back.values()) == [RollbackEnd.REMOVED]
    (done,) = rollbacks(scene.worker("judge"))
    assert done.is_completed
    assert {name.rpartition(".")[2] for name in files_of(scene.worker("judge"), done.time)} == {
        "requested",
        "inflight",
        "rollback",
    }


@pytest.mark.req("A-04")
def test_a_rollback_that_is_done_may_be_executed_again():
    scene = dead_write()
    worker = scene.worker("first")
    rollback = rolling_back.schedule_rollback(worker, scene.time)
    rolling_back.execute_rollback(worker, rollback)
    before = state_of(worker)
    again = rolling_back.execute_rollback(scene.worker("second"), rollback)
    assert again is RollbackEnd.NOTHING
    assert state_of(worker) == before


@pytest.mark.req("A-05")
@pytest.mark.parametrize("make", TARGETS)
def test_a_pending_plan_is_reused_by_whoever_comes_later(make):
    scene = make()
    times = {
        rolling_back.schedule_rollback(scene.worker(name), scene.time) for name in ("a", "b", "c")
    }
    assert len(times) == 1
    assert {one.time for one in rollbacks(scene.worker("judge"))} == times


@pytest.mark.req("A-05")
@pytest.mark.parametrize("make", TARGETS)
@pytest.mark.parametrize("how", ["schedule", "clean"])
def test_a_plan_made_between_any_two_calls_of_another_scheduler_is_found_after_the_lock(make, how):
    def act(worker, scene: Scene) -> None:
        if how == "schedule":
            rolling_back.schedule_rollback(worker, scene.time)
        else:
            clean_up(worker)

    number = len(count_calls((scene := make()).worker("counted"), lambda b: act(b, scene)))
    met = 0
    for at in range(1, number + 1):
        scene = make()
        other = scene.passer_by("other")
        planned_by: list[str] = []

        def schedule(scene=scene, other=other, planned_by=planned_by) -> None:
            try:
                planned_by.append(rolling_back.schedule_rollback(other, scene.time))
            except (LockTimeout, PlanNotFound):
                return  # the first one decides just now, or there is nothing left

        worker = on_store(scene.worker("first"), Meanwhile(at, schedule))
        act(worker, scene)
        met += bool(planned_by)
        expected = (0, 1) if (how, make) == ("clean", dead_compaction) else (1,)
        assert len(rollbacks(worker)) in expected, f"another scheduled at call {at}"
    assert met >= 2


@pytest.mark.req("A-05")
def test_any_order_of_two_rollbacks_runs_it_once():
    for order in itertools.permutations("aabb"):
        scene = dead_write()
        workers = {name: scene.worker(name) for name in "ab"}
        plans: dict[str, str] = {}
        ends = []
        for name in order:
            if name not in plans:
                try:
                    plans[name] = rolling_back.schedule_rollback(workers[name], scene.time)
                except PlanNotFound:  # the other has finished
                    plans[name] = ""
            elif plans[name]:
                ends.append(rolling_back.execute_rollback(workers[name], plans[name]))
        assert ends.count(RollbackEnd.REMOVED) == 1
        assert len(rollbacks(workers["a"])) == 1
