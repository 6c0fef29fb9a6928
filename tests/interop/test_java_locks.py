"""Java's lock providers and ours keep each other out, both ways, on one table.

The file lock is Java's whole provider on a local disk. The storage lock is Java's provider with
its heartbeat and its record, over a client of ours (``tests/support/jvm_locks.py``), against a
real S3 server.
"""

from __future__ import annotations

import json
import os
import time
import uuid
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

import s3_server
from java_hudi import JavaFailed
from lakehand.errors import LockTimeout
from lakehand.locks.file_system import file_system_lock
from lakehand.locks.leases import LeaseTerms
from lakehand.locks.storage import RECORD, storage_lock
from lakehand.store.open import open_store
from lock_worlds import FakeWorld, RealWorld

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from java_hudi import JavaHudi

pytestmark = pytest.mark.java
MINUTE = LeaseTerms(lease_s=60, renew_every_s=6)


@pytest.fixture(params=["1.2.0", "1.0.2"])
def java(request, javas) -> JavaHudi:
    return javas[request.param]


# The storage lock


@dataclass
class SharedTable:
    """A table in a bucket, seen by Java and by us."""

    java: JavaHudi
    uri: str
    options: dict[str, Any]

    def open_java(self, name: str, *, validity_s: int = 10, renew_s: int = 1) -> str:
        return self.java.run(
            "jvm_locks:open_storage_lock",
            name=name,
            uri=self.uri,
            options=self.options,
            validity_s=validity_s,
            renew_s=renew_s,
        )

    def ask_java(self, what: str, name: str, **arguments: Any) -> Any:
        return self.java.run(f"jvm_locks:{what}", name=name, **arguments)

    def open_ours(self, world: FakeWorld | RealWorld, *, java_lease_s: float = 10, **worker: Any):
        return storage_lock(
            open_store(self.uri, self.options),
            terms=world.terms,
            java_lease_s=java_lease_s,
            surroundings=world.worker(**worker),
        )


@pytest.fixture(scope="module")
def bucket() -> Iterator[s3_server.S3Server]:
    with ExitStack() as stack:
        try:
            server = stack.enter_context(s3_server.running(s3_server.VERSITYGW))
        except s3_server.NoGo as no_go:
            pytest.skip(str(no_go))
        s3_server.make_bucket(server, "locks")
        yield server


@pytest.fixture
def shared(java, bucket) -> SharedTable:
    return SharedTable(java, f"s3://locks/{uuid.uuid4().hex}/table", bucket.storage_options)


@pytest.mark.s3
def test_storage_lock_java_holds_and_we_wait(shared):
    owner = shared.open_java("holder")
    ours = shared.open_ours(RealWorld(MINUTE), java_lease_s=2.5)
    assert shared.ask_java("try_lock", "holder")
    found = ours.holder()
    assert found is not None
    assert found.owner == owner
    # 1.0.2 adds seconds to milliseconds: its locks are valid for some milliseconds, to Java.
    believed_s = 0 if shared.java.bundle == "1.0.2" else 10
    assert found.expires_in_s == pytest.approx(believed_s, abs=3)
    with pytest.raises(LockTimeout, match=owner):  # Java renews each second: never unchanged
        ours.acquire("ours", timeout_s=4)
    shared.ask_java("unlock", "holder")
    assert ours.holder() is None
    held = ours.acquire("ours", timeout_s=0)
    assert not shared.ask_java("try_lock", "holder")
    held.release()
    assert shared.ask_java("try_lock", "holder")
    shared.ask_java("close", "holder")
    assert ours.holder() is None


@pytest.mark.s3
def test_storage_lock_we_hold_and_java_waits(shared):
    world = FakeWorld(MINUTE)
    held = shared.open_ours(world).acquire("ours", timeout_s=0)
    shared.open_java("waiter")
    assert not shared.ask_java("try_lock", "waiter")
    for _ in range(3):  # our renewals are records that Java reads, too
        world.clock.sleep(world.terms.renew_every_s)
        assert not shared.ask_java("try_lock", "waiter")
    assert held.left_s() > 0
    held.release()
    assert shared.ask_java("try_lock", "waiter")
    with pytest.raises(LockTimeout, match="java-waiter"):
        shared.open_ours(world).acquire("ours", timeout_s=0)
    shared.ask_java("close", "waiter")


@pytest.mark.s3
def test_storage_lock_of_a_dead_java_writer_is_taken_and_its_late_unlock_does_no_harm(shared):
    world = FakeWorld()
    shared.open_java("dead", validity_s=3000, renew_s=300)  # renews too late to matter
    assert shared.ask_java("try_lock", "dead")
    began = world.clock.monotonic()
    held = shared.open_ours(world).acquire("heir", timeout_s=60)
    assert world.clock.monotonic() - began >= 10
    told = pytest.raises(JavaFailed, match="FAILED_TO_RELEASE")  # 1.0.2 does not say so
    with told if shared.java.bundle == "1.2.0" else nullcontext():
        shared.ask_java("unlock", "dead")
    found = shared.open_ours(world).holder()
    assert found is not None
    assert found.owner == "heir"
    assert held.left_s() > 0
    held.release()
    shared.ask_java("close", "dead")


@pytest.mark.s3
def test_storage_lock_java_takes_ours_when_it_is_past_its_time_and_we_know(shared):
    terms = LeaseTerms(lease_s=1.0, renew_every_s=0.2)
    held = shared.open_ours(RealWorld(terms), renews=False).acquire("dead", timeout_s=0)
    shared.open_java("heir")
    assert shared.ask_java("try_lock", "heir", seconds=5)
    assert held.left_s() == 0
    held.release()
    found = shared.open_ours(RealWorld(terms)).holder()
    assert found is not None
    assert found.owner == "java-heir"
    shared.ask_java("close", "heir")


def test_java_reads_our_record_and_we_read_javas(java, tmp_path):
    store = open_store(str(tmp_path / "table"))
    world = FakeWorld(MINUTE)
    held = storage_lock(store, terms=MINUTE, surroundings=world.worker()).acquire(
        'a "worker" on nœud-7', timeout_s=0
    )
    content = store.get(RECORD).content.decode()
    expired, valid_until, owner, now_ms = java.run("jvm_locks:parse_record", content=content)
    assert (expired, owner) == (False, 'a "worker" on nœud-7')
    assert valid_until == pytest.approx(now_ms + 60_000, abs=20_000)
    held.release()
    content = store.get(RECORD).content.decode()
    assert java.run("jvm_locks:parse_record", content=content)[0] is True

    valid_until = int(time.time() * 1000) + 300_000
    text = java.run(
        "jvm_locks:record", is_expired=False, valid_until=valid_until, owner="some-uuid"
    )
    assert set(json.loads(text)) == {"expired", "validUntil", "owner"}
    store.put(RECORD, text.encode())
    found = storage_lock(store).holder()
    assert found is not None
    assert found.owner == "some-uuid"
    assert found.expires_in_s == pytest.approx(300, abs=20)


# The file lock


@pytest.fixture
def table(tmp_path) -> Path:
    (tmp_path / "table" / ".hoodie").mkdir(parents=True)
    return tmp_path / "table"


def file_lock(table: Path, world: FakeWorld, **worker: Any):
    return file_system_lock(
        open_store(str(table)), terms=world.terms, surroundings=world.worker(**worker)
    )


def open_java_file_lock(java: JavaHudi, table: Path, name: str) -> None:
    java.run("jvm_locks:open_file_lock", name=name, table=str(table), expire_minutes=1)


def test_file_lock_java_holds_and_we_wait(java, table):
    world = FakeWorld(MINUTE)
    open_java_file_lock(java, table, "holder")
    assert java.run("jvm_locks:try_lock", name="holder")
    assert (table / ".hoodie/lock").read_bytes() == b""
    ours = file_lock(table, world)
    with pytest.raises(LockTimeout, match="a Java writer"):
        ours.acquire("ours", timeout_s=59)
    java.run("jvm_locks:unlock", name="holder")
    held = ours.acquire("ours", timeout_s=0)
    assert not java.run("jvm_locks:try_lock", name="holder")
    assert "ours" in java.run("jvm_locks:owner_info", name="holder")
    held.release()
    assert sorted(os.listdir(table / ".hoodie")) == [".lakehand"]
    assert java.run("jvm_locks:try_lock", name="holder")
    java.run("jvm_locks:close", name="holder")


def test_file_lock_that_java_left_behind_is_taken_after_its_time(java, table):
    world = FakeWorld(MINUTE)
    open_java_file_lock(java, table, "dead")
    assert java.run("jvm_locks:try_lock", name="dead")
    began = world.clock.monotonic()
    held = file_lock(table, world).acquire("heir", timeout_s=600)
    assert world.clock.monotonic() - began >= 60
    open_java_file_lock(java, table, "next")
    assert not java.run("jvm_locks:try_lock", name="next")
    assert "heir" in java.run("jvm_locks:owner_info", name="next")  # no stale .crc in the way
    held.release()
    assert java.run("jvm_locks:try_lock", name="next")
    java.run("jvm_locks:close", name="next")


def test_file_lock_of_ours_that_java_takes_for_expired_is_lost_and_known_to_be(java, table):
    world = FakeWorld(MINUTE)
    held = file_lock(table, world).acquire("paused", timeout_s=0)
    open_java_file_lock(java, table, "heir")
    os.utime(table / ".hoodie/lock", (time.time() - 59, time.time() - 59))
    assert not java.run("jvm_locks:try_lock", name="heir")
    os.utime(table / ".hoodie/lock", (time.time() - 61, time.time() - 61))
    assert java.run("jvm_locks:try_lock", name="heir")
    world.clock.sleep(world.terms.renew_every_s)
    assert held.left_s() == 0
    held.release()
    assert (table / ".hoodie/lock").exists()
    java.run("jvm_locks:close", name="heir")


def test_a_renewal_makes_our_file_young_for_java(java, table):
    world = FakeWorld(MINUTE)
    held = file_lock(table, world).acquire("slow", timeout_s=0)
    os.utime(table / ".hoodie/lock", (time.time() - 3600, time.time() - 3600))
    held._version = None  # the touch above made another version of it
    world.clock.sleep(world.terms.renew_every_s)
    open_java_file_lock(java, table, "waiter")
    assert not java.run("jvm_locks:try_lock", name="waiter")
    held.release()
    assert java.run("jvm_locks:try_lock", name="waiter")
    java.run("jvm_locks:close", name="waiter")


def test_javas_close_deletes_our_lock_file_and_the_next_renewal_tells(java, table):
    """Hudi's, not ours: why the file lock is the weakest one to share with Java (docs/locks.md)."""
    world = FakeWorld(MINUTE)
    held = file_lock(table, world).acquire("ours", timeout_s=0)
    open_java_file_lock(java, table, "impatient")
    assert not java.run("jvm_locks:try_lock", name="impatient")
    java.run("jvm_locks:close", name="impatient")
    assert not (table / ".hoodie/lock").exists()
    world.clock.sleep(world.terms.renew_every_s)
    assert held.left_s() == 0
    held.release()
