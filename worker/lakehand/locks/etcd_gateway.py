"""The few calls of etcd v3 that a lock needs, over its JSON gateway.

etcd's native protocol is gRPC; its gateway takes the same messages as JSON, so nothing but an
HTTP client is needed. No request is repeated by the pool. When a member does not answer, the
next request goes to the next one: a cluster has one truth, and every call here asks for it.
"""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from lakehand.errors import Corrupt, Invalid, LakehandError, NotFound, Unavailable
from lakehand.ports import PutOutcome

if TYPE_CHECKING:
    from collections.abc import Mapping

    from urllib3 import BaseHTTPResponse

_MESSAGE_LIMIT = 300
_NOT_FOUND = 5
_DENIED = 7
_EXHAUSTED = 8
_UNAUTHENTICATED = 16
_REFUSALS = (3, 9, _DENIED, _UNAUTHENTICATED)
"""gRPC's invalid argument, failed precondition, permission denied, unauthenticated."""


@dataclass(frozen=True, slots=True)
class EtcdOptions:
    """Where etcd is, and who we are to it."""

    endpoints: tuple[str, ...]
    """Client URLs of the members, ``https://host:2379``."""

    user: str | None = None
    password: str | None = field(default=None, repr=False)
    ca_file: str | None = None
    """Whom to trust for https; None: the machine's authorities."""

    cert_file: str | None = None
    key_file: str | None = None
    """A client certificate. etcd takes no user's name from it over the gateway: use a password."""


@dataclass(frozen=True, slots=True)
class KeyValue:
    """A key as etcd has it. ``lease`` is 0 if it never expires."""

    value: bytes
    modified: int
    """The cluster's revision at its last write."""
    lease: int


@dataclass(frozen=True, slots=True)
class Written:
    """What became of a conditional write, and the key's revision if it was written."""

    outcome: PutOutcome
    modified: int = 0


class MaybeDone(LakehandError):
    """The request may or may not have been carried out."""


class EtcdGateway:
    """Speaks to one cluster."""

    def __init__(self, options: EtcdOptions, *, request_timeout_s: float) -> None:
        import urllib3

        if not options.endpoints:
            raise Invalid("etcd needs at least one endpoint")
        for endpoint in options.endpoints:
            _check_endpoint(endpoint)
        self._options = options
        self._member = 0
        self._token: str | None = None
        self._pool = urllib3.PoolManager(
            retries=False,
            maxsize=2,  # the work's thread and the renewal's
            timeout=urllib3.Timeout(total=request_timeout_s),
            ca_certs=options.ca_file,
            cert_file=options.cert_file,
            key_file=options.key_file,
        )

    def grant(self, ttl_s: int) -> tuple[int, int]:
        """Make a lease; return its id and the seconds that the server gave it.

        A grant whose reply is lost leaves a lease that nobody holds on to: it expires by itself.
        """
        try:
            reply = self._call("/v3/lease/grant", {"TTL": str(ttl_s)})
        except MaybeDone as error:
            raise Unavailable(str(error)) from error
        return _number(reply, "ID"), _number(reply, "TTL")

    def keep_alive(self, lease: int) -> int:
        """Give the lease its full time again; return the seconds, 0 if it is gone."""
        try:
            reply = self._call("/v3/lease/keepalive", {"ID": str(lease)})
        except MaybeDone as error:
            raise Unavailable(str(error)) from error
        result = reply.get("result")
        if not isinstance(result, dict):
            raise Corrupt("keepalive answered without a result", where="etcd")
        return _number(result, "TTL")

    def revoke(self, lease: int) -> None:
        """End the lease, which deletes its keys; a lease that is gone is no error."""
        try:
            self._call("/v3/lease/revoke", {"ID": str(lease)})
        except NotFound:
            return
        except MaybeDone as error:
            raise Unavailable(str(error)) from error

    def read(self, key: str) -> KeyValue | None:
        """Return the key's value as of now, or None."""
        try:
            reply = self._call("/v3/kv/range", {"key": _base64(key.encode())})
        except MaybeDone as error:
            raise Unavailable(str(error)) from error
        return _first_of(reply)

    def put_if(self, key: str, value: bytes, *, lease: int, modified: int) -> Written:
        """Put the key under the lease if its revision is still ``modified`` (0: it is absent).

        A lease that is gone takes its keys with it: then nothing is put.
        """
        put = {"key": _base64(key.encode()), "value": _base64(value), "lease": str(lease)}
        try:
            return self._changed(key, modified, {"request_put": put})
        except NotFound:
            return Written(PutOutcome.EXISTS)

    def delete_if(self, key: str, *, modified: int) -> Written:
        """Delete the key if its revision is still ``modified``."""
        deletion = {"key": _base64(key.encode())}
        return self._changed(key, modified, {"request_delete_range": deletion})

    def _changed(self, key: str, modified: int, change: Mapping[str, object]) -> Written:
        same = {"key": _base64(key.encode()), "target": "MOD", "mod_revision": str(modified)}
        try:
            reply = self._call("/v3/kv/txn", {"compare": [same], "success": [change]})
        except MaybeDone:
            return Written(PutOutcome.UNKNOWN)
        if reply.get("succeeded") is not True:
            return Written(PutOutcome.EXISTS)
        header = reply.get("header")
        if not isinstance(header, dict):
            return Written(PutOutcome.UNKNOWN)
        return Written(PutOutcome.WRITTEN, _number(header, "revision"))

    def _call(self, path: str, body: Mapping[str, object]) -> dict[str, Any]:
        """Send one request, with a fresh token if the old one has expired."""
        if self._token is None and self._options.user is not None:
            self._token = self._authenticated()
        try:
            return self._sent(path, body)
        except _TokenExpired:  # refused, so nothing was done
            self._token = self._authenticated()
            return self._sent(path, body)

    def _authenticated(self) -> str:
        name, password = self._options.user, self._options.password
        try:
            reply = self._sent("/v3/auth/authenticate", {"name": name, "password": password})
        except MaybeDone as error:
            raise Unavailable(str(error)) from error
        return str(reply.get("token", ""))

    def _sent(self, path: str, body: Mapping[str, object]) -> dict[str, Any]:
        from urllib3.exceptions import HTTPError

        endpoint = self._options.endpoints[self._member]
        headers = {"Content-Type": "application/json"}
        if self._token and path != "/v3/auth/authenticate":
            headers["Authorization"] = self._token
        what = f"etcd {endpoint}{path}"
        try:
            reply = self._pool.request(
                "POST", f"{endpoint}{path}", body=json.dumps(body), headers=headers
            )
        except HTTPError as error:
            self._member = (self._member + 1) % len(self._options.endpoints)
            raise _no_answer(what, error) from error
        if reply.status != 200:
            problem = self._refusal(what, reply)
            if isinstance(problem, MaybeDone):  # a member without a leader, perhaps
                self._member = (self._member + 1) % len(self._options.endpoints)
            raise problem
        return _parsed(reply.data, what)

    def _refusal(self, what: str, reply: BaseHTTPResponse) -> LakehandError:
        code, message = _reason(reply.data)
        problem = f"{what}: {message}"
        if code == _UNAUTHENTICATED and self._options.user is not None:
            return _TokenExpired(problem)
        if code == _NOT_FOUND:
            return NotFound(problem)
        if code == _DENIED:
            return Invalid(f"{problem}: grant the role READWRITE on the lock's prefix")
        if code == _EXHAUSTED:  # too many requests, or no space: it was not even proposed
            return Unavailable(problem)
        if code in _REFUSALS or reply.status in (401, 403, 404):
            return Invalid(problem)
        return MaybeDone(problem)


class _TokenExpired(Invalid):
    """The token is not, or no longer, accepted."""


def _check_endpoint(endpoint: str) -> None:
    try:
        parts = urlsplit(endpoint)
        hostname, _port = parts.hostname, parts.port
    except ValueError:
        parts, hostname = urlsplit(""), None
    if parts.scheme not in ("http", "https") or not hostname:
        raise Invalid("an etcd endpoint is a URL, http(s)://host:port")
    if parts.username is not None or parts.path or parts.query or parts.fragment:
        raise Invalid("an etcd endpoint holds scheme, host and port only; users have a field")


def _no_answer(what: str, error: Exception) -> LakehandError:
    """Tell a request that surely was not sent from one that may have arrived."""
    from urllib3.exceptions import ConnectTimeoutError, NewConnectionError, SSLError

    match error:
        case SSLError() if "CERTIFICATE_VERIFY_FAILED" in str(error):
            return Invalid(f"{what}: the certificate is not trusted")
        case NewConnectionError() | ConnectTimeoutError():
            return Unavailable(f"{what}: no connection")
        case _:
            return MaybeDone(f"{what}: no answer ({type(error).__name__})")


def _reason(raw: bytes) -> tuple[int, str]:
    try:
        document = json.loads(raw)
        return int(document["code"]), str(document["message"])[:_MESSAGE_LIMIT]
    except (ValueError, KeyError, TypeError):
        return -1, "refused without a reason"


def _parsed(raw: bytes, what: str) -> dict[str, Any]:
    try:
        document = json.loads(raw)
    except ValueError as error:
        raise MaybeDone(f"{what}: the answer is not JSON") from error
    if not isinstance(document, dict):
        raise MaybeDone(f"{what}: the answer is no JSON object")
    return document


def _number(document: Mapping[str, Any], name: str) -> int:
    """Return a 64-bit number: JSON carries it as text, and leaves a zero out."""
    try:
        return int(document.get(name, 0))
    except (ValueError, TypeError) as error:
        raise Corrupt(f"{name} is no number", where="etcd") from error


def _first_of(reply: Mapping[str, Any]) -> KeyValue | None:
    found = reply.get("kvs")
    if not found:
        return None
    try:
        return KeyValue(
            base64.b64decode(found[0].get("value", ""), validate=True),
            _number(found[0], "mod_revision"),
            _number(found[0], "lease"),
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise Corrupt("the answer holds no key and value", where="etcd") from error


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode()
