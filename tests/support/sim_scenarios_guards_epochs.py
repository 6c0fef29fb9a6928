"""Scenarios without which guards among our own workers look needless.

A first beat that comes late, a rollback whose target was cancelled, an abort that was taken over,
a write that went on although it had been rolled back.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import kernel_tables
from lakehand.core.instants import Action
from lakehand.errors import LakehandError
from lakehand.protocol import claiming, failed_writes, writing
from lakehand.protocol.failed_writes import FailedWritesPolicy
from lakehand.protocol.planning import PlanRequest
from sim_actors import (
    aborter,
    canceller,
    executor,
    finish_ingestion,
    resumed,
    roller,
    run_attempt,
    tried,
    worker,
)
from sim_actors_beginnings import HOUR_MS, Beginning, Maker
from sim_calls import FaultBudget
from sim_checkers_all import HEALERS, all_checkers
from sim_checkers_rules import (
    OnlyTheLastClaimDecides,
    TheDeadHoldNobodyUp,
    TheLiveAreLeftAlone,
)
from sim_registry import scenario
from sim_scenario import Scenario
from sim_scenarios_decisions import CANCELLED
from sim_scenarios_rfc79_kept import inflight, tried_before

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sim_actors import Act
    from sim_ports import ActorPorts
    from sim_scenario import Checker

    Cast = tuple[Beginning, Mapping[str, Callable[[ActorPorts], object]]]

SWITCH = FaultBudget(preemptions=1)
SWITCHES = FaultBudget(preemptions=2)
SLEEP = FaultBudget(preemptions=1, pauses=1)


def not_beaten_yet(maker: Maker) -> None:
    """An attempt was claimed, and fell asleep before its first beat."""
    inflight(Action.COMPACTION, maker, owner="x")
    maker.made.attempts[0].heartbeat.remove()
    maker.later(HOUR_MS)


def given_up_since(maker: Maker) -> None:
    """The same; then another attempt was claimed, and given up."""
    not_beaten_yet(maker)
    attempt = claiming.claim(maker.bench("w"), maker.made.times[0])
    assert isinstance(attempt, claiming.Attempt)
    attempt.heartbeat.remove()


def beats_late(begun: Beginning, ports: ActorPorts) -> Act:
    """Wake up before the first beat, as one who found no heartbeat, and go on."""
    bench = worker(ports)
    attempt = resumed(bench, begun.made.attempts[0])
    attempt.heartbeat.expect(None)

    def run() -> str:
        attempt.heartbeat.begin(attempt.epoch)
        return run_attempt(bench, attempt)

    return tried("execute", attempt.time, run)


def write_requested(maker: Maker) -> None:
    """An ingestion write of ``i`` that has been requested just now."""
    maker.ingest("before", "f1")
    request = PlanRequest(action=Action.DELTA_COMMIT)
    attempt = writing.begin_write(maker.bench("i"), request)
    assert isinstance(attempt, claiming.Attempt)
    maker.made.attempts.append(attempt)


def goes_on_writing(begun: Beginning, ports: ActorPorts) -> Act:
    """Show the groups of the write that is requested when the scenario begins, and commit it."""
    bench = worker(ports)
    attempt = resumed(bench, begun.made.attempts[0])

    def write() -> str:
        try:
            kernel_tables.show_groups(bench, attempt, ("f1",))
            finish_ingestion(bench, attempt, ports.name)
        except LakehandError:
            attempt.heartbeat.remove()
            raise
        return "completed"

    return tried("ingest", attempt.time, write, (ports.name,))


def eager_clean(ports: ActorPorts) -> None:
    """Clean as a table's only writer does, who knows that its predecessor is gone."""
    failed_writes.clean_up(worker(ports), policy=FailedWritesPolicy.EAGER)


NOT_BEATEN = Beginning(not_beaten_yet, age_ms=HOUR_MS)
WRITE_REQUESTED = Beginning(write_requested)
GIVEN_UP = Beginning(given_up_since, age_ms=HOUR_MS)
TRIED = Beginning(partial(tried_before, Action.CLUSTERING, cancellable=True), age_ms=2 * HOUR_MS)

CASTS: Mapping[str, tuple[Cast, FaultBudget, tuple[Callable[[], Checker], ...]]] = {
    "the first beat comes late": (
        (
            NOT_BEATEN,
            {
                "x": partial(beats_late, NOT_BEATEN),
                "y": executor(NOT_BEATEN.time),
                "z": executor(NOT_BEATEN.time),
            },
        ),
        SWITCH,
        (partial(TheLiveAreLeftAlone, "y", "z"),),
    ),
    "the first beat comes when all have given up": (
        (
            GIVEN_UP,
            {"x": partial(beats_late, GIVEN_UP), "z": executor(GIVEN_UP.time)},
        ),
        SWITCH,
        (partial(TheDeadHoldNobodyUp, "z"),),
    ),
    "two abort, one of them asleep": (
        (CANCELLED, {"a": aborter(CANCELLED.time), "b": aborter(CANCELLED.time)}),
        SLEEP,
        (OnlyTheLastClaimDecides,),
    ),
    "rollback against cancellation": (
        (TRIED, {"r": roller(TRIED.time), "c": canceller(TRIED.time)}),
        SWITCH,
        (),
    ),
    "an eager clean fences a live writer": (
        (
            WRITE_REQUESTED,
            {"i": partial(goes_on_writing, WRITE_REQUESTED), "k": eager_clean},
        ),
        SWITCHES,
        (),
    ),
}

_NOT_SANE = frozenset(
    {
        "the first beat comes late",
        "the first beat comes when all have given up",
        "an eager clean fences a live writer",
    }
)
"""Where an attempt is replaced, or thought dead, while it works on."""


def guarded(name: str) -> Scenario:
    """Return a scenario of the table above."""
    (begun, actors), faults, more = CASTS[name]
    return Scenario(
        name=name,
        title="A worker of ours goes on with what another has taken over.",
        actors=actors,
        build=begun.build,
        checkers=[
            *all_checkers(begun, faults, ingesters=("i", "w"), sane=name not in _NOT_SANE),
            *more,
        ],
        faults=faults,
        may_fail=frozenset({"a"}),
        healers=HEALERS,
        successors=False,
    )


for _name in CASTS:
    scenario(partial(guarded, _name))
