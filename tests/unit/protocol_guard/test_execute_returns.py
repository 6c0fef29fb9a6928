"""Execute, whatever happens on its way: nothing is left beating, and there is one result."""

from __future__ import annotations

import pytest

from kernel_faults import Fault, FaultAt, Meanwhile, count_calls, on_store
from kernel_scenes import EXPIRED_MINUTES, SERVICES, Scene, planned
from kernel_states import data_files, state_of, state_on_timeline, walked
from kernel_tables import WriteOperation, ingest, metadata, stage_data
from lakehand.core.instants import State
from lakehand.errors import (
    Fenced,
    LakehandError,
    OutcomeUnknown,
    PlanAborted,
    PlanCancelled,
    Unavailable,
)
from lakehand.protocol import cancelling, claiming
from lakehand.protocol.executing import Output, execute_plan
from lakehand.protocol.failed_writes import clean_up


def execute(bench, scene: Scene):
    def work(attempt) -> Output:
        files = (stage_data(bench, attempt, "f1"),)
        content = metadata(bench, attempt, files, WriteOperation.COMPACT)
        return Output(files, lambda _: content)

    return execute_plan(bench, scene.time, work)


def beats(scene: Scene) -> tuple[str, ...]:
    return walked(scene.kernel.store, ".hoodie/.heartbeat")


@pytest.mark.req("A-20")
@pytest.mark.parametrize("action", SERVICES)
def test_in_success_the_heartbeat_is_gone_before_execute_returns(action):
    scene = planned(action)
    worker = scene.worker("w")
    assert execute(worker, scene).is_completed
    assert beats(scene) == ()
    assert worker.background.steps == {}


@pytest.mark.req("A-20")
def test_when_the_work_fails_the_heartbeat_and_the_stage_are_gone_and_the_plan_is_left():
    scene = planned()
    worker = scene.worker("w")

    def work(attempt) -> Output:
        stage_data(worker, attempt, "f1")
        raise ValueError("the data does not fit")

    with pytest.raises(ValueError, match="does not fit"):
        execute_plan(worker, scene.time, work)
    assert beats(scene) == ()
    assert worker.background.steps == {}
    assert execute(scene.worker("next"), scene).is_completed


@pytest.mark.req("A-20", "A-06")
@pytest.mark.parametrize("fault", [Fault.REFUSED, Fault.REPLY_LOST])
def test_whatever_call_fails_nothing_beats_on_and_the_next_execute_completes_it_once(fault):
    scene = planned()
    calls = count_calls(scene.worker("counted"), lambda bench: execute(bench, scene))
    expected = state_of(scene.worker("judge"))
    failed = 0
    for at, call in enumerate(calls, start=1):
        scene = planned()
        worker = on_store(scene.worker("first"), FaultAt(at, fault))
        error = _error_of(lambda worker=worker, scene=scene: execute(worker, scene))
        failed += error is not None
        if error is not None and state_on_timeline(worker, scene.time) is State.COMPLETED:
            assert isinstance(error, OutcomeUnknown), f"{call}: it is committed"
        assert worker.background.steps == {}, call
        scene.clock.pass_minutes(EXPIRED_MINUTES)
        execute(scene.worker("second"), scene)
        clean_up(scene.worker("cleaner"))
        assert state_of(scene.worker("judge")) == expected, call
    assert failed > 10


def _error_of(act) -> LakehandError | None:
    try:
        act()
    except LakehandError as error:
        return error
    return None


@pytest.mark.req("A-07")
def test_who_comes_after_the_result_gets_it():
    scene = planned()
    first = execute(scene.worker("first"), scene)
    before = state_of(scene.worker("judge"))
    assert execute(scene.worker("second"), scene) == first
    assert state_of(scene.worker("judge")) == before


def test_an_executor_that_was_cancelled_on_its_way_aborts_and_says_so():
    scene = planned(cancellable=True)
    number = len(count_calls(scene.worker("n"), lambda bench: execute(bench, scene)))
    ends = set()
    for at in range(1, number + 1, 2):
        scene = planned(cancellable=True)
        other = scene.passer_by("other")

        def cancel(other=other, scene=scene) -> None:
            try:
                cancelling.request_cancel(other, scene.time, reason="test")
            except LakehandError:
                return

        worker = on_store(scene.worker("executor"), Meanwhile(at, cancel))
        try:
            execute(worker, scene)
        except (PlanCancelled, PlanAborted) as ended:
            ends.add(type(ended))
            assert state_on_timeline(worker, scene.time) is State.ABORTED
            assert len(data_files(scene.kernel.store)) == 1
        else:
            assert state_on_timeline(worker, scene.time) is State.COMPLETED
        assert beats(scene) == ()
        assert state_of(worker).cancels == ()
    assert PlanCancelled in ends


def test_an_executor_that_was_replaced_while_it_slept_stops_and_leaves_the_other_alone():
    scene = planned()
    number = len(count_calls(scene.worker("n"), lambda bench: execute(bench, scene)))
    fenced = 0
    for at in range(1, number + 1, 2):
        scene = planned()
        other = scene.passer_by("other")

        def sleep(other=other, scene=scene) -> None:
            scene.clock.pass_minutes(EXPIRED_MINUTES)
            try:
                execute(other, scene)
            except LakehandError:
                return

        worker = on_store(scene.worker("sleeper"), Meanwhile(at, sleep))
        try:
            execute(worker, scene)
        except (Fenced, Unavailable):
            fenced += 1
        judge = scene.worker("judge")
        if state_on_timeline(judge, scene.time) is not State.COMPLETED:
            execute(scene.worker("last"), scene)
        clean_up(judge)
        assert len(data_files(scene.kernel.store)) == 2
        assert state_of(judge).heartbeats == ()
    assert fenced > 5


def test_ingestion_and_services_do_not_hinder_each_other():
    scene = planned()
    claimed = claiming.claim(scene.worker("slow"), scene.time)
    for number in range(3):
        ingest(scene.worker("ingester"), f"g{number}")
    assert claimed.epoch == 1
    assert len(data_files(scene.kernel.store)) == 4
