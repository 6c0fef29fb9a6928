"""A writer of Java and ours at one table on an S3 server: nothing is lost there either.

Both exclude each other by Hudi's storage lock. What each does on a local disk, and more kinds of
tables, is in ``test_writes_beside_java.py``.
"""

from __future__ import annotations

import itertools
import json
import uuid
from typing import TYPE_CHECKING

import pytest

import s3_server
from java_beside_ours import Ground, Pair, on_s3
from java_s3 import java_on
from lakehand.locks.leases import LeaseTerms
from lakehand.locks.storage import RECORD, storage_lock
from lakehand.store.open import open_store
from lock_worlds import RealWorld
from write_judges import judge_snapshot
from write_rows import KEYS, SLOTS, Kind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from java_hudi import JavaHudi

pytestmark = [pytest.mark.java, pytest.mark.s3, pytest.mark.timeout(600)]

KINDS = [Kind(9, "cow"), Kind(9, "mor")]
OURS_PER_ROUND = 3


@pytest.fixture(scope="module")
def server() -> Iterator[s3_server.S3Server]:
    try:
        with s3_server.running(s3_server.VERSITYGW) as running:
            s3_server.make_bucket(running, "shared")
            yield running
    except s3_server.NoGo as no_go:
        pytest.skip(str(no_go))


@pytest.fixture(scope="module")
def java(server) -> Iterator[JavaHudi]:
    with java_on(server) as java:
        yield java


@pytest.fixture
def ground(server) -> Ground:
    return on_s3(server, f"shared/{uuid.uuid4().hex}/table")


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_java_and_we_take_turns_on_s3(kind, java, ground, tmp_path):
    pair = Pair(kind, java, ground, tmp_path)
    store = open_store(ground.uri, ground.storage_options)
    for _ in range(2):
        before = json.loads(store.get(RECORD).content)
        pair.their_turn(pair.upsert(range(SLOTS)))
        after = json.loads(store.get(RECORD).content)
        assert after["owner"] != before["owner"]
        assert set(after) == {"expired", "validUntil", "owner"}  # Java's own record, let go
        assert after["expired"]
        pair.our_turn(pair.upsert(range(SLOTS)))
        judge_snapshot(pair.model, pair.judges)


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_java_and_we_collide_on_the_same_records_on_s3_and_nothing_acknowledged_is_lost(
    kind, java, ground, tmp_path
):
    pair = Pair(kind, java, ground, tmp_path)
    refusals = []
    for _ in range(3):
        slots = pair.known()
        (theirs,) = pair.writes([pair.upsert(slots)])
        ours = pair.writes([pair.upsert(slots) for _ in range(OURS_PER_ROUND)])
        refusals.append(pair.collide(theirs, ours))
    for problem in itertools.filterfalse(lambda text: not text, refusals):
        assert "onflict" in problem, problem


def test_java_and_we_write_to_different_partitions_on_s3_at_once_and_both_commit(
    java, ground, tmp_path
):
    pair = Pair(Kind(9, "mor"), java, ground, tmp_path)
    for _ in range(2):
        (theirs,) = pair.writes([pair.upsert(range(KEYS))])
        ours = pair.writes([pair.upsert(range(KEYS, SLOTS)) for _ in range(OURS_PER_ROUND)])
        assert pair.collide(theirs, ours) == ""


def test_java_commits_nothing_on_s3_while_we_hold_the_lock(java, ground, tmp_path):
    pair = Pair(Kind(9, "mor"), java, ground, tmp_path)
    pair.theirs.options = ground.java_lock | {"hoodie.write.lock.client.num_retries": "2"}
    step = pair.upsert(range(SLOTS))
    (write,) = pair.writes([step])
    world = RealWorld(LeaseTerms(lease_s=60, renew_every_s=6))
    lock = storage_lock(
        open_store(ground.uri, ground.storage_options),
        terms=world.terms,
        surroundings=world.worker(),
    )
    held = lock.acquire("ours", timeout_s=0)
    before = pair.completed()
    problem = pair.theirs.run(write)
    held.release()
    assert "lock" in problem.lower(), problem
    assert pair.completed() == before
    pair.their_turn(step)
    judge_snapshot(pair.model, pair.judges)
