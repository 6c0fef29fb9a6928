"""What every lock makes of answers that were lost: it looks, and never guesses."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lakehand.errors import LakehandError, LockTimeout, Unavailable
from lock_kinds import Doubt, Fate
from lock_places import kinds
from lock_worlds import FakeWorld, StuckBackground

if TYPE_CHECKING:
    from lock_kinds import LockPlace

LOST = [Fate.REPLY_LOST, Fate.REQUEST_LOST]


@pytest.fixture(params=kinds(lambda kind: kind.can_doubt))
def place(request) -> LockPlace:
    return request.param.make(request)


def owner_of(place: LockPlace, world) -> str | None:
    found = place.open(world.terms, world.worker()).holder()
    return None if found is None else found.owner


@pytest.mark.parametrize("fate", [*LOST, Fate.TURNED_AWAY])
def test_it_is_taken_once_when_the_answer_to_taking_it_fails(place, fate):
    world, doubt = place.world(), Doubt()
    lock = place.open_doubtful(doubt, world.terms, world.worker())
    for name in ("missing before", "free before"):
        doubt.next(fate)
        held = lock.acquire(name, timeout_s=world.terms.lease_s)
        assert not doubt.fates
        assert 0 < held.left_s() <= world.terms.lease_s
        assert owner_of(place, world) == name
        held.release()
        assert owner_of(place, world) is None


def test_a_lock_that_was_taken_unnoticed_is_not_left_behind_by_a_timeout(place):
    """The answer is lost when time is up already: it must be held or free, not a ghost's."""
    world, doubt = place.world(), Doubt()
    doubt.next(Fate.REPLY_LOST)
    held = place.open_doubtful(doubt, world.terms, world.worker()).acquire("first", timeout_s=0)
    assert held.left_s() > 0
    held.release()
    place.open(world.terms, world.worker()).acquire("second", timeout_s=0).release()


def test_a_lost_answer_is_not_taken_for_success(place):
    world, doubt = place.world(), Doubt()
    doubt.next(Fate.REQUEST_LOST)
    with pytest.raises((LockTimeout, Unavailable)):
        place.open_doubtful(doubt, world.terms, world.worker()).acquire("first", timeout_s=0)
    assert owner_of(place, world) is None


@pytest.mark.parametrize("fate", list(Fate))
def test_one_failed_renewal_does_not_lose_the_lock(place, fate):
    world, doubt = place.world(), Doubt()
    held = place.open_doubtful(doubt, world.terms, world.worker()).acquire("first", timeout_s=0)
    doubt.next(fate)
    with pytest.raises(LockTimeout, match="first"):
        place.open(world.terms, world.worker()).acquire(
            "second", timeout_s=2.5 * world.terms.lease_s
        )
    assert not doubt.fates
    assert held.left_s() > 0
    held.release()
    assert owner_of(place, world) is None


@pytest.mark.parametrize("fate", list(Fate))
def test_a_release_whose_answer_fails_still_frees_the_lock(place, fate):
    world, doubt = place.world(), Doubt()
    held = place.open_doubtful(doubt, world.terms, world.worker()).acquire("first", timeout_s=0)
    doubt.next(fate)
    held.release()
    assert not doubt.fates
    assert owner_of(place, world) is None


def test_a_release_that_never_succeeds_raises_nothing_and_the_lease_runs_out(place):
    world, doubt = place.world(), Doubt()
    held = place.open_doubtful(doubt, world.terms, world.worker()).acquire("first", timeout_s=0)
    doubt.next(*[Fate.TURNED_AWAY] * 50)
    held.release()
    assert held.left_s() == 0
    assert owner_of(place, world) == "first"
    place.open(world.terms, world.worker()).acquire(
        "heir", timeout_s=5 * world.terms.lease_s
    ).release()


def test_a_server_that_turns_everybody_away_is_not_a_holder(place):
    world, doubt = place.world(), Doubt()
    doubt.next(*[Fate.TURNED_AWAY] * 500)
    with pytest.raises(LakehandError) as refused:
        place.open_doubtful(doubt, world.terms, world.worker()).acquire(
            "first", timeout_s=world.terms.renew_every_s
        )
    assert isinstance(refused.value, Unavailable)
    assert not isinstance(refused.value, LockTimeout)


def test_renewals_that_are_turned_away_leave_the_holder_with_nothing_in_time(place):
    world, doubt = place.world(), Doubt()
    held = place.open_doubtful(doubt, world.terms, world.worker()).acquire("cut off", timeout_s=0)
    doubt.next(*[Fate.TURNED_AWAY] * 500)
    heir = place.open(world.terms, world.worker()).acquire(
        "heir", timeout_s=5 * world.terms.lease_s
    )
    assert held.left_s() == 0
    doubt.fates.clear()
    held.release()
    assert owner_of(place, world) == "heir"
    heir.release()


def test_the_lease_counts_from_the_write_that_landed(place):
    """Taking it fails at first, unseen, and lands; the lease must not count from a later try."""
    world, doubt = place.world(), Doubt()
    worker = world.worker()
    assert not isinstance(worker.background, StuckBackground)
    doubt.next(Fate.REPLY_LOST)
    before = world.clock.monotonic()
    held = place.open_doubtful(doubt, world.terms, worker).acquire("first", timeout_s=5)
    waited_s = world.clock.monotonic() - before
    slack_s = 1e-6 if isinstance(world, FakeWorld) else world.terms.lease_s / 5  # time runs on
    assert held.left_s() <= world.terms.lease_s - waited_s + slack_s
    held.release()


@pytest.mark.parametrize("fate", LOST)
def test_a_lock_is_broken_for_good_also_when_the_answer_is_lost(place, fate):
    world, doubt = place.world(), Doubt()
    dead = place.open(world.terms, world.worker(renews=False)).acquire("dead", timeout_s=0)
    lock = place.open_doubtful(doubt, world.terms, world.worker())
    seen = lock.holder()
    assert seen is not None
    doubt.next(fate)
    assert lock.break_lock(seen)
    assert owner_of(place, world) is None
    place.open(world.terms, world.worker()).acquire("next", timeout_s=0).release()
    dead.release()
    assert not lock.break_lock(seen)
