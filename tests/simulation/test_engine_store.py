"""The simulated store keeps the port's laws: it does what the memory store does, call for call."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sim
from lakehand.errors import Invalid, LakehandError
from lakehand.ports import Staged
from lakehand.store.memory import MemoryStore
from sim import Scenario, World
from sim_scenarios_toys import increment

NAMES = ("a", "f/b", "f/c", "f/g/d", ".hoodie/.temp/1/x")
CALLS = st.tuples(
    st.sampled_from(
        ["get", "head", "list", "names", "walk", "put", "put_new", "put_if", "delete", "stage",
         "close", "promote", "discard", "open"]
    ),
    st.sampled_from(NAMES),
    st.binary(max_size=2),
    st.integers(0, 3),
)  # fmt: skip


def _both():
    ids = itertools.count(1)
    memory = MemoryStore(clock=lambda: sim.START_MS, new_id=lambda: f"{next(ids):x}")
    return memory, sim.direct_ports(World(lease_ms=1_000)).store


def _without_version(value):
    """Versions are each store's own words; a memory store's never come back, a digest may."""
    return (value.content, value.modified_ms) if hasattr(value, "version") else value


def _do(store, writers, call):
    """Carry out one call; return what can be compared."""
    method, name, content, which = call
    writer = writers[which % len(writers)] if writers else None
    try:
        match method:
            case "put" | "put_new":
                return getattr(store, method)(name, content)
            case "put_if":
                return store.put_if(name, content, store.get(name).version)
            case "list" | "names" | "walk":
                folder = name.rpartition("/")[0]
                found = getattr(store, method)(folder)
                return list(found) if method == "walk" else found
            case "open":
                return store.open(name).read()
            case "stage":
                writers.append(store.stage(name, area=".hoodie/.temp/1/.staging/1"))
                writers[-1].write(content)
            case "close":
                return writer.close() if writer else None
            case "promote" | "discard":
                return getattr(store, method)(writer.staged) if writer else None
            case _:
                return _without_version(getattr(store, method)(name))
    except LakehandError as error:
        return type(error)


@given(st.lists(CALLS, max_size=25))
@settings(deadline=None, max_examples=300)
def test_the_simulated_store_does_what_the_memory_store_does(calls):
    memory, simulated = _both()
    theirs, ours = [], []
    for call in calls:
        assert _do(simulated, ours, call) == _do(memory, theirs, call), call


@pytest.mark.parametrize("path", ["/x", "a//b", "../x", "", "a/./b"])
def test_paths_that_leave_the_table_are_refused(path):
    _, store = _both()
    with pytest.raises(Invalid):
        store.get(path)
    with pytest.raises(Invalid):
        store.promote(Staged("final", path, ("1",)))


def test_a_writer_that_fails_discards_what_it_staged():
    world = World(lease_ms=1_000)
    store = sim.direct_ports(world).store
    with pytest.raises(ZeroDivisionError), store.stage("x", area=".hoodie/.temp/1/s") as writer:
        raise ZeroDivisionError
    assert world.staged == {}
    assert not writer.closed


def test_a_folder_of_staged_files_is_listed_as_on_a_disk():
    """By it a sweep finds what a worker staged that never came to decide."""
    for store in _both():
        store.stage("x", area=".hoodie/.temp/1/.staging/1")
        assert store.list(".hoodie/.temp").folders == (".hoodie/.temp/1",)
        assert list(store.walk(".hoodie/.temp")) == []
        store.discard_area(".hoodie/.temp/1/.staging")
        assert store.list(".hoodie/.temp").folders == ()


def test_two_worlds_with_the_same_facts_have_the_same_mark():
    one, other = World(lease_ms=1_000), World(lease_ms=1_000)
    one.put("a", b"1")
    one.put("b", b"1")
    one.put("a", b"2")
    other.put("b", b"1")
    other.put("c", b"3")
    other.put("a", b"2")
    assert one.key() != other.key()
    other.drop_object("c")
    assert one.key() == other.key()
    twin = one.copy()
    twin.put("a", b"3")
    assert one.content("a") == b"2"
    assert one.key() == other.key() != twin.key()


def test_a_builder_may_use_recipes_on_real_ports():
    def build(world):
        world.put("counter", b"0")
        increment(sim.direct_ports(world))

    scenario = Scenario(name="built", actors={"a": increment}, build=build)
    run = sim.replay(scenario, [], background=False)
    assert run.end.world.content("counter") == b"2"
