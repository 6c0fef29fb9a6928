"""Ctrl-C (SIGINT) and SIGTERM that never cut a decision in two.

::

    with interrupts.whole():          a first signal waits for the end of the block ...
        lock.acquire(...)             ... or strikes while we sleep, waiting for somebody's lock
        append, publish, release

Outside of such blocks a signal strikes at once. A second one always does: then the lease of a lock
that we hold runs out by itself, and what was decided is published by the next transaction.
"""

from __future__ import annotations

import logging
import signal
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

    from lakehand.ports import HeldLock, LockHolder, LockProvider

_log = logging.getLogger(__name__)

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interrupts:
    """The signals of one run of the command."""

    def __init__(self) -> None:
        self.number: int | None = None
        """The signal that came first, if one came."""
        self._is_whole = False
        self._has_begun = False
        self._is_acquiring = False
        self._is_asleep = False

    @contextmanager
    def handled(self) -> Iterator[None]:
        """Take the signals over; those that our parent told us to ignore stay ignored."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {one: signal.getsignal(one) for one in _SIGNALS}
        for one, handler in before.items():
            if handler is not signal.SIG_IGN:
                signal.signal(one, self._strike)
        try:
            yield
        finally:
            for one, handler in before.items():
                signal.signal(one, handler)

    def _strike(self, number: int, _frame: FrameType | None) -> None:
        is_first = self.number is None
        self.number = number if is_first else self.number
        if is_first and self._is_whole and not self._is_asleep:
            return
        raise KeyboardInterrupt

    @contextmanager
    def whole(self) -> Iterator[None]:
        """Let a signal wait for the end of the block."""
        self._is_whole, self._has_begun = True, False
        try:
            yield
        finally:
            self._is_whole = False
        self.check()

    def stops_beginning(self) -> bool:
        """Whether a signal came before the block decided anything; from now on it has begun."""
        if self.number is not None and not self._has_begun:
            return True
        self._has_begun = True
        return False

    @contextmanager
    def acquiring(self) -> Iterator[None]:
        """Let a signal strike while the block sleeps."""
        self._is_acquiring = True
        try:
            yield
        finally:
            self._is_acquiring = False

    def check(self) -> None:
        """Raise if a signal has waited."""
        if self.number is not None:
            raise KeyboardInterrupt

    def sleep(self, seconds: float) -> None:
        """Sleep; a signal strikes if nothing of ours is under way."""
        if not self._is_acquiring:
            time.sleep(seconds)
            return
        self._is_asleep = True
        try:
            self.check()
            time.sleep(seconds)
        finally:
            self._is_asleep = False


class InterruptibleClock:
    """The machine's clock, whose sleep ends when somebody wants us to stop."""

    def __init__(self, interrupts: Interrupts) -> None:
        self._interrupts = interrupts

    def monotonic(self) -> float:
        """Return seconds that never go back."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Wait."""
        self._interrupts.sleep(seconds)


class InterruptibleLock:
    """A lock (made with an ``InterruptibleClock``) that nobody has to wait for against their will.

    A signal that comes while it is being taken for the first time gives it back at once. Work of
    several transactions that has begun goes on to its end, unless it would have to wait.
    """

    def __init__(self, lock: LockProvider, interrupts: Interrupts) -> None:
        self._lock = lock
        self._interrupts = interrupts

    @property
    def name(self) -> str:
        """The kind of lock."""
        return self._lock.name

    @property
    def excludes_foreign(self) -> bool:
        """Whether writers of Apache Hudi can be configured to use the same lock."""
        return self._lock.excludes_foreign

    def acquire(self, owner: str, *, timeout_s: float) -> HeldLock:
        """Wait for the lock and take it."""
        _log.info("taking the %s lock as %s", self.name, owner)
        with self._interrupts.acquiring():
            held = self._lock.acquire(owner, timeout_s=timeout_s)
        if self._interrupts.stops_beginning():
            held.release()
            self._interrupts.check()
        return held

    def holder(self) -> LockHolder | None:
        """Return who holds it."""
        return self._lock.holder()

    def break_lock(self, holder: LockHolder) -> bool:
        """Remove the record of a dead holder."""
        return self._lock.break_lock(holder)
