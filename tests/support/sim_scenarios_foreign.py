"""Our workers beside one like Apache Hudi's; and which promises weaken there, in one table."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from lakehand.core.instants import Action
from sim_actors import clean, executor, ingester
from sim_actors_beginnings import Beginning, Maker
from sim_calls import FaultBudget
from sim_checkers_all import HEALERS, all_checkers
from sim_foreign import foreign_archive, foreign_clean, foreign_compaction, foreign_ingest
from sim_registry import scenario
from sim_scenario import Scenario
from sim_scenarios_decisions import TWO_ROWS
from sim_scenarios_rfc79_kept import requested
from sim_scenarios_rollbacks import FAILED

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sim_ports import ActorPorts

    Cast = tuple[Beginning, Mapping[str, Callable[[ActorPorts], object]]]

JAVA = "java"


def old_rows(maker: Maker) -> None:
    """Three writes, and a plan."""
    maker.ingest("before", "f1")
    maker.ingest("before-2", "f2")
    requested(Action.COMPACTION, maker)


COMPACTION = Beginning(partial(requested, Action.COMPACTION))
CLUSTERING = Beginning(partial(requested, Action.CLUSTERING))
OLD_ROWS = Beginning(old_rows)

java_writes = partial(foreign_ingest, group="f1", row=JAVA)

CASTS: Mapping[str, Cast] = {
    "java writes, we write the same group": (
        COMPACTION,
        {JAVA: java_writes, "i": ingester("f1")},
    ),
    "java writes, we compact": (COMPACTION, {JAVA: java_writes, "x": executor(COMPACTION.time)}),
    "java writes, we cluster": (CLUSTERING, {JAVA: java_writes, "x": executor(CLUSTERING.time)}),
    "java writes, we clean": (FAILED, {JAVA: java_writes, "k": clean}),
    "java cleans, we write": (FAILED, {JAVA: foreign_clean, "i": ingester("f1")}),
    "java cleans, we clean": (FAILED, {JAVA: foreign_clean, "k": clean}),
    "java archives, we write": (TWO_ROWS, {JAVA: foreign_archive, "i": ingester("f1")}),
    "java archives, we compact": (OLD_ROWS, {JAVA: foreign_archive, "x": executor(OLD_ROWS.time)}),
}

SWITCHES = FaultBudget(preemptions=1)
CRASH = FaultBudget(preemptions=0, crashes=1)
DEEP = FaultBudget(preemptions=1, crashes=1)
TWO_HOLDERS = FaultBudget(preemptions=1, expiries=1)

WEAKENED: Mapping[str, tuple[str, frozenset[str]]] = {
    "java writes, we cluster": (
        "the lock is held by two",
        frozenset({"a snapshot is what was acknowledged"}),
    ),
    "java executes our plan": (
        "Java executes a plan of ours",
        frozenset({"an instant ends once"}),
    ),
}
"""Where a promise weakens beside a foreign writer: the reason, and the checkers that may fail."""


def beside(name: str, faults: FaultBudget, *, suffix: str = "") -> Scenario:
    """Return a scenario in which all promises hold as long as the lock has one holder."""
    begun, actors = CASTS[name]
    return Scenario(
        name=f"{name}{suffix}",
        title="A writer that knows no journal shares the table and its lock.",
        actors=actors,
        build=begun.build,
        checkers=all_checkers(begun, faults, ingesters=("i", "w", JAVA), foreign=(JAVA,)),
        faults=faults,
        healers=HEALERS,
    )


def executes_ours(faults: FaultBudget) -> Scenario:
    """Java executes our compaction plan while we do."""
    return Scenario(
        name="java executes our plan",
        title="A table whose compaction is ours, and Java's inline compaction was left on.",
        actors={
            "x": executor(COMPACTION.time),
            JAVA: partial(foreign_compaction, COMPACTION.time, group="f1"),
        },
        build=COMPACTION.build,
        checkers=all_checkers(COMPACTION, faults, foreign=(JAVA,)),
        faults=faults,
        healers=HEALERS,
    )


for _name in CASTS:
    scenario(partial(beside, _name, SWITCHES))
    scenario(partial(beside, _name, DEEP, suffix=" deep"))
