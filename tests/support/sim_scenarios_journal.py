"""The production journal alone: appenders beside a busy writer that checkpoints and trims.

The truth is what stood first in each slot. An appender that says "decided" must be in it, one that
says "not decided" must not; "unknown" may be either.
"""

from __future__ import annotations

from functools import cache, partial
from typing import TYPE_CHECKING

from lakehand.core.instants import Action
from lakehand.core.journal_entries import LockUse, Plan, StagedFile
from lakehand.errors import Conflict, OutcomeUnknown
from lakehand.formats import journal_document
from lakehand.protocol.journal import FOLDER, Journal, path_of
from sim_calls import FaultBudget
from sim_machine import direct_ports
from sim_registry import scenario
from sim_scenario import Scenario

if TYPE_CHECKING:
    from collections.abc import Callable

    from sim_ports import ActorPorts
    from sim_world import World

LOCK = LockUse("sim", "token")
DECIDED, NOT_DECIDED, UNKNOWN = "decided", "not decided", "unknown"


def a_plan(time: str) -> Plan:
    staged = StagedFile(f".hoodie/timeline/{time}.deltacommit.requested", "place", ("1",), "00")
    return Plan(time=time, action=Action.DELTA_COMMIT, requested=staged, is_ingestion=True)


def journal_of(ports: ActorPorts) -> Journal:
    journal = Journal(ports.store, table="t", writer=ports.name, new_id=ports.new_id)
    journal.refresh()
    return journal


def append(time: str, ports: ActorPorts) -> tuple[str, str]:
    """Append one decision, and say whether it was taken."""
    journal = journal_of(ports)
    try:
        journal.append(a_plan(time), lock=LOCK, at_ms=1)
    except Conflict:
        return NOT_DECIDED, time
    except OutcomeUnknown:
        return UNKNOWN, time
    return DECIDED, time


def be_busy(ports: ActorPorts) -> None:
    """Decide something, write two checkpoints, and trim what they make needless."""
    journal = journal_of(ports)
    surely(journal, lambda: journal.append(a_plan("20260101000000999"), lock=LOCK, at_ms=1))
    surely(journal, lambda: journal.write_checkpoint(lock=LOCK, at_ms=1))
    surely(journal, lambda: journal.write_checkpoint(lock=LOCK, at_ms=1))
    journal.trim()


def surely(journal: Journal, act: Callable[[], object]) -> None:
    """Decide again as often as somebody else is first."""
    while True:
        try:
            act()
        except Conflict:
            journal.refresh()
        else:
            return


def begin(world: World) -> None:
    """A journal of one entry."""
    journal_of(direct_ports(world)).append(a_plan("20260101000000001"), lock=LOCK, at_ms=1)


@cache
def said(content: bytes, seq: int) -> str:
    """Return what an entry decided: its instant, or its kind."""
    entry = journal_document.decode(content, seq=seq, table="t", where="journal").entry
    return getattr(entry.body, "time", type(entry.body).__name__)


class AppendersKnowTheTruth:
    """What an appender believes of its decision is so."""

    name = "appenders know the truth"
    state: tuple[str, ...] = ()

    def after_step(self, world: World) -> str | None:
        seq = len(self.state) + 1
        content = world.content(path_of(seq))
        if content is not None:
            self.state = (*self.state, said(content, seq))
        for name, outcome in world.results.items():
            if outcome.kind != "returned" or not outcome.value:
                continue
            belief, time = outcome.value
            if (belief == DECIDED) > (time in self.state):
                return f"{name} believes {time} decided; decided are {self.state}"
            if (belief == NOT_DECIDED) and time in self.state:
                return f"{name} believes {time} not decided; decided are {self.state}"
        return None

    def at_end(self, _world: World) -> str | None:
        return None


def describe(path: str, content: bytes) -> str:
    """Tell a story's reader what an entry decided."""
    return said(content, int(path[-12:])) if FOLDER in path else "..."


def appending(workers: int, **faults: int) -> Scenario:
    """Return the scenario for some appenders."""
    actors = {f"worker-{n}": partial(append, f"2026010100000010{n}") for n in range(1, workers + 1)}
    return Scenario(
        name=f"journal, {workers} appending",
        title="Workers append while a busy one checkpoints and trims; requests may arrive late.",
        actors={**actors, "busy": be_busy},
        build=begin,
        checkers=[AppendersKnowTheTruth],
        faults=FaultBudget(**faults),
        describe=describe,
    )


scenario(partial(appending, 1, preemptions=3, lost=1, late=1))
scenario(partial(appending, 2, preemptions=2, lost=1, late=1))
