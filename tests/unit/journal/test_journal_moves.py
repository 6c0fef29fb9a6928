"""The fold and its table of moves: legal decisions never raise, all others always do."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from journal_entries import (
    ROLLBACKS,
    TABLE,
    TIMES,
    abort,
    bodies_for,
    cancel,
    checkpoint_of,
    claim,
    commit,
    entries_of,
    entry_on,
    plan,
    prepare,
    rolled_back,
)
from lakehand.core.instants import Action
from lakehand.core.journal import Fold, fold_entries
from lakehand.core.journal_entries import (
    Commit,
    Overtaken,
    Purpose,
    RollbackEnd,
    RollbackTarget,
    Void,
)
from lakehand.core.journal_moves import ENDED, MOVES, WITHOUT_FILES, Standing, moves_of
from lakehand.errors import InvariantBroken

SEEDS = st.integers(0, 2**32)


def walk(seed: int, length: int, published: bool = True):
    """A random legal journal: its entries, and the fold before each and after the last."""
    random_ = random.Random(seed)
    fold = Fold(table=TABLE)
    entries, folds = [], [fold]
    while len(entries) < length:
        record = fold.record(random_.choice((*TIMES, *ROLLBACKS)))
        body = random_.choice(bodies_for(record, random_.choice(TIMES)))
        if not fold.allows(body):
            continue
        known = random_.randint(0, fold.tail.seq) if published else 0
        entry = entry_on(fold, body, published=known)
        fold = fold.apply(entry)
        entries.append(entry)
        folds.append(fold)
    return entries, folds


def is_legal(fold: Fold, body) -> bool:
    """The table, the epochs and the manifest, said once more in other words."""
    for time, move in moves_of(body):
        record = fold.record(time)
        if move not in MOVES[record.standing]:
            return False
        epoch = getattr(body, "epoch", None)
        if epoch is not None and getattr(body, "time", None) == time:
            wanted = record.epoch + 1 if type(body).__name__ == "Claim" else record.epoch
            if epoch != wanted:
                return False
    if isinstance(body, Commit):
        record = fold.record(body.time)
        action = record.plan.action if record.plan else None
        if record.standing is Standing.EXECUTING and action not in WITHOUT_FILES:
            return False
    return True


@settings(max_examples=40, deadline=None)
@given(SEEDS)
def test_a_legal_decision_never_raises_and_an_illegal_one_always_does(seed):
    entries, folds = walk(seed, 15)
    fold = folds[-1]
    for time in (*TIMES, *ROLLBACKS):
        for body in bodies_for(fold.record(time)):
            if is_legal(fold, body):
                fold.require_legal(body)
                fold.apply(entry_on(fold, body))
            else:
                with pytest.raises(InvariantBroken):
                    fold.require_legal(body)
                with pytest.raises(InvariantBroken):
                    fold.apply(entry_on(fold, body))
    assert len(entries) == 15


@settings(max_examples=40, deadline=None)
@given(SEEDS)
def test_epochs_only_grow_and_what_ended_never_moves_again(seed):
    entries, folds = walk(seed, 40, published=False)
    for before, after, entry in zip(folds, folds[1:], entries, strict=False):
        for time in before.instants:
            old, new = before.record(time), after.record(time)
            assert new.epoch >= old.epoch
            if old.standing in ENDED and new != old:
                assert isinstance(entry.body, Void)
                assert old.standing is Standing.COMMITTED


@settings(max_examples=40, deadline=None)
@given(SEEDS, st.integers(0, 30))
def test_a_fold_from_any_checkpoint_is_the_fold_of_everything(seed, at):
    entries, folds = walk(seed, 30)
    whole = fold_entries(entries, Fold(table=TABLE))
    checkpoint = entry_on(folds[at], checkpoint_of(folds[at]))
    from_it = Fold(table=TABLE).apply(checkpoint)
    assert from_it.tail == checkpoint.link
    assert from_it.checkpoint == checkpoint.seq
    for entry in entries[at:]:
        published = entry.published + (entry.published > at)  # the checkpoint has a number too
        from_it = from_it.apply(entry_on(from_it, entry.body, published=published))
    for time in (*TIMES, *ROLLBACKS):
        one, other = from_it.record(time), whole.record(time)
        assert replace(one, since=0, since_ms=0, planned_at_ms=0) == replace(
            other, since=0, since_ms=0, planned_at_ms=0
        )
    assert [one.body for one in from_it.unpublished] == [one.body for one in whole.unpublished]
    assert from_it.last_time == whole.last_time
    assert from_it.provider == whole.provider
    assert from_it.runs == whole.runs


def test_every_state_is_reached_and_every_move_of_the_table_happens():
    legal = {(state, move) for state, moves in MOVES.items() for move in moves}
    seen: set[tuple[Standing, object]] = set()
    for seed in range(2000):
        entries, folds = walk(seed, 15, published=seed % 2 == 0)
        for before, entry in zip(folds, entries, strict=False):
            seen |= {(before.standing(time), move) for time, move in moves_of(entry.body)}
        if seen == legal:
            return
    raise AssertionError(f"never happened, or not in the table: {seen ^ legal}")


def test_states_that_ended_have_no_way_on_but_a_void_of_what_is_not_published():
    for state in ENDED:
        allowed = {move.value for move in MOVES[state]}
        assert allowed <= ({"void", "superseded"} if state is Standing.COMMITTED else set())


T = TIMES[0]


def test_a_published_commit_is_forgotten_and_an_unpublished_one_is_not():
    entries = entries_of(plan(T), claim(T, 1), prepare(T, 1), commit(T, 1))
    fold = fold_entries(entries)
    assert fold.standing(T) is Standing.COMMITTED
    assert fold.unpublished[-1] == entries[-1]
    later = entry_on(fold, plan(TIMES[1]), published=4)
    fold = fold.apply(later)
    assert fold.standing(T) is Standing.FOREIGN
    assert fold.unpublished == (later,)


def test_a_commit_without_a_manifest_is_refused_unless_the_action_names_no_files():
    fold = fold_entries(entries_of(plan(T), claim(T, 1)))
    with pytest.raises(InvariantBroken, match="manifest"):
        fold.require_legal(commit(T, 1))
    fold = fold_entries(entries_of(plan(T, Action.CLEAN), claim(T, 1)))
    assert fold.allows(commit(T, 1))


def test_a_commit_cancels_other_plans_in_one_decision():
    other = TIMES[1]
    start = (plan(other, cancellable=True), plan(T), claim(T, 1), prepare(T, 1))
    fold = fold_entries(entries_of(*start, commit(T, 1, cancels=(other,))))
    assert fold.standing(T) is Standing.COMMITTED
    assert fold.standing(other) is Standing.CANCELLED
    ended = fold_entries(entries_of(*start, cancel(other)))
    assert not ended.allows(commit(T, 1, cancels=(other,)))


def test_a_rollback_ends_its_own_instant_and_moves_its_target():
    rollback = ROLLBACKS[0]
    start = (
        plan(T),
        claim(T, 1),
        plan(rollback, Action.ROLLBACK, target=RollbackTarget(T, 1, keeps_plan=True)),
    )
    before = fold_entries(entries_of(*start))
    assert [one.time for one in before.rollbacks_of(T)] == [rollback]
    rolling = (*start, claim(T, 2, Purpose.ROLL_BACK, beat=rollback))
    assert fold_entries(entries_of(*rolling)).record(T).beat == rollback
    for end, standing in (
        (RollbackEnd.PLAN_KEPT, Standing.REQUESTED),
        (RollbackEnd.REMOVED, Standing.REMOVED),
    ):
        after = fold_entries(entries_of(*rolling, rolled_back(T, 2, end, rollback)))
        assert after.standing(T) is standing
        assert after.standing(rollback) is Standing.COMMITTED
        assert after.rollbacks_of(T) == ()
    nothing = fold_entries(entries_of(*start, rolled_back(T, 1, RollbackEnd.NOTHING, rollback)))
    assert nothing.standing(T) is Standing.EXECUTING


def test_nothing_commits_after_a_cancel_whatever_comes_in_between():
    base = (plan(T, cancellable=True), claim(T, 1), prepare(T, 1), cancel(T))
    for more in ((), (claim(T, 2, Purpose.ABORT),), (claim(T, 2, Purpose.ABORT), abort(T, 2))):
        fold = fold_entries(entries_of(*base, *more))
        for epoch in (1, 2, 3):
            assert not fold.allows(commit(T, epoch))
            assert not fold.allows(prepare(T, epoch))
            assert not fold.allows(claim(T, epoch, Purpose.EXECUTE))


def test_a_checkpoint_has_to_follow_what_was_folded():
    fold = fold_entries(entries_of(plan(T), claim(T, 1)))
    checkpoint = entry_on(fold, checkpoint_of(fold))
    elsewhere = fold_entries(entries_of(plan(T), claim(T, 1), prepare(T, 1)))
    with pytest.raises(InvariantBroken, match="does not follow"):
        elsewhere.apply(checkpoint)


def test_a_void_of_a_foreign_end_is_final_and_one_of_a_lost_commit_is_to_be_rolled_back():
    committed = (plan(T), claim(T, 1), prepare(T, 1), commit(T, 1))
    for reason in Overtaken:
        fold = fold_entries(entries_of(*committed, Void(T, reason)))
        to_roll_back = reason in (Overtaken.FOREIGN_COMMIT, Overtaken.STAGING_LOST)
        expected = Standing.VOIDED if to_roll_back else Standing.SUPERSEDED
        assert fold.standing(T) is expected
        assert fold.allows(claim(T, 2, Purpose.ROLL_BACK)) is to_roll_back
        assert not fold.allows(claim(T, 2))
