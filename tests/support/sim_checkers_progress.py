"""Checkers 5 and 7: one attempt at a time, and in the end everything is over and well.

5. While every clock is sane an attempt that was replaced does no work: it stages and promotes
   nothing. (Only for scenarios without pauses, expiries and clock jumps.)
7. When faults have stopped and the healers ran, nothing is pending that should be gone, and
   nothing remains that tells of attempts. A zombie that acts while they heal may leave something
   again, so then it is not judged.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from lakehand.core.journal_moves import Standing
from sim_actors import Act
from sim_checkers_journal import history
from sim_checkers_views import epoch_of_file, instant_of_file, is_data, look

if TYPE_CHECKING:
    from sim_calls import Call
    from sim_world import World

TEMP = ".hoodie/.temp/"
MANIFESTS = ".hoodie/.lakehand/manifests/"
NOTHING_IN = (
    TEMP,
    ".hoodie/.heartbeat/",
    ".hoodie/.cancel/",
    MANIFESTS,
    ".hoodie/.lakehand/marks/",
)
_FINISHED = frozenset({"completed", "already", "PlanCancelled"})


class OneAttemptAtATime:
    """A replaced attempt stages and promotes no data file."""

    name = "one attempt at a time"
    state = 0

    def after_step(self, world: World) -> str | None:
        now = history(world, self.state)
        self.state = now.number
        event = world.last
        if event is None or event.call is None:
            return None
        about = _work_on(world, event.call)
        if about is None:
            return None
        time, epoch = about
        last = max((one.epoch for one in now.claims.get(time, ())), default=0)
        if epoch < last:
            who = event.step.who
            return f"{who} works on {time} as epoch {epoch}, which epoch {last} has replaced"
        return None

    def at_end(self, _world: World) -> str | None:
        return None


def _work_on(world: World, call: Call) -> tuple[str, int] | None:
    """Return the instant and the epoch whose attempt makes this call for its work, if it does."""
    path = call.path
    match call.method:
        case "stage":
            path = call.args[0]
        case "stage_close":
            path = world.staged[path].final if path in world.staged else ""
        case "put" if path.startswith(MANIFESTS):
            time, _, name = path[len(MANIFESTS) :].partition("/")
            return time, int(name.partition("-")[0])
        case "put" if path.startswith(TEMP):
            path = path[len(TEMP) :].partition("/")[2].rpartition(".marker.")[0]
        case "promote":
            pass
        case _:
            return None
    return (instant_of_file(path), epoch_of_file(path)) if is_data(path) else None


class _State(NamedTuple):
    history: int = 0
    disturbed: bool = False


class AllIsWell:
    """Nothing is left when the last healer has come to its end."""

    name = "all is well in the end"
    state = _State()

    def __init__(self, *healers: str, keeps: frozenset[str] = frozenset()) -> None:
        self._healers = healers
        self._keeps = keeps
        """Plans that may stay: nobody is there who could end them."""

    def after_step(self, world: World) -> str | None:
        state, event = self.state, world.last
        now = history(world, state.history).number
        if now != state.history:
            state = state._replace(history=now)
        if event is not None and event.call is not None:
            state = self._learn(world, state)
        self.state = state
        if event is None or event.step.who != self._healers[-1] or state.disturbed:
            return None
        if self._healers[-1] not in world.results:
            return None
        return self._healed(world, state)

    def _learn(self, world: World, state: _State) -> _State:
        who = world.last.step.who.partition("/")[0]
        healing = any(one in world.results for one in self._healers)
        if healing and who not in self._healers:
            state = state._replace(disturbed=True)
        return state

    def _healed(self, world: World, state: _State) -> str | None:
        for name in self._healers:
            outcome = world.results[name]
            if outcome.kind != "returned":
                return f"{name} {outcome.kind}: {outcome.error!r}"
        return (
            self._pending(world)
            or self._remains(world)
            or self._staged(world, state)
            or self._not_finished(world, state)
        )

    def _pending(self, world: World) -> str | None:
        for instant in look(world).timeline.pending:
            if instant.time not in self._keeps:
                return f"{instant.action.value} {instant.time} is still {instant.state.value}"
        return None

    def _remains(self, world: World) -> str | None:
        left = [path for folder in NOTHING_IN for path in world.paths(folder)]
        left = [path for path in left if not any(time in path for time in self._keeps)]
        if left:
            return f"left over: {', '.join(left)}"
        held = [lock for lock, record in world.locks.items() if not world.is_free(lock)]
        return f"still held: {', '.join(held)}" if held else None

    def _staged(self, world: World, state: _State) -> str | None:
        known = history(world, state.history).claims  # rollbacks have none: theirs is small
        left = [
            f"{place} for {file.final}"
            for place, file in world.staged.items()
            if place.startswith(TEMP) and place[len(TEMP) :].partition("/")[0] in known
        ]
        return f"still staged: {', '.join(sorted(left))}" if left else None

    def _not_finished(self, world: World, state: _State) -> str | None:
        """Plans that are kept over their attempts can be executed to completion.

        Whose worker lived until the first clean had passed is removed by the last one.
        """
        standings = history(world, state.history).standings
        for name in reversed(self._healers):
            value = world.results[name].value
            acts = [one for one in value or () if isinstance(one, Act)]
            for act in acts:
                was_removed = standings.get(act.time) is Standing.REMOVED
                if act.end not in _FINISHED and not (act.end == "MustRollBack" and was_removed):
                    return f"{name} could not finish {act.time}: {act.end}"
            if acts:
                break
        last = world.results[self._healers[-1]].value
        return f"the last clean left {', '.join(map(str, last))}" if last else None

    def at_end(self, _world: World) -> str | None:
        return None
