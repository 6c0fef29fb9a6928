"""Time and background work for lock tests: simulated, or real with short leases.

In a ``FakeWorld`` nothing passes but what a waiter sleeps, and renewals run when their time comes
within such a sleep: a lease of ten seconds runs out in no time, and the same way every time.
Locks whose server ends the lease need a ``RealWorld``.
"""

from __future__ import annotations

import contextlib
import random
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lakehand.errors import LakehandError
from lakehand.locks.leases import LeaseTerms, Surroundings
from lakehand.process import SystemClock, Threads

if TYPE_CHECKING:
    from collections.abc import Callable

DAY_MS = 86_400_000
TEN_SECONDS = LeaseTerms(lease_s=10.0, renew_every_s=1.0)


class FakeTask:
    """A step that is due every so often; ``stop`` ends it."""

    def __init__(self, interval_s: float, step: Callable[[], bool], due: float) -> None:
        self.interval_s = interval_s
        self.step = step
        self.due = due
        self.is_over = False

    def stop(self) -> None:
        self.is_over = True

    def run(self) -> None:
        self.due += self.interval_s
        with contextlib.suppress(LakehandError):  # as the real one: it is done again
            if not self.step():
                self.is_over = True


class FakeClock:
    """Seconds that pass only in ``sleep``, which runs what becomes due."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.tasks: list[FakeTask] = []

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        end = self.now + seconds
        while due := [task for task in self.tasks if not task.is_over and task.due <= end]:
            first = min(due, key=lambda task: task.due)
            self.now = max(self.now, first.due)
            first.run()
        self.now = max(self.now, end)


class FakeBackground:
    """Runs steps as the clock is slept on."""

    def __init__(self, clock: FakeClock) -> None:
        self._clock = clock

    def every(self, interval_s: float, step: Callable[[], bool], *, name: str) -> FakeTask:
        task = FakeTask(interval_s, step, self._clock.now + interval_s)
        self._clock.tasks.append(task)
        return task


class StuckBackground:
    """Runs nothing: the threads of a process that was stopped, or of one that died."""

    def every(self, interval_s: float, step: Callable[[], bool], *, name: str) -> FakeTask:
        return FakeTask(interval_s, step, float("inf"))


@dataclass
class FakeWorld:
    """One simulated time that all workers live in."""

    terms: LeaseTerms = TEN_SECONDS
    clock: FakeClock = field(default_factory=FakeClock)

    def worker(self, *, renews: bool = True, clock_ahead_ms: int = 0) -> Surroundings:
        """A process; one that does not renew is stopped or dead. Its wall clock may be wrong."""
        return Surroundings(
            clock=self.clock,
            background=FakeBackground(self.clock) if renews else StuckBackground(),
            jitter=random.Random(7).random,
            wall_ms=lambda: time.time_ns() // 1_000_000 + clock_ahead_ms,
        )


@dataclass
class RealWorld:
    """Real time, with the shortest lease that the lock's server keeps."""

    terms: LeaseTerms
    clock: SystemClock = field(default_factory=SystemClock)

    def worker(self, *, renews: bool = True, clock_ahead_ms: int = 0) -> Surroundings:
        return Surroundings(
            clock=self.clock,
            background=Threads() if renews else StuckBackground(),
            wall_ms=lambda: time.time_ns() // 1_000_000 + clock_ahead_ms,
        )


World = FakeWorld | RealWorld
