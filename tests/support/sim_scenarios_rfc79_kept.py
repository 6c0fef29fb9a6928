"""RFC-79's table for plans that are not removable: scenarios A, B and C, and what each row says."""

from __future__ import annotations

from functools import cache, partial
from typing import TYPE_CHECKING

from lakehand.core.instants import Action
from lakehand.protocol import claiming, committing
from sim_actors import (
    Act,
    execute,
    plan,
    resumed,
    run_attempt,
    stage_service,
    tried,
    worker,
)
from sim_actors_beginnings import HOUR_MS, Beginning, Maker
from sim_calls import FaultBudget
from sim_checkers_all import HEALERS, all_checkers
from sim_checkers_views import epoch_of_file, look
from sim_registry import scenario
from sim_scenario import Scenario

if TYPE_CHECKING:
    from collections.abc import Callable

    from sim_ports import ActorPorts
    from sim_world import World

SERVICES = (Action.COMPACTION, Action.LOG_COMPACTION, Action.CLUSTERING)
REMOVABLE = (Action.LOG_COMPACTION, Action.CLUSTERING)


def requested(action: Action, maker: Maker, **flags: bool) -> None:
    """A group with one row, and a plan to rewrite it."""
    maker.ingest("before", "f1")
    maker.made.times.append(plan(maker.bench(), action, "f1", **flags))


def inflight(action: Action, maker: Maker, *, owner: str = "x", **flags: bool) -> None:
    """The same, and ``owner`` has just gone inflight."""
    requested(action, maker, **flags)
    attempt = claiming.claim(maker.bench(owner), maker.made.times[0])
    assert isinstance(attempt, claiming.Attempt)
    maker.made.attempts.append(attempt)


def tried_before(action: Action, maker: Maker, **flags: bool) -> None:
    """The same, and the attempt promoted its file and was heard of no more for two hours."""
    inflight(action, maker, owner="w", **flags)
    bench, attempt = maker.bench("w"), maker.made.attempts[0]
    files, _ = stage_service(bench, attempt)
    committing.promote_outputs(bench, attempt, committing.prepare(bench, attempt, files))
    maker.later(2 * HOUR_MS)


@cache
def beginning(row: str, action: Action, flags: frozenset[str] = frozenset()) -> Beginning:
    """Return the table that a row of RFC-79 begins with."""
    make = {"A": requested, "B": inflight, "C": tried_before}[row]
    options = dict.fromkeys(flags, True)
    return Beginning(partial(make, action, **options), age_ms=2 * HOUR_MS if row == "C" else 0)


def executes(begun: Beginning, ports: ActorPorts) -> Act:
    """Execute the plan of a beginning."""
    return execute(worker(ports), begun.time())


def goes_on(begun: Beginning, ports: ActorPorts) -> Act:
    """Go on with the attempt that is inflight when the scenario begins."""
    bench = worker(ports)
    attempt = resumed(bench, begun.made.attempts[0])
    return tried("execute", attempt.time, lambda: run_attempt(bench, attempt))


class AtMostOneCompletes:
    """Rows A to C: at most one attempt completes, with its own files; the others fail or learn."""

    name = "at most one attempt completes"

    def __init__(self, begun: Beginning) -> None:
        self._begun = begun

    def after_step(self, world: World) -> str | None:
        time = self._begun.time()
        acts = {
            name: outcome.value
            for name, outcome in world.results.items()
            if isinstance(outcome.value, Act) and outcome.value.what == "execute"
        }
        completed = sorted(name for name, act in acts.items() if act.end == "completed")
        if len(completed) > 1:
            return f"{' and '.join(completed)} completed {time}"
        shown = look(world).timeline.find(time)
        learnt = sorted(name for name, act in acts.items() if act.end == "already")
        if (completed or learnt) and (shown is None or not shown.is_completed):
            return f"{' and '.join(completed + learnt)} returned its metadata, {time} is {shown}"
        epochs = {epoch_of_file(path) for path in look(world).named.get(time, ())}
        return f"{time} mixes files of epochs {sorted(epochs)}" if len(epochs) > 1 else None

    def at_end(self, world: World) -> str | None:
        return self.after_step(world)


def kept(row: str, action: Action, faults: FaultBudget, *, suffix: str = "") -> Scenario:
    """Return a scenario of the table; rows B and C with the writer that went inflight first."""
    begun = beginning(row, action)
    actors: dict[str, Callable[[ActorPorts], object]] = {
        "x": partial(goes_on if row == "B" else executes, begun),
        "y": partial(executes, begun),
    }
    return Scenario(
        name=f"rfc79 kept {row} {action.value}{suffix}",
        title=_TITLES[row],
        actors=actors,
        build=begun.build,
        checkers=[*all_checkers(begun, faults), partial(AtMostOneCompletes, begun)],
        faults=faults,
        healers=HEALERS,
        successors=row != "B",
    )


_TITLES = {
    "A": "Several workers execute a new, requested plan.",
    "B": "X goes inflight, then Y executes the plan too.",
    "C": "The plan is inflight already, with a dead attempt's file; X executes it, then Y.",
}
SWITCHES = FaultBudget(preemptions=2)
DEEP = FaultBudget(preemptions=1, crashes=1, pauses=1, total=1)

for _row in "ABC":
    for _action in SERVICES:
        scenario(partial(kept, _row, _action, SWITCHES))
        scenario(partial(kept, _row, _action, DEEP, suffix=" deep"))
