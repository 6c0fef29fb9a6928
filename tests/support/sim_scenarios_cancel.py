"""Cancellation against everything: execution, ingestion, clean, retry, and itself half-way."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from lakehand.core.instants import Action
from lakehand.protocol import cancelling
from sim_actors import aborter, canceller, clean, executor, ingester
from sim_actors_beginnings import HOUR_MS, Beginning, Maker
from sim_calls import FaultBudget
from sim_checkers_all import HEALERS, all_checkers
from sim_checkers_rules import CancellationsStayOver
from sim_registry import scenario
from sim_scenario import Scenario
from sim_scenarios_rfc79_kept import goes_on, inflight, requested, tried_before

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sim_ports import ActorPorts


def half_cancelled(maker: Maker) -> None:
    """A dead attempt's plan was cancelled; whoever was to abort it died after its claim."""
    tried_before(Action.CLUSTERING, maker, cancellable=True)
    time = maker.made.times[0]
    cancelling.request_cancel(maker.bench(), time, reason="a test asked for it")
    view_of_claim(maker, time)
    maker.later(HOUR_MS)


def view_of_claim(maker: Maker, time: str) -> None:
    """Claim the abort of a plan as ``execute_cancel`` does, and go no further."""

    def dies(*_: object, **__: object) -> None:
        raise _DiedError

    find, cancelling.leftovers.find = cancelling.leftovers.find, dies
    try:
        cancelling.execute_cancel(maker.bench("dead"), time)
    except _DiedError:
        pass
    finally:
        cancelling.leftovers.find = find


class _DiedError(Exception):
    pass


REQUESTED = Beginning(partial(requested, Action.CLUSTERING, cancellable=True))
INFLIGHT = Beginning(partial(inflight, Action.CLUSTERING, cancellable=True))
TRIED = Beginning(partial(tried_before, Action.CLUSTERING, cancellable=True), age_ms=2 * HOUR_MS)
HALF = Beginning(half_cancelled, age_ms=3 * HOUR_MS)

SWITCHES = FaultBudget(preemptions=1)
MORE_SWITCHES = FaultBudget(preemptions=2)
CRASH = FaultBudget(preemptions=0, crashes=1)
TROUBLE = FaultBudget(preemptions=0, crashes=1, pauses=1, total=1)
DEEP = FaultBudget(preemptions=1, crashes=1, pauses=1, total=1)


def _execute(begun: Beginning) -> Callable[[ActorPorts], object]:
    return executor(begun.time)


CASTS: Mapping[str, tuple[Beginning, Mapping[str, Callable[[ActorPorts], object]]]] = {
    "cancel against execute": (
        REQUESTED,
        {"c": canceller(REQUESTED.time), "x": _execute(REQUESTED)},
    ),
    "cancel against commit": (
        INFLIGHT,
        {"x": partial(goes_on, INFLIGHT), "c": canceller(INFLIGHT.time)},
    ),
    "cancel, execute, clean": (
        TRIED,
        {"c": canceller(TRIED.time), "x": _execute(TRIED), "k": clean},
    ),
    "cancel, retry, abort": (
        TRIED,
        {"c": canceller(TRIED.time), "x": _execute(TRIED), "a": aborter(TRIED.time)},
    ),
    "half cancelled: retry, clean, abort": (
        HALF,
        {"x": _execute(HALF), "k": clean, "a": aborter(HALF.time)},
    ),
    "ingestion cancels by its commit": (
        INFLIGHT,
        {"x": partial(goes_on, INFLIGHT), "i": ingester("f1")},
    ),
    "ingestion, cancel and execute": (
        REQUESTED,
        {"x": _execute(REQUESTED), "i": ingester("f1"), "c": canceller(REQUESTED.time)},
    ),
    "ingestion cancels, clean aborts": (
        TRIED,
        {"i": ingester("f1"), "k": clean, "x": _execute(TRIED)},
    ),
}


def cast(name: str, faults: FaultBudget, *, suffix: str = "") -> Scenario:
    """Return a scenario of the table above."""
    begun, actors = CASTS[name]
    return Scenario(
        name=f"{name}{suffix}",
        title="A cancellable plan ends committed or aborted, whoever meets on the way.",
        actors=actors,
        build=begun.build,
        checkers=[*all_checkers(begun, faults, ingesters=("i",)), CancellationsStayOver],
        faults=faults,
        healers=HEALERS,
        successors=begun is not INFLIGHT,
    )


for _name in CASTS:
    scenario(partial(cast, _name, MORE_SWITCHES))
    scenario(partial(cast, _name, DEEP, suffix=" deep"))
