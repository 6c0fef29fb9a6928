"""Entries of a journal, made by hand: any body on any tail, and hypothesis' random ones."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING

from hypothesis import strategies as st

from lakehand.core.instants import Action
from lakehand.core.journal import Fold, InstantRecord
from lakehand.core.journal_entries import (
    Abort,
    Blank,
    Body,
    Cancel,
    CancelFile,
    CancellationPolicy,
    Checkpoint,
    Claim,
    Commit,
    Entry,
    LockUse,
    Overtaken,
    Plan,
    Prepare,
    Purpose,
    RollbackEnd,
    RollbackTarget,
    RolledBack,
    RunKey,
    StagedFile,
    Void,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

TABLE = "db.trips"
LOCK = LockUse("in-process", "token")
TIMES = tuple(f"2030010100000000{n}" for n in range(5))
ROLLBACKS = tuple(f"2030010200000000{n}" for n in range(3))


def staged(final: str, place: str = "place") -> StagedFile:
    return StagedFile(final, place, ("1",), "digest")


def plan(time: str, action: Action = Action.COMPACTION, **options) -> Plan:
    return Plan(time, action, staged(f"{time}.requested"), **options)


def claim(time: str, epoch: int, purpose: Purpose = Purpose.EXECUTE, **options) -> Claim:
    return Claim(time, epoch, "w", purpose, options.pop("beat", time), **options)


def prepare(time: str, epoch: int) -> Prepare:
    return Prepare(time, epoch, f"manifest-{epoch}", "digest")


def commit(time: str, epoch: int, *, cancels: Iterable[str] = ()) -> Commit:
    return Commit(
        time,
        epoch,
        f"{int(time) + 500}",
        staged(f"{time}.commit"),
        seen=(time,),
        cancels=tuple(CancelFile(one, staged(f".cancel/{one}")) for one in cancels),
    )


def cancel(time: str) -> Cancel:
    return Cancel(time, "somebody", "reason", staged(f".cancel/{time}"))


def abort(time: str, epoch: int) -> Abort:
    return Abort(time, epoch, staged(f"{time}.aborted"))


def rolled_back(time: str, epoch: int, end: RollbackEnd, rollback: str) -> RolledBack:
    completed = staged(f"{rollback}.rollback")
    return RolledBack(time, epoch, end, rollback, f"{int(rollback) + 500}", completed)


def entry_on(fold: Fold, body: Body, *, published: int = 0, writer: str = "w") -> Entry:
    """The entry that decides ``body`` on what was folded."""
    return Entry(
        seq=fold.tail.seq + 1,
        id=f"id-{fold.tail.seq + 1}",
        writer=writer,
        lock=LOCK,
        decided_on=fold.tail,
        checkpoint=fold.checkpoint,
        published=published,
        at_ms=1_900_000_000_000 + fold.tail.seq,
        body=body,
    )


def entries_of(*bodies: Body, published: int = 0) -> list[Entry]:
    """A journal of these decisions, one after the other."""
    fold, entries = Fold(table=TABLE), []
    for body in bodies:
        said = replace(body, fold=fold) if isinstance(body, Checkpoint) else body
        entry = entry_on(fold, said, published=published)
        fold = fold.apply(entry)
        entries.append(entry)
    return entries


def checkpoint_of(fold: Fold) -> Checkpoint:
    return Checkpoint(fold, max(1, fold.tail.seq - 2), ("a", "b"))


# -- random ones ----------------------------------------------------------------------------------


def bodies_for(record: InstantRecord, other: str = TIMES[0]) -> tuple[Body, ...]:
    """Decisions about an instant: those with the right epoch, and some with a wrong one."""
    return _bodies(record.time, record.epoch, other)


@cache
def _bodies(time: str, epoch: int, other: str) -> tuple[Body, ...]:
    found: list[Body] = [plan(time), cancel(time), Void(time, Overtaken.FOREIGN_COMMIT)]
    found += [Void(time, Overtaken.COMPLETED), plan(time, Action.CLEAN), Blank()]
    for number in (epoch, epoch + 1, max(0, epoch - 1), epoch + 2):
        found += [claim(time, number, purpose) for purpose in Purpose]
        found += [prepare(time, number), commit(time, number), abort(time, number)]
        found += [commit(time, number, cancels=(other,))] if other != time else []
        found += [
            rolled_back(time, number, end, ROLLBACKS[0])
            for end in RollbackEnd
            if time != ROLLBACKS[0]
        ]
    return tuple(found)


_TEXT = st.text(max_size=8)
_NUMBER = st.integers(0, 2**40)
_TEXTS = st.lists(_TEXT, max_size=2).map(tuple)
_FILES = st.builds(StagedFile, _TEXT, _TEXT, _TEXTS, _TEXT)
_GROUPS = st.none() | st.lists(st.tuples(_TEXT, _TEXT), max_size=2).map(tuple)
_PLANS = st.builds(
    Plan,
    time=_TEXT,
    action=st.sampled_from(Action),
    requested=_FILES,
    is_ingestion=st.booleans(),
    removable=st.booleans(),
    cancellable=st.booleans(),
    policy=st.none() | st.builds(CancellationPolicy, st.none() | st.floats(0, 1e6), _NUMBER),
    made_on=st.none() | _TEXT,
    pending=st.none() | _TEXTS,
    target=st.none() | st.builds(RollbackTarget, _TEXT, _NUMBER, st.booleans()),
    groups=_GROUPS,
    run=st.none() | st.builds(RunKey, _TEXT, _TEXT),
)
_PURPOSES = st.sampled_from(Purpose)
ANY_BODY = st.one_of(
    _PLANS,
    st.builds(Claim, _TEXT, _NUMBER, _TEXT, _PURPOSES, _TEXT, st.none() | _FILES, _GROUPS),
    st.builds(Prepare, _TEXT, _NUMBER, _TEXT, _TEXT),
    st.builds(
        Commit,
        time=_TEXT,
        epoch=_NUMBER,
        completion_time=_TEXT,
        completed=_FILES,
        cancels=st.lists(st.builds(CancelFile, _TEXT, _FILES), max_size=2).map(tuple),
    ),
    st.builds(Cancel, _TEXT, _TEXT, _TEXT, _FILES),
    st.builds(Abort, _TEXT, _NUMBER, _FILES),
    st.builds(RolledBack, _TEXT, _NUMBER, st.sampled_from(RollbackEnd), _TEXT, _TEXT, _FILES),
    st.builds(Void, _TEXT, st.sampled_from(Overtaken)),
    st.just(Blank()),
)
"""Any body with any content: for round trips of documents."""
