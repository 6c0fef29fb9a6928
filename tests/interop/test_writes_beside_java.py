"""A writer of Java and ours at one table: they take turns and collide, and nothing is lost.

On a local disk, where both exclude each other by Hudi's file lock.
"""

from __future__ import annotations

import itertools

import pytest

from java_beside_ours import Pair, on_disk
from write_judges import judge_snapshot
from write_rows import KEYS, SLOTS, Kind

pytestmark = [pytest.mark.java, pytest.mark.timeout(900)]

KINDS = [Kind(9, "cow"), Kind(9, "mor"), Kind(8, "mor"), Kind(9, "mor", event_time=False)]
OURS_PER_ROUND = 3


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_java_and_we_take_turns(kind, javas, tmp_path):
    pair = Pair(kind, javas["1.2.0"], on_disk(tmp_path / "table"), tmp_path)
    for _ in range(2):
        pair.their_turn(pair.upsert(range(SLOTS)))
        pair.our_turn(pair.upsert(range(SLOTS)))
        judge_snapshot(pair.model, pair.judges)


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_java_and_we_collide_on_the_same_records_and_nothing_acknowledged_is_lost(
    kind, javas, tmp_path
):
    pair = Pair(kind, javas["1.2.0"], on_disk(tmp_path / "table"), tmp_path)
    refusals = []
    for _ in range(3):
        slots = pair.known()
        (theirs,) = pair.writes([pair.upsert(slots)])
        ours = pair.writes([pair.upsert(slots) for _ in range(OURS_PER_ROUND)])
        refusals.append(pair.collide(theirs, ours))
    for problem in itertools.filterfalse(lambda text: not text, refusals):
        assert "onflict" in problem, problem


def test_java_and_we_write_to_different_partitions_at_once_and_both_commit(javas, tmp_path):
    pair = Pair(Kind(9, "mor"), javas["1.2.0"], on_disk(tmp_path / "table"), tmp_path)
    for _ in range(3):
        (theirs,) = pair.writes([pair.upsert(range(KEYS))])
        ours = pair.writes([pair.upsert(range(KEYS, SLOTS)) for _ in range(OURS_PER_ROUND)])
        assert pair.collide(theirs, ours) == ""
