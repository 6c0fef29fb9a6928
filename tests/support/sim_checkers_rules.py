"""Rules of the protocol that keep its promises, each asked where a scenario puts it to the test.

They are said here once more, in other words than the recipes' and the fold's: a guard that is
taken out takes its words with it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from lakehand.core.journal_entries import Abort, Commit, Prepare, RollbackEnd, RolledBack, times_of
from lakehand.ports import PromoteOutcome
from lakehand.protocol.journal import path_of
from sim_actors import Act
from sim_checkers_journal import history
from sim_checkers_views import look

if TYPE_CHECKING:
    from lakehand.core.journal_entries import Body
    from sim_checkers_journal import History
    from sim_world import World

CANCEL_FOLDER: Final = ".hoodie/.cancel/"


def _was_appended(world: World, now: History) -> bool:
    """Whether the last step appended the last entry: what a scenario begins with is not judged."""
    event = world.last
    return event is not None and event.call is not None and event.call.path == path_of(now.tail)


class NewTimesAreLater:
    """A time that we draw is later than every other of the table, ours and foreign ones."""

    name = "a new time is later than all others"
    state = 0

    def after_step(self, world: World) -> str | None:
        before = self.state
        now = history(world, before)
        self.state = now.number
        if now.number == before or not _was_appended(world, now):
            return None
        last = now.entries[-1]
        drawn = max(times_of(last.body))
        known = [time for entry in now.entries[:-1] for time in times_of(entry.body)]
        latest = max(known, default="")
        latest = max(latest, look(world).timeline.latest_time or "")
        if drawn and drawn <= latest:
            return f"{last.writer} draws {drawn}, and there is {latest} already"
        return None

    def at_end(self, _world: World) -> str | None:
        return None


class OnlyTheLastClaimDecides:
    """What says that an attempt prepared, committed or left nothing comes from the last claim."""

    name = "only the last claim decides"
    state = 0

    def after_step(self, world: World) -> str | None:
        before = self.state
        now = history(world, before)
        self.state = now.number
        if now.number == before or not _was_appended(world, now):
            return None
        return self._decided_by_another(now, now.entries[-1].body)

    def _decided_by_another(self, now: History, body: Body) -> str | None:
        if not isinstance(body, Prepare | Commit | Abort | RolledBack):
            return None
        if isinstance(body, RolledBack) and body.end is RollbackEnd.NOTHING:
            return None
        writer, claims = now.entries[-1].writer, now.claims.get(body.time, ())
        last = claims[-1] if claims else None
        if last is not None and (last.owner, last.epoch) == (writer, body.epoch):
            return None
        kind, claim = type(body).__name__.lower(), "nobody's"
        if last is not None:
            claim = f"{last.owner}'s, epoch {last.epoch}"
        return f"{writer} appends {kind} of {body.time} as epoch {body.epoch}; the claim is {claim}"

    def at_end(self, _world: World) -> str | None:
        return None


class _NoneEndsSo:
    """None of these actors is answered like that."""

    end: str
    says: str

    def __init__(self, *actors: str) -> None:
        self._actors = actors

    def after_step(self, world: World) -> str | None:
        for name in self._actors:
            outcome = world.results.get(name)
            act = None if outcome is None else outcome.value
            if isinstance(act, Act) and act.end == self.end:
                return self.says.format(name=name, time=act.time)
        return None

    def at_end(self, _world: World) -> str | None:
        return None


class TheLiveAreLeftAlone(_NoneEndsSo):
    """An attempt whose worker never stopped is neither rolled back nor taken over."""

    name = "the live are left alone"
    state = 0
    end = "Fenced"
    says = "{name} was live all the time, and its work at {time} ended with Fenced"


class TheDeadHoldNobodyUp(_NoneEndsSo):
    """Who is told that a plan is busy met a worker of its last claim; beside these none lives."""

    name = "the dead hold nobody up"
    state = 0
    end = "PlanBusy"
    says = "{name} finds {time} busy, and only replaced attempts are there"


class _Requests(NamedTuple):
    """Requests for a cancellation: those that are there, and those that were removed."""

    there: frozenset[str] = frozenset()
    over: frozenset[str] = frozenset()


class CancellationsStayOver:
    """The request for a cancellation that was carried out does not come back."""

    name = "a cancellation that is over stays over"
    state = _Requests()

    def after_step(self, world: World) -> str | None:
        event = world.last
        if event is None or event.call is None or not event.call.path.startswith(CANCEL_FOLDER):
            return None
        there = frozenset(path for path in world.objects if path.startswith(CANCEL_FOLDER))
        back = sorted((there - self.state.there) & self.state.over)
        self.state = _Requests(there, self.state.over | (self.state.there - there))
        return f"{back[0]} was removed, and came back" if back else None

    def at_end(self, _world: World) -> str | None:
        return None


class PromotionIsOneShot:
    """What was promoted is staged no more: who sleeps over its promotion cannot bring it back."""

    name = "what was promoted is staged no more"
    state = 0

    def after_step(self, world: World) -> str | None:
        event = world.last
        if event is None or event.call is None or event.call.method != "promote":
            return None
        place = event.call.args[0]
        is_left = event.reply is PromoteOutcome.WRITTEN and place in world.staged
        return (
            f"{event.call.path} was promoted, and is still staged at {place}" if is_left else None
        )

    def at_end(self, _world: World) -> str | None:
        return None
