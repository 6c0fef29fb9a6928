"""Cancellation against execution, ingestion, clean and retry, over all interleavings."""

from __future__ import annotations

import pytest

from sim_explored import explored
from sim_scenarios_cancel import CASTS, SWITCHES, TROUBLE, cast


@pytest.mark.req("B-38")
@pytest.mark.parametrize("name", CASTS)
def test_a_cancellable_plan_ends_once(name):
    explored(cast(name, SWITCHES))


@pytest.mark.req("B-38")
@pytest.mark.parametrize("name", ["cancel against commit", "half cancelled: retry, clean, abort"])
def test_anybody_may_die_or_sleep_at_any_call(name):
    explored(cast(name, TROUBLE))
