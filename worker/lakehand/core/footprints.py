"""What an instant writes or replaces, and what a judge of conflicts has to know about it.

A commit transaction gathers its own instant as ``Mine`` and every other one as ``Other``, from the
journal's fold, the timeline and the plans. ``core/conflicts.py`` decides on these values alone.

::

    requested, inflight and completed files ─┐
    the journal's fold ──────────────────────┼─> Mine, Other ... ─> conflicts.judge
    heartbeats ──────────────────────────────┘                  └─> free_groups (for a new plan)

Groups are qualified by their partition, because a file id alone need not be unique, and hold what
is replaced as well as what is written.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, unique
from typing import TYPE_CHECKING, NamedTuple

from lakehand.core.file_slices import FIRST_VERSION_BY_COMPLETION
from lakehand.core.instants import WRITE_ACTIONS, Action, completed_action
from lakehand.errors import InvariantBroken

if TYPE_CHECKING:
    from collections.abc import Iterable


class FileGroupKey(NamedTuple):
    """A file group: its id counts only together with its partition."""

    partition: str
    file_id: str


@dataclass(frozen=True, slots=True)
class Footprint:
    """The file groups that an instant writes or replaces, and the schema it writes with.

    ``schema`` is any id or fingerprint that is equal for equal schemas; None if the instant has
    none. ``is_known`` is False when the instant's files do not tell its groups: it may then touch
    any of them.
    """

    groups: frozenset[FileGroupKey] = frozenset()
    schema: str | None = None
    is_known: bool = True

    def shared_with(self, other: Footprint) -> frozenset[FileGroupKey]:
        """Return which of these groups ``other`` writes or replaces too, or may."""
        return self.groups & other.groups if other.is_known else self.groups


NO_FOOTPRINT = Footprint()
"""Of a write that is only requested: it does not know yet what it will touch."""

UNKNOWN_FOOTPRINT = Footprint(is_known=False)
"""Of a pending instant whose footprint is absent or cannot be read."""


@unique
class Standing(Enum):
    """How far another instant has come, as far as conflicts go."""

    REQUESTED = "requested"
    INFLIGHT_LIVE = "inflight, live"
    INFLIGHT_EXPIRED = "inflight, heartbeat expired"
    COMMITTED = "committed"
    CANCELLED = "cancelled"
    """Cancellation is decided, the abort may still be to do: it will never commit."""
    ROLLED_BACK = "rolled back"
    """Undone, void, or claimed for being so: it will never commit, nor is it committed."""


PENDING = frozenset({Standing.REQUESTED, Standing.INFLIGHT_LIVE, Standing.INFLIGHT_EXPIRED})
INFLIGHT = frozenset({Standing.INFLIGHT_LIVE, Standing.INFLIGHT_EXPIRED})


@unique
class Kind(Enum):
    """What an instant is to the tables of conflicts. Only data-changing instants have a kind."""

    INGESTION = "ingestion"
    OVERWRITE = "overwrite"
    """An ingestion write that replaces file groups: insert overwrite, delete partition."""
    COMPACTION = "compaction"
    LOG_COMPACTION = "log compaction"
    CLUSTERING = "clustering"
    CANCELLABLE_COMPACTION = "cancellable compaction"
    CANCELLABLE_LOG_COMPACTION = "cancellable log compaction"
    CANCELLABLE_CLUSTERING = "cancellable clustering"


WRITES = frozenset({Kind.INGESTION, Kind.OVERWRITE})
"""The kinds that bring data in; all others are table services."""

_SERVICE_ACTIONS = frozenset({Action.COMPACTION, Action.LOG_COMPACTION, Action.CLUSTERING})
_SERVICE_KINDS = {
    (Action.COMMIT, False): Kind.COMPACTION,
    (Action.DELTA_COMMIT, False): Kind.LOG_COMPACTION,
    (Action.REPLACE_COMMIT, False): Kind.CLUSTERING,
    (Action.COMMIT, True): Kind.CANCELLABLE_COMPACTION,
    (Action.DELTA_COMMIT, True): Kind.CANCELLABLE_LOG_COMPACTION,
    (Action.REPLACE_COMMIT, True): Kind.CANCELLABLE_CLUSTERING,
}


def _kind(action: Action, *, is_table_service: bool, cancellable: bool) -> Kind | None:
    completed = completed_action(action)
    if completed not in WRITE_ACTIONS:
        return None
    if is_table_service or action in _SERVICE_ACTIONS:
        return _SERVICE_KINDS[completed, cancellable]
    return Kind.OVERWRITE if completed is Action.REPLACE_COMMIT else Kind.INGESTION


@dataclass(frozen=True, slots=True, kw_only=True)
class Mine:
    """The instant that wants to commit (or looks, at its start or meanwhile, whether it could).

    ``is_table_service`` is needed where the action does not tell: a clustering of layout 1 is a
    replacecommit, and so is an overwriting write.
    ``started_on`` is the completion time of the last completed instant that my view holds, for a
    plan the view that it was made on: what completed later is news to me. None (a plan that does
    not say it) counts since ``time``.
    ``known`` names the completed writes of that view, where the view remembers them: clocks of
    foreign writers may be wrong, so a name says more than a completion time. None: times decide.
    ``pending_at_start`` is every instant that was pending in that view, None if not remembered.
    ``schema_at_start`` is the table's schema in that view, None if it had none.
    ``epoch`` numbers my attempt, and ``claimed_on`` is the last completion time when it began
    (None: when my view was made).
    """

    time: str
    action: Action
    table_version: int
    footprint: Footprint
    is_table_service: bool = False
    cancellable: bool = False
    started_on: str | None = None
    known: frozenset[str] | None = None
    pending_at_start: frozenset[str] | None = None
    schema_at_start: str | None = None
    epoch: int = 1
    claimed_on: str | None = None

    @property
    def kind(self) -> Kind:
        """Return what I am to the tables."""
        kind = _kind(
            self.action, is_table_service=self.is_table_service, cancellable=self.cancellable
        )
        if kind is None:
            raise InvariantBroken(
                f"{self.time} is a {self.action.value}: it changes no data, so it has no conflicts"
            )
        return kind

    @property
    def view(self) -> str:
        """Return the completion time up to which I knew the table."""
        return self.time if self.started_on is None else self.started_on

    @property
    def slices_by_completion(self) -> bool:
        """Whether the table's version orders slices by completion time (from version 8 on)."""
        return self.table_version >= FIRST_VERSION_BY_COMPLETION


@dataclass(frozen=True, slots=True, kw_only=True)
class Other:
    """Another instant, as a judge sees it.

    ``completion_time`` of a committed instant may be None in layout 1 only, where the judge then
    goes by ``Mine.pending_at_start``; the completed file's modification time is better.
    ``is_foreign`` says that a writer without a journal made it or works on it.
    ``rolls_back`` is the target of a rollback, ``rolls_back_epoch`` the last attempt at it that
    the rollback is for (None: it does not say, as Java's).
    """

    time: str
    action: Action
    standing: Standing
    footprint: Footprint = NO_FOOTPRINT
    completion_time: str | None = None
    is_table_service: bool = False
    cancellable: bool = False
    is_foreign: bool = False
    rolls_back: str | None = None
    rolls_back_epoch: int | None = None

    @property
    def kind(self) -> Kind | None:
        """Return what it is to the tables, None if it changes no data.

        A plan of ours that a foreign writer executes cannot be cancelled with effect: that writer
        does not look, so the plan counts as one that is not cancellable.
        """
        can_be_stopped = not (self.is_foreign and self.standing in INFLIGHT)
        return _kind(
            self.action,
            is_table_service=self.is_table_service,
            cancellable=self.cancellable and can_be_stopped,
        )

    @property
    def is_pending_service(self) -> bool:
        """Whether it is a table service's plan that may still commit."""
        return self.standing in PENDING and self.kind is not None and self.kind not in WRITES


def is_held(group: FileGroupKey, others: Iterable[Other]) -> bool:
    """Whether a pending plan has ``group``, so that a new plan must leave it alone."""
    return not free_groups((group,), others)


def free_groups(groups: Iterable[FileGroupKey], others: Iterable[Other]) -> frozenset[FileGroupKey]:
    """Return which of ``groups`` a new plan may include: those that no pending plan has.

    A plan that was cancelled holds nothing from then on, also before it is aborted. A plan whose
    groups are not known holds them all. Writes hold none: they and the new plan meet at commit.
    """
    free = frozenset(groups)
    for other in others:
        if other.is_pending_service:
            free -= Footprint(free).shared_with(other.footprint)
    return free
