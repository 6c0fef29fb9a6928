"""The states of an instant and the legal moves between them: the table, and nothing but the table.

The diagram in docs/journal.md is made from ``MOVES``.
"""

from __future__ import annotations

from enum import Enum, unique
from typing import TYPE_CHECKING

from lakehand.core.instants import Action
from lakehand.core.journal_entries import (
    Abort,
    Blank,
    Body,
    Cancel,
    Checkpoint,
    Claim,
    Commit,
    Overtaken,
    Plan,
    Prepare,
    Purpose,
    RollbackEnd,
    RolledBack,
    Void,
)

if TYPE_CHECKING:
    from collections.abc import Mapping


@unique
class Standing(Enum):
    """The state of one instant, as the journal decided it."""

    FOREIGN = "foreign"
    """The journal does not know it."""
    REQUESTED = "requested"
    EXECUTING = "executing"
    PREPARED = "prepared"
    """What the attempt may promote is written down."""
    COMMITTED = "committed"
    CANCELLED = "cancelled"
    """It will never commit; its abort is still to come."""
    ABORTING = "aborting"
    ABORTED = "aborted"
    ROLLING_BACK = "rolling back"
    REMOVED = "removed"
    """Rolled back, plan and all."""
    VOIDED = "voided"
    """Its commit was overtaken by a foreign one before it was published; to be rolled back."""
    SUPERSEDED = "superseded"
    """A foreign writer ended it: completed, rolled back or archived it."""


ENDED = frozenset(
    {Standing.COMMITTED, Standing.ABORTED, Standing.REMOVED, Standing.SUPERSEDED},
)
"""The states that nothing follows (but ``void``, while a commit is not published)."""


@unique
class Move(Enum):
    """A decision, seen from the one instant that it moves."""

    PLAN = "plan"
    CLAIM_EXECUTE = "claim to execute"
    CLAIM_ROLL_BACK = "claim to roll back"
    CLAIM_ABORT = "claim to abort"
    PREPARE = "prepare"
    COMMIT = "commit"
    CANCEL = "cancel"
    ABORT = "abort"
    KEEP_PLAN = "rolled back, plan kept"
    REMOVE_PLAN = "rolled back, plan removed"
    FINISH_ROLLBACK = "rollback finished"
    VOID = "void"
    SUPERSEDE = "superseded"


_TRIED = {
    Move.CLAIM_EXECUTE: Standing.EXECUTING,
    Move.CLAIM_ROLL_BACK: Standing.ROLLING_BACK,
    Move.CANCEL: Standing.CANCELLED,
    Move.SUPERSEDE: Standing.SUPERSEDED,
}

MOVES: Mapping[Standing, Mapping[Move, Standing]] = {
    Standing.FOREIGN: {
        Move.PLAN: Standing.REQUESTED,
        Move.CLAIM_EXECUTE: Standing.EXECUTING,
        Move.CLAIM_ROLL_BACK: Standing.ROLLING_BACK,
        Move.FINISH_ROLLBACK: Standing.COMMITTED,
    },
    Standing.REQUESTED: {**_TRIED, Move.FINISH_ROLLBACK: Standing.COMMITTED},
    Standing.EXECUTING: {
        **_TRIED,
        Move.PREPARE: Standing.PREPARED,
        Move.COMMIT: Standing.COMMITTED,
    },
    Standing.PREPARED: {
        **_TRIED,
        Move.PREPARE: Standing.PREPARED,
        Move.COMMIT: Standing.COMMITTED,
    },
    Standing.COMMITTED: {Move.VOID: Standing.VOIDED, Move.SUPERSEDE: Standing.SUPERSEDED},
    Standing.CANCELLED: {
        Move.CLAIM_ABORT: Standing.ABORTING,
        Move.SUPERSEDE: Standing.SUPERSEDED,
    },
    Standing.ABORTING: {
        Move.CLAIM_ABORT: Standing.ABORTING,
        Move.ABORT: Standing.ABORTED,
        Move.SUPERSEDE: Standing.SUPERSEDED,
    },
    Standing.ABORTED: {},
    Standing.ROLLING_BACK: {
        **_TRIED,
        Move.KEEP_PLAN: Standing.REQUESTED,
        Move.REMOVE_PLAN: Standing.REMOVED,
    },
    Standing.REMOVED: {},
    Standing.VOIDED: {
        Move.CLAIM_ROLL_BACK: Standing.ROLLING_BACK,
        Move.CANCEL: Standing.CANCELLED,
        Move.SUPERSEDE: Standing.SUPERSEDED,
    },
    Standing.SUPERSEDED: {},
}
"""Which decision may follow which state. The diagram in docs/journal.md is made from it."""

WITHOUT_FILES = frozenset(
    {
        Action.CLEAN,
        Action.ROLLBACK,
        Action.RESTORE,
        Action.SAVEPOINT,
        Action.INDEXING,
        Action.SCHEMA_COMMIT,
    }
)
"""Actions whose commit names no data files, so that no manifest is prepared before it."""

_TO_ROLL_BACK = frozenset({Overtaken.FOREIGN_COMMIT, Overtaken.STAGING_LOST})


def moves_of(body: Body) -> tuple[tuple[str, Move], ...]:
    """Return the instants that a decision moves, and how."""
    match body:
        case Plan():
            return ((body.time, Move.PLAN),)
        case Claim():
            return ((body.time, _CLAIMS[body.purpose]),)
        case Prepare():
            return ((body.time, Move.PREPARE),)
        case Commit():
            cancelled = ((one.time, Move.CANCEL) for one in body.cancels)
            return ((body.time, Move.COMMIT), *cancelled)
        case Cancel():
            return ((body.time, Move.CANCEL),)
        case Abort():
            return ((body.time, Move.ABORT),)
        case RolledBack():
            target = _ENDS.get(body.end)
            own = (body.rollback, Move.FINISH_ROLLBACK)
            return (own,) if target is None else ((body.time, target), own)
        case Void():
            return ((body.time, Move.VOID if body.reason in _TO_ROLL_BACK else Move.SUPERSEDE),)
        case Checkpoint() | Blank():
            return ()


_CLAIMS = {
    Purpose.EXECUTE: Move.CLAIM_EXECUTE,
    Purpose.ROLL_BACK: Move.CLAIM_ROLL_BACK,
    Purpose.ABORT: Move.CLAIM_ABORT,
}
_ENDS = {RollbackEnd.PLAN_KEPT: Move.KEEP_PLAN, RollbackEnd.REMOVED: Move.REMOVE_PLAN}
