"""Servers of locks that die, hang, or lose answers, under holders and waiters."""

from __future__ import annotations

import gc
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from api_fixtures import ApiServers
from lakehand.errors import LakehandError, LockTimeout, Unavailable
from lakehand.locks.leases import LeaseTerms
from lock_kinds import Doubt, Fate
from lock_places_api import MAKERS
from lock_worlds import RealWorld

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lock_places_api import ApiPlace

pytestmark = [
    pytest.mark.api,
    # urllib3 drops the socket of a server that was killed in mid-answer without closing it.
    pytest.mark.filterwarnings(
        "ignore:Exception ignored in. <ssl.SSLSocket:pytest.PytestUnraisableExceptionWarning"
    ),
]

TERMS = LeaseTerms(lease_s=2.0, renew_every_s=0.2, first_pause_s=0.01, longest_pause_s=0.1)
PATIENT = LeaseTerms(lease_s=4.0, renew_every_s=0.2, first_pause_s=0.01, longest_pause_s=0.1)
"""A release that met a dead server leaves the lock to its lease: this is what it costs."""

LONG = LeaseTerms(lease_s=30.0, renew_every_s=0.2, first_pause_s=0.01, longest_pause_s=0.1)


@pytest.fixture(scope="module")
def mortals() -> Iterator[ApiServers]:
    """Servers that a test may kill: nobody else uses them."""
    with ExitStack() as stack:
        yield ApiServers(stack)


@pytest.fixture(params=MAKERS, ids=lambda make: make.__name__.strip("_"))
def mortal(request, servers, mortals) -> Iterator[ApiPlace]:
    """A lock of each kind whose server can be killed. (``servers`` skips where there is no Go.)"""
    place = request.param(mortals, request)
    yield place
    place.server.resume()
    gc.collect()  # finds those sockets here, and not in the test after


def await_renewal(held) -> None:
    """Wait until the background has renewed it: what is left grows then, and never else."""
    before = held.left_s()
    while (left_s := held.left_s()) <= before:
        assert left_s > 0
        before = left_s
        threading.Event().wait(0.01)


def test_a_holder_outlives_its_servers_restart(mortal):
    held = mortal.open(LONG).acquire("first", timeout_s=0)
    waiter = mortal.open(LONG)
    mortal.server.kill()
    with pytest.raises(Unavailable):
        waiter.holder()
    mortal.server.start()
    await_renewal(held)
    await_renewal(held)
    with pytest.raises(LockTimeout, match="first"):
        waiter.acquire("second", timeout_s=0)
    held.release()
    waiter.acquire("second", timeout_s=5).release()


def test_a_holder_cut_off_for_its_lease_has_nothing_left_and_another_gets_it(mortal):
    held = mortal.open(TERMS).acquire("first", timeout_s=0)
    mortal.server.kill()
    threading.Event().wait(held.left_s())
    assert held.left_s() == 0
    mortal.server.start()
    heir = mortal.open(TERMS).acquire("heir", timeout_s=30)
    assert held.left_s() == 0
    held.release()
    assert mortal.open(TERMS).holder().owner == "heir"
    heir.release()


def test_a_server_that_hangs_lets_the_lease_run_out_in_time(mortal):
    """Requests that never end must not keep the holder from knowing."""
    held = mortal.open(TERMS).acquire("first", timeout_s=0)
    mortal.server.suspend()
    began = time.monotonic()
    with pytest.raises(Unavailable, match=r"no answer|no connection"):
        mortal.open(TERMS).acquire("second", timeout_s=0)
    assert time.monotonic() - began < 20  # the request's limit is 0.2 s
    threading.Event().wait(held.left_s())
    assert held.left_s() == 0
    mortal.server.resume()
    held.release()
    mortal.open(TERMS).acquire("second", timeout_s=30).release()


def test_a_server_that_is_starting_is_waited_for(mortal):
    """A kube-apiserver refuses everybody (403) until it has read the roles."""
    mortal.server.kill()
    lock = mortal.open(LONG)
    with ThreadPoolExecutor(1) as pool:
        held = pool.submit(lock.acquire, "first", timeout_s=60)
        mortal.server.start()
        held.result().release()


@dataclass
class Tally:
    """Who is inside, and what went wrong."""

    inside: str | None = None
    turns: int = 0
    overlaps: int = 0

    def visit(self, held, name: str) -> None:
        other, self.inside = self.inside, name
        if other is not None:
            self.overlaps += 1
        self.turns += 1
        threading.Event().wait(0.002)
        if held.left_s() > 0 and self.inside != name:
            self.overlaps += 1
        self.inside = None


def test_two_never_hold_it_while_the_server_is_killed_and_restarted(mortal):
    tally, is_over = Tally(), threading.Event()

    def work(name: str) -> None:
        lock = mortal.open(PATIENT)
        while not is_over.is_set():
            try:
                held = lock.acquire(name, timeout_s=60)
            except Unavailable:
                continue
            tally.visit(held, name)
            held.release()

    with ThreadPoolExecutor(4) as pool:
        workers = [pool.submit(work, f"worker {number}") for number in range(4)]
        for _ in range(2):
            before = tally.turns
            while tally.turns < before + 5 and not any(each.done() for each in workers):
                threading.Event().wait(0.01)
            mortal.server.kill()
            mortal.server.start()
        is_over.set()
        for each in workers:
            each.result()
    assert tally.overlaps == 0
    assert tally.turns >= 10


def test_an_answer_500_after_the_write_is_read_back(place):
    """Taking, renewing and releasing each meet a server that did it and says that it failed."""
    world, doubt = RealWorld(LONG), Doubt()
    lock = place.open_doubtful(doubt, LONG, world.worker(renews=False), fails=True)
    doubt.next(Fate.REPLY_LOST)
    held = lock.acquire("first", timeout_s=5)
    doubt.next(Fate.REPLY_LOST)
    assert held._renew()
    left_s = held.left_s()
    assert held._renew()
    assert held.left_s() >= left_s
    doubt.next(Fate.REPLY_LOST)
    held.release()
    assert not doubt.fates
    assert place.open().holder() is None


def test_a_zombies_writes_are_refused_after_a_takeover(place):
    """Straight to the register, past the holder's own knowledge that its time is up."""
    world = place.world()
    zombie = place.open(world.terms, world.worker(renews=False)).acquire("zombie", timeout_s=0)
    version = zombie._version
    heir = place.open(world.terms, world.worker()).acquire(
        "heir", timeout_s=5 * world.terms.lease_s
    )
    before = place.open().holder()
    register, own = zombie._register, zombie._own
    for write in (register.renew, register.take, register.free):
        assert write(own.next(), version).outcome.value == "exists"
    after = place.open().holder()
    assert (after.owner, before.owner) == ("heir", "heir")
    assert heir.left_s() > 0
    heir.release()


def test_errors_of_the_server_are_errors_of_ours(mortal):
    lock = mortal.open(TERMS)
    mortal.server.kill()
    for call in (lambda: lock.acquire("first", timeout_s=0.2), lock.holder):
        with pytest.raises(LakehandError) as refused:
            call()
        assert isinstance(refused.value, Unavailable)
        assert not isinstance(refused.value, LockTimeout)
    mortal.server.start()
