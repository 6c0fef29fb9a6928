"""Rollbacks and takeovers that meet, checkpoints under load, and an open restore."""

from __future__ import annotations

import pytest

from sim_explored import explored
from sim_scenarios_rollbacks import (
    CASTS,
    MORE_SWITCHES,
    RESTORE_CASTS,
    SWITCHES,
    TROUBLE,
    cast,
    open_restore,
)


@pytest.mark.parametrize("name", CASTS)
def test_two_workers_may_meet_at_one_instant(name):
    explored(cast(name, SWITCHES))


def test_the_zombie_and_its_successor_may_die_or_sleep_at_any_call():
    explored(cast("takeover while the zombie promotes", TROUBLE))


@pytest.mark.parametrize("name", RESTORE_CASTS)
def test_an_open_restore_forbids_all_others(name):
    explored(open_restore(name, MORE_SWITCHES))
