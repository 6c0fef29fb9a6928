"""The guard: before any other step, under the lock, in the order that RFC-79 gives."""

from __future__ import annotations

import pytest

from kernel_faults import CHANGING, count_calls, on_store
from kernel_scenes import (
    EXPIRED_MINUTES,
    REMOVABLE,
    SERVICES,
    Scene,
    Step,
    WatchedLock,
    attempt,
    begin_ingestion,
    planned,
    service_request,
    work,
)
from kernel_states import everything, timeline
from lakehand.core.instants import Action, Instant, State
from lakehand.errors import (
    ForeignExecutor,
    MustRollBack,
    PlanAborted,
    PlanBusy,
    PlanCancelled,
    PlanNotFound,
    RestoreOpen,
)
from lakehand.protocol import cancelling, claiming, committing, planning, rolling_back
from lakehand.protocol.planning import PlanRequest
from lakehand.protocol.timeline_loader import instant_path


def events_of(scene: Scene, act) -> list[str]:
    """Store calls, and the lock's, in order."""
    events: list[object] = []

    def tap(call, run):
        events.append(call)
        return run()

    bench = on_store(scene.worker("watched"), tap)
    bench.locks = WatchedLock(bench.locks._key, events)
    act(bench)
    return [str(one) for one in events]


@pytest.mark.req("A-14")
@pytest.mark.parametrize("scheduled_by", ["another worker", "itself", "Hudi"])
@pytest.mark.parametrize("action", SERVICES)
def test_nothing_is_done_before_the_guard_whoever_scheduled_the_plan(action, scheduled_by):
    scene = _scheduled(action, scheduled_by)
    events = events_of(
        scene, lambda bench: work(bench, claiming.claim(bench, scene.time), Step.COMMITTED)
    )
    guard = events.index(f"get .hoodie/.heartbeat/{scene.time}")
    changes = [n for n, one in enumerate(events) if one.partition(" ")[0] in _CHANGING_WORDS]
    assert events[0] == "lock"
    assert "unlock" not in events[:guard]
    assert guard < min(changes)


_CHANGING_WORDS = {method.partition(" ")[0] for method in CHANGING} - {"close"}


def _scheduled(action, scheduled_by: str) -> Scene:
    if scheduled_by != "Hudi":
        scene = Scene()
        by = "watched" if scheduled_by == "itself" else "scheduler"
        scene.time = planning.schedule(scene.worker(by), service_request(action, "f1"))
        return scene
    scene = Scene()
    scene.clock.pass_seconds(5)
    scene.time = "20300317174645000"
    plan = Instant(scene.time, action, State.REQUESTED)
    content = service_request(action, "f1").content({})
    scene.kernel.store.put(instant_path(scene.kernel.config, plan), content)
    return scene


@pytest.mark.req("A-14")
@pytest.mark.parametrize("scheduled_by", ["another worker", "itself", "Hudi"])
@pytest.mark.parametrize("action", SERVICES)
def test_a_live_attempt_is_found_whoever_scheduled_the_plan(action, scheduled_by):
    scene = _scheduled(action, scheduled_by)
    attempt(scene.worker("first"), scene.time, Step.CLAIMED)
    before = everything(scene.kernel.store)
    with pytest.raises(PlanBusy, match="first"):
        claiming.claim(scene.worker("watched"), scene.time)
    assert everything(scene.kernel.store) == before


@pytest.mark.req("A-16")
@pytest.mark.parametrize("action", REMOVABLE)
def test_under_the_lock_the_heartbeat_is_read_then_the_claim_appended_then_the_heartbeat_started(
    action,
):
    scene = planned(action, removable=True)
    events = events_of(scene, lambda bench: claiming.claim(bench, scene.time))
    beat = f".hoodie/.heartbeat/{scene.time}"
    steps = [
        events.index("lock"),
        events.index("names .hoodie/timeline"),
        events.index(f"get {beat}"),
        next(n for n, one in enumerate(events) if one.startswith("put_new .hoodie/.lakehand")),
        events.index(f"put_new {beat}"),
        next(n for n, one in enumerate(events) if one.startswith("promote")),
        events.index("unlock"),
    ]
    assert steps == sorted(steps)


@pytest.mark.req("A-16")
@pytest.mark.parametrize("how_far", [Step.CLAIMED, Step.PREPARED, Step.PROMOTED])
@pytest.mark.parametrize("action", REMOVABLE)
def test_a_live_removable_plan_is_reported_busy_and_a_dead_one_as_to_be_rolled_back(
    action, how_far
):
    scene = planned(action, removable=True)
    attempt(scene.worker("first"), scene.time, how_far)
    with pytest.raises(PlanBusy):
        claiming.claim(scene.worker("second"), scene.time)
    scene.clock.pass_minutes(EXPIRED_MINUTES)
    with pytest.raises(MustRollBack):
        claiming.claim(scene.worker("second"), scene.time)


@pytest.mark.req("A-16")
@pytest.mark.parametrize("action", REMOVABLE)
def test_a_pending_rollback_comes_after_the_heartbeat_and_before_the_claim(action):
    scene = planned(action, removable=True)
    rolling_back.schedule_rollback(scene.worker("author"), scene.time)
    calls = []

    def claim(bench) -> None:
        with pytest.raises(MustRollBack):
            claiming.claim(bench, scene.time)

    calls = [str(one) for one in count_calls(scene.worker("executor"), claim)]
    assert f"get .hoodie/.heartbeat/{scene.time}" in calls
    assert not any(one.startswith("put") for one in calls)


@pytest.mark.req("A-16")
def test_a_completed_plan_is_returned_as_it_completed_before_anything_is_checked():
    scene = planned(removable=False)
    done = attempt(scene.worker("first"), scene.time, Step.COMMITTED)
    before = everything(scene.kernel.store)
    again = claiming.claim(scene.worker("second"), scene.time)
    assert isinstance(again, claiming.AlreadyCompleted)
    assert again.instant == timeline(scene.worker("judge")).find(scene.time)
    assert again.instant.is_completed
    assert done.time == again.instant.time
    assert everything(scene.kernel.store) == before


@pytest.mark.req("A-16")
def test_cancelled_aborted_and_unknown_plans_are_told_apart():
    scene = planned(cancellable=True)
    worker = scene.worker("w")
    attempt(scene.worker("executor"), scene.time, Step.CLAIMED)
    cancelling.request_cancel(worker, scene.time, reason="test")
    with pytest.raises(PlanCancelled):
        claiming.claim(worker, scene.time)
    scene.clock.pass_minutes(EXPIRED_MINUTES)
    cancelling.execute_cancel(worker, scene.time)
    with pytest.raises(PlanAborted):
        claiming.claim(worker, scene.time)
    with pytest.raises(PlanNotFound):
        claiming.claim(worker, "20300101000000000")


@pytest.mark.parametrize("action", SERVICES)
def test_an_inflight_file_that_no_claim_explains_is_never_taken_over_by_itself(action):
    scene = _scheduled(action, "Hudi")
    inflight = Instant(scene.time, action, State.INFLIGHT)
    scene.kernel.store.put(instant_path(scene.kernel.config, inflight), b"")
    scene.clock.pass_minutes(60 * 24 * 365)
    with pytest.raises(ForeignExecutor):
        claiming.claim(scene.worker("w"), scene.time)
    allowed = scene.worker("allowed", foreign_takeover_after_s=3600.0)
    assert claiming.claim(allowed, scene.time).epoch == 1


def test_an_open_restore_forbids_every_other_plan_claim_and_commit():
    scene = planned()
    waiting = planning.schedule(scene.worker("w"), service_request(Action.CLUSTERING, "f2"))
    executor = scene.worker("executor")
    begun = attempt(executor, scene.time, Step.PROMOTED)
    planning.schedule(scene.worker("restorer"), PlanRequest(action=Action.RESTORE))
    before = everything(scene.kernel.store)
    for act in (
        lambda: planning.schedule(scene.worker("w"), service_request(Action.CLUSTERING, "f3")),
        lambda: begin_ingestion(scene.worker("w")),
        lambda: claiming.claim(scene.worker("w"), waiting),
        lambda: committing.commit(executor, begun, lambda _: b""),
    ):
        with pytest.raises(RestoreOpen):
            act()
    assert everything(scene.kernel.store) == before
