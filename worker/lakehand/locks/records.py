"""Lock records as JSON: Hudi's fields for Java, and one object ``lakehand`` with our own.

Java reads past what it does not know. A record without our object is a foreign one; bytes that
are no such record, or were written by a newer Lakehand, are never taken for a free lock.
"""

from __future__ import annotations

import json
from typing import Any

from lakehand.errors import Corrupt, Unsupported
from lakehand.locks.leases import LeaseRecord

LARGEST_RECORD = 65_536
RECORD_VERSION = 1
LONGEST_LEASE_S = 1e9
NAMELESS = "a writer without a name"
WAY_OUT = "if nobody holds the lock, remove the record: lakehand unlock"


def to_json(record: LeaseRecord, hudi_fields: dict[str, object]) -> bytes:
    """Return the record as both sides read it."""
    own = {
        "version": RECORD_VERSION,
        "token": record.token,
        "number": record.number,
        "leaseSeconds": record.lease_s,
    }
    return json.dumps({**hudi_fields, "lakehand": own}, separators=(",", ":")).encode()


def from_json(content: bytes, where: str) -> dict[str, Any]:
    """Return the JSON object that a record is."""
    if len(content) > LARGEST_RECORD:
        raise broken(f"{len(content)} bytes are too many", where)
    try:
        fields = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise broken(str(error), where) from error
    if not isinstance(fields, dict):
        raise broken(f"a {type(fields).__name__} instead of an object", where)
    return fields


def own_record(
    fields: dict[str, Any], where: str, *, owner: str, is_free: bool, foreign_lease_s: float
) -> LeaseRecord:
    """Return the record, by our own part if it has one."""
    own = fields.get("lakehand")
    if own is None:
        return LeaseRecord(owner, "", 0, foreign_lease_s, is_free)
    version = own.get("version") if isinstance(own, dict) else None
    if not isinstance(own, dict) or type(version) is not int or version < 1:
        raise broken("its part 'lakehand' has no version", where)
    if version != RECORD_VERSION:
        raise Unsupported(
            f"{where}: a lock record of version {version}, written by a newer Lakehand: use that "
            f"one, or, {WAY_OUT}"
        )
    token, number, lease_s = own.get("token"), own.get("number"), own.get("leaseSeconds")
    if not (
        isinstance(token, str)
        and token
        and type(number) is int
        and isinstance(lease_s, int | float)
        and 0 < lease_s <= LONGEST_LEASE_S
    ):
        raise broken("its part 'lakehand' lacks token, number or leaseSeconds", where)
    return LeaseRecord(owner, token, number, float(lease_s), is_free)


def broken(problem: str, where: str) -> Corrupt:
    """Say what is wrong with a record, and what a person can do."""
    return Corrupt(f"not a lock record: {problem}; {WAY_OUT}", where=where)
