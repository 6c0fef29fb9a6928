"""Sixteen processes at one table on a real S3 server, some of which are killed or stopped."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.s3

KEPT = {"action": "compaction", "groups": ["one", "two"]}
CANCELLABLE = {"action": "compaction", "groups": ["one", "two"], "cancellable": True}


def test_one_plan_in_a_bucket_is_executed_once(s3_arena):
    problems = s3_arena.contend(
        jobs={"execute": 20, "clean": 1}, plan=KEPT, at_least={"committed": 2}
    )
    assert problems == []


def test_ingestion_plans_and_cancellations_in_a_bucket(s3_arena):
    problems = s3_arena.contend(
        jobs={"ingest": 10, "execute": 10, "cancel": 1, "abort": 1, "clean": 1},
        plan=CANCELLABLE,
        at_least={"committed": 2},
        checkpoint_every=4,
    )
    assert problems == []
