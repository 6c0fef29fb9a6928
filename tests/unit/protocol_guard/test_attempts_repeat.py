"""Immutable plans: any number of failed attempts, by any workers, and one result in the end."""

from __future__ import annotations

import itertools

import pytest

from kernel_faults import FaultAt, Killed, count_calls, on_store
from kernel_scenes import (
    EXPIRED_MINUTES,
    SERVICES,
    Scene,
    Step,
    assert_any_crash_is_mended,
    attempt,
    crashes,
    die_after,
    planned,
    service_request,
    work,
)
from kernel_states import data_files, files_of, rollbacks, state_of, state_on_timeline
from kernel_tables import execute, write_out
from lakehand.core.instants import Action, State
from lakehand.core.journal_entries import RollbackEnd
from lakehand.core.markers import epoch_of_file
from lakehand.errors import Fenced
from lakehand.protocol import claiming, heartbeats, planning, rolling_back
from lakehand.protocol.failed_writes import clean_up


def run(worker, scene: Scene):
    return execute(worker, scene.time, ("f1",))


@pytest.mark.req("A-06", "A-18")
@pytest.mark.parametrize("action", SERVICES)
def test_an_attempt_killed_after_any_store_call_is_repeated_by_another_to_the_same_end(action):
    def mend(scene: Scene) -> None:
        done = run(scene.worker("second"), scene)
        assert done.is_completed
        clean_up(scene.worker("cleaner"))

    tried = assert_any_crash_is_mended(lambda: planned(action), run, mend)
    assert tried > 15


@pytest.mark.req("A-06")
@pytest.mark.parametrize("action", SERVICES)
@pytest.mark.parametrize("failed_at", [Step.CLAIMED, Step.STAGED, Step.PREPARED, Step.PROMOTED])
def test_the_next_attempt_first_removes_what_the_failed_one_left_and_keeps_the_plan(
    action, failed_at
):
    scene = planned(action)
    before = data_files(scene.kernel.store)
    requested = f"{scene.time}.{action.value}.requested"
    plan = scene.kernel.store.get(f".hoodie/timeline/{requested}").content
    for number in range(1, 4):
        attempt(scene.worker(f"dies-{number}"), scene.time, failed_at)
        assert state_on_timeline(scene.worker("judge"), scene.time) is State.INFLIGHT
        scene.clock.pass_minutes(EXPIRED_MINUTES)
    last = scene.worker("last")
    claimed = claiming.claim(last, scene.time)
    assert claimed.epoch == 4
    assert data_files(scene.kernel.store) == before
    assert all(not place.endswith(".parquet") for place in state_of(last).promotable)
    assert scene.kernel.store.get(f".hoodie/timeline/{requested}").content == plan
    work(last, claimed, Step.COMMITTED)
    left = state_of(last)
    assert left.timeline[-1] == (scene.time, completed(action), "completed")
    (new,) = set(data_files(scene.kernel.store)) - set(before)
    assert epoch_of_file(new) == 4
    assert left.markers + left.manifests + left.heartbeats + left.promotable == ()


def completed(action: Action) -> str:
    names = {"compaction": "commit", "logcompaction": "deltacommit", "clustering": "replacecommit"}
    return names[action.value]


@pytest.mark.req("A-06")
def test_two_attempts_may_be_killed_while_they_remove_what_the_first_one_left():
    def tried() -> Scene:
        scene = planned()
        attempt(scene.worker("dead"), scene.time, Step.PROMOTED)
        scene.clock.pass_minutes(EXPIRED_MINUTES)
        return scene

    scene = tried()
    calls = count_calls(scene.worker("one"), lambda b: claiming.claim(b, scene.time))
    for at, fault in crashes(calls):
        scene = tried()
        for name in ("one", "two"):
            with pytest.raises(Killed):
                run(on_store(scene.worker(name), FaultAt(at, fault)), scene)
            scene.clock.pass_minutes(EXPIRED_MINUTES)
        run(scene.worker("three"), scene)
        assert len(data_files(scene.kernel.store)) == 2
        left = state_of(scene.worker("judge"))
        assert left.markers + left.manifests + left.heartbeats + left.promotable == ()


@pytest.mark.req("A-07")
def test_every_transition_may_be_made_by_another_worker_with_the_same_result_as_by_one():
    expected = _life_of_a_plan(("a", "a", "a", "a", "a", "a"))
    assert expected.timeline[-1][2] == "completed"
    for names in itertools.product("ab", repeat=6):
        assert _life_of_a_plan(names) == expected, names
    assert _life_of_a_plan(("a", "b", "c", "d", "e", "f")) == expected


def _life_of_a_plan(names: tuple[str, ...]):
    """Scheduled, inflight, rolled back (planned, executed), inflight again, completed."""
    scene = Scene()
    workers = {name: scene.worker(name) for name in set(names)}
    scheduler, dies, plans, rolls, dies_too, ends = (workers[name] for name in names)
    scene.time = planning.schedule(scheduler, service_request(Action.COMPACTION, "f1"))
    attempt(dies, scene.time, Step.PROMOTED)
    scene.clock.pass_minutes(EXPIRED_MINUTES)
    rollback = rolling_back.schedule_rollback(plans, scene.time)
    assert rolling_back.execute_rollback(rolls, rollback) is RollbackEnd.PLAN_KEPT
    attempt(dies_too, scene.time, Step.STAGED)
    scene.clock.pass_minutes(EXPIRED_MINUTES)
    execute(ends, scene.time, ("f1",))
    return state_of(ends)


@pytest.mark.req("A-07")
@pytest.mark.parametrize("action", SERVICES)
def test_a_plan_may_be_executed_by_a_worker_that_never_saw_it_being_made(action):
    alone, apart = planned(action), planned(action)
    run(alone.worker("scheduler"), alone)
    run(apart.worker("somebody else"), apart)
    assert state_of(alone.worker("judge")) == state_of(apart.worker("judge"))


@pytest.mark.req("A-18")
@pytest.mark.parametrize("action", SERVICES)
def test_when_the_executor_is_dead_the_next_worker_takes_its_heartbeat_over(action):
    scene = planned(action)
    dead = scene.worker("dead")
    zombie = attempt(dead, scene.time, Step.PROMOTED)
    scene.clock.pass_minutes(EXPIRED_MINUTES)
    second = scene.worker("second")
    claimed = claiming.claim(second, scene.time)
    beat = heartbeats.read_beat(scene.kernel.store, scene.time)
    assert (beat.owner, beat.epoch, beat.modified_ms) == ("second", 2, scene.clock())
    work(second, claimed, Step.COMMITTED)
    with pytest.raises(Fenced):
        work(dead, zombie, Step.COMMITTED)
    assert len(data_files(scene.kernel.store)) == 2


@pytest.mark.req("A-19")
@pytest.mark.parametrize("rollback_executor_died", [False, True])
@pytest.mark.parametrize("tried", [False, True])
@pytest.mark.parametrize("action", SERVICES)
def test_a_plan_that_a_pending_rollback_targets_is_rolled_back_before_its_work_starts(
    action, tried, rollback_executor_died
):
    scene = planned(action)
    if tried:
        attempt(scene.worker("dead"), scene.time, Step.PROMOTED)
    scene.clock.pass_minutes(EXPIRED_MINUTES)
    rollback = rolling_back.schedule_rollback(scene.worker("rollback"), scene.time)
    if rollback_executor_died:
        rolls = scene.worker("rolls")
        die_after("promote", rolls, lambda b: rolling_back.execute_rollback(b, rollback))
        scene.clock.pass_minutes(EXPIRED_MINUTES)
    worker = scene.worker("executor")
    claimed = claiming.claim(worker, scene.time)
    assert [one.state for one in rollbacks(worker)] == [State.COMPLETED]
    assert len(data_files(scene.kernel.store)) == 1
    assert f"{scene.time}.{action.value}.requested" in files_of(worker, scene.time)
    write_out(worker, claimed, ("f1",))
    assert rolling_back.execute_rollback(scene.worker("late"), rollback) is RollbackEnd.NOTHING
    assert len(data_files(scene.kernel.store)) == 2


@pytest.mark.req("A-19")
def test_removal_comes_before_the_first_new_file_and_stages_before_files():
    scene = planned()
    attempt(scene.worker("dead"), scene.time, Step.PROMOTED)
    scene.clock.pass_minutes(EXPIRED_MINUTES)
    calls = [str(one) for one in count_calls(scene.worker("next"), lambda b: run(b, scene))]
    discard = next(n for n, one in enumerate(calls) if one.startswith("discard p/"))
    delete = next(n for n, one in enumerate(calls) if one.startswith("delete p/"))
    new = next(n for n, one in enumerate(calls) if one.startswith("open stage p/"))
    assert discard < delete < new
