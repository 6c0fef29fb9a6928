"""The simulator's front door: production recipes in greenlets over a simulated world.

::

    from sim import ActorPorts, FaultBudget, Scenario, World, explore, scenario, swarm

    def writer(ports: ActorPorts) -> str:            # plain synchronous code over the ports
        return commit(ports.store, ports.locks, ports.clock, new_id=ports.new_id, owner=ports.name)

    class NothingIsLost:                             # made once per exploration
        name = "nothing is lost"
        state = ()                                   # only if it remembers: one hashable value
        def after_step(self, world: World) -> str | None: ...   # what is wrong, or None
        def at_end(self, world: World) -> str | None: ...

    @scenario                                        # known to run.py and to scenario files
    def two_writers() -> Scenario:
        return Scenario(
            name="two writers",
            title="Two workers append to one journal.",
            actors={"worker-1": writer, "worker-2": writer},
            build=lambda world: world.put("path", b"content"),   # or recipes: direct_ports(world)
            checkers=[NothingIsLost],
            faults=FaultBudget(preemptions=2, crashes=1, lost=1),
            healers={"clean": clean},                # run at the end, without faults
        )

    explore(two_writers())             -> Exploration(.failure: Run | None, .states, .complete …)
    swarm(two_writers(), range(1000))  -> SwarmReport(.failing_seed, .failure …)
    story(shrink(run))                 -> numbered lines
    keep(path, run, title=…), check(path)          scenario files (LAKEHAND_REWRITE=1)

``ActorPorts``: ``name, store, locks, clock, background, new_id``; ``with_lock(name, provider=…)``
gives the same ports with another lock. Actors share nothing but their ports; what an actor does
must be a function of the replies it gets. An actor ends with a value, a ``LakehandError`` (both in
``world.results[name]``, an ``Outcome``), a crash, or a bug (any other exception: the run fails).

``World`` for checkers: ``objects`` (path -> StoredObject), ``content(path)``, ``paths(prefix)``,
``staged``, ``locks``, ``results``, ``store_now()``, ``last`` (the ``Event``: step, call, reply).

What a scheduler may choose at each call is the table ``FaultBudget``; the mutations of guards are
registered with ``@mutation("name")`` on a context manager. See tests/simulation/README.md.
"""

from __future__ import annotations

from lakehand.errors import InvariantBroken
from sim_calls import Call, Event, FaultBudget, Outcome, Raised, Step
from sim_exhaustive import Exploration, explore
from sim_machine import Machine, direct_ports
from sim_ports import ActorPorts
from sim_registry import (
    MUTATIONS,
    SCENARIOS,
    load,
    mutation,
    named,
    noticed_in,
    scenario,
    without,
)
from sim_run import Run, follow, replay
from sim_scenario import Checker, Scenario
from sim_shrink import cost, shrink
from sim_state import Violation
from sim_story import ScenarioFile, check, keep, parse, story
from sim_swarm import SwarmReport, run_seed, swarm
from sim_world import START_MS, World

__all__ = [
    "MUTATIONS",
    "SCENARIOS",
    "START_MS",
    "ActorPorts",
    "Call",
    "Checker",
    "Event",
    "Exploration",
    "FaultBudget",
    "InvariantBroken",
    "Machine",
    "Outcome",
    "Raised",
    "Run",
    "Scenario",
    "ScenarioFile",
    "Step",
    "SwarmReport",
    "Violation",
    "World",
    "check",
    "cost",
    "direct_ports",
    "explore",
    "follow",
    "keep",
    "load",
    "mutation",
    "named",
    "noticed_in",
    "parse",
    "replay",
    "run_seed",
    "scenario",
    "shrink",
    "story",
    "swarm",
    "without",
]
