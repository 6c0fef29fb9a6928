"""Sixteen processes at one table on a local disk, some of which are killed or stopped."""

from __future__ import annotations

import pytest

KEPT = {"action": "compaction", "groups": ["one", "two"]}
REMOVABLE = {"action": "logcompaction", "groups": ["one", "two"], "removable": True}
CANCELLABLE = {"action": "compaction", "groups": ["one", "two"], "cancellable": True}


@pytest.mark.parametrize("lock", ["storage", "file"])
def test_one_plan_that_is_kept_is_executed_once(local_arena, lock):
    local_arena.lock = lock
    problems = local_arena.contend(
        jobs={"execute": 20, "clean": 1},
        plan=KEPT,
        at_least={"committed": 3, "refused: PlanBusy": 9},
    )
    assert problems == []


def test_a_removable_plan_is_executed_once_or_rolled_back(local_arena):
    problems = local_arena.contend(
        jobs={"execute": 20, "clean": 1, "rollback": 1},
        plan=REMOVABLE,
        at_least={"committed": 1, "rolled back": 1, "cleaned": 1},
    )
    assert problems == []


def test_a_cancelled_plan_never_commits(local_arena):
    local_arena.lock = "file"
    problems = local_arena.contend(
        jobs={"execute": 40, "cancel": 2, "abort": 2, "clean": 1},
        plan=CANCELLABLE,
        at_least={"committed": 1, "cancelled": 2, "aborted": 2},
    )
    assert problems == []


def test_no_write_of_several_ingesting_workers_is_lost(local_arena):
    problems = local_arena.contend(
        jobs={"ingest": 20, "clean": 1}, at_least={"committed": 5, "refused: WriteConflict": 2}
    )
    assert problems == []


def test_rollbacks_of_one_target_by_everybody(local_arena):
    local_arena.lock = "file"
    problems = local_arena.contend(
        jobs={"execute": 2, "rollback": 4}, plan=REMOVABLE, at_least={"rolled back": 5}
    )
    assert problems == []


def test_checkpoints_and_trims_under_load(local_arena):
    problems = local_arena.contend(
        jobs={"ingest": 10, "execute": 10, "cancel": 1, "abort": 1, "clean": 1},
        plan=CANCELLABLE,
        at_least={"committed": 5},
        checkpoint_every=4,
    )
    assert problems == []
