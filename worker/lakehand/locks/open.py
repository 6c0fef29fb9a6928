"""From the name of a kind of lock to its provider: the one place that knows which is which.

Options come as text, from a command line or a document; each kind knows its own and refuses
others by name. What a kind needs beyond the base package is imported here, on use.
"""

from __future__ import annotations

import difflib
import math
from enum import Enum, unique
from pathlib import Path
from typing import TYPE_CHECKING, assert_never

from lakehand.errors import Invalid
from lakehand.locks.in_process import InProcessLock
from lakehand.locks.leases import LeaseTerms, Surroundings
from lakehand.locks.lock_names import lock_name

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lakehand.ports import LockProvider, Store


@unique
class LockKind(Enum):
    """The kinds of locks; the values are their names on a command line."""

    STORAGE = "storage"
    FILESYSTEM = "filesystem"
    IN_PROCESS = "in-process"
    ETCD = "etcd"
    KUBERNETES_LEASE = "kubernetes-lease"
    CONFIG_MAP = "config-map"


_TERMS = ("lease_s", "renew_every_s")
_KUBERNETES = ("namespace", "name", "kubeconfig", "context", *_TERMS)

OPTIONS: Mapping[LockKind, tuple[str, ...]] = {
    LockKind.STORAGE: (*_TERMS, "java_lease_s"),
    LockKind.FILESYSTEM: (*_TERMS, "folder"),
    LockKind.IN_PROCESS: (),
    LockKind.ETCD: (
        "endpoints", "key", "user", "password", "password_file", "ca_file", "cert_file", "key_file",
        *_TERMS,
    ),
    LockKind.KUBERNETES_LEASE: _KUBERNETES,
    LockKind.CONFIG_MAP: _KUBERNETES,
}  # fmt: skip
"""The options of each kind (docs/cli.md says what they mean)."""

_EXTRAS = {
    LockKind.ETCD: "etcd",
    LockKind.KUBERNETES_LEASE: "kubernetes",
    LockKind.CONFIG_MAP: "kubernetes",
}


def open_lock(
    kind: str,
    store: Store,
    *,
    options: Mapping[str, str] | None = None,
    surroundings: Surroundings | None = None,
) -> LockProvider:
    """Return the lock of the table in ``store``; ``kind`` is the value of a ``LockKind``."""
    known = _kind(kind)
    given = _known_options(known, options or {})
    around = surroundings or Surroundings()
    try:
        match known:
            case LockKind.STORAGE:
                return _storage(store, given, around)
            case LockKind.FILESYSTEM:
                return _filesystem(store, given, around)
            case LockKind.IN_PROCESS:
                return InProcessLock(store.uri)
            case LockKind.ETCD:
                return _etcd(store, given, around)
            case LockKind.KUBERNETES_LEASE | LockKind.CONFIG_MAP:
                return _kubernetes(known, store, given, around)
            case _:
                assert_never(known)
    except ImportError as error:
        extra = _EXTRAS.get(known, "")
        raise Invalid(
            f"the {kind} lock needs another package: pip install 'lakehand[{extra}]'"
        ) from error


def _storage(store: Store, given: Mapping[str, str], around: Surroundings) -> LockProvider:
    from lakehand.locks.storage import JAVA_LEASE_S, storage_lock

    return storage_lock(
        store,
        terms=_terms(given),
        java_lease_s=_seconds(given, "java_lease_s") or JAVA_LEASE_S,
        surroundings=around,
    )


def _filesystem(store: Store, given: Mapping[str, str], around: Surroundings) -> LockProvider:
    from lakehand.locks.file_system import FOLDER, file_system_lock

    terms = _terms(given)
    if terms is None:
        raise Invalid(
            "the filesystem lock needs the option lease_s: the seconds after which a lock file "
            "that was not renewed is dead, as the table's Java writers have them (in minutes) in "
            "hoodie.write.lock.filesystem.expire"
        )
    folder = given.get("folder", FOLDER)
    return file_system_lock(store, terms=terms, folder=folder, surroundings=around)


def _etcd(store: Store, given: Mapping[str, str], around: Surroundings) -> LockProvider:
    from lakehand.locks.etcd import etcd_lock
    from lakehand.locks.etcd_gateway import EtcdOptions

    endpoints = _required(given, "endpoints", "etcd", "http(s)://host:port[,...]")
    options = EtcdOptions(
        endpoints=tuple(one.strip() for one in endpoints.split(",") if one.strip()),
        user=given.get("user"),
        password=_password(given),
        ca_file=given.get("ca_file"),
        cert_file=given.get("cert_file"),
        key_file=given.get("key_file"),
    )
    key = given.get("key", lock_name(store.uri))
    return etcd_lock(options, key=key, terms=_terms(given), surroundings=around)


def _kubernetes(
    kind: LockKind, store: Store, given: Mapping[str, str], around: Surroundings
) -> LockProvider:
    from lakehand.locks.config_map import config_map_lock
    from lakehand.locks.kubernetes_lease import kubernetes_lease_lock
    from lakehand.locks.kubernetes_objects import open_api_client

    namespace = _required(given, "namespace", kind.value, "the same for all workers of the table")
    client = open_api_client(kubeconfig=given.get("kubeconfig"), context=given.get("context"))
    make = kubernetes_lease_lock if kind is LockKind.KUBERNETES_LEASE else config_map_lock
    return make(
        client,
        namespace=namespace,
        name=given.get("name", lock_name(store.uri)),
        terms=_terms(given),
        surroundings=around,
    )


def _kind(text: str) -> LockKind:
    names = tuple(kind.value for kind in LockKind)
    if text not in names:
        raise Invalid(f"unknown lock {text!r}{_suggestion(text, names)}: {', '.join(names)}")
    return LockKind(text)


def _known_options(kind: LockKind, options: Mapping[str, str]) -> Mapping[str, str]:
    """Return the options if all are known. Values may be secrets: only names are ever shown."""
    known = OPTIONS[kind]
    for name in options:
        if name not in known:
            raise Invalid(
                f"unknown lock option {name!r} for the {kind.value} lock"
                f"{_suggestion(name, known)}; known: {', '.join(known) or 'none'}"
            )
    return options


def _suggestion(word: str, known: tuple[str, ...]) -> str:
    close = difflib.get_close_matches(word, known, n=1, cutoff=0.4)
    return f" (did you mean {close[0]!r}?)" if close else ""


def _required(given: Mapping[str, str], name: str, kind: str, what: str) -> str:
    if not given.get(name):
        raise Invalid(f"the {kind} lock needs the option {name}: {what}")
    return given[name]


def _terms(given: Mapping[str, str]) -> LeaseTerms | None:
    """Return the lease's terms; None: the kind's own."""
    lease_s, renew_every_s = _seconds(given, "lease_s"), _seconds(given, "renew_every_s")
    if lease_s is None:
        if renew_every_s is not None:
            raise Invalid("the lock option renew_every_s goes with lease_s: give both")
        return None
    return LeaseTerms(lease_s=lease_s, renew_every_s=renew_every_s or lease_s / 10)


def _seconds(given: Mapping[str, str], name: str) -> float | None:
    text = given.get(name)
    if text is None:
        return None
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds < math.inf:
        raise Invalid(f"the lock option {name} is a number of seconds, more than 0")
    return seconds


def _password(given: Mapping[str, str]) -> str | None:
    """Return the password; from a file it is not seen by whoever lists processes."""
    path = given.get("password_file")
    if path is None:
        return given.get("password")
    if "password" in given:
        raise Invalid("give one of the lock options password and password_file")
    try:
        return Path(path).read_text(encoding="utf-8").rstrip("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise Invalid(f"the lock option password_file: {path} cannot be read") from error
