"""The simulator finds what is known to be broken, and agrees with what is known to hold."""

from __future__ import annotations

import time

import pytest

import sim
import sim_scenarios_toys as toys
from sim import FaultBudget, Scenario
from sim_exhaustive import Seen


def _says(result, capsys):
    with capsys.disabled():
        print(f"\n  {result}", end="")


@pytest.mark.parametrize("name", ["toy counter", "toy election", "toy journal"])
def test_what_is_right_holds_over_all_schedules(name, capsys):
    result = sim.explore(sim.named(name))
    _says(result, capsys)
    assert result.failure is None
    assert result.complete
    assert result.states > 300


@pytest.mark.parametrize(
    ("guard", "scenario", "checker"),
    [
        ("toy lock", "toy counter", "no increment is lost"),
        ("toy election looks", "toy election", "one leader"),
        ("toy journal checks", "toy journal", "the journal answers true"),
    ],
)
def test_without_its_guard_it_is_found_broken(guard, scenario, checker):
    with sim.without(guard):
        result = sim.explore(sim.named(scenario))
        assert result.failure is not None
        assert result.failure.violation.checker == checker
        assert not result.complete
        found = sim.swarm(sim.named(scenario), range(3_000)).failure
        assert found is not None, "the swarm finds it too"
        assert found.violation.checker == checker


def test_descending_trim_is_found_broken(monkeypatch):
    monkeypatch.setattr(toys, "OUT_OF_ACTION", {"toy next stands on it"})
    scenario = toys.journal_of(1, preemptions=2)
    assert sim.explore(scenario).complete, "the re-read of the tail is enough for one appender"
    toys.OUT_OF_ACTION.add("toy ascending trim")
    assert sim.explore(scenario).failure is not None


def test_a_late_request_that_fills_a_trimmed_slot_needs_the_look_at_what_comes_after(capsys):
    """Re-reading the tail alone is not enough when the tail was read in two steps."""
    crowded = sim.named("toy crowded journal")
    result = sim.explore(crowded)
    _says(result, capsys)
    assert result.complete
    with sim.without("toy next stands on it"):
        failure = sim.explore(crowded).failure
        assert failure is not None
        assert "network deliver 0" in map(str, failure.steps)


def test_thousands_of_schedules_are_explored_a_second(capsys):
    started = time.process_time()  # the machine may be busy with other things
    result = sim.explore(toys.journal_of(1, preemptions=3, lost=1, late=1))
    seconds = time.process_time() - started
    _says(result, capsys)
    assert (result.schedules + result.pruned) / seconds > 2_000


# --- nothing that matters is left out


def _ends(scenario, **how):
    """Return every way in which a scenario can end."""
    seen = set()

    class Ends:
        name = "collects"

        def after_step(self, _world):
            return None

        def at_end(self, world):
            seen.add(
                (
                    tuple((path, world.content(path)) for path in world.paths()),
                    tuple(
                        (name, o.kind, repr(o.value)) for name, o in sorted(world.results.items())
                    ),
                )
            )

    everything = Scenario(
        name=scenario.name, actors=scenario.actors, build=scenario.build, checkers=[Ends],
        faults=scenario.faults, healers=scenario.healers,
    )  # fmt: skip
    if how.get("seeds"):
        sim.swarm(everything, range(how["seeds"]))
    else:
        assert sim.explore(everything, **how).complete
    return seen


def _own_and_shared(ports):
    """Reads that nobody contests, reads that somebody does, and a look at the own lease."""
    mine = f"own/{ports.name}"
    ports.store.put(mine, b"1")
    before = ports.store.get(mine).content
    held = ports.locks.acquire(ports.name, timeout_s=1)
    left = ports.store.head(mine) and held.left_s()
    shared = int(ports.store.get("shared").content)
    ports.store.put("shared", str(shared + 1).encode())
    everybody = ports.store.names("own")
    held.release()
    return before, left, shared, everybody


@pytest.mark.parametrize(
    "faults",
    [
        {"preemptions": 1},
        {"preemptions": 3},
        {"preemptions": 2, "crashes": 1},
        {"preemptions": 2, "pauses": 1},
        {"preemptions": 2, "expiries": 1},
        {"preemptions": 2, "lost": 1},
        {"preemptions": 1, "late": 1},
        {"preemptions": 2, "clock_jumps": 1},
        {"preemptions": 2, "torn": 1, "unavailable": 1, "total": 1},
    ],
)
def test_the_reduction_reaches_every_end(faults):
    scenario = Scenario(
        name="own and shared",
        actors={"worker-1": _own_and_shared, "worker-2": _own_and_shared},
        build=lambda world: world.put("shared", b"0"),
        faults=FaultBudget(**faults),
    )
    assert _ends(scenario) == _ends(scenario, every_preemption=True)


def test_a_state_is_explored_again_with_a_budget_that_it_was_not_explored_with():
    seen = Seen()
    assert seen.add(1, (0, 1))
    assert seen.add(1, (1, 0))
    assert not seen.add(1, (0, 1))
    assert not seen.add(1, (0, 0))
    assert seen.add(1, (1, 1))
    assert not seen.add(1, (1, 0))
    assert seen.add(2, (0, 0))
    assert len(seen) == 2


def test_the_reduction_explores_fewer_states():
    scenario = Scenario(
        name="own and shared",
        actors={"worker-1": _own_and_shared, "worker-2": _own_and_shared},
        build=lambda world: world.put("shared", b"0"),
        faults=FaultBudget(preemptions=3),
    )
    assert sim.explore(scenario).states < sim.explore(scenario, every_preemption=True).states


def test_what_random_runs_reach_is_among_what_the_exploration_reached():
    scenario = Scenario(
        name="two puts",
        actors={
            "worker-1": lambda ports: [ports.store.put("a", b"1"), ports.store.put("b", b"1")],
            "worker-2": lambda ports: [ports.store.put("b", b"2"), ports.store.put("a", b"2")],
        },
        faults=FaultBudget(preemptions=6, crashes=0),
    )
    explored = _ends(scenario)
    assert _ends(scenario, seeds=300) == explored
    worlds = {tuple(content for _, content in ends[0]) for ends in explored}
    assert worlds == {(b"1", b"1"), (b"2", b"1"), (b"2", b"2")}
