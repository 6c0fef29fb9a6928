"""What a lock costs: taking it, holding it for nothing, and waiting for it among others.

    python bench/bench_locks.py [seconds per line] [kind ...]

For every provider that can run here: 1, 4 and 16 contenders, each a thread with a provider of its
own, take the lock, touch nothing, release it, and pause for as long as they held it before the
next turn. Shown are turns per second of all together, how long ``acquire`` took (median, 99 of
100, longest), and how long one held the lock for nothing (median), ``release`` included. The
terms are the defaults. Servers come from ``tests/support``, on the loopback: a real object store
adds its own latency to every call. What cannot run here is named.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "support"))

import s3_server
from lakehand.locks.leases import LeaseTerms
from lock_places import KINDS

if TYPE_CHECKING:
    from collections.abc import Callable

TERMS = LeaseTerms(lease_s=60.0, renew_every_s=6.0)
CONTENDERS = (1, 4, 16)


class Servers:
    """Starts a server when it is first asked for, as the contract's fixture does."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        self._running: dict[str, s3_server.S3Server] = {}

    def get(self, name: str) -> s3_server.S3Server:
        if name not in self._running:
            server = self._stack.enter_context(s3_server.running(s3_server.TOOLS[name]))
            s3_server.make_bucket(server, "contract")
            self._running[name] = server
        return self._running[name]


class Session:
    """Stands in for pytest's request and its config: what the places ask of them, and no more."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        self._servers = Servers(stack)
        self.config = self
        self.stash = pytest.Stash()

    def getfixturevalue(self, name: str) -> Any:
        if name == "tmp_path":
            return Path(self._stack.enter_context(tempfile.TemporaryDirectory()))
        assert name == "servers"
        return self._servers

    def addfinalizer(self, finish: Callable[[], object]) -> None:
        self._stack.callback(finish)

    add_cleanup = addfinalizer


def contend(place: Any, contenders: int, seconds: float) -> tuple[float, list[float], list[float]]:
    """Return turns per second, and how long taking and holding took each time."""
    waits: list[float] = []
    holds: list[float] = []
    together = threading.Barrier(contenders + 1)
    end = [0.0]
    place.open(TERMS)  # a server that this starts lives as long as the thread that asked for it

    def work(number: int) -> None:
        lock = place.open(TERMS)
        lock.acquire(f"contender {number}", timeout_s=600).release()  # connections are open
        together.wait()
        while time.perf_counter() < end[0]:
            began = time.perf_counter()
            held = lock.acquire(f"contender {number}", timeout_s=600)
            taken = time.perf_counter()
            held.release()
            done = time.perf_counter()
            waits.append(taken - began)
            holds.append(done - taken)
            time.sleep(done - taken)

    end[0] = time.perf_counter() + 3600
    with ThreadPoolExecutor(contenders) as pool:
        running = [pool.submit(work, number) for number in range(contenders)]
        together.wait()
        began = time.perf_counter()
        end[0] = began + seconds
        for each in running:
            each.result()
        took = time.perf_counter() - began
    return len(waits) / took, sorted(waits), holds


def show(name: str, contenders: int, rate: float, waits: list[float], holds: list[float]) -> None:
    p99 = waits[min(len(waits) - 1, int(len(waits) * 0.99))]
    seconds = (statistics.median(waits), p99, waits[-1], statistics.median(holds))
    milliseconds = "".join(f"{1000 * each:12.2f}" for each in seconds)
    print(f"{name:20}{contenders:12}{rate:10.0f}{milliseconds}", flush=True)


def main() -> None:
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 5.0
    wanted = sys.argv[2:]
    titles = ("acquire p50", "p99", "longest", "hold [ms]")
    print(f"{'':20}{'contenders':>12}{'turns/s':>10}" + "".join(f"{each:>12}" for each in titles))
    with ExitStack() as stack:
        session = Session(stack)
        for kind in KINDS:
            if wanted and kind.name not in wanted:
                continue
            try:
                places = [kind.make(session) for _ in CONTENDERS]  # type: ignore[arg-type]
            except (s3_server.NoGo, pytest.skip.Exception) as why:
                print(f"{kind.name:20} not here: {why}")
                continue
            for place, contenders in zip(places, CONTENDERS, strict=True):
                show(kind.name, contenders, *contend(place, contenders, seconds))


if __name__ == "__main__":
    main()
