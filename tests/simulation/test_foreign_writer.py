"""Beside a writer like Apache Hudi's all promises hold but those of one table, and those fail."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sim_calls import FaultBudget
from sim_exhaustive import explore
from sim_explored import explored
from sim_scenarios_foreign import (
    CASTS,
    CRASH,
    SWITCHES,
    WEAKENED,
    beside,
    situation,
)


@pytest.mark.req("B-38")
@pytest.mark.parametrize(
    "name",
    list(CASTS),
)
def test_all_promises_hold_beside_a_foreign_writer(name):
    explored(beside(name, SWITCHES))


@pytest.mark.parametrize("name", ["java cleans, we write", "java archives, we compact"])
def test_one_of_them_may_die_at_any_write(name):
    explored(beside(name, CRASH))


def test_what_java_completed_before_we_published_is_not_lost():
    """A decided commit whose worker died gives way to a completion that its judge did not know."""
    explored(beside("java goes before clustering, we cluster", CRASH))


@pytest.mark.parametrize("situation_name", WEAKENED)
def test_these_promises_weaken_and_no_others(situation_name):
    name, faults, expected = WEAKENED[situation_name]
    scenario, failed = situation(name, faults), set()
    while (report := explore(scenario)).failure is not None:
        checker = report.failure.violation.checker
        assert checker in expected, report.failure.violation
        failed.add(checker)
        left = [make for make in scenario.checkers if make().name != checker]
        scenario = replace(scenario, checkers=left)
    print(report)
    assert report.complete
    assert failed == expected


def test_without_switches_not_even_these_weaken():
    for name, _, _ in WEAKENED.values():
        explored(situation(name, FaultBudget(preemptions=0)))
