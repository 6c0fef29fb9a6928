"""Cancellation against execution, ingestion, clean and retry, over all interleavings."""

from __future__ import annotations

import pytest

from sim_explored import explored
from sim_scenarios_cancel import CASTS, CRASH, SWITCHES, TROUBLE, cast


@pytest.mark.req("B-38")
@pytest.mark.parametrize("name", CASTS)
def test_a_cancellable_plan_ends_once(name):
    explored(cast(name, SWITCHES))


@pytest.mark.req("B-38")
def test_an_executor_and_a_canceller_may_die_or_sleep_at_any_call():
    explored(cast("cancel against commit", TROUBLE))


@pytest.mark.req("B-38")
def test_whoever_finishes_a_half_done_cancellation_may_die_at_any_write():
    explored(cast("half cancelled: retry, clean, abort", CRASH))
