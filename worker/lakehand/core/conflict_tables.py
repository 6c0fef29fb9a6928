"""The tables of conflicts: who gives way when two instants touch the same file group.

Three named tables, one per strategy. A row says for which kinds of instant, how far the other has
come, and in which order they stand; **the first row that fits counts**, and the last row of every
table allows what is left. A table is only asked about others that share a file group with mine
and that are pending, or committed after my view of the table was made.

* ``SIMPLE``, ``PREFER_WRITER``: what Hudi 1.x does under the strategies of these names, including
  what it never asks (no strategy is consulted when a compaction commits). They know nothing of
  cancelling: a cancellable plan counts as what it is otherwise. Where one is stricter than Hudi,
  the row says so.
* ``PREFER_INGESTION``, the default: ingestion goes before cancellable plans, by cancelling them;
  for everything else Hudi's default rules, and none that loses an acknowledged write.

Table versions differ because slices do. Before version 8 a log belongs to the base file that its
writer saw, so that a compaction planned meanwhile leaves the log behind, in a slice that nobody
reads any more. From version 8 on logs belong by completion time, and compaction and writes do not
disturb each other.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum, unique

from lakehand.core.footprints import INFLIGHT, PENDING, WRITES, Kind, Standing


@unique
class Strategy(Enum):
    """The named rules by which conflicts are judged."""

    SIMPLE = "simple"
    PREFER_WRITER = "prefer-writer"
    PREFER_INGESTION = "prefer-ingestion"


@unique
class Verdict(Enum):
    """What one other instant means for mine."""

    ALLOW = "allow"
    REFUSE = "refuse"
    CANCEL_OTHER = "cancel other"
    """I commit, and my commit entry cancels the other one."""


@unique
class Order(Enum):
    """Which of the two was named first, by requested time.

    A plan that was not there when my view was made is LATER whatever its time says: my write
    could not take it into account.
    """

    EARLIER = "earlier"
    LATER = "later"


@unique
class Versions(Enum):
    """The table versions that a row is for."""

    ALL = "all"
    BEFORE_8 = "before 8"
    FROM_8 = "from 8"


_COMMITTED = frozenset({Standing.COMMITTED})
JUDGED = PENDING | _COMMITTED
"""What a table is asked about: nothing that is cancelled or rolled back."""

_FIRM_SERVICES = frozenset({Kind.COMPACTION, Kind.LOG_COMPACTION, Kind.CLUSTERING})
_CANCELLABLE_SERVICES = frozenset(
    {
        Kind.CANCELLABLE_COMPACTION,
        Kind.CANCELLABLE_LOG_COMPACTION,
        Kind.CANCELLABLE_CLUSTERING,
    }
)
_COMPACTIONS = frozenset({Kind.COMPACTION, Kind.CANCELLABLE_COMPACTION})
_LOG_COMPACTIONS = frozenset({Kind.LOG_COMPACTION, Kind.CANCELLABLE_LOG_COMPACTION})
_CLUSTERINGS = frozenset({Kind.CLUSTERING, Kind.CANCELLABLE_CLUSTERING})
_ANY_ORDER = frozenset(Order)
_ANY_KIND = frozenset(Kind)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One rule: the verdict for every combination that all its columns contain."""

    mine: frozenset[Kind]
    other: frozenset[Kind]
    standings: frozenset[Standing] = JUDGED
    order: frozenset[Order] = _ANY_ORDER
    versions: Versions = Versions.ALL
    verdict: Verdict
    why: str

    def fits(self, case: Case) -> bool:
        """Whether this row speaks about ``case``."""
        return (
            case.mine in self.mine
            and case.other in self.other
            and case.standing in self.standings
            and case.order in self.order
            and self.versions in (Versions.ALL, case.versions)
        )


@dataclass(frozen=True, slots=True)
class Case:
    """One question to a table. ``versions`` is BEFORE_8 or FROM_8."""

    versions: Versions
    mine: Kind
    other: Kind
    standing: Standing
    order: Order


_PLANNED_OVER_A_LOG = Row(
    versions=Versions.BEFORE_8,
    mine=WRITES | _LOG_COMPACTIONS,
    other=_COMPACTIONS,
    order=frozenset({Order.LATER}),
    verdict=Verdict.REFUSE,
    why="a compaction was planned after my view was made: my log lies on the base it replaces",
)
_OTHERWISE = Row(
    mine=_ANY_KIND,
    other=_ANY_KIND,
    verdict=Verdict.ALLOW,
    why="nothing is lost, or the other one is judged when it commits",
)

_SIMPLE = (
    Row(
        mine=_COMPACTIONS | _CLUSTERINGS,
        other=_ANY_KIND,
        verdict=Verdict.ALLOW,
        why="no conflict is looked for when a compaction or clustering commits",
    ),
    _PLANNED_OVER_A_LOG,
    Row(
        mine=_ANY_KIND,
        other=_COMPACTIONS,
        verdict=Verdict.ALLOW,
        why="it was planned before me, or logs belong to slices by completion time (from 8)",
    ),
    Row(
        mine=_LOG_COMPACTIONS,
        other=_ANY_KIND,
        verdict=Verdict.ALLOW,
        why="a log compaction only rewrites log blocks, which keep their place",
    ),
    Row(
        mine=WRITES,
        other=_CLUSTERINGS,
        standings=PENDING,
        verdict=Verdict.REFUSE,
        why="a pending clustering replaces the group and would lose my rows, whatever its age",
    ),
    Row(
        mine=WRITES,
        other=frozenset({Kind.OVERWRITE}),
        standings=INFLIGHT,
        order=frozenset({Order.LATER}),
        verdict=Verdict.REFUSE,
        why="a write requested after mine is about to replace the group",
    ),
    Row(
        mine=WRITES,
        other=_ANY_KIND,
        standings=_COMMITTED,
        verdict=Verdict.REFUSE,
        why="it changed the same file group after my view was made",
    ),
    _OTHERWISE,
)

_PREFER_WRITER = (
    Row(
        mine=_COMPACTIONS,
        other=_ANY_KIND,
        verdict=Verdict.ALLOW,
        why="no conflict is looked for when a compaction commits",
    ),
    replace(
        _PLANNED_OVER_A_LOG,
        why=f"{_PLANNED_OVER_A_LOG.why} (stricter than Hudi: a pending plan does not stop it)",
    ),
    Row(
        mine=_ANY_KIND,
        other=_COMPACTIONS,
        standings=_COMMITTED,
        order=frozenset({Order.EARLIER}),
        verdict=Verdict.ALLOW,
        why="the compaction was planned before me, so I wrote on top of it",
    ),
    Row(
        mine=_LOG_COMPACTIONS,
        other=_ANY_KIND - _COMPACTIONS,
        verdict=Verdict.ALLOW,
        why="a log compaction only rewrites log blocks, which keep their place",
    ),
    Row(
        mine=WRITES | _LOG_COMPACTIONS | _CLUSTERINGS,
        other=_ANY_KIND,
        standings=_COMMITTED,
        verdict=Verdict.REFUSE,
        why="it changed the same file group after my view was made",
    ),
    Row(
        mine=_CLUSTERINGS,
        other=WRITES,
        standings=INFLIGHT,
        verdict=Verdict.REFUSE,
        why="a write at work goes before clustering, whether its heartbeat lives or not",
    ),
    Row(
        versions=Versions.BEFORE_8,
        mine=_CLUSTERINGS,
        other=_CLUSTERINGS,
        standings=INFLIGHT,
        verdict=Verdict.REFUSE,
        why="an inflight clustering looks like an overwriting write: both are replacecommits",
    ),
    _OTHERWISE,
)

_PREFER_INGESTION = (
    _PLANNED_OVER_A_LOG,
    Row(
        mine=WRITES | _FIRM_SERVICES,
        other=_CANCELLABLE_SERVICES,
        standings=PENDING,
        verdict=Verdict.CANCEL_OTHER,
        why="a cancellable plan gives way, but only to an instant that commits",
    ),
    Row(
        mine=WRITES | _FIRM_SERVICES,
        other=_CANCELLABLE_SERVICES,
        standings=_COMMITTED,
        verdict=Verdict.REFUSE,
        why="a cancellable plan committed first: precedence ends there",
    ),
    Row(
        mine=_CANCELLABLE_SERVICES,
        other=WRITES,
        standings=frozenset({Standing.INFLIGHT_LIVE, Standing.COMMITTED}),
        verdict=Verdict.REFUSE,
        why="ingestion goes first; only requested, or expired, it holds nobody back",
    ),
    Row(
        mine=_CANCELLABLE_SERVICES,
        other=_FIRM_SERVICES,
        verdict=Verdict.REFUSE,
        why="a plan that cannot be cancelled goes first as long as it is pending at all",
    ),
    Row(
        mine=_CANCELLABLE_SERVICES,
        other=_CANCELLABLE_SERVICES,
        standings=_COMMITTED,
        verdict=Verdict.REFUSE,
        why="two cancellable plans ignore each other until one has committed",
    ),
    Row(
        mine=WRITES,
        other=WRITES | frozenset({Kind.LOG_COMPACTION}),
        standings=_COMMITTED,
        verdict=Verdict.REFUSE,
        why="it changed the same file group after my view was made",
    ),
    Row(
        mine=WRITES,
        other=frozenset({Kind.CLUSTERING}),
        verdict=Verdict.REFUSE,
        why="a clustering replaces the group and would lose my rows, whatever its age",
    ),
    Row(
        mine=frozenset({Kind.CLUSTERING}),
        other=WRITES,
        standings=_COMMITTED,
        verdict=Verdict.REFUSE,
        why="the plan does not read these rows (stricter than Hudi, which does not look)",
    ),
    Row(
        versions=Versions.BEFORE_8,
        mine=frozenset({Kind.COMPACTION}),
        other=WRITES,
        standings=_COMMITTED,
        order=frozenset({Order.EARLIER}),
        verdict=Verdict.REFUSE,
        why="its log lies on the base that I replace (stricter than Hudi, which does not look)",
    ),
    Row(
        mine=_FIRM_SERVICES,
        other=_FIRM_SERVICES,
        standings=_COMMITTED,
        verdict=Verdict.REFUSE,
        why="it changed the slice that my plan reads (stricter than Hudi, which does not look)",
    ),
    _OTHERWISE,
)

TABLES: dict[Strategy, tuple[Row, ...]] = {
    Strategy.SIMPLE: _SIMPLE,
    Strategy.PREFER_WRITER: _PREFER_WRITER,
    Strategy.PREFER_INGESTION: _PREFER_INGESTION,
}
