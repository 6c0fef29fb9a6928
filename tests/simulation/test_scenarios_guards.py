"""Scenarios made for one guard each: clean with it, and without it a checker says what is wrong."""

from __future__ import annotations

import pytest

import sim
from sim_calls import FaultBudget
from sim_explored import explored
from sim_scenarios_guards_epochs import CASTS as EPOCHS
from sim_scenarios_guards_foreign import CASTS as FOREIGN
from sim_scenarios_guards_foreign import SLEEPY

MISSED = {
    ".cancel is promoted, not put": "a cancellation that is over stays over",
    "a heartbeat of a replaced epoch says nothing": "the dead hold nobody up",
    "a rollback ends empty when its target went on": "all is well in the end",
    "a rollback is for the write that is only requested": "all is well in the end",
    "a write that was rolled back does not go on": "an instant ends once",
    "clean looks again under the lock": "a removable plan gets its chance",
    "epoch in abort": "only the last claim decides",
    "one-shot promotion": "what was promoted is staged no more",
    "reload after the lock": "a new time is later than all others",
    "the first beat is conditional": "the live are left alone",
    "the lease must have some time left": "a new time is later than all others",
    "the sweep lists the timeline last": "an attempt deletes only what older ones left",
    "times strictly increase": "a new time is later than all others",
    "traces: no rollback names it": "files that a commit names are there",
    "traces: the instant is still pending": "an instant ends once",
    "void: discard the stage first": "an instant ends once",
    "void: list before publishing a commit": "a snapshot is what was acknowledged",
}
"""The checker that fails when a guard is taken out."""


@pytest.mark.parametrize("name", [*EPOCHS, *(name for name in FOREIGN if name != SLEEPY)])
def test_with_its_guard_a_scenario_is_clean(name):
    explored(sim.named(name))


def test_a_worker_may_sleep_over_its_commit_beside_java():
    explored(sim.named(SLEEPY), FaultBudget(preemptions=0, pauses=1))


@pytest.mark.parametrize("guard", MISSED)
def test_without_a_guard_its_checker_fails(guard):
    (name,) = sim.noticed_in(guard)
    with sim.without(guard):
        found = sim.explore(sim.named(name))
    print(found)
    assert found.failure is not None
    assert found.failure.violation.checker == MISSED[guard]
