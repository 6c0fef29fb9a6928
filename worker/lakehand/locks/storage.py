"""The storage lock: Hudi's own record in the table, changed by conditional writes only.

``.hoodie/.locks/table_lock.json`` is the record of Hudi's ``StorageBasedLockProvider`` (1.0.2 and
later): ``expired``, ``validUntil`` (epoch milliseconds) and ``owner``. Java takes it when it is
missing, expired, or past ``validUntil`` by its own clock; so do we, except that we watch the
record instead of believing clocks. It is never deleted: released means ``expired: true``.

Java reads past fields that it does not know and drops them when it writes, so ours stand in one
object ``lakehand`` (with a version), and a record without it is a foreign one. Token and number
make each content unique: on S3, where versions are digests, no version ever comes back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakehand.errors import Corrupt, NotFound, Unsupported
from lakehand.locks import records
from lakehand.locks.lease_lock import LeaseLock
from lakehand.locks.leases import (
    LeaseRecord,
    LeaseTerms,
    Seen,
    Surroundings,
    Written,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from lakehand.ports import Store

RECORD = ".hoodie/.locks/table_lock.json"
LAST_MILLISECOND = 2**63 - 1
JAVA_LEASE_S = 300.0
"""The default of ``hoodie.write.lock.storage.validity.timeout.secs``."""

_JAVA_SCHEMES = ("s3", "gs", "abfs", "abfss")


def storage_lock(
    store: Store,
    *,
    terms: LeaseTerms | None = None,
    java_lease_s: float = JAVA_LEASE_S,
    surroundings: Surroundings | None = None,
) -> LeaseLock:
    """Return the lock in the table of ``store``.

    ``java_lease_s`` is what the table's Java writers have as
    ``hoodie.write.lock.storage.validity.timeout.secs``: their records do not say it.
    """
    surroundings = surroundings or Surroundings()
    return LeaseLock(
        StorageRegister(store, java_lease_s=java_lease_s, wall_ms=surroundings.wall_ms),
        name="storage",
        excludes_foreign=store.uri.partition(":")[0] in _JAVA_SCHEMES,
        terms=terms or LeaseTerms(lease_s=60.0, renew_every_s=6.0),
        surroundings=surroundings,
    )


class StorageRegister:
    """The record as an object of the table's store."""

    def __init__(self, store: Store, *, java_lease_s: float, wall_ms: Callable[[], int]) -> None:
        self._store = store
        self._java_lease_s = java_lease_s
        self._wall_ms = wall_ms
        self._where = f"{store.uri}/{RECORD}"
        self._latest_ms = 0

    def read(self) -> Seen | None:
        """Get the object."""
        try:
            found = self._store.get(RECORD)
        except NotFound:
            return None
        self._latest_ms = max(self._latest_ms, found.modified_ms)
        now_ms = self._now_ms()
        age_s = (now_ms - found.modified_ms) / 1000
        try:
            valid_until, record = _parse(found.content, self._where, self._java_lease_s)
        except (Corrupt, Unsupported) as problem:
            return Seen(found.version, problem, age_s, None)
        return Seen(found.version, record, age_s, (valid_until - now_ms) / 1000)

    def take(self, record: LeaseRecord, expected: str | None) -> Written:
        """Create the object, or replace the version that was judged."""
        return Written(*self._store.swap(RECORD, _content(record, self._now_ms()), expected))

    def renew(self, record: LeaseRecord, expected: str) -> Written:
        """Replace the object by one that is valid for longer."""
        return self.take(record, expected)

    def free(self, record: LeaseRecord, expected: str) -> Written:
        """Mark the record as expired."""
        return self.take(record, expected)

    def _now_ms(self) -> int:
        """Return the machine's time, unless the store has shown that it lags behind."""
        return max(self._wall_ms(), self._latest_ms)


def _content(record: LeaseRecord, now_ms: int) -> bytes:
    valid_until = now_ms + int(record.lease_s * 1000)
    return records.to_json(
        record, {"expired": record.is_free, "validUntil": valid_until, "owner": record.owner}
    )


def _parse(content: bytes, where: str, java_lease_s: float) -> tuple[int, LeaseRecord]:
    """Return ``validUntil`` and the record."""
    fields = records.from_json(content, where)
    expired, valid_until = fields.get("expired"), fields.get("validUntil")
    if not isinstance(expired, bool):
        raise records.broken("'expired' is not true or false", where)
    if type(valid_until) is not int or not 0 <= valid_until <= LAST_MILLISECOND:
        raise records.broken("'validUntil' is no time in milliseconds", where)
    if "owner" not in fields or not isinstance(fields["owner"], str | None):
        raise records.broken("'owner' is no text", where)
    record = records.own_record(
        fields,
        where,
        owner=fields["owner"] or records.NAMELESS,
        is_free=expired,
        foreign_lease_s=java_lease_s,
    )
    return valid_until, record
