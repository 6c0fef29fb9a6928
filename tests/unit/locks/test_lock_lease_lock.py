"""The lease protocol over a register that can be played with call by call."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest

from lakehand.errors import Invalid, LockTimeout, Unavailable
from lakehand.locks.lease_lock import LeaseLock
from lakehand.locks.leases import LeaseRecord, LeaseTerms, Seen, Written
from lakehand.ports import PutOutcome
from lock_worlds import FakeWorld

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass
class ToyRegister:
    """A record whose version is told by every write, as a ConfigMap's or etcd's is."""

    version: int = 0
    record: LeaseRecord | None = None
    calls: list[str] = field(default_factory=list)
    troubles: list[Exception] = field(default_factory=list)
    before_write: Callable[[], None] = lambda: None

    def read(self) -> Seen | None:
        self._call("read")
        if self.record is None:
            return None
        return Seen(str(self.version), self.record, 0.0, None)

    def take(self, record: LeaseRecord, expected: str | None) -> Written:
        self._call("take")
        return self._write(record, expected)

    def renew(self, record: LeaseRecord, expected: str) -> Written:
        self._call("renew")
        return self._write(record, expected)

    def free(self, record: LeaseRecord, expected: str) -> Written:
        self._call("free")
        return self._write(record, expected)

    def _call(self, what: str) -> None:
        self.calls.append(what)
        if self.troubles:
            raise self.troubles.pop(0)

    def _write(self, record: LeaseRecord, expected: str | None) -> Written:
        self.before_write()
        if expected != (None if self.record is None else str(self.version)):
            return Written(PutOutcome.EXISTS)
        self.version += 1
        self.record = record
        return Written(PutOutcome.WRITTEN, str(self.version))

    def taken_calls(self) -> list[str]:
        calls, self.calls = self.calls, []
        return calls


def lock_on(register: ToyRegister, world: FakeWorld, **worker) -> LeaseLock:
    return LeaseLock(
        register,
        name="toy",
        excludes_foreign=False,
        terms=world.terms,
        surroundings=world.worker(**worker),
    )


@pytest.fixture
def world() -> FakeWorld:
    return FakeWorld()


def test_who_comes_back_to_what_it_freed_takes_it_by_one_call(world):
    register = ToyRegister()
    lock = lock_on(register, world)
    held = lock.acquire("first", timeout_s=0)
    assert register.taken_calls() == ["read", "take"]
    world.clock.sleep(2.5 * world.terms.renew_every_s)
    assert register.taken_calls() == ["renew", "renew"]
    held.release()
    assert register.taken_calls() == ["free"]
    lock.acquire("again", timeout_s=0).release()
    assert register.taken_calls() == ["take", "free"]


def test_who_comes_back_after_another_was_there_looks_again(world):
    register = ToyRegister()
    lock = lock_on(register, world)
    lock.acquire("first", timeout_s=0).release()
    other = lock_on(register, world).acquire("other", timeout_s=0)
    register.calls.clear()
    with pytest.raises(LockTimeout, match="other"):
        lock.acquire("again", timeout_s=0)
    assert register.taken_calls() == ["take", "read"]
    other.release()
    lock.acquire("again", timeout_s=0).release()


def test_who_comes_back_after_another_was_there_and_left_does_not_wait(world):
    register = ToyRegister()
    lock = lock_on(register, world)
    lock.acquire("first", timeout_s=0).release()
    lock_on(register, world).acquire("other", timeout_s=0).release()
    register.calls.clear()
    before = world.clock.monotonic()
    lock.acquire("again", timeout_s=0).release()
    assert register.taken_calls() == ["take", "read", "take", "free"]
    assert world.clock.monotonic() == before


def test_the_lease_counts_from_before_the_call(world):
    register = ToyRegister()
    register.before_write = lambda: world.clock.sleep(3)
    held = lock_on(register, world).acquire("slow store", timeout_s=0)
    assert held.left_s() == world.terms.lease_s - 3
    world.clock.sleep(world.terms.renew_every_s)
    assert held.left_s() == pytest.approx(world.terms.lease_s - 3)


def test_a_holder_that_is_renewed_between_two_looks_is_watched_anew(world):
    """Ten seconds of watching one version, not ten seconds of waiting."""
    register = ToyRegister()
    holder = lock_on(register, world, renews=False).acquire("late", timeout_s=0)
    with pytest.raises(LockTimeout):
        lock_on(register, world).acquire("heir", timeout_s=9)
    holder._renew()
    began = world.clock.monotonic()
    heir = lock_on(register, world).acquire("heir", timeout_s=60)
    assert world.clock.monotonic() - began >= world.terms.lease_s
    assert holder.left_s() == 0
    heir.release()


def test_a_lease_is_watched_for_as_long_as_its_holder_asked(world):
    register = ToyRegister()
    long = LeaseTerms(lease_s=1000, renew_every_s=100)
    dead = LeaseLock(
        register,
        name="toy",
        excludes_foreign=False,
        terms=long,
        surroundings=world.worker(renews=False),
    ).acquire("dead", timeout_s=0)
    with pytest.raises(LockTimeout, match="dead"):
        lock_on(register, world).acquire("heir", timeout_s=999)
    lock_on(register, world).acquire("heir", timeout_s=1001).release()
    assert dead.left_s() == 0


def test_a_renewal_that_finds_anothers_record_leaves_nothing_at_once(world):
    register = ToyRegister()
    held = lock_on(register, world).acquire("first", timeout_s=0)
    register.record, register.version = LeaseRecord("thief", "t", 1, 10.0), 77
    assert held.left_s() > 0
    world.clock.sleep(world.terms.renew_every_s)
    assert held.left_s() == 0
    register.calls.clear()
    world.clock.sleep(10 * world.terms.renew_every_s)
    assert register.taken_calls() == []
    held.release()
    assert register.record.owner == "thief"


def test_a_timeout_after_trouble_raises_the_trouble(world):
    register = ToyRegister(troubles=[Unavailable("no route")] * 100)
    with pytest.raises(Unavailable, match="no route"):
        lock_on(register, world).acquire("first", timeout_s=3)
    assert len(register.calls) > 3


def test_what_the_user_must_mend_is_not_waited_for(world):
    register = ToyRegister(troubles=[Invalid("permission denied")])
    with pytest.raises(Invalid, match="permission denied"):
        lock_on(register, world).acquire("first", timeout_s=3)
    assert register.calls == ["read"]


def test_a_refused_release_is_no_error_of_the_work(world):
    register = ToyRegister()
    held = lock_on(register, world).acquire("first", timeout_s=0)
    register.troubles = [Invalid("credentials expired")] * 10
    held.release()
    held.release()
    assert held.left_s() == 0


def test_waiters_look_often_at_first_and_at_each_new_holder(world):
    register = ToyRegister()
    lock_on(register, world).acquire("first", timeout_s=0)
    pauses = []
    real_sleep = world.clock.sleep

    def sleep(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 8:
            register.record, register.version = LeaseRecord("second", "s", 1, 1000.0), 100
        real_sleep(seconds)

    world.clock.sleep = sleep
    with pytest.raises(LockTimeout, match="second"):
        lock_on(register, world).acquire("third", timeout_s=8)
    assert pauses[0] <= world.terms.first_pause_s
    assert pauses[7] > 4 * world.terms.first_pause_s
    assert pauses[8] <= world.terms.first_pause_s
    assert max(pauses) <= world.terms.longest_pause_s


def test_a_dead_holders_lock_is_taken_on_time_by_a_waiter_that_looks_rarely(world):
    register = ToyRegister()
    lock_on(register, world, renews=False).acquire("dead", timeout_s=0)
    world.terms = LeaseTerms(lease_s=10, renew_every_s=1, first_pause_s=8, longest_pause_s=8)
    began = world.clock.monotonic()
    lock_on(register, world).acquire("heir", timeout_s=60).release()
    assert world.clock.monotonic() - began == pytest.approx(world.terms.lease_s)
