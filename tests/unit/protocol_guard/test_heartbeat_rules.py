"""Heartbeats: one file an instant, live within the tolerance, there before the instant is."""

from __future__ import annotations

import threading

import pytest

from kernel_faults import Fault, FaultAt, count_calls, on_store
from kernel_scenes import (
    EXPIRED_MINUTES,
    Scene,
    Step,
    attempt,
    begin_ingestion,
    ingestion,
    planned,
    work,
)
from kernel_states import raw, rollbacks, state_on_timeline
from kernel_tables import execute, ingest, show_groups, stage_data
from lakehand.core.instants import State
from lakehand.errors import Fenced, LakehandError, PlanBusy, WriteConflict
from lakehand.formats import heartbeat_document
from lakehand.formats.heartbeat_document import BeatContent
from lakehand.process import Threads
from lakehand.protocol import cancelling, claiming, committing, heartbeats, rolling_back
from lakehand.protocol.workbench import ProtocolSettings


def beats(scene: Scene) -> tuple[str, ...]:
    return raw(scene.kernel.store).names(heartbeats.FOLDER)


@pytest.mark.req("A-01")
def test_each_attempt_has_one_heartbeat_file_named_after_its_instant():
    scene = planned()
    attempt(scene.worker("executor"), scene.time, Step.STAGED)
    begun = ingestion(scene.worker("ingester"), Step.STAGED)
    assert beats(scene) == (scene.time, begun.time)


@pytest.mark.req("A-01")
@pytest.mark.parametrize(("interval_s", "misses"), [(60.0, 2), (10.0, 1), (0.5, 4)])
def test_a_heartbeat_lives_for_interval_times_misses_and_no_longer(interval_s, misses):
    settings = {"heartbeat_interval_s": interval_s, "heartbeat_misses": misses}
    scene = planned(settings=settings)
    attempt(scene.worker("first"), scene.time, Step.CLAIMED)
    scene.clock.pass_seconds(interval_s * misses)
    with pytest.raises(PlanBusy):
        claiming.claim(scene.worker("second"), scene.time)
    scene.clock.now_ms += 1
    claimed = claiming.claim(scene.worker("second"), scene.time)
    assert claimed.epoch == 2


@pytest.mark.req("A-01")
def test_a_missing_heartbeat_is_an_expired_one():
    scene = planned()
    attempt(scene.worker("first"), scene.time, Step.CLAIMED)
    scene.kernel.store.delete(heartbeats.path_of(scene.time))
    assert claiming.claim(scene.worker("second"), scene.time).epoch == 2


@pytest.mark.req("A-01")
def test_an_empty_heartbeat_of_hudi_counts_as_live_by_its_time_alone():
    scene = Scene()
    settings = ProtocolSettings()
    scene.kernel.store.put(heartbeats.path_of("20300101000000000"), b"")
    beat = heartbeats.read_beat(scene.kernel.store, "20300101000000000")
    assert beat.epoch == 0
    assert heartbeats.is_live(beat, now_ms=scene.clock.now_ms + 120_000, settings=settings)
    assert not heartbeats.is_live(beat, now_ms=scene.clock.now_ms + 120_001, settings=settings)


@pytest.mark.req("A-01")
def test_beats_keep_an_attempt_live_however_long_it_takes():
    scene = planned()
    worker = scene.worker("first")
    attempt(worker, scene.time, Step.CLAIMED)
    (beat,) = worker.background.steps.values()
    for _ in range(100):
        scene.clock.pass_seconds(119)
        assert beat() is True
    with pytest.raises(PlanBusy):
        claiming.claim(scene.worker("second"), scene.time)


@pytest.mark.req("A-01")
def test_the_background_refreshes_the_heartbeat_beside_the_work():
    scene = planned(settings={"heartbeat_interval_s": 0.01})
    beaten = threading.Event()
    path = heartbeats.path_of(scene.time)

    def tap(call, run):
        result = run()
        if call.method == "put_if" and call.path == path:
            beaten.set()
        return result

    scene.kernel.background = Threads()
    worker = on_store(scene.worker("first"), tap)
    begun = attempt(worker, scene.time, Step.CLAIMED)
    assert beaten.wait(timeout=30)
    begun.heartbeat.remove()
    assert beats(scene) == ()


def test_a_heartbeat_that_expired_is_never_revived():
    scene = planned()
    worker = scene.worker("first")
    begun = attempt(worker, scene.time, Step.CLAIMED)
    (beat,) = worker.background.steps.values()
    scene.clock.pass_minutes(EXPIRED_MINUTES)
    assert beat() is False
    with pytest.raises(Fenced):
        begun.heartbeat.check()


def test_a_heartbeat_that_was_taken_over_is_left_alone():
    scene = planned()
    worker = scene.worker("first")
    begun = attempt(worker, scene.time, Step.CLAIMED)
    (beat,) = worker.background.steps.values()
    scene.clock.pass_minutes(EXPIRED_MINUTES)
    claiming.claim(scene.worker("second"), scene.time)
    assert beat() is False
    begun.heartbeat.remove()
    found = heartbeats.read_beat(scene.kernel.store, scene.time)
    assert (found.owner, found.epoch) == ("second", 2)


@pytest.mark.req("A-01")
@pytest.mark.parametrize(("epoch", "is_busy"), [(0, False), (1, False), (2, True), (3, True)])
def test_a_fresh_beat_of_an_attempt_that_was_replaced_says_nothing(epoch, is_busy):
    scene = planned()
    for name in ("first", "second"):
        attempt(scene.worker(name), scene.time, Step.CLAIMED)
        scene.clock.pass_minutes(EXPIRED_MINUTES)
    late = heartbeat_document.encode(BeatContent("late", epoch, 99))
    scene.kernel.store.put(heartbeats.path_of(scene.time), late)
    if is_busy:
        with pytest.raises(PlanBusy, match="late"):
            claiming.claim(scene.worker("third"), scene.time)
    else:
        assert claiming.claim(scene.worker("third"), scene.time).epoch == 3


@pytest.mark.req("A-02")
def test_an_ingestion_write_is_never_visible_without_a_live_heartbeat():
    scene = Scene()
    seen: set[State] = set()

    def tap(call, run):
        result = run()
        for time in {name.partition(".")[0] for name in pending_names(scene)}:
            seen.add(state_on_timeline(judge, time))
            assert time in beats(scene), f"{time} has no heartbeat after {call}"
        return result

    judge = scene.worker("judge")
    ingest(on_store(scene.worker("ingester"), tap), "f2")
    assert seen == {State.REQUESTED, State.INFLIGHT}


def pending_names(scene: Scene) -> list[str]:
    names = raw(scene.kernel.store).names(scene.kernel.config.timeline_path)
    completed = {name.partition("_")[0] for name in names if "_" in name}
    return [name for name in names if "_" not in name and name.partition(".")[0] not in completed]


@pytest.mark.req("A-02", "A-20")
def test_a_write_that_ends_well_leaves_no_heartbeat():
    scene = planned()
    ingest(scene.worker("ingester"), "f2")
    execute(scene.worker("executor"), scene.time, ("f1",))
    assert beats(scene) == ()


@pytest.mark.req("A-02")
def test_a_write_that_is_refused_leaves_no_heartbeat():
    scene = Scene()
    loser = scene.worker("loser")
    begun = begin_ingestion(loser)
    ingest(scene.worker("winner"), "f1")
    with pytest.raises(WriteConflict):
        show_groups(loser, begun, ("f1",))
    committing.give_up(loser, begun)
    assert beats(scene) == ()


@pytest.mark.req("A-02", "A-20")
def test_an_attempt_that_gives_up_leaves_no_heartbeat_and_no_stage():
    scene = planned()
    worker = scene.worker("executor")
    begun = attempt(worker, scene.time, Step.CLAIMED)
    file = stage_data(worker, begun, "f1")
    committing.give_up(worker, begun, (file,))
    assert beats(scene) == ()
    assert worker.background.steps == {}
    assert scene.kernel.store._staged == {}


@pytest.mark.req("A-02")
def test_the_heartbeat_of_a_killed_write_expires_by_itself():
    scene = Scene()
    begun = ingestion(scene.worker("killed"), Step.STAGED)
    record = scene.worker("judge").journal.refresh().record(begun.time)
    scene.clock.pass_minutes(EXPIRED_MINUTES)
    judge = scene.worker("judge")
    assert beats(scene) == (begun.time,)
    assert heartbeats.live_beat(judge, record, now_ms=scene.clock()) is None


@pytest.mark.req("A-20")
def test_only_the_own_heartbeat_is_removed():
    scene = planned()
    first, second = scene.worker("first"), scene.worker("second")
    begun = attempt(first, scene.time, Step.STAGED)
    scene.clock.pass_minutes(EXPIRED_MINUTES)
    after = attempt(second, scene.time, Step.CLAIMED)
    committing.give_up(first, begun)
    assert beats(scene) == (scene.time,)
    work(second, after, Step.COMMITTED)
    assert beats(scene) == ()


def refused_at_every_call(make, act):
    """Yield what is left when the store refuses one call, for every call of an act."""
    scene = make()
    calls = count_calls(scene.worker("first"), lambda bench: act(bench, scene))
    for number, call in enumerate(calls, start=1):
        scene = make()
        worker = on_store(scene.worker("first"), FaultAt(number, Fault.REFUSED))
        failed = False
        try:
            act(worker, scene)
        except LakehandError:
            failed = True
        yield call, scene, worker, failed


def begin_and_give_up(worker, scene):
    committing.give_up(worker, begin_ingestion(worker))


def claim_and_give_up(worker, scene):
    committing.give_up(worker, attempt(worker, scene.time, Step.CLAIMED))


def tried_before() -> Scene:
    scene = planned()
    attempt(scene.worker("dead"), scene.time, Step.PROMOTED)
    scene.clock.pass_minutes(EXPIRED_MINUTES)
    rolling_back.schedule_rollback(scene.worker("cleaner"), scene.time)
    return scene


def rolled_back(worker, scene):
    (rollback,) = rollbacks(worker)
    rolling_back.execute_rollback(worker, rollback.time)


def cancelled() -> Scene:
    scene = planned(cancellable=True)
    attempt(scene.worker("dead"), scene.time, Step.PROMOTED)
    scene.clock.pass_minutes(EXPIRED_MINUTES)
    cancelling.request_cancel(scene.worker("somebody"), scene.time, reason="test")
    return scene


@pytest.mark.req("A-02", "A-20")
@pytest.mark.parametrize(
    ("make", "act"),
    [
        (Scene, begin_and_give_up),
        (planned, claim_and_give_up),
        (tried_before, claim_and_give_up),
        (tried_before, rolled_back),
        (cancelled, lambda worker, scene: cancelling.execute_cancel(worker, scene.time)),
    ],
    ids=["begin", "claim", "claim again", "roll back", "abort"],
)
def test_whatever_call_fails_nothing_goes_on_beating(make, act):
    """A heartbeat that nobody can stop would keep everybody else from the instant for ever."""
    failures = 0
    for call, _, worker, failed in refused_at_every_call(make, act):
        failures += failed
        assert worker.background.steps == {}, f"still beating after {call} was refused"
    assert failures > 5
