"""The model takes clock and identities as arguments, so that a run can be replayed."""

from __future__ import annotations

import itertools

from lakehand.store.memory import MemoryStore
from store_places import AREA, stage


def replay():
    ticks, ids = itertools.count(1000), itertools.count()
    store = MemoryStore("memory://x", clock=lambda: next(ticks), new_id=lambda: f"{next(ids):032x}")
    handle = stage(store, "t/f", b"1")
    store.put("a", b"")
    store.promote(handle)
    return handle, list(store.walk("")), store.now(), store.get("a").version


def test_the_same_clock_and_ids_give_the_same_run():
    assert replay() == replay()


def test_times_come_from_the_clock():
    assert MemoryStore(clock=lambda: 42).now() == 42
    store = MemoryStore(clock=lambda: 42)
    store.put("x", b"")
    assert store.head("x").modified_ms == 42


def test_places_come_from_the_ids():
    store = MemoryStore(new_id=lambda: "7")
    assert store.stage("f", area=AREA).staged.place == f"{AREA}/7.staged"
