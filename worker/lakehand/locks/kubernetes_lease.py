"""The Kubernetes lock: a ``coordination.k8s.io/v1`` Lease, as client-go's leader election uses it.

Its fields say to everybody what they always say: ``holderIdentity`` (empty: free),
``leaseDurationSeconds``, ``renewTime``, ``leaseTransitions`` (one more per acquisition). So a
client-go elector and we exclude each other, and ``kubectl get lease`` shows who holds the lock.
Token and number of our writes stand in an annotation that counts only together with the holder
that it names: client-go leaves it in place when it takes the Lease over.
"""

from __future__ import annotations

import math
from datetime import UTC, datetime
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

ANNOTATION = "lakehand.dev/lock"

_TRANSITIONS = 2**31
"""``leaseTransitions`` has 32 bits with a sign; it begins anew after the last."""


def kubernetes_lease_lock(
    client: ApiClient,
    *,
    namespace: str,
    name: str,
    terms: LeaseTerms | None = None,
    surroundings: Surroundings | None = None,
) -> LeaseLock:
    """Return the lock that is a Lease. ``client`` comes from ``open_api_client``."""
    terms = terms or LeaseTerms(lease_s=30.0, renew_every_s=5.0)
    surroundings = surroundings or Surroundings()
    requests = ObjectRequests(
        client, ObjectKind.LEASE, namespace=namespace, name=name, longest_s=terms.renew_every_s
    )
    return LeaseLock(
        LeaseRegister(requests, wall_ms=surroundings.wall_ms),
        name="kubernetes-lease",
        excludes_foreign=False,
        terms=terms,
        surroundings=surroundings,
    )


class LeaseRegister:
    """The record as a Lease. A version is its ``resourceVersion`` and ``leaseTransitions``."""

    def __init__(self, requests: ObjectRequests, *, wall_ms: Callable[[], int]) -> None:
        self._requests = requests
        self._wall_ms = wall_ms

    def read(self) -> Seen | None:
        """Get the Lease."""
        found = self._requests.read()
        if found is None:
            return None
        spec = found.content.get("spec") or {}
        age_s = _age_s(spec.get("renewTime"), self._wall_ms())
        try:
            record = self._understood(found.content, spec)
        except (Corrupt, Unsupported) as problem:
            return Seen(_version(found), problem, age_s, None)
        return Seen(_version(found), record, age_s, record.lease_s - age_s)

    def take(self, record: LeaseRecord, expected: str | None) -> Written:
        """Create the Lease, or become its next holder."""
        moment = self._moment()
        spec = {
            "holderIdentity": _identity(record),
            "leaseDurationSeconds": math.ceil(record.lease_s),
            "acquireTime": moment,
            "renewTime": moment,
        }
        if expected is None:
            content = _content(record, spec | {"leaseTransitions": 0})
            return _written(self._requests.create(content))
        version, transitions = _parts(expected)
        spec["leaseTransitions"] = (transitions + 1) % _TRANSITIONS
        return self._patched(record, spec, version)

    def renew(self, record: LeaseRecord, expected: str) -> Written:
        """Move ``renewTime``."""
        return self._patched(record, {"renewTime": self._moment()}, _parts(expected)[0])

    def free(self, record: LeaseRecord, expected: str) -> Written:
        """Leave the Lease without a holder, as client-go's release does."""
        moment = self._moment()
        spec = {
            "holderIdentity": "",
            "leaseDurationSeconds": 1,
            "acquireTime": moment,
            "renewTime": moment,
        }
        return self._patched(record, spec, _parts(expected)[0])

    def _patched(self, record: LeaseRecord, spec: Mapping[str, object], version: str) -> Written:
        return _written(self._requests.patch(_content(record, spec), version=version))

    def _moment(self) -> str:
        """Return the time with six digits after the point, as the server demands.

        The client drops them when all are zero, so the last one never is.
        """
        seconds, millis = divmod(self._wall_ms(), 1000)
        return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{millis:03d}001Z"

    def _understood(self, lease: Mapping[str, Any], spec: Mapping[str, Any]) -> LeaseRecord:
        identity = spec.get("holderIdentity") or ""
        duration_s = spec.get("leaseDurationSeconds") or 0
        text = (lease["metadata"].get("annotations") or {}).get(ANNOTATION)
        if text is not None:
            fields = records.from_json(text.encode(), self._requests.where)
            if fields.get("holder") == identity:
                return records.own_record(
                    fields,
                    self._requests.where,
                    owner=str(fields.get("owner")),
                    is_free=not identity,
                    foreign_lease_s=duration_s,
                )
        if identity and not duration_s:
            raise records.broken(
                f"held by {identity} without leaseDurationSeconds", self._requests.where
            )
        return LeaseRecord(identity, "", 0, duration_s, is_free=not identity)


def _identity(record: LeaseRecord) -> str:
    """Return what nobody else ever writes as holder: client-go's form, a name and an id."""
    return "" if record.is_free else f"{record.owner}_{record.token}"


def _content(record: LeaseRecord, spec: Mapping[str, object]) -> dict[str, Any]:
    own = records.to_json(record, {"holder": _identity(record), "owner": record.owner})
    return {"metadata": {"annotations": {ANNOTATION: own.decode()}}, "spec": spec}


def _written(written: kubernetes_objects.Written) -> Written:
    return Written(written.outcome, _version(written.now) if written.now else None)


def _version(lease: kubernetes_objects.KubernetesObject) -> str:
    transitions = (lease.content.get("spec") or {}).get("leaseTransitions") or 0
    return f"{lease.version}/{transitions}"


def _parts(version: str) -> tuple[str, int]:
    resource_version, _, transitions = version.partition("/")
    return resource_version, int(transitions)


def _age_s(renewed: str | None, now_ms: int) -> float:
    if renewed is None:
        return 0.0
    return now_ms / 1000 - datetime.fromisoformat(renewed).timestamp()
