"""Scenarios without which some guards of the protocol look needless.

Apache Hudi decides which writes have failed before it takes the lock, and looks only once more
whether they completed meanwhile. A worker may come with another lock than the others'. A foreign
writer may have taken the name that a plan of ours was to get.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import kernel_tables
from lakehand.core.instants import Action, Instant, State
from lakehand.errors import LakehandError
from lakehand.protocol import writing
from lakehand.protocol.planning import PlanRequest
from lakehand.protocol.timeline_loader import instant_path
from sim_actors import (
    Act,
    config,
    executor,
    finish_ingestion,
    ingester,
    plan,
    plan_document,
    tried,
    worker,
)
from sim_actors_beginnings import Beginning, Maker
from sim_calls import FaultBudget
from sim_checkers_all import HEALERS, all_checkers
from sim_checkers_rules import TheLiveAreLeftAlone
from sim_foreign import Java, _execute_rollback, _failed, _plan_rollback, foreign_ingest
from sim_registry import scenario
from sim_scenario import Scenario

if TYPE_CHECKING:
    from collections.abc import Callable

    from sim_ports import ActorPorts
    from sim_scenario import Checker
    from sim_world import World

JAVA = "java"


def one_row(maker: Maker) -> None:
    maker.ingest("before", "f1")


ONE_ROW = Beginning(one_row)


def early_clean(ports: ActorPorts) -> tuple[str, ...]:
    """Roll back what had failed when we looked, before the lock, as Hudi's lazy clean does."""
    java = Java(ports)
    failed = tuple(_failed(java))
    pending = {one.time for one in java.timeline().pending}
    held = java.lock()
    try:
        planned = [_plan_rollback(java, one) for one in failed if one.time in pending]
    finally:
        held.release()
    for target, time in planned:
        _unpublish(java, target)
        _execute_rollback(java, target, time)
    return tuple(target.time for target, _ in planned)


def _unpublish(java: Java, target: Instant) -> None:
    """Delete the completed file of a target that completed after all."""
    for instant in java.timeline().completed:
        if instant.time == target.time:
            java.drop(instant)


def slow_ingest(ports: ActorPorts) -> Act:
    """Write a row; between its two halves the heartbeat may miss all its beats."""
    bench = worker(ports)
    attempt = writing.begin_write(bench, PlanRequest(action=Action.DELTA_COMMIT))

    def write() -> str:
        try:
            kernel_tables.show_groups(bench, attempt, ("f1",))
            ports.clock.sleep(2 * bench.settings.heartbeat_tolerance_ms / 1000)
            attempt.heartbeat.beat()
            finish_ingestion(bench, attempt, ports.name)
        except LakehandError:
            attempt.heartbeat.remove()
            raise
        return "completed"

    return tried("ingest", attempt.time, write, (ports.name,))


def early(
    name: str, writer: Callable[[ActorPorts], object], *checkers: Callable[[], Checker]
) -> Scenario:
    faults = FaultBudget(preemptions=3)
    return Scenario(
        name=name,
        title="Java's clean lists failed writes before it takes the lock, and acts on that.",
        actors={JAVA: early_clean, "i": writer},
        build=ONE_ROW.build,
        checkers=[
            *all_checkers(ONE_ROW, faults, ingesters=("i",), foreign=(JAVA,), sane=False),
            *checkers,
        ],
        faults=faults,
        healers=HEALERS,
        heal_steps=5_000,  # a slow writer that goes on beating takes its time
        max_steps=5_000,
        late_trouble=False,
    )


scenario(
    partial(
        early,
        "java decides before the lock, we write",
        ingester("f1"),
        partial(TheLiveAreLeftAlone, "i"),
    )
)
scenario(partial(early, "java decides before the lock, we are slow", slow_ingest))


def under_another_lock(ports: ActorPorts) -> object:
    """Ingest with a lock that nobody else has."""
    return ingester("f1")(ports.with_lock("elsewhere", provider="other"))


@scenario
def two_locks() -> Scenario:
    faults = FaultBudget(preemptions=3)
    return Scenario(
        name="a worker with another lock",
        title="Java and a worker of ours write one group; the worker comes with another lock.",
        actors={JAVA: partial(foreign_ingest, group="f1", row=JAVA), "i": under_another_lock},
        build=ONE_ROW.build,
        checkers=all_checkers(ONE_ROW, faults, ingesters=("i", JAVA), foreign=(JAVA,)),
        faults=faults,
        healers=HEALERS,
        late_trouble=False,
    )


THEIRS = plan_document(Action.COMPACTION, {"f1": ()}, {"by": JAVA})
NEXT = "20260101000000002"
"""What our planner draws first, after the two times of the row that is there."""


def take_the_name(ports: ActorPorts) -> None:
    """Create a requested file under the time that our planner draws, without the lock."""
    instant = Instant(NEXT, Action.COMPACTION, State.REQUESTED)
    ports.store.put_new(instant_path(config(), instant), THEIRS)


class OnlyOwnPlansRun:
    """No attempt of ours works on a plan that is not the one that was decided."""

    name = "only own plans run"

    def after_step(self, world: World) -> str | None:
        instant = Instant(NEXT, Action.COMPACTION, State.REQUESTED)
        theirs = world.content(instant_path(config(), instant)) == THEIRS
        if theirs and world.paths(f".hoodie/.temp/{NEXT}/p"):
            return f"an attempt at {NEXT} has begun, whose plan is a foreign file"
        return None

    def at_end(self, _world: World) -> str | None:
        return None


def plan_and_execute(ports: ActorPorts) -> object:
    time = plan(worker(ports), Action.COMPACTION, "f1")
    return executor(lambda: time)(ports)


@scenario
def taken_name() -> Scenario:
    return Scenario(
        name="a foreign file has our plan's name",
        title="A foreign writer takes the name that our plan was to get.",
        actors={JAVA: take_the_name, "p": plan_and_execute},
        build=ONE_ROW.build,
        checkers=[OnlyOwnPlansRun],
        faults=FaultBudget(preemptions=2),
    )
