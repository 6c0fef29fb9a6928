"""Removable plans: kept until their delay, gone as a whole after it, and never tried twice."""

from __future__ import annotations

import pytest

from kernel_faults import CHANGING, count_calls
from kernel_scenes import (
    EXPIRED_MINUTES,
    REMOVABLE,
    Scene,
    Step,
    attempt,
    planned,
    service_request,
)
from kernel_states import (
    data_files,
    everything,
    files_of,
    rollbacks,
    state_of,
    state_on_timeline,
    walked,
)
from lakehand.core.instants import Action, State
from lakehand.core.journal_entries import RollbackEnd
from lakehand.errors import Invalid, MustRollBack
from lakehand.formats.plans import rollback as rollback_document
from lakehand.protocol import claiming, planning, rolling_back
from lakehand.protocol.failed_writes import clean_up

STEPS = [None, Step.CLAIMED, Step.STAGED, Step.PREPARED, Step.PROMOTED]


def abandoned(action: Action, how_far: Step | None, **settings: object) -> Scene:
    """A removable plan that was never tried (None), or whose first attempt died."""
    scene = planned(action, removable=True, settings=settings)
    if how_far is not None:
        attempt(scene.worker("dead"), scene.time, how_far)
    return scene


@pytest.mark.req("A-09")
@pytest.mark.parametrize("how_far", STEPS)
@pytest.mark.parametrize("action", REMOVABLE)
def test_after_its_rollback_neither_the_plan_nor_the_attempt_is_left(action, how_far):
    scene = abandoned(action, how_far)
    scene.clock.pass_minutes(EXPIRED_MINUTES)
    worker = scene.worker("roller")
    end = rolling_back.execute_rollback(worker, rolling_back.schedule_rollback(worker, scene.time))
    assert end is RollbackEnd.REMOVED
    assert files_of(worker, scene.time) == []
    assert len(data_files(scene.kernel.store)) == 1
    left = state_of(worker)
    assert left.markers + left.manifests + left.promotable == ()


@pytest.mark.req("A-10")
@pytest.mark.parametrize(
    "action", [action for action in Action if action not in REMOVABLE], ids=lambda one: one.value
)
def test_only_log_compaction_and_clustering_can_be_removable(action):
    scene = Scene()
    before = everything(scene.kernel.store)
    with pytest.raises(Invalid, match="cannot be removable"):
        planning.schedule(scene.worker("w"), service_request(action, "f1", removable=True))
    assert everything(scene.kernel.store) == before


@pytest.mark.req("A-10")
@pytest.mark.parametrize("how_far", STEPS)
def test_a_compaction_plan_is_always_kept(how_far):
    scene = planned(Action.COMPACTION, settings={"rollback_delay_minutes": 0.0})
    if how_far is not None:
        attempt(scene.worker("dead"), scene.time, how_far)
    scene.clock.pass_minutes(60 * 24 * 365)
    assert dict(clean_up(scene.worker("cleaner")).rolled_back) == {}
    worker = scene.worker("roller")
    rollback = rolling_back.schedule_rollback(worker, scene.time)
    assert rolling_back.execute_rollback(worker, rollback) is RollbackEnd.PLAN_KEPT
    assert f"{scene.time}.compaction.requested" in files_of(worker, scene.time)


@pytest.mark.req("A-11")
@pytest.mark.parametrize("how_far", STEPS)
@pytest.mark.parametrize("action", REMOVABLE)
def test_a_plan_that_nobody_completes_is_rolled_back_by_a_later_clean_without_being_asked(
    action, how_far
):
    scene = abandoned(action, how_far)
    for _ in range(6):
        assert files_of(scene.worker("judge"), scene.time) != []
        clean_up(scene.worker("cleaner"))
        scene.clock.pass_minutes(10)
    clean_up(scene.worker("cleaner"))
    left = state_of(scene.worker("judge"))
    assert files_of(scene.worker("judge"), scene.time) == []
    assert len(left.data) == 1
    assert left.markers + left.manifests + left.heartbeats + left.promotable == ()
    assert [one.state for one in rollbacks(scene.worker("judge"))] == [State.COMPLETED]


@pytest.mark.req("A-12")
@pytest.mark.parametrize("action", REMOVABLE)
def test_a_waiting_plan_has_no_heartbeat_and_is_left_alone_until_it_is_old_enough(action):
    scene = abandoned(action, None)
    assert walked(scene.kernel.store, ".hoodie/.heartbeat") == ()
    scene.clock.pass_minutes(60)
    scene.clock.now_ms -= 1
    assert dict(clean_up(scene.worker("cleaner")).rolled_back) == {}
    assert state_on_timeline(scene.worker("judge"), scene.time) is State.REQUESTED
    scene.clock.now_ms += 1
    assert list(clean_up(scene.worker("cleaner")).rolled_back.values()) == [RollbackEnd.REMOVED]


@pytest.mark.req("A-12")
def test_its_age_is_what_the_stores_clock_says_not_what_its_time_says():
    """A plan's time can lie ahead of the store's clock, or behind: the entry's stamp counts."""
    scene = Scene()
    scene.clock.now_ms -= 30_000
    scene.time = planning.schedule(
        scene.worker("w"), service_request(Action.CLUSTERING, "f1", removable=True)
    )
    scene.clock.pass_minutes(60)
    assert list(clean_up(scene.worker("cleaner")).rolled_back.values()) == [RollbackEnd.REMOVED]


@pytest.mark.req("A-13")
@pytest.mark.parametrize("minutes", [0.0, 1.0, 5.5, 90.0])
def test_the_delay_is_what_the_settings_say_in_minutes(minutes):
    scene = abandoned(Action.LOG_COMPACTION, None, rollback_delay_minutes=minutes)
    if minutes > 0:
        scene.clock.pass_minutes(minutes)
        scene.clock.now_ms -= 1
        assert dict(clean_up(scene.worker("cleaner")).rolled_back) == {}
        scene.clock.now_ms += 1
    assert list(clean_up(scene.worker("cleaner")).rolled_back.values()) == [RollbackEnd.REMOVED]


@pytest.mark.req("A-13", "A-37")
def test_a_delay_of_nothing_still_leaves_the_live_alone():
    scene = abandoned(Action.CLUSTERING, Step.STAGED, rollback_delay_minutes=0.0)
    assert dict(clean_up(scene.worker("cleaner")).rolled_back) == {}
    scene.clock.pass_minutes(EXPIRED_MINUTES)
    assert list(clean_up(scene.worker("cleaner")).rolled_back.values()) == [RollbackEnd.REMOVED]


@pytest.mark.req("A-37")
@pytest.mark.parametrize("minutes", [1e12, float(2**63), float("inf")])
@pytest.mark.parametrize("how_far", [None, Step.PROMOTED])
def test_with_a_very_large_delay_clean_never_rolls_a_removable_plan_back(minutes, how_far):
    scene = abandoned(Action.CLUSTERING, how_far, rollback_delay_minutes=minutes)
    for _ in range(3):
        scene.clock.pass_minutes(60 * 24 * 365 * 5)
        assert dict(clean_up(scene.worker("cleaner")).rolled_back) == {}
    assert f"{scene.time}.clustering.requested" in files_of(scene.worker("judge"), scene.time)


@pytest.mark.req("A-17")
@pytest.mark.parametrize("action", REMOVABLE)
def test_a_requested_plan_that_a_dead_authors_rollback_targets_is_refused(action):
    scene = abandoned(action, None)
    rolling_back.schedule_rollback(scene.worker("dead author"), scene.time)
    scene.clock.pass_minutes(60 * 24)
    assert state_on_timeline(scene.worker("judge"), scene.time) is State.REQUESTED
    _assert_refused_without_a_trace(scene)


@pytest.mark.req("A-17")
@pytest.mark.parametrize("action", REMOVABLE)
def test_a_rollback_that_hudi_planned_counts_just_as_well(action):
    scene = abandoned(action, None)
    scene.clock.pass_minutes(1)
    info = rollback_document.InstantInfo(commit_time=scene.time, action=action.value)
    content = rollback_document.encode_plan(
        rollback_document.RollbackPlan(instant_to_rollback=info, rollback_requests=())
    )
    time = f"{int(scene.time) + 5000}"
    scene.kernel.store.put(f".hoodie/timeline/{time}.rollback.requested", content)
    _assert_refused_without_a_trace(scene)


def _assert_refused_without_a_trace(scene: Scene) -> None:
    before = everything(scene.kernel.store)

    def claim(bench) -> None:
        with pytest.raises(MustRollBack, match="clean removes it"):
            claiming.claim(bench, scene.time)

    calls = count_calls(scene.worker("executor"), claim)
    assert [str(one) for one in calls if one.method in CHANGING] == []
    assert everything(scene.kernel.store) == before


@pytest.mark.req("A-17")
@pytest.mark.parametrize("how_far", STEPS[1:])
def test_a_removable_plan_is_never_tried_twice(how_far):
    scene = abandoned(Action.CLUSTERING, how_far)
    scene.clock.pass_minutes(EXPIRED_MINUTES)
    _assert_refused_without_a_trace(scene)
