"""The simulated world: the store's objects, what is staged, locks, clocks and requests on the way.

One ``World`` is one state; ``copy`` is cheap, ``mark`` is kept up to date by every change, so the
explorer can keep thousands of worlds and tell equal ones. What calls do to it is ``sim_effects``.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, NamedTuple

from lakehand.ports import ObjectInfo, StoredObject
from lakehand.store import paths

if TYPE_CHECKING:
    from sim_calls import Call, Event, Outcome

START_MS = 1_767_225_600_000


class StagedFile(NamedTuple):
    """A staged file: its content once it was closed, None before."""

    final: str
    content: bytes | None


class LockRecord(NamedTuple):
    """Who holds a lock. ``until_ms`` is None while the holder lives, and so renews it."""

    process: str
    owner: str
    token: str
    until_ms: int | None


class Late(NamedTuple):
    """A request whose caller gave up waiting; it may still arrive."""

    process: str
    call: Call


class World:
    """Everything that the actors share. Checkers read it; only the engine changes it."""

    __slots__ = (
        "changed",
        "last",
        "lease_ms",
        "liars",
        "locks",
        "mark",
        "network",
        "objects",
        "rates",
        "real_ms",
        "results",
        "skew_ms",
        "staged",
    )

    def __init__(self, *, lease_ms: int) -> None:
        self.lease_ms = lease_ms
        self.objects: dict[str, StoredObject] = {}
        self.staged: dict[str, StagedFile] = {}
        self.locks: dict[str, LockRecord] = {}
        self.liars: frozenset[str] = frozenset()
        """Tokens whose lease ended while their holder's clock says otherwise."""
        self.network: tuple[Late, ...] = ()
        self.real_ms = START_MS
        self.skew_ms = 0
        """How far the store's clock is off."""
        self.rates: dict[str, float] = {}
        """How fast a process's monotonic clock runs, where that is not 1."""
        self.results: dict[str, Outcome] = {}
        """How each actor ended; a running or paused one has no entry."""
        self.last: Event | None = None
        """The step that led here."""
        self.changed = True
        """Whether the last step changed an object, a staged file, a lock or a result."""
        self.mark = 0

    def copy(self) -> World:
        twin = World.__new__(World)
        twin.lease_ms = self.lease_ms
        twin.objects = self.objects.copy()
        twin.staged = self.staged.copy()
        twin.locks = self.locks.copy()
        twin.liars = self.liars
        twin.network = self.network
        twin.real_ms = self.real_ms
        twin.skew_ms = self.skew_ms
        twin.rates = self.rates
        twin.results = self.results.copy()
        twin.last = self.last
        twin.changed = False
        twin.mark = self.mark
        return twin

    def key(self) -> tuple:
        """Return what tells this state of the world from another."""
        return (self.mark, self.real_ms, self.skew_ms, self.network, self.liars)

    # --- what checkers and builders use

    def content(self, path: str) -> bytes | None:
        """Return the content of an object, or None."""
        found = self.objects.get(path)
        return None if found is None else found.content

    def paths(self, prefix: str = "") -> list[str]:
        """Return the paths of all objects that begin with ``prefix``, in order."""
        return sorted(path for path in self.objects if path.startswith(prefix))

    def put(self, path: str, content: bytes, *, modified_ms: int | None = None) -> None:
        """Create or replace an object, as a builder does."""
        when = self.store_now() if modified_ms is None else modified_ms
        self.set_object(paths.checked(path), StoredObject(content, _version(content), when))

    def store_now(self) -> int:
        """Return what the store's clock says."""
        return self.real_ms + self.skew_ms

    def monotonic_s(self, process: str) -> float:
        """Return what the process's own clock says."""
        return self._monotonic_at(process, self.real_ms)

    def _monotonic_at(self, process: str, real_ms: int) -> float:
        return (real_ms - START_MS) * self.rates.get(process, 1.0) / 1000

    def real_ms_of(self, process: str, monotonic_s: float) -> int:
        """Return when the process's own clock will have reached ``monotonic_s``."""
        real_ms = START_MS + int(monotonic_s * 1000 / self.rates.get(process, 1.0))
        while self._monotonic_at(process, real_ms) < monotonic_s:  # fractions are not exact
            real_ms += 1
        return real_ms

    # --- changes; ``mark`` is the exclusive or of the hashes of all facts

    def set_object(self, path: str, stored: StoredObject) -> None:
        old = self.objects.get(path)
        if old is not None:
            self.mark ^= hash((path, old))
        self.objects[path] = stored
        self.mark ^= hash((path, stored))
        self.changed = True

    def drop_object(self, path: str) -> None:
        old = self.objects.pop(path, None)
        if old is not None:
            self.mark ^= hash((path, old))
            self.changed = True

    def set_staged(self, place: str, file: StagedFile | None) -> None:
        old = self.staged.pop(place, None)
        if old is not None:
            self.mark ^= hash((place, old, "staged"))
        if file is not None:
            self.staged[place] = file
            self.mark ^= hash((place, file, "staged"))
        self.changed = True

    def set_lock(self, lock: str, record: LockRecord | None) -> None:
        old = self.locks.pop(lock, None)
        if old is not None:
            self.mark ^= hash((lock, old, "lock"))
        if record is not None:
            self.locks[lock] = record
            self.mark ^= hash((lock, record, "lock"))
        self.changed = True

    # --- processes stop and go on; their leases with them

    def process_stops(self, process: str) -> None:
        """Nobody renews the process's locks any more."""
        for lock, record in list(self.locks.items()):
            if record.process == process and record.until_ms is None:
                self.set_lock(lock, record._replace(until_ms=self.real_ms + self.lease_ms))

    def process_goes_on(self, process: str) -> None:
        """Its renewer renews what is not over yet."""
        for lock, record in list(self.locks.items()):
            ends = record.until_ms
            if record.process == process and ends is not None and ends > self.real_ms:
                self.set_lock(lock, record._replace(until_ms=None))

    def abandon(self, lock: str) -> None:
        """Its holder knows nothing of it (a reply was lost): the lease ends by itself."""
        record = self.locks.get(lock)
        if record is not None and record.until_ms is None:
            ends = self.real_ms + self.lease_ms
            self.set_lock(lock, record._replace(process="", until_ms=ends))

    def is_free(self, lock: str) -> bool:
        record = self.locks.get(lock)
        return record is None or (record.until_ms is not None and record.until_ms <= self.real_ms)

    def expire(self, lock: str, *, holder_knows: bool) -> None:
        """End the lease under its holder."""
        if not holder_knows:
            self.liars |= {self.locks[lock].token}
        self.set_lock(lock, None)

    # --- what a listing shows

    def infos(self, folder: str) -> tuple[ObjectInfo, ...]:
        """Return everything below ``folder`` that a listing shows, in order of path."""
        prefix = paths.below(folder)
        return tuple(
            ObjectInfo(path, len(stored.content), stored.modified_ms)
            for path, stored in sorted(self.objects.items())
            if path.startswith(prefix) and not paths.is_hidden(path)
        )


def _version(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=8).hexdigest()
