"""Every kind of decision survives a crash, a lost reply, a lost lease and a wrong clock."""

from __future__ import annotations

import pytest

from sim_explored import explored
from sim_scenarios_decisions import (
    CLOCK,
    CRASH,
    DECISIONS,
    LEASE,
    LOST,
    MEETINGS,
    SWITCHES,
    decided,
)


@pytest.mark.parametrize("name", DECISIONS)
def test_what_was_decided_is_rolled_forward_after_a_crash(name):
    explored(decided(name, CRASH))


@pytest.mark.parametrize("name", DECISIONS)
def test_a_lost_reply_leaves_no_doubt(name):
    explored(decided(name, LOST))


@pytest.mark.parametrize("name", MEETINGS)
def test_two_of_them_may_meet(name):
    explored(decided(name, SWITCHES))


@pytest.mark.parametrize("name", ["two writers of one group", "a writer and a compaction"])
def test_the_lease_may_end_under_its_holder(name):
    explored(decided(name, LEASE))


@pytest.mark.parametrize("name", ["ingestion", "claim, prepare and commit", "abort"])
def test_the_clock_may_jump_an_hour_ahead_or_a_day_back(name):
    explored(decided(name, CLOCK))
