"""The ConfigMap lock: a record under one key of a ConfigMap, for clusters that grant no Leases.

The ConfigMap's ``resourceVersion`` is the compare-and-swap; its other keys and its labels are left
alone, and a ConfigMap without the key is a free lock. The record stays when it is released.
"""

from __future__ import annotations

import base64
import math
from typing import TYPE_CHECKING, Any

from lakehand.errors import Corrupt, Unsupported
from lakehand.locks import records
from lakehand.locks.kubernetes_objects import ObjectKind, ObjectRequests
from lakehand.locks.lease_lock import LeaseLock
from lakehand.locks.leases import LeaseRecord, LeaseTerms, Seen, Surroundings, Written

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kubernetes.client import ApiClient

    from lakehand.locks import kubernetes_objects

DATA_KEY = "lock"


def config_map_lock(
    client: ApiClient,
    *,
    namespace: str,
    name: str,
    terms: LeaseTerms | None = None,
    surroundings: Surroundings | None = None,
) -> LeaseLock:
    """Return the lock that is a ConfigMap. ``client`` comes from ``open_api_client``."""
    terms = terms or LeaseTerms(lease_s=30.0, renew_every_s=5.0)
    surroundings = surroundings or Surroundings()
    requests = ObjectRequests(
        client, ObjectKind.CONFIG_MAP, namespace=namespace, name=name, longest_s=terms.renew_every_s
    )
    return LeaseLock(
        ConfigMapRegister(requests, wall_ms=surroundings.wall_ms),
        name="config-map",
        excludes_foreign=False,
        terms=terms,
        surroundings=surroundings,
    )


class ConfigMapRegister:
    """The record as a text in a ConfigMap. A version is its ``resourceVersion``."""

    def __init__(self, requests: ObjectRequests, *, wall_ms: Callable[[], int]) -> None:
        self._requests = requests
        self._wall_ms = wall_ms

    def read(self) -> Seen | None:
        """Get the ConfigMap."""
        found = self._requests.read()
        if found is None:
            return None
        content = _record_bytes(found.content)
        if content is None:
            return Seen(found.version, LeaseRecord("", "", 0, 0.0, is_free=True), 0.0, None)
        try:
            return self._understood(content, found.version)
        except (Corrupt, Unsupported) as problem:
            return Seen(found.version, problem, 0.0, None)

    def take(self, record: LeaseRecord, expected: str | None) -> Written:
        """Create the ConfigMap, or write the key of the version that was judged."""
        text = records.to_json(
            record,
            {"owner": record.owner, "isFree": record.is_free, "renewedAt": self._wall_ms()},
        ).decode()
        content = {"data": {DATA_KEY: text}}
        if expected is None:
            return _written(self._requests.create(content))
        return _written(self._requests.patch(content, version=expected))

    def renew(self, record: LeaseRecord, expected: str) -> Written:
        """Write the key anew."""
        return self.take(record, expected)

    def free(self, record: LeaseRecord, expected: str) -> Written:
        """Write that nobody holds it."""
        return self.take(record, expected)

    def _understood(self, content: bytes, version: str) -> Seen:
        where = self._requests.where
        fields = records.from_json(content, where)
        owner, is_free, renewed = (fields.get(key) for key in ("owner", "isFree", "renewedAt"))
        if not (isinstance(owner, str) and isinstance(is_free, bool) and type(renewed) is int):
            raise records.broken("it lacks 'owner', 'isFree' or 'renewedAt'", where)
        record = records.own_record(
            fields, where, owner=owner, is_free=is_free, foreign_lease_s=math.inf
        )
        age_s = (self._wall_ms() - renewed) / 1000
        left_s = record.lease_s - age_s
        return Seen(version, record, age_s, left_s if math.isfinite(left_s) else None)


def _record_bytes(config_map: Mapping[str, Any]) -> bytes | None:
    """Return what stands under the key, also if somebody put it among the binary data."""
    text = (config_map.get("data") or {}).get(DATA_KEY)
    if text is not None:
        return str(text).encode()
    binary = (config_map.get("binaryData") or {}).get(DATA_KEY)
    return None if binary is None else base64.b64decode(binary)


def _written(written: kubernetes_objects.Written) -> Written:
    return Written(written.outcome, written.now.version if written.now else None)
