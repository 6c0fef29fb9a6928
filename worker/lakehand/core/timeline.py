"""The timeline as a value: which instants there are, and what follows from them.

A listing of the timeline folder gives up to three files for one instant (requested, inflight,
completed: all stay). ``Timeline.of`` folds them into the furthest state; everything else here is
a question about the folded value. A timeline never changes: ``advance`` returns the next one and
checks the move, ``as_of`` and ``completed_by`` return the one that a reader of the past sees.

Two clocks meet here. *Requested times* name instants and order history for time travel.
*Completion times* (layout 2) say when data became visible; ``core.file_slices`` needs them.
Instants that were archived are no longer listed: whatever is older than ``start`` counts as
committed, because archival never passes a pending write.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from operator import attrgetter
from typing import TYPE_CHECKING

from lakehand.core.instants import (
    FIRST_STATES,
    LEGAL_MOVES,
    WRITE_ACTIONS,
    Action,
    Instant,
    State,
    completed_action,
)
from lakehand.errors import InvariantBroken

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_RANK = {State.REQUESTED: 0, State.INFLIGHT: 1, State.ABORTED: 2, State.COMPLETED: 3}
_WRITES = frozenset(action for action in Action if completed_action(action) in WRITE_ACTIONS)


@dataclass(frozen=True)
class Timeline:
    """Instants in order of requested time, each in its furthest state.

    ``limit`` is set on timelines of the past (``as_of``, ``completed_by``); ``later`` holds the
    instants from before it that completed only after it. ``archived_completions`` maps requested
    to completion times of archived instants, as far as somebody needed them and looked them up.
    """

    instants: tuple[Instant, ...] = ()
    limit: str | None = None
    later: frozenset[str] = frozenset()
    archived_completions: Mapping[str, str] = field(default_factory=dict, repr=False)

    @classmethod
    def of(
        cls,
        entries: Iterable[Instant],
        *,
        archived_completions: Mapping[str, str] | None = None,
    ) -> Timeline:
        """Fold the entries of a timeline folder, in any order, into one timeline."""
        return cls(_fold(entries), archived_completions=archived_completions or {})

    # -- which instants -----------------------------------------------------------------------

    @cached_property
    def completed(self) -> tuple[Instant, ...]:
        """The completed instants of every action."""
        done = State.COMPLETED
        return tuple(instant for instant in self.instants if instant.state is done)

    @cached_property
    def pending(self) -> tuple[Instant, ...]:
        """The instants that may still complete, of every action."""
        return tuple(instant for instant in self.instants if instant.is_pending)

    @cached_property
    def aborted(self) -> tuple[Instant, ...]:
        """The cancelled instants."""
        return tuple(instant for instant in self.instants if instant.state is State.ABORTED)

    @cached_property
    def writes(self) -> tuple[Instant, ...]:
        """The instants that make, or will make, data visible: table services included."""
        return self.of_action(*_WRITES)

    @cached_property
    def completed_writes(self) -> tuple[Instant, ...]:
        """The completed commits, delta commits and replace commits."""
        return tuple(instant for instant in self.writes if instant.is_completed)

    @cached_property
    def pending_writes(self) -> tuple[Instant, ...]:
        """The pending writes, compactions and clusterings included."""
        return tuple(instant for instant in self.writes if instant.is_pending)

    @cached_property
    def pending_compactions(self) -> tuple[Instant, ...]:
        """The scheduled compactions."""
        return self._pending_of(Action.COMPACTION)

    @cached_property
    def pending_log_compactions(self) -> tuple[Instant, ...]:
        """The scheduled log compactions."""
        return self._pending_of(Action.LOG_COMPACTION)

    @cached_property
    def pending_replaces(self) -> tuple[Instant, ...]:
        """The pending clusterings and overwrites; in layout 1 only the plan tells them apart."""
        return self._pending_of(Action.CLUSTERING, Action.REPLACE_COMMIT)

    @cached_property
    def completed_replaces(self) -> tuple[Instant, ...]:
        """The completed replace commits, whose metadata name the file groups they replaced."""
        done = self.of_action(Action.REPLACE_COMMIT)
        return tuple(instant for instant in done if instant.is_completed)

    def of_action(self, *actions: Action) -> tuple[Instant, ...]:
        """Return the instants with one of the actions, in any state."""
        return tuple(instant for instant in self.instants if instant.action in actions)

    def find(self, time: str, action: Action | None = None) -> Instant | None:
        """Return the instant of this time, or None.

        An action finds its pending form too (COMMIT finds a pending COMPACTION). Without one, a
        write is preferred to anything else of the same time (its savepoint).
        """
        found = self._by_time.get(time, ())
        if action is not None:
            wanted = completed_action(action)
            found = tuple(one for one in found if completed_action(one.action) is wanted)
        return found[0] if found else None

    # -- what follows for data ----------------------------------------------------------------

    @cached_property
    def start(self) -> str | None:
        """The requested time of the first active write; None while nothing ever completed.

        Archival stops at pending writes, but writes that a savepoint pins and aborted ones may
        lag behind it: they do not count.
        """
        if not self.completed_writes:
            return None
        passed = {instant.time for instant in self.of_action(Action.SAVEPOINT)}
        passed.update(instant.time for instant in self.aborted)
        left = (instant.time for instant in self.writes if instant.time not in passed)
        return next(left, self.completed_writes[0].time)

    @cached_property
    def committed_times(self) -> frozenset[str]:
        """The requested times of the active completed writes."""
        return frozenset(instant.time for instant in self.completed_writes)

    def is_committed(self, time: str) -> bool:
        """Whether data written by the write of this time may be seen.

        True for completed writes, and for whatever is older than the active timeline and was not
        aborted.
        """
        if time in self.committed_times:
            return True
        start = self.start
        if start is None or time >= start or time in self._aborted_times or time in self.later:
            return False
        return self.limit is None or time <= self.limit

    def completion_time(self, time: str) -> str | None:
        """Return when the committed write of this time completed, or None if it is not committed.

        Archived instants that nobody looked up, and instants of layout 1 without one, answer
        with their requested time, which is the earliest it can have been.
        """
        if not self.is_committed(time):
            return None
        return self._completions.get(time) or self.archived_completions.get(time, time)

    @cached_property
    def pending_compaction_times(self) -> frozenset[str]:
        """The requested times of the scheduled compactions."""
        return frozenset(instant.time for instant in self.pending_compactions)

    # -- marks --------------------------------------------------------------------------------

    @property
    def last_completed_write(self) -> Instant | None:
        """The completed write with the greatest requested time."""
        return self.completed_writes[-1] if self.completed_writes else None

    @property
    def first_pending_write(self) -> Instant | None:
        """The pending write with the smallest requested time."""
        return self.pending_writes[0] if self.pending_writes else None

    @cached_property
    def contiguous_completed_writes(self) -> tuple[Instant, ...]:
        """The completed writes before the first pending one: history with no hole in it."""
        hole = self.first_pending_write
        if hole is None:
            return self.completed_writes
        return tuple(instant for instant in self.completed_writes if instant.time < hole.time)

    @cached_property
    def latest_time(self) -> str | None:
        """The greatest requested or completion time: the next instant must be later."""
        times = [instant.time for instant in self.instants]
        times += [instant.completion_time for instant in self.completed if instant.completion_time]
        return max(times, default=None)

    # -- other timelines ----------------------------------------------------------------------

    def as_of(self, time: str) -> Timeline:
        """Return the timeline that time travel to ``time`` sees.

        As in Hudi, time travel goes by *requested* time: an instant counts if it is completed
        now and was requested at ``time`` or before. What is not completed stays as it is.
        """
        if self.limit is not None:
            time = min(time, self.limit)
        past = tuple(instant for instant in self.instants if instant.time <= time)
        view = replace(self, instants=past, limit=time)
        # The start of the past is the start of the present: older instants were archived.
        view.__dict__["start"] = self.start
        return view

    def completed_by(self, time: str) -> Timeline:
        """Return the timeline of what had completed at ``time`` (layout 2).

        As in Hudi, incremental queries go by *completion* time: unlike ``as_of`` this never
        changes for a time that has passed. Archived instants count by the completion time that
        somebody looked up, else by their requested time.
        """
        view = self.as_of(time)
        known = {**self.archived_completions, **self._completions}
        late = frozenset(own for own, done in known.items() if own <= time < done)
        past = tuple(
            instant
            for instant in view.instants
            if not (instant.is_completed and (instant.completion_time or instant.time) > time)
        )
        earlier = replace(view, instants=past, later=self.later | late)
        earlier.__dict__["start"] = self.start
        return earlier

    def advance(self, after: Instant) -> Timeline:
        """Return the timeline in which one instant has made one legal move, else raise."""
        before = self.find(after.time, after.action)
        check_move(before, after)
        kept = (instant for instant in self.instants if instant is not before)
        return replace(self, instants=_sorted([*kept, after]))

    # -- look-ups -----------------------------------------------------------------------------

    def _pending_of(self, *actions: Action) -> tuple[Instant, ...]:
        return tuple(instant for instant in self.pending if instant.action in actions)

    @cached_property
    def _by_time(self) -> dict[str, tuple[Instant, ...]]:
        found: dict[str, tuple[Instant, ...]] = {}
        for instant in self.instants:
            others = found.get(instant.time)
            if others is None:
                found[instant.time] = (instant,)
            elif instant.action in _WRITES:
                found[instant.time] = (instant, *others)
            else:
                found[instant.time] = (*others, instant)
        return found

    @cached_property
    def _aborted_times(self) -> frozenset[str]:
        return frozenset(instant.time for instant in self.aborted)

    @cached_property
    def _completions(self) -> dict[str, str]:
        return {
            instant.time: instant.completion_time
            for instant in self.completed_writes
            if instant.completion_time is not None
        }


def check_move(before: Instant | None, after: Instant) -> None:
    """Raise ``InvariantBroken`` unless ``after`` may follow ``before`` (None: a new instant)."""
    if before is None:
        if after.state is not FIRST_STATES[after.action]:
            raise InvariantBroken(f"{after} cannot be the first state of an instant")
        return
    if after.state not in LEGAL_MOVES[before.state]:
        raise InvariantBroken(f"{before} cannot become {after}")
    expected = completed_action(before.action) if after.is_completed else before.action
    if after.time != before.time or after.action not in {before.action, expected}:
        raise InvariantBroken(f"{before} and {after} are not one instant")


def _fold(entries: Iterable[Instant]) -> tuple[Instant, ...]:
    """Keep the furthest state of each instant, in order.

    One time can be shared by several actions (a savepoint and its commit): those stay apart.
    """
    furthest: dict[str, Instant] = {}
    others: dict[tuple[str, Action], Instant] = {}
    for entry in entries:
        held = furthest.get(entry.time)
        if held is None:
            furthest[entry.time] = entry
        elif _same_instant(held, entry):
            furthest[entry.time] = _further(held, entry)
        else:
            key = (entry.time, completed_action(entry.action))
            others[key] = _further(others[key], entry) if key in others else entry
    return _sorted([*furthest.values(), *others.values()])


def _same_instant(one: Instant, other: Instant) -> bool:
    if one.action is other.action:
        return True
    return completed_action(one.action) is completed_action(other.action)


def _further(one: Instant, other: Instant) -> Instant:
    """Return the entry that says more; of two completions the first one is the true one."""
    if one.state is not other.state:
        return one if _RANK[one.state] > _RANK[other.state] else other
    if one.completion_time is None or other.completion_time is None:
        return other if one.completion_time is None else one
    return one if one.completion_time <= other.completion_time else other


def _sorted(instants: list[Instant]) -> tuple[Instant, ...]:
    instants.sort(key=lambda instant: instant.action.value)
    instants.sort(key=attrgetter("time"))
    return tuple(instants)
