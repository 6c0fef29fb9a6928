"""Whether an instant may commit beside the others, and which plans its commit cancels.

::

    judge(mine, others, strategy)
      for each other: undone, cancelled or older than my view -> nothing
                      rollback of me, restore, schema clash   -> refused, in every strategy
                      no file group in common                 -> nothing
                      else the first row that fits            -> allow | refuse | cancel other
      any refusal -> nothing is cancelled

The same function serves the first look of an ingestion write, a look while work is under way, and
the commit transaction. Only the last one carries the cancellations out, in its ``commit`` entry.
Two inserts of one new key into different file groups are no conflict here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, assert_never

from lakehand.core.conflict_tables import TABLES, Case, Order, Strategy, Verdict, Versions
from lakehand.core.footprints import PENDING, WRITES, Standing
from lakehand.core.instants import WRITE_ACTIONS, Action
from lakehand.errors import InvariantBroken

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lakehand.core.conflict_tables import Row
    from lakehand.core.footprints import FileGroupKey, Kind, Mine, Other

ROLLED_BACK_MYSELF = "my own instant is being rolled back, or was"
RESTORED = "the table is being restored, or was after my view was made"
SCHEMA_CLASH = "the table's schema changed after my view was made, and I write with a third one"

_NOBODY_WAITS_FOR = frozenset({Standing.CANCELLED, Standing.ROLLED_BACK})


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why one other instant keeps mine from committing.

    ``groups`` is what both touch (all of mine if the other's are not known); empty if the reason
    has nothing to do with files.
    """

    other: Other
    groups: frozenset[FileGroupKey]
    reason: str


@dataclass(frozen=True, slots=True)
class Judgement:
    """May commit if there is no refusal; ``cancels`` are the plans that the commit cancels."""

    refusals: tuple[Refusal, ...]
    cancels: tuple[str, ...]

    @property
    def may_commit(self) -> bool:
        """Whether nothing stands against the commit."""
        return not self.refusals


def judge(
    mine: Mine, others: Iterable[Other], strategy: Strategy = Strategy.PREFER_INGESTION
) -> Judgement:
    """Decide on my commit in view of ``others``, in whatever order they come."""
    if not mine.footprint.is_known:
        raise InvariantBroken(f"{mine.time} cannot be judged before it knows its file groups")
    my_kind = mine.kind
    refusals: list[Refusal] = []
    cancels: set[str] = set()
    for other in others:
        if other.time == mine.time or other.standing in _NOBODY_WAITS_FOR:
            continue
        verdict, groups, reason = _judge_one(mine, my_kind, other, strategy)
        match verdict:
            case Verdict.REFUSE:
                refusals.append(Refusal(other, groups, reason))
            case Verdict.CANCEL_OTHER:
                cancels.add(other.time)
            case Verdict.ALLOW:
                pass
            case _:
                assert_never(verdict)
    refusals.sort(key=lambda refusal: (refusal.other.time, refusal.other.action.value))
    return Judgement(tuple(refusals), () if refusals else tuple(sorted(cancels)))


def rule_for(strategy: Strategy, case: Case) -> Row:
    """Return the row of the strategy's table that decides ``case``."""
    for row in TABLES[strategy]:
        if row.fits(case):
            return row
    raise InvariantBroken(f"no row of the table {strategy.value} fits {case}")


def _judge_one(
    mine: Mine, my_kind: Kind, other: Other, strategy: Strategy
) -> tuple[Verdict, frozenset[FileGroupKey], str]:
    nothing: frozenset[FileGroupKey] = frozenset()
    if _rolls_me_back(mine, other):
        return Verdict.REFUSE, nothing, ROLLED_BACK_MYSELF
    if not _may_concern_a_commit(other) or not _is_news(mine, other):
        return Verdict.ALLOW, nothing, ""
    if other.action is Action.RESTORE:
        return Verdict.REFUSE, nothing, RESTORED
    if my_kind in WRITES and _clashes(mine, other):
        return Verdict.REFUSE, nothing, SCHEMA_CLASH
    shared = mine.footprint.shared_with(other.footprint)
    if other.kind is None or not shared:
        return Verdict.ALLOW, nothing, ""
    row = rule_for(
        strategy,
        Case(
            versions=Versions.FROM_8 if mine.slices_by_completion else Versions.BEFORE_8,
            mine=my_kind,
            other=other.kind,
            standing=other.standing,
            order=Order.LATER if _is_later(mine, other) else Order.EARLIER,
        ),
    )
    return row.verdict, shared, row.why


def _rolls_me_back(mine: Mine, other: Other) -> bool:
    """Whether ``other`` is a rollback of my attempt, not of an earlier one at the same plan.

    A rollback that names no attempt (Java's) and that completed before my attempt began was of
    an earlier one.
    """
    if other.action is not Action.ROLLBACK or other.rolls_back != mine.time:
        return False
    if other.rolls_back_epoch is not None:
        return other.rolls_back_epoch >= mine.epoch
    began = mine.view if mine.claimed_on is None else mine.claimed_on
    return other.standing in PENDING or _completed_after(began, mine, other)


def _may_concern_a_commit(other: Other) -> bool:
    """Whether it changes data, the schema, or the table's past. Cleans, say, never do."""
    is_restore = other.action is Action.RESTORE
    return other.kind is not None or is_restore or other.footprint.schema is not None


def _is_news(mine: Mine, other: Other) -> bool:
    if other.standing in PENDING:
        return True
    if mine.known is not None and other.action in WRITE_ACTIONS:
        return other.time not in mine.known
    return _completed_after(mine.view, mine, other)


def _completed_after(moment: str, mine: Mine, other: Other) -> bool:
    """Whether a committed ``other`` completed after ``moment``.

    Without a completion time a requested time says too little: an instant older than my view may
    have completed after it, if it was pending then.
    """
    if other.completion_time is not None:
        return other.completion_time > moment
    if mine.slices_by_completion or mine.pending_at_start is None:
        raise InvariantBroken(
            f"it cannot be told whether {other.time} completed before {mine.time} was begun: give "
            "its completion time, or (before table version 8) what was pending at the start"
        )
    return other.time > moment or other.time in mine.pending_at_start


def _is_later(mine: Mine, other: Other) -> bool:
    was_unknown = mine.pending_at_start is not None and other.time not in mine.pending_at_start
    return other.time > mine.time or (was_unknown and other.kind not in WRITES)


def _clashes(mine: Mine, other: Other) -> bool:
    """Whether both writes changed the schema, differently.

    Writing on with the schema that the table had is no clash: the caller commits under the newer
    one. With no table schema at the start any difference is a clash.
    """
    before, ours, theirs = mine.schema_at_start, mine.footprint.schema, other.footprint.schema
    if other.standing is not Standing.COMMITTED or ours is None or theirs is None:
        return False
    return ours != theirs and before not in (ours, theirs)
