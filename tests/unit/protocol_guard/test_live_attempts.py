"""Live attempts: nobody rolls them back or joins them, and all are told who is at work."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from kernel_faults import CHANGING, Counting, Meanwhile, count_calls, on_store
from kernel_scenes import (
    EXPIRED_MINUTES,
    SERVICES,
    Scene,
    Step,
    attempt,
    planned,
    work,
)
from kernel_states import data_files, everything, rollbacks, state_of, state_on_timeline
from kernel_tables import execute
from lakehand.core.instants import Action, State
from lakehand.errors import Fenced, LakehandError, LockTimeout, MustRollBack, PlanBusy
from lakehand.protocol import claiming, rolling_back
from lakehand.protocol.failed_writes import clean_up


def disturb(scene: Scene) -> int:
    """Do what others do to a plan: roll back, clean, execute. Returns how often it was refused."""
    other = scene.passer_by("other")

    def schedule() -> None:
        rolling_back.execute_rollback(other, rolling_back.schedule_rollback(other, scene.time))

    def claim() -> None:
        assert not isinstance(claiming.claim(other, scene.time), claiming.Attempt)

    refused = 0
    for act in (schedule, lambda: clean_up(other), claim):
        try:
            act()
        except LakehandError:
            refused += 1
    return refused


@pytest.mark.req("A-08")
@pytest.mark.parametrize(
    ("action", "removable"),
    [(Action.COMPACTION, False), (Action.CLUSTERING, False), (Action.LOG_COMPACTION, True)],
)
def test_nobody_disturbs_a_live_attempt_between_any_two_of_its_store_calls(action, removable):
    def make() -> Scene:
        settings = {"rollback_delay_minutes": 0.0}
        scene = planned(action, removable=removable, settings=settings)
        scene.claimer = scene.worker("executor")
        scene.attempt = attempt(scene.claimer, scene.time, Step.CLAIMED)
        return scene

    def act(bench, scene: Scene) -> None:
        work(bench, scene.attempt, Step.COMMITTED)

    scene = make()
    calls = count_calls(scene.claimer, lambda bench: act(bench, scene))
    committed = next(
        n
        for n, one in enumerate(calls, start=1)
        if "_" in one.path.split("/")[-1] and one.method == "promote" and "/timeline/" in one.path
    )
    expected = state_of(scene.claimer)
    for at in range(1, committed + 1):
        scene = make()
        refused: list[int] = []
        tap = Meanwhile(at, lambda scene=scene, seen=refused: seen.append(disturb(scene)))
        act(on_store(scene.claimer, tap), scene)
        assert refused[0] >= 2, tap.hit
        assert state_of(scene.claimer) == expected, tap.hit
        assert rollbacks(scene.claimer) == ()


@pytest.mark.req("A-15")
@pytest.mark.parametrize("action", SERVICES)
def test_of_many_workers_at_once_exactly_one_goes_on_and_the_others_change_nothing(action):
    scene = planned(action)
    workers, barrier = 8, threading.Barrier(8)
    seen = [Counting() for _ in range(workers)]

    def claim(number: int):
        bench = on_store(scene.worker(f"w{number}"), seen[number])
        barrier.wait(timeout=30)
        try:
            return claiming.claim(bench, scene.time)
        except PlanBusy as busy:
            return busy

    with ThreadPoolExecutor(workers) as pool:
        results = list(pool.map(claim, range(workers)))
    winners = [one for one in results if isinstance(one, claiming.Attempt)]
    assert [one.epoch for one in winners] == [1]
    for number, result in enumerate(results):
        if isinstance(result, PlanBusy):
            assert result.owner == winners[0].heartbeat.owner
            changes = [str(call) for call in seen[number].calls if call.method in CHANGING]
            assert changes == []


@pytest.mark.req("A-15")
@pytest.mark.parametrize("removable", [False, True])
def test_a_second_claim_between_any_two_store_calls_of_the_first_never_makes_two(removable):
    def make() -> Scene:
        return planned(Action.CLUSTERING, removable=removable)

    def claim(bench, scene: Scene):
        try:
            return claiming.claim(bench, scene.time)
        except (PlanBusy, LockTimeout, MustRollBack) as refused:
            return refused

    number = len(count_calls((scene := make()).worker("w"), lambda b: claim(b, scene)))
    outcomes = set()
    for at in range(1, number + 1):
        scene = make()
        results: list[object] = []
        other = scene.passer_by("second")
        tap = Meanwhile(at, lambda o=other, s=scene, r=results: r.append(claim(o, s)))
        results.append(claim(on_store(scene.worker("first"), tap), scene))
        begun = [one for one in results if isinstance(one, claiming.Attempt)]
        assert len(begun) == 1, tap.hit
        outcomes.update(type(one).__name__ for one in results)
    assert outcomes == {"Attempt", "LockTimeout", "PlanBusy"}


@pytest.mark.req("A-15", "A-39")
@pytest.mark.parametrize("action", SERVICES)
def test_a_refusal_names_who_is_at_work_and_when_to_come_back_and_changes_nothing(action):
    scene = planned(action)
    attempt(scene.worker("first"), scene.time, Step.PROMOTED)
    scene.clock.pass_minutes(EXPIRED_MINUTES)
    attempt(scene.worker("second"), scene.time, Step.PROMOTED)
    scene.clock.pass_seconds(45)
    before = everything(scene.kernel.store)
    with pytest.raises(PlanBusy) as refused:
        claiming.claim(scene.worker("third"), scene.time)
    busy = refused.value
    assert (busy.owner, busy.epoch, busy.age_s, busy.retry_after_s) == ("second", 2, 45.0, 75.0)
    assert "second" in str(busy)
    assert "epoch 2" in str(busy)
    assert everything(scene.kernel.store) == before
    assert len(scene.kernel.store._staged) == 0


@pytest.mark.req("A-39")
@pytest.mark.parametrize("how_far", [Step.CLAIMED, Step.STAGED, Step.PREPARED, Step.PROMOTED])
def test_a_killed_workers_plan_is_refused_until_its_heartbeat_expires_and_no_longer(how_far):
    scene = planned()
    began = scene.clock()
    attempt(scene.worker("killed"), scene.time, how_far)
    for waited in (0.0, 59.0, 119.999, 120.0):
        scene.clock.now_ms = began + round(waited * 1000)
        with pytest.raises(PlanBusy) as refused:
            claiming.claim(scene.worker("next"), scene.time)
        assert refused.value.age_s == waited
        assert refused.value.retry_after_s == pytest.approx(120.0 - waited)
        assert (refused.value.owner, refused.value.epoch) == ("killed", 1)
    scene.clock.now_ms += 1
    assert claiming.claim(scene.worker("next"), scene.time).epoch == 2


@pytest.mark.req("A-38")
@pytest.mark.parametrize("removable", [False, True])
def test_with_the_guard_off_a_killed_workers_heartbeat_blocks_nobody(removable):
    scene = planned(Action.CLUSTERING, removable=removable, settings={"guard_enabled": False})
    killed = scene.worker("killed")
    zombie = attempt(killed, scene.time, Step.PROMOTED)
    done = execute(scene.worker("next"), scene.time, ("f1",))
    assert done.is_completed
    assert len(data_files(scene.kernel.store)) == 2
    with pytest.raises(Fenced):
        work(killed, zombie, Step.COMMITTED)


@pytest.mark.req("A-38")
def test_the_guard_is_on_unless_it_is_switched_off():
    for settings, refusal in (({}, PlanBusy), ({"guard_enabled": True}, PlanBusy)):
        scene = planned(settings=settings)
        attempt(scene.worker("first"), scene.time, Step.CLAIMED)
        with pytest.raises(refusal):
            claiming.claim(scene.worker("second"), scene.time)


@pytest.mark.req("A-38")
def test_with_the_guard_off_the_claim_still_fences_the_earlier_attempt():
    scene = planned(settings={"guard_enabled": False})
    first, second = scene.worker("first"), scene.worker("second")
    earlier = attempt(first, scene.time, Step.PROMOTED)
    later = attempt(second, scene.time, Step.STAGED)
    with pytest.raises(Fenced):
        work(first, earlier, Step.COMMITTED)
    assert state_on_timeline(first, scene.time) is State.INFLIGHT
    work(second, later, Step.COMMITTED)
    assert state_on_timeline(first, scene.time) is State.COMPLETED
