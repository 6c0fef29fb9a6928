"""RFC-79's table for removable plans: scenarios A to E, and what each row says."""

from __future__ import annotations

from functools import cache, partial
from typing import TYPE_CHECKING

from lakehand.core.journal_entries import Claim, Plan, Purpose
from lakehand.formats import heartbeat_document
from lakehand.protocol import heartbeats
from lakehand.protocol.workbench import ProtocolSettings
from sim_actors import Act, clean
from sim_actors_beginnings import HOUR_MS, Beginning
from sim_checkers_all import HEALERS, all_checkers
from sim_checkers_journal import history
from sim_registry import scenario
from sim_scenario import Scenario
from sim_scenarios_rfc79_kept import (
    DEEP,
    REMOVABLE,
    SWITCHES,
    AtMostOneCompletes,
    executes,
    goes_on,
    inflight,
    requested,
    tried_before,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from lakehand.core.instants import Action
    from lakehand.core.journal_entries import Entry
    from sim_calls import FaultBudget
    from sim_ports import ActorPorts
    from sim_world import World

_SETTINGS = ProtocolSettings()


@cache
def beginning(row: str, action: Action) -> Beginning:
    """Return the table that a row begins with; ``old``: its plan is past the delay."""
    make = {"B": inflight, "C": tried_before}.get(row, requested)
    is_old = row == "C" or row.endswith("old")
    return Beginning(partial(make, action, removable=True), age_ms=2 * HOUR_MS if is_old else 0)


class NobodyCompletes:
    """Row C: both fail. Row B: the second worker fails, or learns that the first has completed."""

    name = "a removable plan is not tried twice"

    def __init__(self, forbidden: Mapping[str, frozenset[str]]) -> None:
        self._forbidden = forbidden

    def after_step(self, world: World) -> str | None:
        for name, ends in self._forbidden.items():
            outcome = world.results.get(name)
            if outcome is not None and isinstance(outcome.value, Act) and outcome.value.end in ends:
                return f"{name} ended with {outcome.value.end}"
        return None

    def at_end(self, world: World) -> str | None:
        return self.after_step(world)


class RollbackIsFair:
    """Rows D and E: a plan is rolled back neither young nor at work; then nobody executes it.

    A worker that slept under its lock may write its heartbeat while another holds the lock: so
    that it is at work is only looked at while nobody sleeps (``sane``).
    """

    name = "a removable plan gets its chance"
    state = 0

    def __init__(self, begun: Beginning, *, sane: bool) -> None:
        self._begun = begun
        self._sane = sane

    def after_step(self, world: World) -> str | None:
        before = self.state
        now = history(world, before)
        self.state = now.number
        if now.number == before or now.problem is not None:
            return None
        time, planned_at, targeted = self._begun.time(), 0, False
        for entry in now.entries:
            match entry.body:
                case Plan() as plan if plan.time == time:
                    planned_at = entry.at_ms
                case Plan(target=target) if target is not None and target.time == time:
                    targeted = True
                    if entry is now.entries[-1]:
                        return _too_young(entry, time, planned_at) or (
                            _at_work(world, entry, time) if self._sane else None
                        )
                case Claim(purpose=Purpose.EXECUTE) as claim if claim.time == time and targeted:
                    return f"{claim.owner} executes {time}, which is to be rolled back"
                case _:
                    pass
        return None

    def at_end(self, _world: World) -> str | None:
        return None


def _too_young(rollback: Entry, time: str, planned_at: int) -> str | None:
    age_ms = rollback.at_ms - planned_at
    if age_ms >= _SETTINGS.rollback_delay_minutes * 60_000:
        return None
    return f"{rollback.writer} rolls {time} back, which is {age_ms} ms old"


def _at_work(world: World, rollback: Entry, time: str) -> str | None:
    beat = world.objects.get(heartbeats.path_of(time))
    if beat is None or rollback.at_ms - beat.modified_ms > _SETTINGS.heartbeat_tolerance_ms:
        return None
    owner = heartbeat_document.decode(beat.content, where=time).owner
    return f"{rollback.writer} rolls {time} back, which {owner} is executing"


_COMPLETES = frozenset({"completed"})
_SUCCEEDS = frozenset({"completed", "already"})


def removable(row: str, action: Action, faults: FaultBudget, *, suffix: str = "") -> Scenario:
    """Return a scenario of the table."""
    begun = beginning(row, action)
    run, go_on = partial(executes, begun), partial(goes_on, begun)
    actors: dict[str, Callable[[ActorPorts], object]] = {
        "A": {"x": run, "y": run},
        "B": {"x": go_on, "y": run},
        "C": {"x": run, "y": run},
        "D": {"x": run, "y": clean},
        "E": {"x": clean, "y": run},
    }[row[0]]
    forbidden = {"B": {"y": _COMPLETES}, "C": {"x": _SUCCEEDS, "y": _SUCCEEDS}}.get(row, {})
    return Scenario(
        name=f"rfc79 removable {row} {action.value}{suffix}",
        title=_TITLES[row[0]],
        actors=actors,
        build=begun.build,
        checkers=[
            *all_checkers(begun, faults),
            partial(AtMostOneCompletes, begun),
            partial(NobodyCompletes, forbidden),
            partial(RollbackIsFair, begun, sane=not faults.pauses),
        ],
        faults=faults,
        healers=HEALERS,
        successors=row != "B",
    )


_TITLES = {
    "A": "Several workers execute a new, requested removable plan.",
    "B": "X goes inflight with a removable plan, then Y executes it too.",
    "C": "A removable plan is inflight and dead already; X executes it, then Y.",
    "D": "X executes a removable plan, Y cleans.",
    "E": "X cleans, Y executes a removable plan.",
}
ROWS = ("A", "B", "C", "D young", "D old", "E young", "E old")

for _row in ROWS:
    for _action in REMOVABLE:
        scenario(partial(removable, _row, _action, SWITCHES))
        scenario(partial(removable, _row, _action, DEEP, suffix=" deep"))
