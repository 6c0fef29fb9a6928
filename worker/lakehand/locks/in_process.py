"""A lock among the threads of one process: for tests and single-process use.

It is no lease: nothing can take it away but ``break_lock``, and a process that dies takes it along.
"""

from __future__ import annotations

import math
import threading
import time
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakehand.errors import LockTimeout
from lakehand.ports import LockHolder

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True, slots=True)
class _Holding:
    owner: str
    token: str
    since: float


_HELD: dict[str, _Holding] = {}
_CHANGED = threading.Condition()


def _random_id() -> str:
    return uuid.uuid4().hex


class InProcessLock:
    """The lock of one name (the table's URI), shared by all instances of this process."""

    def __init__(
        self,
        name: str,
        *,
        new_id: Callable[[], str] = _random_id,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._key = name
        self._new_id = new_id
        self._monotonic = monotonic

    @property
    def name(self) -> str:
        """The kind of lock."""
        return "in-process"

    @property
    def excludes_foreign(self) -> bool:
        """No other process takes part."""
        return False

    def acquire(self, owner: str, *, timeout_s: float) -> HeldInProcess:
        """Wait for the lock and take it."""
        began = self._monotonic()
        with _CHANGED:
            while (other := _HELD.get(self._key)) is not None:
                now = self._monotonic()
                left_s = began + timeout_s - now
                if left_s <= 0:
                    raise LockTimeout(
                        holder=other.owner, age_s=now - other.since, waited_s=now - began
                    )
                _CHANGED.wait(left_s)
            holding = _Holding(owner, self._new_id(), self._monotonic())
            _HELD[self._key] = holding
        return HeldInProcess(self._key, holding)

    def holder(self) -> LockHolder | None:
        """Return who holds it."""
        with _CHANGED:
            found = _HELD.get(self._key)
        if found is None:
            return None
        return LockHolder(found.owner, found.token, self._monotonic() - found.since, None)

    def break_lock(self, holder: LockHolder) -> bool:
        """Take the lock away from the acquisition that ``holder`` names."""
        return _let_go(self._key, holder.token)


class HeldInProcess:
    """Held until it is released or broken."""

    def __init__(self, key: str, holding: _Holding) -> None:
        self._key = key
        self._holding = holding

    @property
    def token(self) -> str:
        """The fencing token."""
        return self._holding.token

    def left_s(self) -> float:
        """Return infinity while it is held, 0 after."""
        with _CHANGED:
            return math.inf if _HELD.get(self._key) is self._holding else 0.0

    def release(self) -> None:
        """Give it up, unless it was broken before."""
        _let_go(self._key, self._holding.token)


def _let_go(key: str, token: str) -> bool:
    with _CHANGED:
        found = _HELD.get(key)
        if found is None or found.token != token:
            return False
        del _HELD[key]
        _CHANGED.notify_all()
        return True
