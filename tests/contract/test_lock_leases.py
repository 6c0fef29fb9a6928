"""What every lock that is a lease does when holders stop, die, or have wrong clocks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lakehand.errors import LockTimeout
from lock_places import kinds
from lock_worlds import DAY_MS

if TYPE_CHECKING:
    from lock_kinds import LockPlace


@pytest.fixture(params=kinds(lambda kind: kind.has_lease))
def place(request) -> LockPlace:
    return request.param.make(request)


def test_a_renewed_lock_outlives_its_lease(place):
    world = place.world()
    held = place.open(world.terms, world.worker()).acquire("first", timeout_s=0)
    with pytest.raises(LockTimeout, match="first"):
        place.open(world.terms, world.worker()).acquire(
            "second", timeout_s=2.5 * world.terms.lease_s
        )
    assert held.left_s() > 0
    held.release()
    assert place.open(world.terms, world.worker()).holder() is None


def test_the_lock_of_a_dead_holder_is_taken_when_its_lease_has_run_out(place):
    world = place.world()
    dead = place.open(world.terms, world.worker(renews=False)).acquire("dead", timeout_s=0)
    began = world.clock.monotonic()
    heir = place.open(world.terms, world.worker()).acquire(
        "heir", timeout_s=5 * world.terms.lease_s
    )
    assert dead.left_s() == 0
    assert world.clock.monotonic() - began < 2.5 * world.terms.lease_s
    assert heir.token != dead.token
    assert heir.left_s() > 0
    found = place.open(world.terms, world.worker()).holder()
    assert found is not None
    assert found.owner == "heir"
    assert found.lease_s in (world.terms.lease_s, None)  # None: its server ends it
    heir.release()


def test_a_holder_that_does_not_renew_knows_before_another_takes_over(place):
    """From the heir's first moment on the old holder must have nothing left, and never again."""
    world = place.world()
    stuck = place.open(world.terms, world.worker(renews=False)).acquire("stuck", timeout_s=0)
    lefts = []
    heir_world = world.worker()
    heir = place.open(world.terms, heir_world)
    while stuck.left_s() > 0:
        lefts.append(stuck.left_s())
        with pytest.raises(LockTimeout, match="stuck"):
            heir.acquire("too early", timeout_s=0)
        world.clock.sleep(world.terms.lease_s / 20)
    assert len(lefts) > 5
    assert lefts == sorted(lefts, reverse=True)
    held = heir.acquire("heir", timeout_s=5 * world.terms.lease_s)
    assert stuck.left_s() == 0
    held.release()


def test_the_release_of_a_lost_lock_leaves_the_new_holder_alone(place):
    world = place.world()
    lost = place.open(world.terms, world.worker(renews=False)).acquire("lost", timeout_s=0)
    heir = place.open(world.terms, world.worker()).acquire(
        "heir", timeout_s=5 * world.terms.lease_s
    )
    lost.release()
    found = place.open(world.terms, world.worker()).holder()
    assert found is not None
    assert found.owner == "heir"
    with pytest.raises(LockTimeout, match="heir"):
        place.open(world.terms, world.worker()).acquire("third", timeout_s=0)
    world.clock.sleep(2 * world.terms.renew_every_s)
    assert heir.left_s() > 0
    heir.release()
    assert place.open(world.terms, world.worker()).holder() is None


def test_clocks_that_are_wrong_by_a_day_make_no_two_holders(place):
    world = place.world()
    for ahead, behind in ((DAY_MS, -DAY_MS), (-DAY_MS, DAY_MS)):
        held = place.open(world.terms, world.worker(clock_ahead_ms=ahead)).acquire(
            "first", timeout_s=0
        )
        other = place.open(world.terms, world.worker(clock_ahead_ms=behind))
        with pytest.raises(LockTimeout, match="first"):
            other.acquire("second", timeout_s=1.5 * world.terms.lease_s)
        assert held.left_s() > 0
        held.release()
        other.acquire("second", timeout_s=0).release()


def test_wrong_clocks_keep_nobody_from_a_dead_holders_lock(place):
    world = place.world()
    for ahead in (DAY_MS, -DAY_MS):
        dead = place.open(world.terms, world.worker(renews=False, clock_ahead_ms=ahead)).acquire(
            "dead", timeout_s=0
        )
        heir = place.open(world.terms, world.worker()).acquire(
            "heir", timeout_s=5 * world.terms.lease_s
        )
        assert dead.left_s() == 0
        heir.release()


def test_only_one_of_several_heirs_inherits(place):
    world = place.world()
    place.open(world.terms, world.worker(renews=False)).acquire("dead", timeout_s=0)
    heirs = [place.open(world.terms, world.worker()) for _ in range(3)]
    held = heirs[0].acquire("heir", timeout_s=5 * world.terms.lease_s)
    for other in heirs[1:]:
        with pytest.raises(LockTimeout, match="heir"):
            other.acquire("too late", timeout_s=world.terms.lease_s / 2)
    assert held.left_s() > 0
    held.release()


def test_a_lease_that_ran_out_is_not_revived(place):
    world = place.world()
    stuck_worker = world.worker(renews=False)
    held = place.open(world.terms, stuck_worker).acquire("stuck", timeout_s=0)
    world.clock.sleep(1.1 * world.terms.lease_s)
    assert held.left_s() == 0
    held._renew()  # its thread wakes up late
    assert held.left_s() == 0
    held.release()
    place.open(world.terms, world.worker()).acquire(
        "next", timeout_s=5 * world.terms.lease_s
    ).release()
