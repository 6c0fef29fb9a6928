"""The decisions that a journal holds, as values.

An ``Entry`` is one decision (its body), who took it under which lock, and what it stands on. What
may follow what is in ``journal_moves``; what all of them come to in ``journal``.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, unique
from typing import TYPE_CHECKING

from lakehand.core.instants import Action  # noqa: TC001 - read at run time by RecordMapping

if TYPE_CHECKING:
    from lakehand.core.journal import Fold


@unique
class Purpose(Enum):
    """What an attempt was claimed for."""

    EXECUTE = "execute"
    ROLL_BACK = "roll back"
    ABORT = "abort"


GroupKey = tuple[str, str]
"""A file group: its partition and file id."""


SEEN = 1000
"""How many completed writes a decision names: older ones cannot have been pending beside it."""


@dataclass(frozen=True, slots=True)
class StagedFile:
    """A staged file as the journal names it, so that anybody can promote or discard it.

    ``digest`` is of its content: the same name with other content is somebody else's file.
    """

    final: str
    place: str
    parts: tuple[str, ...]
    digest: str


@dataclass(frozen=True, slots=True)
class RollbackTarget:
    """What a rollback instant rolls back, and the last epoch that it was made for."""

    time: str
    up_to_epoch: int
    keeps_plan: bool


@dataclass(frozen=True, slots=True)
class CancellationPolicy:
    """When an incomplete plan is to be cancelled; the earlier counts, None never."""

    hours: float | None = 24.0
    completed_writes: int | None = None


@dataclass(frozen=True, slots=True)
class RunKey:
    """The batch of an application that a write belongs to; writing it again changes nothing."""

    application: str
    batch: str


# -- decisions ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Plan:
    """An instant was requested. ``groups`` is what it will touch, None: see its file."""

    time: str
    action: Action
    requested: StagedFile
    is_ingestion: bool = False
    removable: bool = False
    cancellable: bool = False
    policy: CancellationPolicy | None = None
    made_on: str | None = None
    seen: tuple[str, ...] = ()
    """The completed writes that it was made on."""
    pending: tuple[str, ...] | None = None
    """What was pending when it was made; in layout 1 only, where completions have no time."""
    target: RollbackTarget | None = None
    groups: tuple[GroupKey, ...] | None = ()
    run: RunKey | None = None


@dataclass(frozen=True, slots=True)
class Claim:
    """An attempt begins. Its heartbeat is ``beat`` (a rollback's beats on the rollback)."""

    time: str
    epoch: int
    owner: str
    purpose: Purpose
    beat: str
    inflight: StagedFile | None = None
    groups: tuple[GroupKey, ...] | None = ()


@dataclass(frozen=True, slots=True)
class Prepare:
    """All that the attempt may ever promote, as a document beside the journal."""

    time: str
    epoch: int
    manifest: str
    digest: str


@dataclass(frozen=True, slots=True)
class CancelFile:
    """A plan that a commit cancels, with the staged ``.cancel`` file that says so."""

    time: str
    file: StagedFile


@dataclass(frozen=True, slots=True)
class Commit:
    """The attempt's result counts. ``seen`` names the completed writes that the judge knew."""

    time: str
    epoch: int
    completion_time: str
    completed: StagedFile
    seen: tuple[str, ...] = ()
    cancels: tuple[CancelFile, ...] = ()


@dataclass(frozen=True, slots=True)
class Cancel:
    """The instant will never commit."""

    time: str
    by: str
    reason: str
    file: StagedFile


@dataclass(frozen=True, slots=True)
class Abort:
    """Nothing of a cancelled instant is left."""

    time: str
    epoch: int
    aborted: StagedFile


@unique
class RollbackEnd(Enum):
    """What became of a rollback's target."""

    PLAN_KEPT = "plan kept"
    REMOVED = "removed"
    NOTHING = "nothing"
    """The target had ended, or was claimed for execution, meanwhile."""


@dataclass(frozen=True, slots=True)
class RolledBack:
    """A rollback is done: ``rollback`` completes, ``time`` ends or is requested again."""

    time: str
    epoch: int
    end: RollbackEnd
    rollback: str
    completion_time: str
    completed: StagedFile


@unique
class Overtaken(Enum):
    """Why a decision does not stand."""

    FOREIGN_COMMIT = "a foreign write completed while two held the lock"
    STAGING_LOST = "its staged completed file is gone and was never published"
    COMPLETED = "a foreign writer completed it"
    ROLLED_BACK = "a foreign writer rolled it back"
    ARCHIVED = "it is in the archived history"
    NAME_TAKEN = "a foreign file has its name"


@dataclass(frozen=True, slots=True)
class Void:
    """A decision about ``time`` was overtaken."""

    time: str
    reason: Overtaken


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """All that older entries said, so that they can be trimmed.

    ``covered`` names the entries from ``first`` on: whoever lost sight of the tail asks it.
    """

    fold: Fold
    first: int
    covered: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Blank:
    """Nothing: closes a slot whose writer does not know what became of its entry."""


Body = Plan | Claim | Prepare | Commit | Cancel | Abort | RolledBack | Void | Checkpoint | Blank


@dataclass(frozen=True, slots=True)
class Link:
    """The entry that a decision stands on."""

    seq: int
    id: str


START = Link(0, "")
"""What the first entry of a journal stands on."""


@dataclass(frozen=True, slots=True)
class LockUse:
    """The lock that an entry was written under; no token: without a lock."""

    provider: str
    token: str


@dataclass(frozen=True, slots=True)
class Entry:
    """One decision and what it stands on."""

    seq: int
    id: str
    writer: str
    lock: LockUse
    decided_on: Link
    checkpoint: int
    published: int
    at_ms: int
    body: Body

    @property
    def link(self) -> Link:
        """What the next entry stands on."""
        return Link(self.seq, self.id)


def times_of(body: Body) -> tuple[str, ...]:
    """Return the times that a decision drew, so that the next one is later."""
    match body:
        case Plan():
            return (body.time,)
        case Commit() | RolledBack():
            return (body.completion_time,)
        case _:
            return ("",)


def staged_by(body: Body) -> tuple[StagedFile, ...]:
    """Return the staged files that publishing a decision consumes."""
    match body:
        case Plan():
            return (body.requested,)
        case Claim():
            return () if body.inflight is None else (body.inflight,)
        case Commit():
            return (body.completed, *(one.file for one in body.cancels))
        case Cancel():
            return (body.file,)
        case Abort():
            return (body.aborted,)
        case RolledBack():
            return (body.completed,)
        case _:
            return ()
