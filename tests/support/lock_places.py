"""The registry of lock providers that the contract (tests/contract/test_lock_*.py) judges.

Each kind is one entry (``lock_kinds.py`` says what a kind is). Kinds that need a Kubernetes API
server or etcd stand in ``lock_places_api.py``.
"""

from __future__ import annotations

import threading
import uuid
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

import s3_server
from lakehand.errors import Unavailable
from lakehand.locks.file_system import file_system_lock
from lakehand.locks.in_process import InProcessLock
from lakehand.locks.leases import LeaseTerms, Surroundings
from lakehand.locks.storage import RECORD, storage_lock
from lakehand.ports import PutOutcome, Swapped
from lock_kinds import BRISK, Doubt, Fate, LockKind, LockPlace
from lock_worlds import FakeWorld, World
from store_places import Place, memory_place

if TYPE_CHECKING:
    from collections.abc import Callable

    from lakehand.ports import LockProvider, Store, StoredObject


# Locks over stores


class WatchedStore:
    """A store that counts its calls and lets conditional writes meet their fates."""

    def __init__(self, store: Store, doubt: Doubt | None = None) -> None:
        self._store = store
        self._doubt = doubt or Doubt()
        self.calls: list[str] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def get(self, path: str) -> StoredObject:
        self.calls.append("get")
        return self._store.get(path)

    def delete(self, path: str) -> None:
        self.calls.append("delete")
        self._store.delete(path)

    def swap(self, path: str, content: bytes, version: str | None) -> Swapped:
        self.calls.append("put_new" if version is None else "put_if")
        match self._doubt.draw():
            case None:
                return self._store.swap(path, content, version)
            case Fate.REPLY_LOST:
                self._store.swap(path, content, version)
                return Swapped(PutOutcome.UNKNOWN)
            case Fate.REQUEST_LOST:
                return Swapped(PutOutcome.UNKNOWN)
            case Fate.TURNED_AWAY:
                raise Unavailable("429: slow down")


@dataclass(frozen=True)
class StoreLockPlace:
    """A lock whose record is an object of a table's store."""

    table: Place
    make: Callable[[Store, LeaseTerms, Surroundings], LockProvider]
    path: str

    def open(self, terms: LeaseTerms = BRISK, worker: Surroundings | None = None) -> LockProvider:
        return self.make(self.table.open(), terms, worker or Surroundings())

    def open_doubtful(self, doubt: Doubt, terms: LeaseTerms, worker: Surroundings) -> LockProvider:
        return self.make(WatchedStore(self.table.open(), doubt), terms, worker)

    def world(self) -> World:
        return FakeWorld()

    def scribble(self, content: bytes) -> None:
        self.table.open().put(self.path, content)

    def record(self) -> bytes:
        return self.table.open().get(self.path).content


def make_storage(store: Store, terms: LeaseTerms, worker: Surroundings) -> LockProvider:
    return storage_lock(store, terms=terms, java_lease_s=terms.lease_s, surroundings=worker)


def make_file(store: Store, terms: LeaseTerms, worker: Surroundings) -> LockProvider:
    return file_system_lock(store, terms=terms, surroundings=worker)


def _in_memory(_request: pytest.FixtureRequest) -> LockPlace:
    return StoreLockPlace(memory_place(), make_storage, RECORD)


def _on_disk(request: pytest.FixtureRequest) -> LockPlace:
    folder = request.getfixturevalue("tmp_path") / "a table"
    return StoreLockPlace(Place("local", str(folder)), make_storage, RECORD)


def _file(request: pytest.FixtureRequest) -> LockPlace:
    folder = request.getfixturevalue("tmp_path") / "a table"
    return StoreLockPlace(Place("local", str(folder)), make_file, ".hoodie/lock")


def _in_bucket(tool: str) -> Callable[[pytest.FixtureRequest], LockPlace]:
    def make(request: pytest.FixtureRequest) -> LockPlace:
        server = request.getfixturevalue("servers").get(tool)
        uri = f"s3://contract/{uuid.uuid4().hex}/a table"
        return StoreLockPlace(Place(tool, uri, server.storage_options), make_storage, RECORD)

    return make


# The lock that is no lease


@dataclass(frozen=True)
class InProcessPlace:
    """A name that nobody else uses."""

    name: str = field(default_factory=lambda: uuid.uuid4().hex)

    def open(
        self,
        terms: LeaseTerms = BRISK,
        worker: Surroundings | None = None,
    ) -> LockProvider:
        return InProcessLock(self.name)


KINDS = [
    LockKind(
        "in-process",
        lambda _request: InProcessPlace(),
        has_lease=False,
        can_doubt=False,
        has_bytes=False,
    ),
    LockKind("storage-memory", _in_memory),
    LockKind("storage-local", _on_disk),
    LockKind("file-local", _file),
    *(
        LockKind(f"storage-{tool}", _in_bucket(tool), marks=(pytest.mark.s3,))
        for tool in s3_server.TOOLS
    ),
]

try:
    import lock_places_api
except ModuleNotFoundError as missing:
    if missing.name != "lock_places_api":
        raise
else:
    KINDS.extend(lock_places_api.KINDS)


def kinds(which: Callable[[LockKind], bool] = lambda _kind: True) -> list[Any]:
    """The kinds that can be asked for something, as parameters of a fixture."""
    return [pytest.param(kind, id=kind.name, marks=kind.marks) for kind in KINDS if which(kind)]


def renewal_threads() -> list[str]:
    """Names of the threads that renew a lock now."""
    return [each.name for each in threading.enumerate() if each.name.startswith("renewal of lock")]
