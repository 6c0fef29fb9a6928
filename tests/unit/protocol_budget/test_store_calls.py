"""Store calls of each kind of transaction: few, named, and the same on a table of any size."""

from __future__ import annotations

from itertools import pairwise

import pytest

from kernel_faults import Counting, on_store
from kernel_scenes import Scene, Step, ingestion, planned
from lakehand.protocol import claiming
from lakehand.protocol.failed_writes import clean_up
from store_calls import DOCUMENT, RECIPES, SIZES, measured, render

UNDER_LOCK = {
    "schedule": (10, 13),
    "begin write": (12, 15),
    "begin data": (12, 12),
    "claim": (12, 16),
    "claim, refused": (6, 10),
    "prepare": (0, 0),
    "commit of a plan": (13, 13),
    "commit of a write": (13, 13),
    "request cancel": (10, 14),
    "execute cancel": (22, 30),
    "schedule rollback": (11, 12),
    "execute rollback": (24, 28),
    "failed writes, none": (5, 6),
}
"""At most so many requests under the lock, with the lock's own: of an opened and of a cold worker.

Where there are two transactions, of both.
"""
FOR_WHAT_IS_PENDING = {"list .hoodie/.heartbeat"}
"""One listing tells which of all pending writes are live; without any it is not made."""
SIZE_IDS = [f"{pending} pending {completed} completed" for pending, completed in SIZES]


@pytest.mark.req("A-21")
@pytest.mark.parametrize("opened", [True, False], ids=["opened", "cold"])
@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.parametrize("size", SIZES, ids=SIZE_IDS)
def test_few_requests_are_made_under_the_lock(recipe, size, opened):
    found = measured(recipe, *size, opened=opened)
    assert found.locked_requests <= UNDER_LOCK[recipe][0 if opened else 1], "\n".join(found.locked)


def test_a_claim_makes_12_requests_and_a_commit_at_most_14():
    """What the project promised, with up to 100 pending instants and for an opened worker."""
    for pending in (0, 100):
        assert measured("claim", pending, 100, opened=True).locked_requests <= 12
        for recipe in ("commit of a plan", "commit of a write"):
            assert measured(recipe, pending, 100, opened=True).locked_requests <= 14


@pytest.mark.req("A-21")
@pytest.mark.parametrize("opened", [True, False], ids=["opened", "cold"])
@pytest.mark.parametrize("recipe", RECIPES)
def test_the_calls_under_the_lock_do_not_depend_on_how_many_instants_there_are(recipe, opened):
    smallest = measured(recipe, *SIZES[0], opened=opened).locked
    for size in SIZES[1:]:
        locked = measured(recipe, *size, opened=opened).locked
        assert tuple(one for one in locked if one not in FOR_WHAT_IS_PENDING) == smallest
        assert len(locked) <= len(smallest) + 1


@pytest.mark.req("A-21")
@pytest.mark.parametrize("recipe", RECIPES)
def test_under_the_lock_no_data_file_is_touched(recipe):
    under = measured(recipe, 100, 100, opened=True).locked
    assert [one for one in under if ".hoodie" not in one and one != "now"] == []
    assert [one for one in under if one.startswith("walk")] == []


def test_the_document_shows_the_calls_as_they_are():
    assert DOCUMENT.read_text(encoding="utf-8") == render(), (
        "write it again: store_calls.py --write"
    )


def _calls(scene: Scene, act) -> int:
    """The calls of an act on a scene, whose lock makes none."""
    counting = Counting()
    act(on_store(scene.worker("counted"), counting), scene)
    return len(counting.calls)


def _claim(bench, scene: Scene) -> None:
    claiming.claim(bench, scene.time)


@pytest.mark.req("A-21")
def test_a_claim_costs_the_same_however_many_attempts_died_before_it():
    costs = set()
    for deaths in (1, 2, 7):
        scene = planned()
        for number in range(deaths):
            claiming.claim(scene.worker(f"dead-{number}"), scene.time)
            scene.clock.pass_minutes(3)
        costs.add(_calls(scene, _claim))
    assert len(costs) == 1


@pytest.mark.req("A-21")
def test_planning_rollbacks_costs_a_few_calls_for_each_failed_write_and_no_more():
    costs = []
    for failed in (1, 2, 3, 4):
        scene = Scene()
        for number in range(failed):
            ingestion(scene.worker(f"dead-{number}"), Step.STAGED, f"g{number}")
        scene.clock.pass_minutes(3)
        costs.append(_calls(scene, lambda bench, _: clean_up(bench)))
    steps = {later - earlier for earlier, later in pairwise(costs)}
    assert len(steps) == 1


@pytest.mark.req("A-21")
def test_an_execution_adds_the_guards_calls_and_nothing_else():
    """What the guard of RFC-79 costs: it reads one heartbeat."""
    costs = []
    for enabled in (True, False):
        scene = planned(settings={"guard_enabled": enabled})
        costs.append(_calls(scene, _claim))
    assert 0 <= costs[0] - costs[1] <= 1
