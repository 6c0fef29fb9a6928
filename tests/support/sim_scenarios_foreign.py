"""Our workers beside one like Apache Hudi's; and which promises weaken there, in one table."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from lakehand.core.instants import Action, Instant, State
from lakehand.protocol.timeline_loader import instant_path
from sim_actors import canceller, clean, executor, ingester
from sim_actors_beginnings import Beginning, Maker
from sim_actors_data import config
from sim_calls import FaultBudget
from sim_checkers_all import PATIENT_HEALERS, all_checkers
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


def begun_by_java(maker: Maker) -> None:
    """A compaction plan of ours that Java has begun to execute."""
    requested(Action.COMPACTION, maker)
    instant = Instant(maker.made.times[0], Action.COMPACTION, State.INFLIGHT)
    maker.bench().store.put(instant_path(config(), instant), b"")


COMPACTION = Beginning(partial(requested, Action.COMPACTION))
BEGUN_BY_JAVA = Beginning(begun_by_java)
CLUSTERING = Beginning(partial(requested, Action.CLUSTERING))
CANCELLABLE = Beginning(partial(requested, Action.CLUSTERING, cancellable=True))
OLD_ROWS = Beginning(old_rows)

java_writes = partial(foreign_ingest, group="f1", row=JAVA)

CASTS: Mapping[str, Cast] = {
    "java writes, we write the same group": (
        COMPACTION,
        {JAVA: java_writes, "i": ingester("f1")},
    ),
    "java writes, we compact": (COMPACTION, {JAVA: java_writes, "x": executor(COMPACTION.time)}),
    "java writes, we cluster": (CLUSTERING, {JAVA: java_writes, "x": executor(CLUSTERING.time)}),
    "java goes before clustering, we cluster": (
        CANCELLABLE,
        {JAVA: partial(java_writes, prefers_writers=True), "x": executor(CANCELLABLE.time)},
    ),
    "java writes, we clean": (FAILED, {JAVA: java_writes, "k": clean}),
    "java writes, we cancel and execute": (
        CANCELLABLE,
        {
            JAVA: java_writes,
            "c": canceller(CANCELLABLE.time),
            "x": executor(CANCELLABLE.time),
        },
    ),
    "java cleans, we write": (FAILED, {JAVA: foreign_clean, "i": ingester("f1")}),
    "java cleans, we clean": (FAILED, {JAVA: foreign_clean, "k": clean}),
    "java archives, we write": (TWO_ROWS, {JAVA: foreign_archive, "i": ingester("f1")}),
    "java archives, we compact": (OLD_ROWS, {JAVA: foreign_archive, "x": executor(OLD_ROWS.time)}),
    "java has begun our plan, we would too": (
        BEGUN_BY_JAVA,
        {
            JAVA: partial(foreign_compaction, BEGUN_BY_JAVA.time, group="f1"),
            "x": executor(BEGUN_BY_JAVA.time),
        },
    ),
}

SWITCHES = FaultBudget(preemptions=1)
CRASH = FaultBudget(preemptions=0, crashes=1)
DEEP = FaultBudget(preemptions=1, crashes=1)
SLEEP = FaultBudget(preemptions=0, pauses=1)
TWO_HOLDERS = FaultBudget(preemptions=1, expiries=1)

ENDS_ONCE = "an instant ends once"
NO_STRAYS = "readers find only what commits name"
SNAPSHOT = "a snapshot is what was acknowledged"
ONE_ATTEMPT = "one attempt at a time"

WEAKENED: Mapping[str, tuple[str, FaultBudget, frozenset[str]]] = {
    "the lock is held by two, and both draw the same time": (
        "java writes, we write the same group",
        TWO_HOLDERS,
        frozenset({NO_STRAYS, SNAPSHOT}),
    ),
    "the lock is held by two, and Java commits between our listing and our publishing": (
        "java goes before clustering, we cluster",
        TWO_HOLDERS,
        frozenset({SNAPSHOT}),
    ),
    "Java executes a plan of ours": (
        "java executes our plan",
        SWITCHES,
        frozenset({ENDS_ONCE, NO_STRAYS, SNAPSHOT, ONE_ATTEMPT}),
    ),
    "Java slept over a rollback of its own, and we executed it": (
        "java cleans, we clean",
        SLEEP,
        frozenset({ENDS_ONCE}),
    ),
}
"""Where promises weaken beside a foreign writer: how to get there, and the checkers that fail."""


def situation(name: str, faults: FaultBudget) -> Scenario:
    """Return a scenario of this module by its name."""
    return beside(name, faults) if name in CASTS else executes_ours(faults)


def beside(name: str, faults: FaultBudget, *, suffix: str = "") -> Scenario:
    """Return a scenario in which all promises hold as long as the lock has one holder."""
    begun, actors = CASTS[name]
    return Scenario(
        name=f"{name}{suffix}",
        title="A writer that knows no journal shares the table and its lock.",
        actors=actors,
        build=begun.build,
        checkers=all_checkers(
            begun,
            faults,
            ingesters=("i", "w", JAVA),
            foreign=(JAVA,),
            healers=tuple(PATIENT_HEALERS),
        ),
        faults=faults,
        healers=PATIENT_HEALERS,
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
        checkers=all_checkers(COMPACTION, faults, foreign=(JAVA,), healers=tuple(PATIENT_HEALERS)),
        faults=faults,
        healers=PATIENT_HEALERS,
    )


def what_holds(weakness: str) -> Scenario:
    """Return the scenario of a weakness, asked only for the promises that still hold there."""
    name, faults, weakened = WEAKENED[weakness]
    full = situation(name, faults)
    return replace(full, checkers=[one for one in full.checkers if one().name not in weakened])


scenario(partial(what_holds, "Java executes a plan of ours"))
for _name in CASTS:
    scenario(partial(situation, _name, SWITCHES))
    scenario(partial(beside, _name, DEEP, suffix=" deep"))
