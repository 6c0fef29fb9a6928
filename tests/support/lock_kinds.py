"""What the contract of lock providers asks of a kind of lock, before any kind is named.

A kind says how to find an empty place, and what the place can do. A place opens any number of
independent providers of *one* lock, as if each was in a process of its own.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Protocol

from lakehand.locks.leases import LeaseTerms, Surroundings

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest

    from lakehand.ports import LockProvider
    from lock_worlds import World

BRISK = LeaseTerms(lease_s=30.0, renew_every_s=3.0, first_pause_s=0.005, longest_pause_s=0.1)
"""For tests in real time in which no lease runs out."""


class Fate(Enum):
    """What becomes of one conditional write."""

    REPLY_LOST = "done, but the answer was lost"
    REQUEST_LOST = "not done, and the answer was lost"
    TURNED_AWAY = "answered: come back later; surely not done"


@dataclass
class Doubt:
    """The fates of the next conditional writes of one provider; then all is well again."""

    fates: deque[Fate] = field(default_factory=deque)

    def next(self, *fates: Fate) -> None:
        """Set what becomes of the next writes."""
        self.fates.extend(fates)

    def draw(self) -> Fate | None:
        """Return the fate of the write that is about to be sent."""
        return self.fates.popleft() if self.fates else None


class LockPlace(Protocol):
    """One lock at an empty place."""

    def open(self, terms: LeaseTerms = BRISK, worker: Surroundings | None = None) -> LockProvider:
        """An independent provider of the one lock."""

    def open_doubtful(self, doubt: Doubt, terms: LeaseTerms, worker: Surroundings) -> LockProvider:
        """A provider whose conditional writes meet the fates of ``doubt``. (``can_doubt``)"""

    def world(self) -> World:
        """A time to live in, with terms that suit it. (``has_lease``)"""

    def scribble(self, content: bytes) -> None:
        """Put ``content`` in the record's place. (``has_bytes``)"""

    def record(self) -> bytes:
        """The record's bytes. (``has_bytes``)"""


@dataclass(frozen=True)
class LockKind:
    """An entry: a provider, where, and what it can be asked for."""

    name: str
    make: Callable[[pytest.FixtureRequest], LockPlace]
    marks: tuple[pytest.MarkDecorator, ...] = ()
    has_lease: bool = True
    can_doubt: bool = True
    has_bytes: bool = True
