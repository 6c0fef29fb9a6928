"""Every kind of decision, and what can become of it: a crash, a lost reply, a lost lease, a clock.

Whoever comes next finds the decision in the journal and rolls it forward; or finds nothing, and
then nothing of it may appear. The healers at the end prove that the table goes on.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from lakehand.core.instants import Action
from lakehand.protocol import cancelling
from sim_actors import (
    aborter,
    canceller,
    clean,
    executor,
    ingester,
    plan,
    roller,
    tried,
    worker,
)
from sim_actors_beginnings import HOUR_MS, Beginning, Maker
from sim_calls import FaultBudget
from sim_checkers_all import HEALERS, all_checkers
from sim_registry import scenario
from sim_scenario import Scenario
from sim_scenarios_rfc79_kept import inflight, requested, tried_before
from sim_scenarios_rollbacks import FAILED, FAILED_REMOVABLE

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sim_actors import Act
    from sim_ports import ActorPorts

    Cast = tuple[Beginning, Mapping[str, Callable[[ActorPorts], object]]]


def one_row(maker: Maker) -> None:
    """A table with one row."""
    maker.ingest("before", "f1")


def two_rows(maker: Maker) -> None:
    """A table with two groups."""
    maker.ingest("before", "f1")
    maker.ingest("before-2", "f2")


def cancelled(maker: Maker) -> None:
    """A dead attempt's plan, cancelled."""
    tried_before(Action.CLUSTERING, maker, cancellable=True)
    cancelling.request_cancel(maker.bench(), maker.made.times[0], reason="a test asked for it")


def left_inflight(maker: Maker) -> None:
    """A cancellable plan whose worker is gone."""
    inflight(Action.CLUSTERING, maker, owner="w", cancellable=True)


def plans(ports: ActorPorts) -> Act:
    """Schedule a compaction."""
    bench = worker(ports)
    return tried("plan", "", lambda: f"planned {plan(bench, Action.COMPACTION, 'f1')}")


ONE_ROW = Beginning(one_row)
TWO_ROWS = Beginning(two_rows)
REQUESTED = Beginning(partial(requested, Action.COMPACTION))
CANCELLABLE = Beginning(partial(requested, Action.CLUSTERING, cancellable=True))
CANCELLED = Beginning(cancelled, age_ms=2 * HOUR_MS)
LEFT_INFLIGHT = Beginning(left_inflight)
TRIED = Beginning(partial(tried_before, Action.COMPACTION), age_ms=2 * HOUR_MS)

DECISIONS: Mapping[str, Cast] = {
    "plan": (ONE_ROW, {"p": plans}),
    "claim, prepare and commit": (REQUESTED, {"x": executor(REQUESTED.time)}),
    "claim over a dead attempt": (TRIED, {"x": executor(TRIED.time)}),
    "ingestion": (ONE_ROW, {"i": ingester("f1")}),
    "a commit that cancels": (LEFT_INFLIGHT, {"i": ingester("f1")}),
    "cancel": (CANCELLABLE, {"c": canceller(CANCELLABLE.time)}),
    "abort": (CANCELLED, {"a": aborter(CANCELLED.time)}),
    "rollback of a failed write": (FAILED, {"r": roller(FAILED.time)}),
    "rollback of a removable plan": (FAILED_REMOVABLE, {"r": roller(FAILED_REMOVABLE.time)}),
    "rollback of a kept plan": (TRIED, {"r": roller(TRIED.time)}),
}

MEETINGS: Mapping[str, Cast] = {
    "two writers of one group": (ONE_ROW, {"i": ingester("f1"), "j": ingester("f1")}),
    "two writers of two groups": (TWO_ROWS, {"i": ingester("f1"), "j": ingester("f2")}),
    "a writer and a compaction": (REQUESTED, {"x": executor(REQUESTED.time), "i": ingester("f1")}),
    "a writer and a planner": (ONE_ROW, {"p": plans, "i": ingester("f1")}),
    "a writer and clean": (FAILED, {"i": ingester("f1"), "k": clean}),
}

CRASH = FaultBudget(preemptions=0, crashes=1)
LOST = FaultBudget(preemptions=0, lost=1, unavailable=1, total=1)
SWITCHES = FaultBudget(preemptions=1)
MORE_SWITCHES = FaultBudget(preemptions=2)
LEASE = FaultBudget(preemptions=1, expiries=1)
CLOCK = FaultBudget(preemptions=0, clock_jumps=1)
DEEP = FaultBudget(preemptions=1, crashes=1, pauses=1, lost=1, expiries=1, total=1)

_DAY_MS = 24 * HOUR_MS


def decided(name: str, faults: FaultBudget, *, suffix: str = "") -> Scenario:
    """Return a scenario of one of the tables above."""
    begun, actors = {**DECISIONS, **MEETINGS}[name]
    return Scenario(
        name=f"decision: {name}{suffix}",
        title="One decision after the other, and whatever can become of it.",
        actors=actors,
        build=begun.build,
        checkers=all_checkers(begun, faults, ingesters=("i", "j", "w")),
        faults=faults,
        healers=HEALERS,
        heal_after_ms=_DAY_MS + 3 * HOUR_MS if faults.clock_jumps else 2 * HOUR_MS,
    )


for _name in (*DECISIONS, *MEETINGS):
    scenario(partial(decided, _name, MORE_SWITCHES))
    scenario(partial(decided, _name, DEEP, suffix=" deep"))
