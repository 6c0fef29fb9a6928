"""Instants: the entries of a table's timeline, their names for time, and their legal moves.

An instant is named by its *requested time* ``T``, an action and a state. Up to table version 7
(layout 1) nothing on the timeline says when it completed; from version 8 on (layout 2) the
completed file carries the *completion time* ``C``. Times are strings of 17 digits,
``yyyyMMddHHmmssSSS``, that sort as they stand; legacy tables also hold 14 digits (seconds).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from enum import Enum, unique

from lakehand.errors import Invalid

_FORMAT_SECONDS = "%Y%m%d%H%M%S"
_TIME = re.compile(r"\d{14}(\d{3})?", re.ASCII)


@unique
class State(Enum):
    """How far an instant has come."""

    REQUESTED = "requested"
    INFLIGHT = "inflight"
    COMPLETED = "completed"
    ABORTED = "aborted"


@unique
class Action(Enum):
    """What an instant does; the values are Hudi's words in file names.

    A *pending* compaction, log compaction or clustering completes under another action:
    see ``completed_action``.
    """

    COMMIT = "commit"
    DELTA_COMMIT = "deltacommit"
    COMPACTION = "compaction"
    LOG_COMPACTION = "logcompaction"
    CLUSTERING = "clustering"
    REPLACE_COMMIT = "replacecommit"
    CLEAN = "clean"
    ROLLBACK = "rollback"
    RESTORE = "restore"
    SAVEPOINT = "savepoint"
    INDEXING = "indexing"
    SCHEMA_COMMIT = "schemacommit"


_COMPLETED_ACTION = {
    Action.COMPACTION: Action.COMMIT,
    Action.LOG_COMPACTION: Action.DELTA_COMMIT,
    Action.CLUSTERING: Action.REPLACE_COMMIT,
}

WRITE_ACTIONS = frozenset({Action.COMMIT, Action.DELTA_COMMIT, Action.REPLACE_COMMIT})
"""The completed actions that make data visible."""

SERVICE_ACTIONS = frozenset(_COMPLETED_ACTION)
"""The pending actions of table services that rewrite data. (Layout 1 names a pending clustering
as it names an overwrite: REPLACE_COMMIT.)"""

LEGAL_MOVES: dict[State, frozenset[State]] = {
    State.REQUESTED: frozenset({State.INFLIGHT, State.ABORTED}),
    State.INFLIGHT: frozenset({State.COMPLETED, State.REQUESTED, State.ABORTED}),
    State.COMPLETED: frozenset(),
    State.ABORTED: frozenset(),
}
"""Which state may follow which. INFLIGHT falls back to REQUESTED when an immutable plan's
attempt is rolled back; an instant whose files are all removed leaves the timeline instead."""

FIRST_STATES: dict[Action, State] = {
    action: State.INFLIGHT if action is Action.SAVEPOINT else State.REQUESTED for action in Action
}
"""A savepoint has no plan, so it begins inflight."""


def completed_action(action: Action) -> Action:
    """Return the action under which an instant that is pending as ``action`` completes."""
    return _COMPLETED_ACTION.get(action, action)


@dataclass(frozen=True, slots=True, order=True)
class Instant:
    """One entry of the timeline.

    ``completion_time`` is None while pending, and also on completed instants of layout 1, whose
    files say it only by their modification time.
    """

    time: str
    action: Action
    state: State
    completion_time: str | None = None

    @property
    def is_completed(self) -> bool:
        """Whether the instant has reached its good end."""
        return self.state is State.COMPLETED

    @property
    def is_pending(self) -> bool:
        """Whether the instant may still complete."""
        return self.state in (State.REQUESTED, State.INFLIGHT)


def require_instant_time(text: str) -> str:
    """Return ``text`` if it is an instant time, else raise ``Invalid``."""
    if not _TIME.fullmatch(text):
        raise Invalid(
            f"{text!r} is not an instant time: give yyyyMMddHHmmssSSS (legacy: without SSS)"
        )
    return text


def format_instant_time(epoch_ms: int, zone: tzinfo = UTC) -> str:
    """Return the 17-digit instant time of ``epoch_ms`` in the table's time zone."""
    moment = datetime.fromtimestamp(epoch_ms // 1000, tz=zone)
    return f"{moment.strftime(_FORMAT_SECONDS)}{epoch_ms % 1000:03d}"


def parse_instant_time(text: str, zone: tzinfo = UTC) -> int:
    """Return the epoch milliseconds of an instant time; 14 digits count as their last ms."""
    require_instant_time(text)
    try:
        moment = datetime.strptime(text[:14], _FORMAT_SECONDS).replace(tzinfo=zone)
    except ValueError as error:
        raise Invalid(f"{text!r} is not an instant time: {error}") from error
    return int(moment.timestamp()) * 1000 + (int(text[14:]) if len(text) == 17 else 999)


def next_instant_time(text: str) -> str:
    """Return the instant time one millisecond after ``text``, whatever zone it was read in."""
    return format_instant_time(parse_instant_time(text) + 1)
