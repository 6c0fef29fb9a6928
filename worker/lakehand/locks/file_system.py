"""The file lock: Hudi's ``FileSystemBasedLockProvider`` file, held beside Java's own.

``.hoodie/lock`` exists while somebody holds the lock. Java creates it (empty, by a slip of Hudi's),
judges it by its modification time against ``hoodie.write.lock.filesystem.expire``, and deletes it
when it is done. Ours has content, is renewed, which moves its modification time, and replaces an
expired one instead of deleting and creating it, so that one of several waiters gets it.

A store has no conditional deletion. So a release first replaces the file under the condition that
it is ours, which makes the lease count anew, and then deletes it with all of that time in hand.

Java's half of the bargain is weaker: its ``close`` deletes the file whoever holds it. Our holder
learns that from its next renewal (docs/locks.md).
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from lakehand.errors import Corrupt, Invalid, NotFound, Unsupported
from lakehand.locks import records
from lakehand.locks.lease_lock import LeaseLock
from lakehand.locks.leases import (
    LeaseRecord,
    LeaseTerms,
    Seen,
    Surroundings,
    Written,
)
from lakehand.ports import PutOutcome

if TYPE_CHECKING:
    from collections.abc import Callable

    from lakehand.ports import Store

FOLDER = ".hoodie"
"""Java's default of ``hoodie.write.lock.filesystem.path``, relative to the table."""

_SCHEMES = ("file", "hdfs", "memory")


def file_system_lock(
    store: Store,
    *,
    terms: LeaseTerms,
    folder: str = FOLDER,
    surroundings: Surroundings | None = None,
) -> LeaseLock:
    """Return the lock in ``folder`` of the table of ``store``.

    ``terms.lease_s`` is what Java writers have as ``hoodie.write.lock.filesystem.expire``, which
    counts minutes, and whose default 0 means never: that is refused.
    """
    scheme = store.uri.partition(":")[0]
    if scheme not in _SCHEMES:
        raise Invalid(
            f"Hudi's file lock needs a file system, which {store.uri} is not: use the storage lock"
        )
    surroundings = surroundings or Surroundings()
    return LeaseLock(
        FileRegister(
            store, f"{folder}/lock", java_lease_s=terms.lease_s, wall_ms=surroundings.wall_ms
        ),
        name="filesystem",
        excludes_foreign=scheme != "memory",
        terms=terms,
        surroundings=surroundings,
    )


class FileRegister:
    """The lock file: its absence is the free lock."""

    def __init__(
        self, store: Store, path: str, *, java_lease_s: float, wall_ms: Callable[[], int]
    ) -> None:
        self._store = store
        self._path = path
        self._java_lease_s = java_lease_s
        self._wall_ms = wall_ms
        self._where = f"{store.uri}/{path}"

    def read(self) -> Seen | None:
        """Get the file."""
        try:
            found = self._store.get(self._path)
        except NotFound:
            return None
        age_s = (self._wall_ms() - found.modified_ms) / 1000
        try:
            record = _parse(found.content, self._where, self._java_lease_s)
        except (Corrupt, Unsupported) as problem:
            return Seen(found.version, problem, age_s, None)
        return Seen(found.version, record, age_s, record.lease_s - age_s)

    def take(self, record: LeaseRecord, expected: str | None) -> Written:
        """Create the file, or replace the version that was judged."""
        content = _content(record, self._wall_ms())
        return Written(*self._store.swap(self._path, content, expected))

    def renew(self, record: LeaseRecord, expected: str) -> Written:
        """Replace the file, which makes it young."""
        return self.take(record, expected)

    def free(self, record: LeaseRecord, expected: str) -> Written:
        """Make the file ours and young once more, then delete it."""
        written = self.take(record, expected)
        if written.outcome is PutOutcome.WRITTEN:
            self._store.delete(self._path)
        return Written(written.outcome)  # of a file that is gone there is no version


def _content(record: LeaseRecord, now_ms: int) -> bytes:
    seconds, millis = divmod(now_ms, 1000)
    moment = datetime.fromtimestamp(seconds, UTC)
    return records.to_json(
        record,
        {
            "lockCreateTime": f"{moment:%Y-%m-%d %H:%M:%S}.{millis:03d}",
            "lockThreadName": record.owner,
            "lockStacksInfo": [],
        },
    )


def _parse(content: bytes, where: str, java_lease_s: float) -> LeaseRecord:
    if not content:
        return LeaseRecord("a Java writer (its lock file is empty)", "", 0, java_lease_s)
    fields = records.from_json(content, where)
    thread = fields.get("lockThreadName")
    if not isinstance(thread, str) or not isinstance(fields.get("lockCreateTime"), str):
        raise records.broken("it has no lockCreateTime and lockThreadName", where)
    is_foreign = fields.get("lakehand") is None
    owner = f"a Java writer (thread {thread})" if is_foreign else thread or records.NAMELESS
    return records.own_record(
        fields, where, owner=owner, is_free=False, foreign_lease_s=java_lease_s
    )
