"""The journal folded: the state of a table's open instants, and what may be decided next.

``Fold.apply`` folds one entry in, and is pure. An instant that the journal never heard of is
FOREIGN: it may be taken over or rolled back, and its attempts count as epoch 0. An instant that
has ended stays until its end is published; after that the timeline alone speaks for it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from lakehand.core.instants import Action
from lakehand.core.journal_entries import (
    START,
    Abort,
    Body,
    Cancel,
    Checkpoint,
    Claim,
    Commit,
    Entry,
    GroupKey,
    Link,
    Plan,
    Prepare,
    RollbackEnd,
    RolledBack,
    RunKey,
    times_of,
)
from lakehand.core.journal_moves import ENDED, MOVES, WITHOUT_FILES, Move, Standing, moves_of
from lakehand.errors import InvariantBroken

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


@dataclass(frozen=True, slots=True)
class InstantRecord:
    """What the journal decided about one open instant."""

    time: str
    standing: Standing
    since: int
    """The sequence of the last decision about it."""
    since_ms: int = 0
    """When that was, by the store's clock."""
    plan: Plan | None = None
    planned_at_ms: int = 0
    epoch: int = 0
    claim: Claim | None = None
    prepared: Prepare | None = None
    commit: Commit | None = None
    cancel: Cancel | None = None

    @property
    def removable(self) -> bool:
        """Whether its rollback removes the plan too."""
        return self.plan is not None and self.plan.removable

    @property
    def beat(self) -> str:
        """The instant whose heartbeat tells whether the last attempt is live."""
        return self.time if self.claim is None else self.claim.beat

    @property
    def groups(self) -> tuple[GroupKey, ...] | None:
        """The file groups that it touches, as last said; None: its files say."""
        if self.claim is not None and self.claim.groups != ():
            return self.claim.groups
        return () if self.plan is None else self.plan.groups


@dataclass(frozen=True, slots=True)
class Run:
    """A batch that an instant wrote."""

    key: RunKey
    time: str


RUNS_KEPT = 100
"""How many batches are remembered for each application."""


@dataclass(frozen=True, slots=True)
class Fold:
    """The state of a table's open instants after ``tail``."""

    tail: Link = START
    table: str = ""
    checkpoint: int = 0
    published: int = 0
    provider: str | None = None
    last_time: str = ""
    instants: Mapping[str, InstantRecord] = field(default_factory=dict)
    unpublished: tuple[Entry, ...] = ()
    runs: tuple[Run, ...] = ()

    def record(self, time: str) -> InstantRecord:
        """Return what is known of an instant; a FOREIGN record if nothing is."""
        return self.instants.get(time) or InstantRecord(time, Standing.FOREIGN, since=0)

    def standing(self, time: str) -> Standing:
        """Return the state of an instant."""
        return self.record(time).standing

    @property
    def open(self) -> tuple[InstantRecord, ...]:
        """The instants that have not ended, in order of time."""
        ended = ENDED
        records = (one for one in self.instants.values() if one.standing not in ended)
        return tuple(sorted(records, key=lambda one: one.time))

    def rollbacks_of(self, time: str) -> tuple[InstantRecord, ...]:
        """Return the open rollback plans whose target is ``time``."""
        return tuple(
            one
            for one in self.open
            if one.plan is not None and one.plan.target is not None and one.plan.target.time == time
        )

    @property
    def open_restore(self) -> str | None:
        """The restore that is under way, if one is."""
        for one in self.open:
            if one.plan is not None and one.plan.action is Action.RESTORE:
                return one.time
        return None

    def run_time(self, key: RunKey) -> str | None:
        """Return the instant that wrote a batch, or is writing it."""
        return next((one.time for one in self.runs if one.key == key), None)

    def apply(self, entry: Entry) -> Fold:
        """Return the state after ``entry``, which must be legal here."""
        if isinstance(entry.body, Checkpoint):
            return _after_checkpoint(self, entry, entry.body)
        moved = dict(self.instants)
        for time, move in moves_of(entry.body):
            moved[time] = _moved(self.record(time), move, entry)
        published = max(self.published, entry.published)
        unpublished = tuple(one for one in self.unpublished if one.seq > published)
        if moves_of(entry.body):
            unpublished += (entry,)
        return replace(
            self,
            tail=entry.link,
            published=published,
            provider=entry.lock.provider if entry.lock.token else self.provider,
            last_time=max(self.last_time, *times_of(entry.body)),
            instants=_without_ended(moved, published),
            unpublished=unpublished,
            runs=_runs_after(self.runs, entry.body),
        )

    def allows(self, body: Body) -> bool:
        """Whether ``body`` may be decided here."""
        try:
            self.require_legal(body)
        except InvariantBroken:
            return False
        return True

    def require_legal(self, body: Body) -> None:
        """Raise ``InvariantBroken`` unless ``body`` may be decided here."""
        for time, move in moves_of(body):
            record = self.record(time)
            if move not in MOVES[record.standing]:
                raise InvariantBroken(f"{time} is {record.standing.value}: no {move.value} now")
            _require_epoch(record, body, time)
        if isinstance(body, Commit):
            _require_manifest(self.record(body.time))


def fold_entries(entries: Iterable[Entry], base: Fold | None = None) -> Fold:
    """Fold entries in order of sequence, from ``base`` on."""
    fold = base or Fold()
    for entry in entries:
        fold = fold.apply(entry)
    return fold


def _require_epoch(record: InstantRecord, body: Body, time: str) -> None:
    match body:
        case Claim() if body.epoch != record.epoch + 1:
            raise InvariantBroken(f"{time}: epoch {body.epoch} cannot follow {record.epoch}")
        case Prepare() | Commit() | Abort() | RolledBack() if (
            body.time == time and body.epoch != record.epoch
        ):
            raise InvariantBroken(f"{time}: epoch {body.epoch} was replaced by {record.epoch}")
        case _:
            return


def _require_manifest(record: InstantRecord) -> None:
    action = None if record.plan is None else record.plan.action
    if record.standing is Standing.EXECUTING and action not in WITHOUT_FILES:
        raise InvariantBroken(f"{record.time}: a commit of files needs a prepared manifest")


def _moved(record: InstantRecord, move: Move, entry: Entry) -> InstantRecord:
    after = MOVES[record.standing].get(move)
    if after is None:
        raise InvariantBroken(
            f"journal entry {entry.seq}: {record.time} is {record.standing.value}, "
            f"so {move.value} cannot follow"
        )
    _require_epoch(record, entry.body, record.time)
    moved = replace(record, standing=after, since=entry.seq, since_ms=entry.at_ms)
    match entry.body:
        case Plan() as plan:
            return replace(moved, plan=plan, planned_at_ms=entry.at_ms)
        case Claim() as claim:
            return replace(moved, epoch=claim.epoch, claim=claim, prepared=None)
        case Prepare() as prepare:
            return replace(moved, prepared=prepare)
        case Commit() as commit if move is Move.COMMIT:
            _require_manifest(record)
            return replace(moved, commit=commit)
        case Cancel() as cancel:
            return replace(moved, cancel=cancel)
        case _:
            return moved


def _without_ended(
    instants: Mapping[str, InstantRecord], published: int
) -> dict[str, InstantRecord]:
    return {
        time: record
        for time, record in instants.items()
        if record.standing not in ENDED or record.since > published
    }


def _runs_after(runs: tuple[Run, ...], body: Body) -> tuple[Run, ...]:
    match body:
        case Plan(run=RunKey() as key, time=time):
            return _bounded((*(one for one in runs if one.key != key), Run(key, time)))
        case RolledBack(end=RollbackEnd.REMOVED, time=time):
            return tuple(one for one in runs if one.time != time)
        case _:
            return runs


def _bounded(runs: tuple[Run, ...]) -> tuple[Run, ...]:
    """Forget the oldest batch of the application that wrote last, if it has too many."""
    mine = [one for one in runs if one.key.application == runs[-1].key.application]
    return runs if len(mine) <= RUNS_KEPT else tuple(one for one in runs if one is not mine[0])


def _after_checkpoint(before: Fold, entry: Entry, body: Checkpoint) -> Fold:
    """Begin anew at a checkpoint: it says all that was said before it."""
    if before.tail not in (START, entry.decided_on):
        raise InvariantBroken(f"checkpoint {entry.seq} does not follow entry {before.tail.seq}")
    return replace(body.fold, tail=entry.link, checkpoint=entry.seq)
