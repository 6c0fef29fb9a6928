"""What every lock does while its holders live: exclude, wait, name, give back."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from lakehand.errors import LockTimeout
from lock_kinds import BRISK
from lock_places import kinds, renewal_threads

if TYPE_CHECKING:
    from lock_kinds import LockPlace

WORKERS = 16


@pytest.fixture(params=kinds())
def place(request) -> LockPlace:
    return request.param.make(request)


def test_sixteen_workers_never_lose_an_increment(place):
    """Each has a provider of its own. The counter is read, kept a moment, and written back."""
    counter = [0]
    inside = []
    tokens = []
    together = threading.Barrier(WORKERS)

    locks = {f"worker {number}": place.open() for number in range(WORKERS)}

    def work(name: str) -> None:
        lock = locks[name]
        together.wait()
        for _ in range(2):
            held = lock.acquire(name, timeout_s=100)
            inside.append(name)
            assert inside == [name]
            assert held.left_s() > 0
            seen = counter[0]
            time.sleep(0.001)  # lets others in, if they can come in
            counter[0] = seen + 1
            inside.remove(name)
            tokens.append(held.token)
            held.release()

    with ThreadPoolExecutor(WORKERS) as pool:
        list(pool.map(work, locks))
    assert counter == [2 * WORKERS]
    assert len(set(tokens)) == 2 * WORKERS
    assert place.open().holder() is None


def test_threads_that_share_one_provider_exclude_each_other(place):
    lock = place.open()
    held = lock.acquire("first", timeout_s=5)
    with ThreadPoolExecutor(1) as pool, pytest.raises(LockTimeout):
        pool.submit(lock.acquire, "second", timeout_s=0).result()
    held.release()
    lock.acquire("second", timeout_s=5).release()


def test_a_timeout_names_the_holder_and_says_how_long_it_took(place):
    held = place.open().acquire("the nightly compaction", timeout_s=5)
    with pytest.raises(LockTimeout, match="the nightly compaction") as refused:
        place.open().acquire("another", timeout_s=0.05)
    assert refused.value.holder == "the nightly compaction"
    assert 0.05 <= refused.value.waited_s < 30
    assert 0 <= refused.value.age_s <= refused.value.waited_s + 1
    assert held.left_s() > 0
    held.release()


def test_without_time_to_wait_it_looks_once(place):
    held = place.open().acquire("first", timeout_s=0)
    with pytest.raises(LockTimeout, match="first"):
        place.open().acquire("second", timeout_s=0)
    held.release()
    place.open().acquire("second", timeout_s=0).release()


def test_a_waiter_gets_it_when_the_holder_lets_go(place):
    held = place.open().acquire("first", timeout_s=5)
    with ThreadPoolExecutor(1) as pool:
        waiter = pool.submit(place.open().acquire, "second", timeout_s=60)
        assert not waiter.done()
        held.release()
        second = waiter.result(timeout=60)
    assert second.left_s() > 0
    assert second.token != held.token
    second.release()


def test_a_released_lock_has_nothing_left_and_leaves_nothing_behind(place):
    lock = place.open()
    held = lock.acquire("first", timeout_s=5)
    held.release()
    assert held.left_s() == 0
    assert renewal_threads() == []
    assert lock.holder() is None
    for number in range(3):  # by the provider that released it, and by one that never saw it
        for each in (lock, place.open()):
            each.acquire(f"again {number}", timeout_s=0).release()
    assert renewal_threads() == []


def test_releasing_again_does_not_touch_the_next_holder(place):
    first = place.open().acquire("first", timeout_s=5)
    first.release()
    second = place.open().acquire("second", timeout_s=5)
    first.release()
    found = place.open().holder()
    assert found is not None
    assert found.owner == "second"
    assert second.left_s() > 0
    second.release()


def test_the_holder_can_be_seen_without_taking_anything(place):
    lock = place.open()
    assert lock.holder() is None
    held = place.open().acquire("a worker on node-7", timeout_s=5)
    found = lock.holder()
    assert found is not None
    assert found.owner == "a worker on node-7"
    assert -2 < found.age_s < 60  # stores may count whole seconds
    if found.expires_in_s is not None:
        assert -2 < found.expires_in_s <= BRISK.lease_s + 2
    assert held.left_s() > 0
    held.release()


def test_no_lease_lasts_longer_than_it_was_taken_for(place):
    before = time.monotonic()
    held = place.open().acquire("first", timeout_s=5)
    left_s = held.left_s()
    assert left_s == float("inf") or left_s <= BRISK.lease_s - (time.monotonic() - before) + 1
    held.release()


def test_the_kind_has_a_name_and_says_whether_java_can_use_it(place):
    lock = place.open()
    assert lock.name
    assert lock.name == place.open().name
    assert isinstance(lock.excludes_foreign, bool)
