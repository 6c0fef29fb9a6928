"""Scenes of the kernel's tests: a table, a plan on it, and attempts that stopped on their way.

The store's clock is the test's: ``scene.clock``. Every worker is one process; a worker that "died"
is simply not called any more.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from enum import IntEnum, unique
from typing import TYPE_CHECKING

from kernel_faults import (
    CHANGING,
    Call,
    Fault,
    FaultAt,
    Killed,
    StoreClock,
    count_calls,
    on_store,
)
from kernel_states import TableState, state_of
from kernel_tables import Kernel, compaction_request, ingest, show_groups, stage_data, write_out
from lakehand.core.instants import Action
from lakehand.formats.plans import clustering
from lakehand.locks.in_process import InProcessLock
from lakehand.protocol import claiming, committing, planning, writing
from lakehand.protocol.planning import PlanRequest
from lakehand.store.memory import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from lakehand.protocol.claiming import Attempt
    from lakehand.protocol.workbench import Workbench

SERVICES = (Action.COMPACTION, Action.LOG_COMPACTION, Action.CLUSTERING)
REMOVABLE = (Action.LOG_COMPACTION, Action.CLUSTERING)
EXPIRED_MINUTES = 2.1
"""Longer than a heartbeat of the default settings lives (2 x 60 s)."""


@dataclass
class Scene:
    """A table, its clock, and the instant that the test is about."""

    clock: StoreClock = field(default_factory=StoreClock)
    settings: Mapping[str, object] = field(default_factory=dict)
    time: str = ""
    claimer: Workbench | None = None
    attempt: Attempt | None = None

    def __post_init__(self) -> None:
        self.kernel = Kernel(MemoryStore(clock=self.clock), settings=self.settings)
        ingest(self.worker("writer"), "f1")

    def worker(self, name: str, **settings: object) -> Workbench:
        return self.kernel.worker(name, **settings)

    def passer_by(self, name: str) -> Workbench:
        """Return a worker that does not wait for a lock."""
        return self.kernel.worker(name, lock_timeout_s=0.0)


def planned(
    action: Action = Action.COMPACTION, *, settings: Mapping[str, object] | None = None, **flags
) -> Scene:
    """A plan for ``f1``, scheduled by a worker of its own."""
    scene = Scene(settings=settings or {})
    request = service_request(action, "f1", **flags)
    scene.time = planning.schedule(scene.worker("scheduler"), request)
    return scene


def service_request(action: Action, *groups: str, **flags) -> PlanRequest:
    """A plan of a table service, in Hudi's own document."""
    if action is not Action.CLUSTERING:
        return compaction_request(*groups, action=action, **flags)

    def content(extra: Mapping[str, str]) -> bytes:
        slices = tuple(
            clustering.ClusteringSlice(file_id=one, partition_path="p") for one in groups
        )
        return clustering.encode(
            clustering.RequestedReplace(
                operation_type="CLUSTER",
                extra_metadata=dict(extra),
                clustering_plan=clustering.ClusteringPlan(
                    input_groups=(clustering.ClusteringGroup(slices=slices),)
                ),
            )
        )

    return PlanRequest(
        action=action, content=content, groups=tuple(("p", one) for one in groups), **flags
    )


@unique
class Step(IntEnum):
    """How far an attempt came."""

    CLAIMED = 1
    STAGED = 2
    PREPARED = 3
    PROMOTED = 4
    COMMITTED = 5


def work(bench: Workbench, attempt: Attempt, until: Step, group: str = "f1") -> Attempt:
    """Go on with an attempt that was just claimed, up to a step."""
    if until is Step.COMMITTED:
        write_out(bench, attempt, (group,))
        return attempt
    if until >= Step.STAGED:
        file = stage_data(bench, attempt, group)
    if until >= Step.PREPARED:
        manifest = committing.prepare(bench, attempt, (file,))
    if until >= Step.PROMOTED:
        committing.promote_outputs(bench, attempt, manifest)
    return attempt


def attempt(bench: Workbench, time: str, until: Step) -> Attempt:
    """Claim a plan and work on it up to a step."""
    claimed = claiming.claim(bench, time)
    assert isinstance(claimed, claiming.Attempt)
    return work(bench, claimed, until)


def begin_ingestion(bench: Workbench) -> Attempt:
    """Request an ingestion write."""
    begun = writing.begin_write(bench, PlanRequest(action=Action.DELTA_COMMIT))
    assert isinstance(begun, claiming.Attempt)
    return begun


def ingestion(bench: Workbench, until: Step, group: str = "f2") -> Attempt:
    """An ingestion write up to a step."""
    begun = begin_ingestion(bench)
    show_groups(bench, begun, (group,))
    return work(bench, begun, until, group)


def assert_any_crash_is_mended(
    make: Callable[[], Scene],
    act: Callable[[Workbench, Scene], object],
    mend: Callable[[Scene], object],
) -> int:
    """Kill ``act`` at any of its store calls; after ``mend`` all must be as without a crash.

    Returns how many crashes were tried.
    """
    scene = make()
    calls = count_calls(scene.worker("first"), lambda bench: act(bench, scene))
    scene.clock.pass_minutes(EXPIRED_MINUTES)
    mend(scene)
    expected = state_of(scene.worker("judge"))
    tried = 0
    for number, fault in crashes(calls):
        found, hit = _after_crash(make, act, mend, FaultAt(number, fault))
        assert str(hit.hit) == str(calls[number - 1])
        assert found == expected, f"{fault.value}: {number} {hit.hit}"
        tried += 1
    return tried


def crashes(calls: Sequence[Call]) -> list[tuple[int, Fault]]:
    """Return every crash that leaves a different storage behind.

    A kill after a call is one before the next, and reads change nothing: so one before each call
    that changes something, and one after the last of them.
    """
    changing = [call.number for call in calls if call.method in CHANGING]
    before = [(number, Fault.KILL_BEFORE) for number in changing]
    return [*before, (changing[-1], Fault.KILL_AFTER)]


def _after_crash(make, act, mend, fault: FaultAt) -> tuple[TableState, FaultAt]:
    scene = make()
    with suppress(Killed):
        act(on_store(scene.worker("first"), fault), scene)
    scene.clock.pass_minutes(EXPIRED_MINUTES)
    mend(scene)
    return state_of(scene.worker("judge")), fault


def die_after(method: str, bench: Workbench, act: Callable[[Workbench], object]) -> None:
    """Kill a worker right after its first call of a method."""

    def tap(call, run):
        result = run()
        if call.method == method:
            raise Killed
        return result

    with suppress(Killed):
        act(on_store(bench, tap))
        raise AssertionError(f"{method} was never called")


@dataclass
class WatchedLock:
    """An in-process lock that notes in ``events`` when it is taken and given back."""

    key: str
    events: list[object]

    def __post_init__(self) -> None:
        self._inner = InProcessLock(self.key)
        self.name = self._inner.name
        self.excludes_foreign = self._inner.excludes_foreign

    def acquire(self, owner: str, *, timeout_s: float):
        held = self._inner.acquire(owner, timeout_s=timeout_s)
        self.events.append("lock")
        return _WatchedHold(held, self.events)

    def holder(self):
        return self._inner.holder()


@dataclass
class _WatchedHold:
    held: object
    events: list[object]

    @property
    def token(self) -> str:
        return self.held.token

    def left_s(self) -> float:
        return self.held.left_s()

    def release(self) -> None:
        self.events.append("unlock")
        self.held.release()
