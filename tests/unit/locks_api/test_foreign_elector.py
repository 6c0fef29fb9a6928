"""Our Lease lock and client-go's own leader election exclude each other."""

from __future__ import annotations

import contextlib
import subprocess
from typing import TYPE_CHECKING

import pytest

from api_build import ELECTOR, binary
from api_server import NAMESPACE
from lakehand.errors import LockTimeout
from lakehand.locks.leases import LeaseTerms
from lock_worlds import RealWorld

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.api

SHORT = LeaseTerms(lease_s=2.0, renew_every_s=0.3, first_pause_s=0.02, longest_pause_s=0.1)


@contextlib.contextmanager
def elector(place) -> Iterator[subprocess.Popen[str]]:
    """An elector with a lease of two seconds, which it renews every 200 ms."""
    kubeconfig = str(place.servers.api.admin_kubeconfig)
    process = subprocess.Popen(
        [str(binary(ELECTOR)), kubeconfig, NAMESPACE, place.name, "the elector"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def says(process: subprocess.Popen[str], word: str) -> None:
    assert process.stdout is not None
    assert process.stdout.readline() == f"{word}\n"


def test_an_elector_that_lives_keeps_us_out_and_lets_us_in_when_it_releases(lease_place):
    with elector(lease_place) as process:
        says(process, "leading")
        lock = lease_place.open(SHORT)
        with pytest.raises(LockTimeout, match="the elector"):
            lock.acquire("ours", timeout_s=5)  # more than two of its leases
        assert lock.holder().owner == "the elector"
        process.terminate()
        held = lock.acquire("ours", timeout_s=10)
        says(process, "stopped")
    assert held.left_s() > 0
    held.release()


def test_an_elector_that_was_killed_is_replaced_after_its_lease(lease_place):
    with elector(lease_place) as process:
        says(process, "leading")
        process.kill()
        held = lease_place.open(SHORT).acquire("ours", timeout_s=20)
    held.release()


def test_an_elector_waits_for_us_and_leads_when_we_release(lease_place):
    held = lease_place.open(SHORT).acquire("ours", timeout_s=0)
    with elector(lease_place) as process:
        with pytest.raises(LockTimeout, match="ours"):
            lease_place.open(SHORT).acquire("another", timeout_s=5)
        assert held.left_s() > 0
        held.release()
        says(process, "leading")
        assert lease_place.open(SHORT).holder().owner == "the elector"


def test_an_elector_replaces_us_when_we_died_and_we_know(lease_place):
    dead = lease_place.open(SHORT, RealWorld(SHORT).worker(renews=False)).acquire(
        "ours", timeout_s=0
    )
    with elector(lease_place) as process:
        says(process, "leading")
        assert dead.left_s() == 0
        dead.release()
        assert lease_place.open(SHORT).holder().owner == "the elector"
