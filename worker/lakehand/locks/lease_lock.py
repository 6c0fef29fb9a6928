"""The protocol of every lock that is a lease: waiting, watching, renewing, giving up.

::

    acquire:  look -> free, or unchanged for its whole lease while we watched -> take it
                   -> another's -> wait (jittered, longer each time) -> look again
    held:     renew in the background; ``left_s`` counts from before the write that landed
    release:  stop renewing, then free the record if it is still ours

* Timestamps in records are shown to people and to Java; they decide nothing here. A record is
  expired when *we* saw it unchanged for as long as its holder promised to renew it in.
* A lost reply is no answer: the record is read again, and ours is known by token and number. Each
  write is numbered, and its lease counts from before that very write began.
* A lease that ran out is never revived, and a record that is not ours is never touched.
"""

from __future__ import annotations

import logging
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakehand.errors import Corrupt, LakehandError, LockTimeout, Unavailable, Unsupported
from lakehand.locks.leases import LeaseRecord, Seen
from lakehand.ports import LockHolder, PutOutcome

if TYPE_CHECKING:
    from collections.abc import Callable

    from lakehand.locks.leases import LeaseTerms, Register, Surroundings
    from lakehand.ports import BackgroundTask

_log = logging.getLogger(__name__)

_FREE_TRIES = 4


class _OwnWrites:
    """The numbered writes of one acquisition, and when each began."""

    def __init__(self, owner: str, *, lease_s: float, surroundings: Surroundings) -> None:
        self.token = surroundings.new_id()
        self._owner = owner
        self._lease_s = lease_s
        self._clock = surroundings.clock
        self._number = 0
        self._began: dict[int, float] = {}

    def next(self, *, is_free: bool = False) -> LeaseRecord:
        """Return the record to write now: its lease counts from this moment."""
        self._number += 1
        self._began[self._number] = self._clock.monotonic()
        return LeaseRecord(self._owner, self.token, self._number, self._lease_s, is_free)

    def good_until(self, number: int) -> float:
        """Return until when write ``number``, which landed, gives us the lock."""
        began = self._began.get(number, -math.inf)
        self._began = {each: at for each, at in self._began.items() if each >= number}
        return began + self._lease_s


class _Watch:
    """The record of another, and for how long it has been the same."""

    def __init__(self) -> None:
        self.holder = "another worker"
        self.holder_since = math.inf
        self._identity = ""
        self._version = ""
        self._since = math.inf

    def see(self, version: str, record: LeaseRecord, now: float) -> bool:
        """Note what was read; tell whether it is another holder's than before."""
        if version != self._version:
            self._version, self._since = version, now
        identity = record.token or record.owner
        if identity == self._identity:
            return False
        self._identity, self.holder, self.holder_since = identity, record.owner, now
        return True

    def left_s(self, lease_s: float, now: float) -> float:
        """Return for how long it has to stay the same to be expired."""
        return self._since + lease_s - now


@dataclass(frozen=True, slots=True)
class _Free:
    """Ours for the taking, if the record is still this version (None: still absent)."""

    version: str | None


@dataclass(frozen=True, slots=True)
class _Ours:
    """A write of ours has landed."""

    version: str | None
    number: int


@dataclass(frozen=True, slots=True)
class _Busy:
    """Another's; to be looked at again after at most ``pause_s``."""

    pause_s: float


class LeaseLock:
    """A ``LockProvider`` over one register. Threads may share it."""

    def __init__(
        self,
        register: Register,
        *,
        name: str,
        excludes_foreign: bool,
        terms: LeaseTerms,
        surroundings: Surroundings,
    ) -> None:
        self._register = register
        self._name = name
        self._excludes_foreign = excludes_foreign
        self._terms = terms
        self._surroundings = surroundings
        self._released: str | None = None

    @property
    def name(self) -> str:
        """The kind of lock."""
        return self._name

    @property
    def excludes_foreign(self) -> bool:
        """Whether writers of Apache Hudi can be configured to use the same lock."""
        return self._excludes_foreign

    def acquire(self, owner: str, *, timeout_s: float) -> HeldLease:
        """Wait for the lock and take it; look at least once."""
        own = _OwnWrites(owner, lease_s=self._terms.lease_s, surroundings=self._surroundings)
        released, self._released = self._released, None
        search = _Search(self._register, own, self._terms, self._surroundings)
        ours = search.run(timeout_s, known_free=released)
        return HeldLease(
            self._register,
            own,
            ours,
            terms=self._terms,
            surroundings=self._surroundings,
            on_release=self._remember,
        )

    def _remember(self, version: str | None) -> None:
        self._released = version

    def holder(self) -> LockHolder | None:
        """Return who holds it, also when the record cannot be understood."""
        seen = self._register.read()
        if seen is None:
            return None
        match seen.record:
            case LeaseRecord(is_free=True):
                return None
            case LeaseRecord(owner=owner, lease_s=lease_s):
                known_s = lease_s if math.isfinite(lease_s) else None
                return LockHolder(owner, seen.version, seen.age_s, seen.expires_in_s, known_s)
            case Corrupt() | Unsupported() as problem:
                return LockHolder(f"unknown ({problem})", seen.version, seen.age_s, None)

    def break_lock(self, holder: LockHolder) -> bool:
        """Free the record if nobody has written it since ``holder`` was read."""
        token, version = self._surroundings.new_id(), holder.token
        may_be_done = False
        for number in range(_FREE_TRIES):
            record = LeaseRecord("nobody", token, number, self._terms.lease_s, is_free=True)
            match self._register.free(record, version).outcome:
                case PutOutcome.WRITTEN:
                    return True
                case PutOutcome.UNKNOWN:
                    may_be_done = True
                case PutOutcome.EXISTS:
                    pass
            seen = self._register.read()
            if seen is None:
                return may_be_done
            if isinstance(seen.record, LeaseRecord) and seen.record.token == token:
                if seen.record.is_free:
                    return True
                version = seen.version  # replaced, but not yet removed
            elif seen.version != version:
                return False
        raise Unavailable("it is not known whether the lock was broken: look at its holder again")


class _Search:
    """One wait for the lock: from the first look until it is ours, or time is up."""

    def __init__(
        self, register: Register, own: _OwnWrites, terms: LeaseTerms, surroundings: Surroundings
    ) -> None:
        self._register = register
        self._own = own
        self._terms = terms
        self._clock = surroundings.clock
        self._jitter = surroundings.jitter
        self._watch = _Watch()
        self._pause_s = terms.first_pause_s
        self._trouble: Unavailable | None = None
        self._is_unsure = False

    def run(self, timeout_s: float, *, known_free: str | None) -> _Ours:
        """Return the write that made it ours. Raises ``LockTimeout``, or why none could answer.

        ``known_free`` is a version that we freed ourselves: it needs no look.
        """
        began = self._clock.monotonic()
        found = None if known_free is None else self._take(known_free)
        if not isinstance(found, _Ours):  # another was there since, or the answer was lost
            found = self._step()
        while not isinstance(found, _Ours):
            now = self._clock.monotonic()
            if now - began >= timeout_s:
                return self._last_look(now - began)
            self._clock.sleep(min(found.pause_s, timeout_s - (now - began)))
            found = self._step()
        return found

    def _step(self) -> _Ours | _Busy:
        """Look, and take it if it is free."""
        try:
            found = self._look()
        except Unavailable as error:
            self._trouble = error
            return _Busy(self._next_pause())
        self._trouble, self._is_unsure = None, False
        return self._take(found.version) if isinstance(found, _Free) else found

    def _look(self) -> _Free | _Ours | _Busy:
        seen = self._register.read()
        if seen is None:
            return _Free(None)
        if not isinstance(seen.record, LeaseRecord):
            raise seen.record
        record = seen.record
        if record.is_free:
            return _Free(seen.version)
        if record.token == self._own.token:
            return _Ours(seen.version, record.number)  # a write whose reply was lost
        now = self._clock.monotonic()
        if self._watch.see(seen.version, record, now):
            self._pause_s = self._terms.first_pause_s
        left_s = self._watch.left_s(record.lease_s, now)
        if left_s <= 0:
            _log.warning("taking over the lock of %s: not renewed for its lease", record.owner)
            return _Free(seen.version)
        return _Busy(min(self._next_pause(), left_s))

    def _take(self, expected: str | None) -> _Ours | _Busy:
        record = self._own.next()
        try:
            written = self._register.take(record, expected)
        except Unavailable as error:
            self._trouble = error
            return _Busy(self._next_pause())
        match written.outcome:
            case PutOutcome.WRITTEN:
                return _Ours(written.version, record.number)
            case PutOutcome.EXISTS | PutOutcome.UNKNOWN:
                self._is_unsure = True  # the next look tells whose it is
                return _Busy(self._next_pause())

    def _next_pause(self) -> float:
        pause_s = self._pause_s * (0.5 + self._jitter() / 2)
        self._pause_s = min(self._pause_s * 2, self._terms.longest_pause_s)
        return pause_s

    def _last_look(self, waited_s: float) -> _Ours:
        """Take nothing any more: a write of ours may have landed; else name who was in the way."""
        if self._is_unsure and self._trouble is None:
            try:
                found = self._look()
            except Unavailable as error:
                self._trouble = error
            else:
                if isinstance(found, _Ours):
                    return found
        if self._trouble is not None:
            raise self._trouble
        age_s = max(0.0, self._clock.monotonic() - self._watch.holder_since)
        raise LockTimeout(holder=self._watch.holder, age_s=age_s, waited_s=waited_s)


class HeldLease:
    """A lease that is ours. Renewals run beside the work; ``release`` waits for the last one."""

    def __init__(
        self,
        register: Register,
        own: _OwnWrites,
        ours: _Ours,
        *,
        terms: LeaseTerms,
        surroundings: Surroundings,
        on_release: Callable[[str | None], None],
    ) -> None:
        self._register = register
        self._own = own
        self._version = ours.version
        self._good_until = own.good_until(ours.number)
        self._terms = terms
        self._surroundings = surroundings
        self._on_release = on_release
        self._is_anothers = False
        self._is_released = False
        self._renewals: BackgroundTask = surroundings.background.every(
            terms.renew_every_s, self._renew, name=f"renewal of lock {own.token}"
        )

    @property
    def token(self) -> str:
        """The fencing token, different for each acquisition."""
        return self._own.token

    def left_s(self) -> float:
        """Return for how many seconds the lease surely lasts."""
        if self._is_anothers or self._is_released:
            return 0.0
        return max(0.0, self._good_until - self._surroundings.clock.monotonic())

    def release(self) -> None:
        """Free the record if it is still ours. A store that does not answer is only reported.

        The work under the lock is done, so its failure must not be made of this one: a record
        that could not be freed expires.
        """
        if self._is_released:
            return
        self._renewals.stop()
        self._is_released = True
        pause_s = self._terms.first_pause_s
        for _ in range(_FREE_TRIES):
            try:
                if self._is_freed():
                    return
            except LakehandError as error:
                _log.warning("the lock could not be released yet: %s", error)
                self._surroundings.clock.sleep(pause_s * (0.5 + self._surroundings.jitter() / 2))
                pause_s *= 4
        _log.warning("the lock was not released: it expires %s s from now", self._terms.lease_s)

    def _is_freed(self) -> bool:
        version = self._version or self._find()
        if version is None:
            return True
        written = self._register.free(self._own.next(is_free=True), version)
        if written.outcome is PutOutcome.WRITTEN:
            self._on_release(written.version)
            return True
        self._version = None  # whose it is now, the next reading tells
        return False

    def _renew(self) -> bool:
        """Renew once; tell whether there is still something to renew."""
        if self.left_s() == 0.0:
            _log.warning("the lease of the lock ran out")
            return False
        version = self._version or self._find()
        if version is None:
            return False
        self._version = None
        record = self._own.next()
        written = self._register.renew(record, version)
        if written.outcome is PutOutcome.WRITTEN:
            self._version = written.version
            self._good_until = self._own.good_until(record.number)
        else:
            self._find()
        return not self._is_anothers

    def _find(self) -> str | None:
        """Read which version our record has now; None: it is not ours any more."""
        seen = self._register.read()
        match seen:
            case Seen(version=version, record=LeaseRecord(is_free=False) as record):
                if record.token == self._own.token:
                    self._version = version
                    self._good_until = max(self._good_until, self._own.good_until(record.number))
                    return version
            case _:
                pass
        self._is_anothers = True
        _log.warning("the lock was lost: its record is not ours any more")
        return None
