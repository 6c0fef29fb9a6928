"""When an incomplete write counts as failed: by its heartbeat with several writers, else always."""

from __future__ import annotations

import pytest

from kernel_scenes import EXPIRED_MINUTES, Scene, Step, begin_ingestion, ingestion, work
from kernel_states import data_files, files_of, state_of, state_on_timeline
from kernel_tables import ingest, show_groups
from lakehand.core.instants import State
from lakehand.core.journal_entries import RollbackEnd
from lakehand.errors import Fenced, WriteConflict
from lakehand.protocol import rolling_back
from lakehand.protocol.failed_writes import FailedWritesPolicy, clean_up, roll_back_failed_writes
from lakehand.protocol.transaction import transaction


def write_until(scene: Scene, how_far: Step | None):
    """An ingestion write that is only requested (None), or inflight and further."""
    writer = scene.worker("slow")
    begun = begin_ingestion(writer)
    if how_far is not None:
        show_groups(writer, begun, ("f2",))
        work(writer, begun, how_far, "f2")
    return writer, begun


HOW_FAR = [None, Step.CLAIMED, Step.STAGED, Step.PREPARED, Step.PROMOTED]


@pytest.mark.req("A-03")
@pytest.mark.parametrize("how_far", HOW_FAR)
def test_a_lazy_clean_leaves_a_live_write_alone_however_old_it_is(how_far):
    scene = Scene()
    writer, _ = write_until(scene, how_far)
    (beat,) = writer.background.steps.values()
    for _ in range(3):
        scene.clock.pass_minutes(1.9)
        assert beat() is True
        before = state_of(writer)
        done = clean_up(scene.worker("cleaner"))
        assert (dict(done.rolled_back), dict(done.left)) == ({}, {})
        assert state_of(writer) == before


@pytest.mark.req("A-03")
@pytest.mark.parametrize("how_far", HOW_FAR)
def test_a_lazy_clean_rolls_back_a_write_whose_heartbeat_expired(how_far):
    scene = Scene()
    writer, begun = write_until(scene, how_far)
    kept = data_files(scene.kernel.store)[:1]
    scene.clock.pass_minutes(EXPIRED_MINUTES)
    done = clean_up(scene.worker("cleaner"))
    assert list(done.rolled_back.values()) == [RollbackEnd.REMOVED]
    assert files_of(writer, begun.time) == []
    assert data_files(scene.kernel.store) == kept
    left = state_of(writer)
    assert left.markers + left.manifests + left.heartbeats + left.promotable == ()


@pytest.mark.req("A-03")
@pytest.mark.parametrize("how_far", HOW_FAR)
def test_with_a_single_writer_every_pending_write_has_failed(how_far):
    scene = Scene()
    writer, begun = write_until(scene, how_far)
    done = clean_up(scene.worker("cleaner"), policy=FailedWritesPolicy.EAGER)
    assert list(done.rolled_back.values()) == [RollbackEnd.REMOVED]
    assert files_of(writer, begun.time) == []
    assert len(data_files(scene.kernel.store)) == 1


@pytest.mark.req("A-03")
def test_the_writer_that_was_thought_dead_learns_that_it_was_replaced():
    scene = Scene()
    writer, begun = write_until(scene, Step.STAGED)
    scene.clock.pass_minutes(EXPIRED_MINUTES)
    clean_up(scene.worker("cleaner"))
    before = state_of(writer)
    with pytest.raises(Fenced):
        work(writer, begun, Step.COMMITTED, "f2")
    with pytest.raises(Fenced):
        begun.heartbeat.require_alive(now_ms=scene.clock())
    assert data_files(scene.kernel.store) == before.data or len(before.data) == 1
    assert state_on_timeline(writer, begun.time) is None


@pytest.mark.req("A-03")
def test_a_live_writer_that_a_single_writers_clean_rolled_back_is_told_to_begin_again():
    scene = Scene()
    writer, begun = write_until(scene, None)
    cleaner = scene.worker("cleaner")
    roll_back_failed_writes(cleaner, policy=FailedWritesPolicy.EAGER, left={})
    with pytest.raises(Fenced, match="do the whole write again"):
        show_groups(writer, begun, ("f2",))
    assert files_of(writer, begun.time) == []


@pytest.mark.req("A-03")
def test_a_write_whose_rollback_was_planned_before_its_data_is_refused_and_removed():
    """Else the rollback would end empty, and then be taken for a foreign one at the commit."""
    scene = Scene()
    writer, begun = write_until(scene, None)
    cleaner = scene.worker("cleaner")
    with transaction(cleaner) as tx:
        rollback = rolling_back.plan_rollback(cleaner, tx, begun.time, (), despite_live=True)
    with pytest.raises(WriteConflict):
        show_groups(writer, begun, ("f2",))
    end = rolling_back.execute_rollback(cleaner, rollback, despite_live=True)
    assert end is RollbackEnd.REMOVED
    assert files_of(writer, begun.time) == []


@pytest.mark.parametrize("policy", [FailedWritesPolicy.LAZY, FailedWritesPolicy.EAGER])
def test_completed_writes_are_never_failed_ones(policy):
    scene = Scene()
    done = ingest(scene.worker("writer"), "f2")
    scene.clock.pass_minutes(60 * 24)
    cleaned = clean_up(scene.worker("cleaner"), policy=policy)
    assert dict(cleaned.rolled_back) == {}
    assert state_on_timeline(scene.worker("judge"), done.time) is State.COMPLETED
    assert len(data_files(scene.kernel.store)) == 2


def test_never_leaves_even_dead_writes_to_a_person():
    scene = Scene()
    begun = ingestion(scene.worker("dead"), Step.PROMOTED)
    scene.clock.pass_minutes(60 * 24)
    done = clean_up(scene.worker("cleaner"), policy=FailedWritesPolicy.NEVER)
    assert dict(done.rolled_back) == {}
    assert state_on_timeline(scene.worker("judge"), begun.time) is State.INFLIGHT
