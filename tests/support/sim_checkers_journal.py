"""Checker: the journal is legal and without holes; at the end the timeline says what it decided.

``History`` is everything that a journal ever said, also what was trimmed: checkers follow it entry
by entry and remember only its number, which is the same for equal journals.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

from lakehand.core.instants import State
from lakehand.core.journal import Fold
from lakehand.core.journal_entries import Checkpoint, Claim, Entry
from lakehand.core.journal_moves import Standing, moves_of
from lakehand.errors import LakehandError
from lakehand.formats import journal_document
from lakehand.protocol import journal
from sim_checkers_views import look

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from sim_world import World

TABLE = ".trips"


@dataclass(frozen=True)
class History:
    """A journal up to its tail."""

    number: int = 0
    entries: tuple[Entry, ...] = ()
    fold: Fold = field(default_factory=lambda: Fold(table=TABLE))
    standings: Mapping[str, Standing] = field(default_factory=dict)
    """How every instant stands that was ever decided about; ended ones too."""
    claims: Mapping[str, tuple[Claim, ...]] = field(default_factory=dict)
    """The claims on every instant, in order."""
    problem: str | None = None

    @property
    def tail(self) -> int:
        """The sequence of the last entry."""
        return len(self.entries)


_EMPTY = History()
_HISTORIES: list[History] = [_EMPTY]
_NEXT: dict[tuple[int, bytes], History] = {}


def history(world: World, number: int) -> History:
    """Return the journal of this world; ``number`` is the history that was seen last."""
    known = _HISTORIES[number]
    while known.problem is None:
        stored = world.objects.get(journal.path_of(known.tail + 1))
        if stored is None:
            return known
        after = _NEXT.get((known.number, stored.content))
        if after is None:
            after = _NEXT[known.number, stored.content] = _after(known, stored.content)
            _HISTORIES.append(after)
        known = after
    return known


def _after(known: History, content: bytes) -> History:
    seq, number = known.tail + 1, len(_HISTORIES)
    try:
        entry = journal_document.decode(content, seq=seq, table=TABLE, where=str(seq)).entry
        if not isinstance(entry.body, Checkpoint):
            known.fold.require_legal(entry.body)
        fold = known.fold.apply(entry)
        standings = dict(known.standings)
        if not isinstance(entry.body, Checkpoint):
            for time, _ in moves_of(entry.body):
                record = known.fold.apply(_published_nothing(entry)).instants.get(time)
                if record is not None:
                    standings[time] = record.standing
        elif entry.body.fold != known.fold:
            raise _differs(entry, known)
    except LakehandError as error:
        return History(number, known.entries, problem=f"entry {seq}: {error}")
    if entry.decided_on != known.fold.tail:
        return History(number, known.entries, problem=f"entry {seq} does not stand on {seq - 1}")
    claims = dict(known.claims)
    if isinstance(entry.body, Claim):
        claims[entry.body.time] = (*claims.get(entry.body.time, ()), entry.body)
    return History(number, (*known.entries, entry), fold, standings, claims)


def _published_nothing(entry: Entry) -> Entry:
    """Return the entry without its word on what is published, so that the fold keeps its ends."""
    return replace(entry, published=0)


def _differs(entry: Entry, known: History) -> LakehandError:
    return LakehandError(f"checkpoint {entry.seq} is not what {known.tail} entries come to")


class JournalIsLegal:
    """Every entry may follow the one before; nothing is missing; nothing is changed."""

    name = "the journal is legal"
    state = 0

    def after_step(self, world: World) -> str | None:
        now = history(world, self.state)
        self.state = now.number
        if now.problem is not None:
            return now.problem
        event = world.last
        if event is None or event.call is None or not event.call.path.startswith(journal.FOLDER):
            return None
        return self._hole(world, now) if event.call.method == "delete" else None

    def _hole(self, world: World, now: History) -> str | None:
        checkpoints = [one.seq for one in now.entries if isinstance(one.body, Checkpoint)]
        keep_from = checkpoints[-2] if len(checkpoints) > 1 else 1
        there = [
            seq for seq in range(1, now.tail + 1) if world.content(journal.path_of(seq)) is not None
        ]
        if any(seq not in there for seq in range(keep_from, now.tail + 1)):
            return f"entries from {keep_from} on are needed, there are {there}"
        if there != list(range(there[0], now.tail + 1)):
            return f"there is a hole in {there}"
        return None

    def at_end(self, world: World) -> str | None:
        return self.after_step(world)


class _Told(NamedTuple):
    """What ``TimelineAgrees`` remembers."""

    number: int = 0
    """The history."""
    healed: int | None = None
    """Its tail when a healer last opened a transaction."""


class TimelineAgrees:
    """Once everything is published the timeline says what the journal decided.

    What a worker decides, and dies over, after the last transaction of all healers, is published
    by the next transaction, or ended: here there is none.
    """

    name = "the timeline agrees with the journal"
    state = _Told()

    def __init__(self, *healers: str) -> None:
        self._healers = healers

    def after_step(self, world: World) -> str | None:
        now, healed, event = history(world, self.state.number), self.state.healed, world.last
        if event is not None and event.call is not None and event.call.method == "acquire":
            who = event.step.who.partition("/")[0]
            healed = now.tail if who in self._healers else healed
        self.state = _Told(now.number, healed)
        return None

    def at_end(self, world: World) -> str | None:
        now, healed = history(world, self.state.number), self.state.healed
        if now.problem is not None or any(one not in world.results for one in self._healers):
            return None
        shown = look(world).timeline
        after = () if healed is None else now.entries[healed:]
        late = _decided_about(one for one in after if one.writer not in self._healers)
        for time, standing in sorted(now.standings.items()):
            if time in late:
                continue
            instant = shown.find(time)
            state = None if instant is None else instant.state
            is_archived = standing is Standing.COMMITTED and time < (shown.start or "")
            if state not in _SHOWN[standing] and not (state is None and is_archived):
                said = "nothing" if state is None else state.value
                return f"{time} is {standing.value} by the journal, the timeline shows {said}"
        return None


def _decided_about(entries: Iterable[Entry]) -> set[str]:
    decisions = [one.body for one in entries if not isinstance(one.body, Checkpoint)]
    return {time for body in decisions for time, _ in moves_of(body)}


_PENDING = frozenset({State.REQUESTED, State.INFLIGHT})
_SHOWN: dict[Standing, frozenset[State | None]] = {
    Standing.FOREIGN: frozenset({*State, None}),
    Standing.REQUESTED: _PENDING,
    Standing.EXECUTING: _PENDING,
    Standing.PREPARED: _PENDING,
    Standing.COMMITTED: frozenset({State.COMPLETED}),
    Standing.CANCELLED: _PENDING,
    Standing.ABORTING: _PENDING,
    Standing.ABORTED: frozenset({State.ABORTED}),
    Standing.ROLLING_BACK: _PENDING,
    Standing.REMOVED: frozenset({None}),
    Standing.VOIDED: frozenset({*_PENDING, None}),
    Standing.SUPERSEDED: frozenset({State.COMPLETED, None}),
}
"""What the timeline may show of an instant when nothing is left to publish."""
