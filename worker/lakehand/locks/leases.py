"""What a lease is to those who wait for it: a record in a register, its terms, its surroundings.

A register (an object of a store, a ConfigMap, a Lease, a key of etcd) knows how its record looks
and how it is written conditionally. ``lakehand.locks.lease_lock`` knows the protocol, and nothing
of where the record lies.
"""

from __future__ import annotations

import math
import random
import time
import uuid
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from lakehand.errors import Corrupt, Invalid, Unsupported
from lakehand.process import SystemClock, Threads

if TYPE_CHECKING:
    from collections.abc import Callable

    from lakehand.ports import Background, Clock, PutOutcome


def _wall_ms() -> int:
    return time.time_ns() // 1_000_000


def _random_id() -> str:
    return uuid.uuid4().hex


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The process that a lock lives in, so that a test or a simulation can stand in for it."""

    clock: Clock = field(default_factory=SystemClock)
    background: Background = field(default_factory=Threads)
    jitter: Callable[[], float] = random.random
    """Gives numbers in [0, 1)."""
    new_id: Callable[[], str] = _random_id
    wall_ms: Callable[[], int] = _wall_ms
    """The machine's idea of the time, for what a record tells others. May be wrong by a day."""


@dataclass(frozen=True, slots=True)
class LeaseTerms:
    """How long a lease lasts, and how often things are done about it; all in seconds."""

    lease_s: float
    """What a dead holder costs those who wait."""
    renew_every_s: float
    """At most a third of the lease, so that two renewals may fail."""
    first_pause_s: float = 0.05
    """How long a waiter sleeps after its first look; it doubles from look to look."""
    longest_pause_s: float = 1.0

    def __post_init__(self) -> None:
        """Refuse a lease that never ends, or that one failed renewal would lose."""
        if not 0 < self.lease_s < math.inf:
            raise Invalid(
                f"a lock that expires after {self.lease_s} s: it must be more than 0, because a "
                "lock that never expires outlives a dead holder for ever"
            )
        if not 0 < self.renew_every_s <= self.lease_s / 3:
            raise Invalid(
                f"a lease of {self.lease_s} s that is renewed every {self.renew_every_s} s: "
                "the interval must be more than 0 and at most a third of the lease"
            )
        if not 0 < self.first_pause_s <= self.longest_pause_s:
            raise Invalid("a waiter's first pause must be more than 0 and at most its longest")


@dataclass(frozen=True, slots=True)
class LeaseRecord:
    """What a record says, whoever wrote it."""

    owner: str
    token: str
    """The acquisition that it belongs to; empty in the record of a foreign writer."""
    number: int
    """Which write of its acquisition this is, so that no content ever comes back."""
    lease_s: float
    """It is expired when seen unchanged for so long; ``inf``: the server itself removes it."""
    is_free: bool = False


@dataclass(frozen=True, slots=True)
class Seen:
    """A record as it was read."""

    version: str
    record: LeaseRecord | Corrupt | Unsupported
    """Or why it was not understood: then nothing may be decided on it."""
    age_s: float
    expires_in_s: float | None


@dataclass(frozen=True, slots=True)
class Written:
    """What became of a conditional write, and the version it left if the register knows it."""

    outcome: PutOutcome
    version: str | None = None


class Register(Protocol):
    """One record, changed only by conditional writes that are never repeated behind our back.

    ``Unavailable`` means that nothing was changed; when in doubt the outcome is UNKNOWN.
    """

    def read(self) -> Seen | None:
        """Return the record; None if there is none."""

    def take(self, record: LeaseRecord, expected: str | None) -> Written:
        """Write ``record`` over the version ``expected`` (None: if there is no record)."""

    def renew(self, record: LeaseRecord, expected: str) -> Written:
        """Make the lease count anew, if the record is still the version ``expected``."""

    def free(self, record: LeaseRecord, expected: str) -> Written:
        """Remove the record, or mark it as free, if it is still the version ``expected``."""
