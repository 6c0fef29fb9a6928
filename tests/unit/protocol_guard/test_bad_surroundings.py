"""Clocks that lie, locks that slip away, a table that changes under us: nothing unsafe."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest

from kernel_scenes import SERVICES, Scene, Step, attempt, ingestion, planned, service_request, work
from kernel_states import everything, files_of, state_on_timeline, timeline
from kernel_tables import Kernel, ingest
from lakehand.core.instants import Action, State, format_instant_time
from lakehand.core.table_kinds import TableVersion
from lakehand.errors import ClockAhead, Invalid, LockLost, PlanBusy, WrongLockProvider
from lakehand.locks.in_process import InProcessLock
from lakehand.locks.storage import storage_lock
from lakehand.protocol import (
    cancelling,
    claiming,
    committing,
    planning,
    rolling_back,
    table_properties,
)
from lakehand.protocol.failed_writes import clean_up
from lakehand.store.memory import MemoryStore

DAY = 24 * 60 * 60 * 1000
REQUEST = service_request(Action.CLUSTERING, "f2")


# -- clocks ---------------------------------------------------------------------------------------


def test_a_clock_that_was_set_back_a_day_refuses_new_times_and_says_so():
    scene = planned()
    scene.clock.now_ms -= DAY
    before = everything(scene.kernel.store)
    for act in (
        lambda: planning.schedule(scene.worker("w"), REQUEST),
        lambda: ingest(scene.worker("w"), "f2"),
    ):
        with pytest.raises(ClockAhead, match=r"86400 s ahead.*Set the clock right") as refused:
            act()
        assert "max_clock_skew_s" in str(refused.value)
    assert everything(scene.kernel.store) == before


@pytest.mark.parametrize("removable", [False, True])
@pytest.mark.parametrize("action", SERVICES[1:])
def test_a_clock_that_was_set_back_a_day_kills_nobody(action, removable):
    """A heartbeat from the future is live: nobody rolls its attempt back, or joins it."""
    settings = {"rollback_delay_minutes": 0.0}
    scene = planned(action, removable=removable, settings=settings)
    worker = scene.worker("executor")
    begun = attempt(worker, scene.time, Step.PREPARED)
    scene.clock.now_ms -= DAY
    with pytest.raises(PlanBusy):
        claiming.claim(scene.worker("other"), scene.time)
    with pytest.raises(PlanBusy):
        rolling_back.schedule_rollback(scene.worker("other"), scene.time)
    assert dict(clean_up(scene.worker("cleaner")).rolled_back) == {}
    assert state_on_timeline(worker, scene.time) is State.INFLIGHT
    scene.clock.now_ms += DAY
    assert work(worker, begun, Step.COMMITTED)


def test_a_commit_does_not_draw_a_completion_time_from_a_clock_that_was_set_back():
    scene = Scene()
    worker = scene.worker("writer")
    begun = ingestion(worker, Step.PROMOTED)
    scene.clock.now_ms -= DAY
    with pytest.raises(ClockAhead):
        committing.commit(worker, begun, lambda _: b"")
    assert state_on_timeline(worker, begun.time) is State.INFLIGHT


@pytest.mark.parametrize(("ahead_s", "is_refused"), [(59.0, False), (59.9, False), (61.0, True)])
def test_the_timelines_last_time_may_lie_ahead_as_far_as_the_allowed_skew(ahead_s, is_refused):
    scene = planned()
    scene.clock.pass_seconds(-ahead_s)
    if is_refused:
        with pytest.raises(ClockAhead):
            planning.schedule(scene.worker("w"), REQUEST)
    else:
        assert planning.schedule(scene.worker("w"), REQUEST) > scene.time
    patient = scene.worker("patient", max_clock_skew_s=3600.0)
    other = service_request(Action.CLUSTERING, "f3")
    assert planning.schedule(patient, other) > scene.time


def test_a_foreign_file_from_the_future_counts_too():
    scene = Scene()
    future = format_instant_time(scene.clock() + DAY)
    scene.kernel.store.put(f".hoodie/timeline/{future}.deltacommit.requested", b"")
    with pytest.raises(ClockAhead, match=future):
        planning.schedule(scene.worker("w"), REQUEST)


def test_times_grow_strictly_while_the_clock_stands_still_or_goes_back_a_little():
    scene = Scene()
    drawn = []
    for step in (0, 0, -5, 0, -20, 3, 0):
        scene.clock.pass_seconds(step)
        request = service_request(Action.CLUSTERING, f"f{len(drawn)}")
        drawn.append(planning.schedule(scene.worker("w"), request))
        done = ingest(scene.worker("x"), f"g{len(drawn)}")
        drawn += [done.time, done.completion_time]
    assert drawn == sorted(set(drawn))


# -- locks ----------------------------------------------------------------------------------------


@dataclass
class ShortLock:
    """An in-process lock whose lease has so many seconds left, each time somebody asks."""

    left: list[float]
    inner: InProcessLock = field(default_factory=lambda: InProcessLock("short"))
    name: str = "in-process"
    excludes_foreign: bool = False

    def acquire(self, owner: str, *, timeout_s: float):
        return _ShortHold(self.inner.acquire(owner, timeout_s=timeout_s), self.left)


@dataclass
class _ShortHold:
    held: object
    left: list[float]

    @property
    def token(self) -> str:
        return self.held.token

    def left_s(self) -> float:
        return self.left.pop(0) if len(self.left) > 1 else self.left[0]

    def release(self) -> None:
        self.held.release()


def with_lock(scene: Scene, lock, **settings):
    return replace(scene.worker("short", **settings), locks=lock, documents={})


RECIPES = {
    "schedule": lambda w, s: planning.schedule(w, REQUEST),
    "begin write": lambda w, s: ingestion(w, Step.CLAIMED),
    "claim": lambda w, s: claiming.claim(w, s.time),
    "request cancel": lambda w, s: cancelling.request_cancel(w, s.time, reason="test"),
    "schedule rollback": lambda w, s: rolling_back.schedule_rollback(w, s.time),
}


@pytest.mark.parametrize("left_s", [0.0, 1.0, 1.999])
@pytest.mark.parametrize("recipe", RECIPES)
def test_with_too_little_left_of_the_lease_nothing_is_appended(recipe, left_s):
    scene = planned(cancellable=True)
    before = everything(scene.kernel.store)
    with pytest.raises(LockLost, match="nothing was decided"):
        RECIPES[recipe](with_lock(scene, ShortLock([left_s])), scene)
    assert everything(scene.kernel.store) == before
    assert scene.kernel.store._staged == {}
    with_lock(scene, ShortLock([2.0])).locks.acquire("next", timeout_s=0).release()


@pytest.mark.parametrize("recipe", RECIPES)
def test_with_enough_left_it_is_decided(recipe):
    scene = planned(cancellable=True)
    RECIPES[recipe](with_lock(scene, ShortLock([2.0])), scene)


def test_the_margin_is_a_setting():
    scene = planned()
    with pytest.raises(LockLost):
        planning.schedule(with_lock(scene, ShortLock([9.9]), lock_margin_s=10.0), REQUEST)
    assert planning.schedule(with_lock(scene, ShortLock([0.6]), lock_margin_s=0.5), REQUEST)


@pytest.mark.parametrize("recipe", RECIPES)
def test_another_kind_of_lock_than_the_tables_is_refused(recipe):
    scene = planned(cancellable=True)
    before = everything(scene.kernel.store)
    stranger = with_lock(scene, storage_lock(MemoryStore()))
    with pytest.raises(WrongLockProvider, match="use the in-process lock, this one the storage"):
        RECIPES[recipe](stranger, scene)
    assert everything(scene.kernel.store) == before


def test_a_lock_that_hudi_does_not_know_is_refused_where_hudi_writes_too():
    with pytest.raises(Invalid, match="does not exclude Apache Hudi's writers"):
        Kernel(MemoryStore()).worker("w", foreign_writers=True)


# -- the table itself -----------------------------------------------------------------------------


@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.parametrize("version", ["8", "6"])
def test_a_table_that_was_upgraded_or_downgraded_under_us_is_left_alone(recipe, version):
    scene = planned(cancellable=True)
    worker = scene.worker("w")
    planning.schedule(worker, service_request(Action.LOG_COMPACTION, "f9"))
    table_properties.update(
        scene.kernel.store,
        lambda now: {
            **now,
            "hoodie.table.version": version,
            "hoodie.timeline.layout.version": "2" if version == "8" else "1",
        },
    )
    before = everything(scene.kernel.store)
    with pytest.raises(Invalid, match="version 9 and is version"):
        RECIPES[recipe](worker, scene)
    assert everything(scene.kernel.store) == before
    assert state_on_timeline(worker, scene.time) is State.REQUESTED
    assert files_of(worker, scene.time) == [f"{scene.time}.compaction.requested"]


def test_tables_of_every_version_work():
    for version in (TableVersion.SIX, TableVersion.EIGHT, TableVersion.NINE):
        kernel = Kernel(MemoryStore(), version=version)
        ingest(kernel.worker("w"), "f1")
        assert len(timeline(kernel.worker("w")).completed_writes) == 1
