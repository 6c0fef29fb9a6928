"""The ports: what Lakehand's recipes ask of the world, each method with its law.

Adapters in ``lakehand.store`` implement ``Store``, those in ``lakehand.locks`` ``LockProvider``;
one contract suite for each (tests/contract) judges them all. ``Clock`` and ``Background`` are the
process itself, so that a simulation can stand in for it.

Paths are relative to the table's base, use ``/``, never begin with one and never hold
``.`` or ``..`` parts: others are ``Invalid``. Times are epoch milliseconds of the *store's* clock,
in whole seconds where the store knows no better. ``Unavailable`` means that the store did not
answer; a conditional write raises it only if it surely changed nothing, and is UNKNOWN otherwise.

Staging is the store's one primitive for everything that must become visible at once (protocol
section 2): what is staged is invisible, and promotion makes it appear at most once, ever.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from enum import Enum, unique
from typing import TYPE_CHECKING, NamedTuple, Protocol

from lakehand.errors import Corrupt

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import TracebackType
    from typing import Self

    import pyarrow as pa


@unique
class PutOutcome(Enum):
    """What became of a conditional write."""

    WRITTEN = "written"
    EXISTS = "exists"
    """The condition did not hold: somebody else's object is there (or, for ``put_if``, ours is
    no longer the version named). Nothing was changed."""
    UNKNOWN = "unknown"
    """The reply was lost: the object may or may not be there. Read before deciding anything."""


@unique
class PromoteOutcome(Enum):
    """What became of a promotion."""

    WRITTEN = "written"
    EXISTS = "exists"
    """The final name was taken. What was staged is consumed all the same."""
    GONE = "gone"
    """Nothing is staged there any more: it was promoted or discarded before."""
    UNKNOWN = "unknown"
    """The reply was lost. Promote again (it answers GONE if it had worked) and look at the name."""


class Swapped(NamedTuple):
    """What became of a conditional write, and of the object's version."""

    outcome: PutOutcome
    version: str | None = None
    """The version of what was written; None if it was not, or the store's answer did not say."""


class ObjectInfo(NamedTuple):
    """What a listing or ``head`` says of one object.

    A named tuple, because a listing makes hundreds of thousands of them.
    """

    path: str
    size: int
    modified_ms: int


@dataclass(frozen=True, slots=True)
class StoredObject:
    """An object read whole, with the version that ``put_if`` takes."""

    content: bytes
    version: str
    modified_ms: int


@dataclass(frozen=True, slots=True)
class Listing:
    """The direct children of a folder: objects, and names of folders (relative to the base)."""

    objects: tuple[ObjectInfo, ...]
    folders: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Staged:
    """The handle of something staged: plain data that another process can promote or discard.

    ``place`` is the adapter's own word for where it lies (a path, an upload id, a session);
    ``parts`` is what the adapter needs to complete it (entity tags of uploaded parts), empty
    until the writer was closed.
    """

    final: str
    place: str
    parts: tuple[str, ...] = ()

    def to_json(self) -> str:
        """Return the handle as one line of JSON, for markers and manifests."""
        return json.dumps(asdict(self), separators=(",", ":"), sort_keys=True)

    @classmethod
    def from_json(cls, text: str, *, where: str) -> Staged:
        """Read a handle back; ``where`` names the document that it was found in."""
        try:
            fields = json.loads(text)
            return cls(
                final=str(fields["final"]),
                place=str(fields["place"]),
                parts=tuple(str(part) for part in fields["parts"]),
            )
        except (ValueError, KeyError, TypeError) as error:
            raise Corrupt(
                f"not the handle of a staged file ({error}); if it is a marker and nobody writes "
                "the instant any more, remove it",
                where=where,
            ) from error


class StagedWriter(Protocol):
    """A stream into a staged file. Leaving the ``with`` block by an exception discards it.

    A writer whose staged file was discarded meanwhile may raise ``Fenced``; nothing of what it
    writes can be promoted in any case.
    """

    @property
    def closed(self) -> bool:
        """Whether it takes no more; ``pyarrow.PythonFile(writer, mode="w")`` wants to know."""

    @property
    def staged(self) -> Staged:
        """The handle, complete (``parts``) only after ``close``.

        It is known before the first byte is written, so that a begin marker can name it and a
        successor can discard it.
        """

    def write(self, data: bytes | memoryview) -> int:
        """Append ``data`` and return its length. Memory is bounded by the adapter."""

    def close(self) -> None:
        """Make the staged content whole and durable. Idempotent. Not a promotion."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...


class Store(Protocol):
    """Objects below one table's base URI."""

    @property
    def uri(self) -> str:
        """The base URI, without credentials and without a trailing slash."""

    def get(self, path: str) -> StoredObject:
        """Return the whole object. Raises ``NotFound``; content is never torn."""

    def open(self, path: str) -> pa.NativeFile:
        """Open for random access, for PyArrow's readers. Raises ``NotFound``."""

    def head(self, path: str) -> ObjectInfo | None:
        """Return size and modification time, or None if there is no such object."""

    def list(self, folder: str) -> Listing:
        """Return the direct children of ``folder`` (``""`` is the base), in order of name.

        A folder that does not exist is empty; one without objects may be shown, or not. Hadoop's
        ``.crc`` side files, and what is staged or written aside, are not shown, nor by ``walk``.
        A listing sees every object whose write was acknowledged before the call.
        """

    def names(self, folder: str) -> tuple[str, ...]:
        """Return the names, without folder, of the objects that ``list`` would return.

        For folders of which only the names matter: a disk is not asked for every file's size.
        """

    def walk(self, folder: str) -> Iterator[ObjectInfo]:
        """Yield every object below ``folder``, in any order, by as few requests as the store has.

        Objects that come or go during the walk may or may not be seen.
        """

    def put_new(self, path: str, content: bytes) -> PutOutcome:
        """Create the object whole if the name is free; exactly one of many racers is WRITTEN."""

    def put_if(self, path: str, content: bytes, version: str) -> PutOutcome:
        """Replace the object if its version (from ``get``) is still ``version``.

        Where versions are digests (S3), an object whose content came back has its old version:
        an object for which that matters holds something that never comes back, as a time or id.
        """

    def swap(self, path: str, content: bytes, version: str | None) -> Swapped:
        """As ``put_new`` (``version`` None) or ``put_if``, and tell the version that it left.

        For records that are written again and again by whoever wrote them last, as a lock's: the
        next ``swap`` needs no ``get`` before it.
        """

    def put(self, path: str, content: bytes) -> None:
        """Create or replace the object whole; the last writer wins.

        For side objects of the journal, heartbeats, markers and locks only: everything else that
        can be seen is promoted.
        """

    def delete(self, path: str) -> None:
        """Remove the object. A missing object is no error.

        On a local disk, where Hadoop keeps ``.crc`` files, the one beside it goes first. So it
        does whenever content appears or changes there: a crash leaves none, never a stale one.
        """

    def now(self) -> int:
        """Return the store's own clock in epoch milliseconds."""

    def stage(self, final: str, *, area: str) -> StagedWriter:
        """Open a new staged file that ``promote`` can make appear as ``final``.

        ``area`` is the folder (``.hoodie/.temp/<T>/.staging/<epoch>``) for adapters that stage
        in files; each call gets a place of its own.
        """

    def promote(self, staged: Staged) -> PromoteOutcome:
        """Make the staged content appear under its final name: at most once, ever.

        Works from any process. Consumes what was staged, also when it answers EXISTS. A second
        promotion answers GONE, also after the object was deleted. (An object store may answer
        WRITTEN again as long as the promoted object stands; nothing appears a second time.) A
        handle from before ``close``, or one that names no staged file, is ``Invalid``.
        """

    def discard(self, staged: Staged) -> None:
        """Drop what was staged, so that it can never be promoted.

        Idempotent, and works from any process; what is promoted already is not touched.
        """

    def discard_area(self, area: str) -> None:
        """Drop everything staged in ``area`` or below, as far as the adapter stages in files.

        For what a crash left of an instant that has ended, without anybody knowing its handle.
        Where staging is an open upload that cannot be listed (S3, GCS), nothing happens: the
        bucket's rule ends such uploads.
        """


@dataclass(frozen=True, slots=True)
class LockHolder:
    """Who holds the table lock, as far as its record says."""

    owner: str
    token: str
    """Which record this was: ``break_lock`` breaks this one and no later one."""
    age_s: float
    """How long ago it was taken or last renewed, by the record; clocks may differ."""
    expires_in_s: float | None
    """When its lease ends, by the record; None: never (or not known)."""
    lease_s: float | None = None
    """The holder is dead when its record does not change for so long; None: never, or not known."""


class HeldLock(Protocol):
    """A lock that is ours until ``left_s`` runs out; renewed in the background."""

    @property
    def token(self) -> str:
        """The fencing token, different for each acquisition; journal entries carry it."""

    def left_s(self) -> float:
        """Return for how many seconds the lease surely lasts (0: lost; ``inf``: no lease).

        Counted on the monotonic clock, from before the call that took or renewed it.
        """

    def release(self) -> None:
        """Give up the lock if it is still ours. Idempotent; raises nothing if it was lost."""


class LockProvider(Protocol):
    """One table's lock. A lease can be held by two: it orders workers, it does not protect data."""

    @property
    def name(self) -> str:
        """The kind of lock (``storage``, ``etcd`` ...); workers with another kind are refused."""

    @property
    def excludes_foreign(self) -> bool:
        """Whether writers of Apache Hudi can be configured to use the same lock."""

    def acquire(self, owner: str, *, timeout_s: float) -> HeldLock:
        """Wait for the lock and take it. Raises ``LockTimeout``.

        Waits with jitter. A record of another is expired when it did not change for its lease's
        duration while we watched it, whatever its timestamps say.
        """

    def holder(self) -> LockHolder | None:
        """Return who holds it, or None. Takes nothing."""

    def break_lock(self, holder: LockHolder) -> bool:
        """Remove the record of a dead holder, if it still is that record; tell whether it was.

        For a person who knows that the holder is dead (``lakehand unlock``).
        """


class Clock(Protocol):
    """The process's own clock, for durations only. Times on the timeline are the store's."""

    def monotonic(self) -> float:
        """Return seconds that never go back."""

    def sleep(self, seconds: float) -> None:
        """Wait."""


class BackgroundTask(Protocol):
    """Something that is done again and again beside the work."""

    def stop(self) -> None:
        """End it: when this returns no step is running. Idempotent."""


class Background(Protocol):
    """Runs steps beside the work: a thread, or an actor of the simulation."""

    def every(self, interval_s: float, step: Callable[[], bool], *, name: str) -> BackgroundTask:
        """Call ``step`` every ``interval_s`` seconds until it returns False or is stopped."""
