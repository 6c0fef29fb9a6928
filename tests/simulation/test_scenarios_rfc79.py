"""RFC-79's scenario tables, by name: which worker may succeed, and how the others fail.

Every row is explored for every service over all interleavings with two preemptions (or one), and
for one service with a crash or a pause, for ever or not, at every store call. ``run.py`` goes
deeper.
"""

from __future__ import annotations

import pytest

from lakehand.core.instants import Action
from sim_calls import FaultBudget
from sim_explored import explored
from sim_scenarios_rfc79_kept import REMOVABLE, SERVICES, SWITCHES, kept
from sim_scenarios_rfc79_removable import ROWS, removable

TROUBLE = FaultBudget(preemptions=0, crashes=1, pauses=1, total=1)
"""One worker after the other, and at every call of each a crash, or a sleep of an hour or more."""

CRASH = FaultBudget(preemptions=0, crashes=1)


@pytest.mark.req("A-28", "A-29", "A-30", "A-36")
@pytest.mark.parametrize("action", SERVICES)
@pytest.mark.parametrize("row", "ABC")
def test_workers_share_a_plan_that_is_kept(row, action):
    explored(kept(row, action, SWITCHES))


@pytest.mark.parametrize(
    ("row", "action"),
    [("A", Action.COMPACTION), ("B", Action.LOG_COMPACTION), ("C", Action.CLUSTERING)],
)
def test_one_of_them_may_die_or_sleep_at_any_call(row, action):
    explored(kept(row, action, TROUBLE))


@pytest.mark.req("A-31", "A-32", "A-33", "A-34", "A-35", "A-36")
@pytest.mark.parametrize("action", REMOVABLE)
@pytest.mark.parametrize("row", ROWS)
def test_workers_share_a_removable_plan(row, action):
    few = row[0] in "DE" and action is Action.LOG_COMPACTION
    explored(removable(row, action, FaultBudget(preemptions=1) if few else SWITCHES))


@pytest.mark.parametrize("row", ["A", "E old"])
def test_one_of_them_may_die_or_sleep_at_any_call_of_a_removable_plan(row):
    explored(removable(row, REMOVABLE[len(row) % 2], TROUBLE))


@pytest.mark.parametrize("row", ["B", "C", "D young", "D old", "E young"])
def test_one_of_them_may_die_at_any_write_of_a_removable_plan(row):
    explored(removable(row, REMOVABLE[len(row) % 2], CRASH))
