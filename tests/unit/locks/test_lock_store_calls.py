"""How many store calls the locks over a store cost, each named."""

from __future__ import annotations

import pytest

from lakehand.locks.leases import LeaseTerms
from lakehand.store.memory import MemoryStore
from lock_places import WatchedStore, make_file, make_storage
from lock_worlds import FakeWorld


def calls(store: WatchedStore) -> list[str]:
    """What was called since the last time it was asked."""
    seen = store.calls[:]
    store.calls.clear()
    return seen


def test_storage_lock():
    world, store = FakeWorld(), WatchedStore(MemoryStore())
    lock = make_storage(store, world.terms, world.worker())
    held = lock.acquire("first", timeout_s=0)
    assert calls(store) == ["get", "put_new"]
    world.clock.sleep(world.terms.renew_every_s)
    assert calls(store) == ["put_if"]
    held.release()
    assert calls(store) == ["put_if"]
    lock.acquire("again", timeout_s=0)
    assert calls(store) == ["put_if"]


def test_file_lock():
    world, store = FakeWorld(), WatchedStore(MemoryStore())
    lock = make_file(store, world.terms, world.worker())
    for _ in range(2):
        held = lock.acquire("first", timeout_s=0)
        assert calls(store) == ["get", "put_new"]
        world.clock.sleep(world.terms.renew_every_s)
        assert calls(store) == ["put_if"]
        held.release()
        assert calls(store) == ["put_if", "delete"]


@pytest.mark.parametrize("make", [make_storage, make_file])
def test_waiting_costs_one_call_a_look_and_looks_get_rarer(make):
    world, inner = FakeWorld(), MemoryStore()
    terms = LeaseTerms(lease_s=60, renew_every_s=6, first_pause_s=0.05, longest_pause_s=1)
    held = make(inner, terms, world.worker()).acquire("first", timeout_s=0)
    store = WatchedStore(inner)
    with pytest.raises(Exception, match="first"):
        make(store, terms, world.worker()).acquire("second", timeout_s=30)
    assert set(store.calls) == {"get"}
    assert 30 < len(store.calls) < 60
    held.release()
