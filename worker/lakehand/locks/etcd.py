"""The etcd lock: one key under a lease that the cluster itself ends.

::

    take:   grant a lease, then put the key if it is absent
    renew:  keep the lease alive, then put the key again if nobody else wrote it
    free:   delete the key if nobody else wrote it, then revoke the lease

A dead holder's key goes with its lease, so a waiter needs no watching: it waits for the key to
be gone. The holder counts its lease from before the grant or the keepalive, so it stops before
the cluster does. The second step of a renewal is what proves that the key is still ours: a lease
may well outlive a key that somebody deleted.
"""

from __future__ import annotations

import logging
import math
from typing import TYPE_CHECKING

from lakehand.errors import Corrupt, Invalid, LakehandError, Unavailable, Unsupported
from lakehand.locks import records
from lakehand.locks.etcd_gateway import EtcdGateway
from lakehand.locks.lease_lock import LeaseLock
from lakehand.locks.leases import LeaseRecord, LeaseTerms, Seen, Surroundings, Written
from lakehand.ports import PutOutcome

if TYPE_CHECKING:
    from collections.abc import Callable

    from lakehand.locks.etcd_gateway import EtcdOptions

_log = logging.getLogger(__name__)

_LONGEST_REQUEST_S = 5.0
_LONGEST_KEY = 1024


def etcd_lock(
    options: EtcdOptions,
    *,
    key: str,
    terms: LeaseTerms | None = None,
    surroundings: Surroundings | None = None,
) -> LeaseLock:
    """Return the lock that is ``key`` of an etcd cluster."""
    if not 0 < len(key.encode()) <= _LONGEST_KEY:
        raise Invalid(f"the key of an etcd lock has 1 to {_LONGEST_KEY} bytes")
    terms = terms or LeaseTerms(lease_s=30.0, renew_every_s=5.0)
    surroundings = surroundings or Surroundings()
    gateway = EtcdGateway(options, request_timeout_s=min(terms.renew_every_s, _LONGEST_REQUEST_S))
    return LeaseLock(
        EtcdRegister(gateway, key, wall_ms=surroundings.wall_ms),
        name="etcd",
        excludes_foreign=False,
        terms=terms,
        surroundings=surroundings,
    )


class EtcdRegister:
    """The record as a key. A version is the key's revision and its lease."""

    def __init__(self, gateway: EtcdGateway, key: str, *, wall_ms: Callable[[], int]) -> None:
        self._gateway = gateway
        self._key = key
        self._wall_ms = wall_ms
        self._where = f"etcd key {key}"

    def read(self) -> Seen | None:
        """Get the key."""
        found = self._gateway.read(self._key)
        if found is None:
            return None
        version = _version(found.modified, found.lease)
        try:
            return self._understood(found.value, version)
        except (Corrupt, Unsupported) as problem:
            return Seen(version, problem, 0.0, None)

    def take(self, record: LeaseRecord, expected: str | None) -> Written:
        """Put the key under a new lease."""
        modified = 0 if expected is None else _parts(expected)[0]
        lease, granted_s = self._gateway.grant(math.ceil(record.lease_s))
        if granted_s < record.lease_s:
            self._end(lease)
            raise Unavailable(f"{self._where}: etcd grants no more than {granted_s} s")
        written = self._put(record, lease=lease, modified=modified)
        if written.outcome is PutOutcome.EXISTS:
            self._end(lease)
        return written

    def renew(self, record: LeaseRecord, expected: str) -> Written:
        """Give the lease its full time again, and prove that the key is ours."""
        modified, lease = _parts(expected)
        if self._gateway.keep_alive(lease) < record.lease_s:  # 0: it had ended
            return Written(PutOutcome.EXISTS)
        return self._put(record, lease=lease, modified=modified)

    def free(self, record: LeaseRecord, expected: str) -> Written:
        """Delete the key; its lease has nothing to do any more."""
        modified, lease = _parts(expected)
        outcome = self._gateway.delete_if(self._key, modified=modified).outcome
        if outcome is PutOutcome.WRITTEN and lease:
            self._end(lease)
        return Written(outcome)

    def _put(self, record: LeaseRecord, *, lease: int, modified: int) -> Written:
        value = records.to_json(record, {"owner": record.owner, "renewedAt": self._wall_ms()})
        put = self._gateway.put_if(self._key, value, lease=lease, modified=modified)
        if put.outcome is PutOutcome.WRITTEN:
            return Written(put.outcome, _version(put.modified, lease))
        return Written(put.outcome)

    def _end(self, lease: int) -> None:
        """Spare the cluster a lease without a key. One that cannot be ended now ends by itself."""
        try:
            self._gateway.revoke(lease)
        except LakehandError as error:
            _log.info("a lease is left to expire: %s", error)

    def _understood(self, value: bytes, version: str) -> Seen:
        fields = records.from_json(value, self._where)
        owner, renewed_ms = fields.get("owner"), fields.get("renewedAt")
        if not isinstance(owner, str) or type(renewed_ms) is not int:
            raise records.broken("it lacks 'owner' or 'renewedAt'", self._where)
        own = records.own_record(
            fields, self._where, owner=owner, is_free=False, foreign_lease_s=math.inf
        )
        age_s = (self._wall_ms() - renewed_ms) / 1000
        # To a waiter it never expires: the cluster deletes it.
        record = LeaseRecord(owner, own.token, own.number, math.inf)
        left_s = own.lease_s - age_s
        return Seen(version, record, age_s, left_s if math.isfinite(left_s) else None)


def _version(modified: int, lease: int) -> str:
    return f"{modified}/{lease}"


def _parts(version: str) -> tuple[int, int]:
    modified, _, lease = version.partition("/")
    return int(modified), int(lease)
