"""Completion and finalize markers: of two tries of one write handle, one counts.

A task that runs twice (speculation, a retried stage, a stray that survived its kill) meets its
twin here, before anybody else can see what they wrote::

    at its start   a completion marker is there   -> its statuses, nothing is written
                   the write is finalized         -> the write fails, no file is made
    at its end     put the marker where none is   -> mine count
                   somebody's is there            -> theirs count; the caller drops its own files

The finalize marker is set once, by the driver, when it stops taking results and before it
prepares. Both kinds lie beside the journal, in names that Apache Hudi's rollback does not read.
They take a ``Store`` and no workbench, because tasks have none.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakehand.errors import Corrupt, Fenced, Invalid, NotFound, Unavailable
from lakehand.formats import handle_mark
from lakehand.formats.handle_mark import HandleMark
from lakehand.ports import PutOutcome
from lakehand.protocol.leftovers import MARKS
from lakehand.protocol.staging import digest_of

if TYPE_CHECKING:
    from lakehand.ports import Store

INLINE_BYTES = 256 * 1024
"""Longer statuses (of record keys, say) go into a side object."""

_FINALIZED = "finalized"
_ATTEMPTS = 8


@dataclass(frozen=True, slots=True)
class Handle:
    """A write handle of an attempt, named by the prefix of the file ids that it makes."""

    time: str
    epoch: int
    prefix: str

    def __post_init__(self) -> None:
        """Refuse a prefix that would name something else."""
        if not self.prefix or "/" in self.prefix or self.prefix == _FINALIZED:
            raise Invalid(f"not a prefix of file ids: {self.prefix!r}")

    @property
    def path(self) -> str:
        """Where its completion marker lies."""
        return f"{_folder(self.time, self.epoch)}/{self.prefix}.done"


def _folder(time: str, epoch: int) -> str:
    return f"{MARKS}/{time}/{epoch}"


def find_completed(store: Store, handle: Handle) -> bytes | None:
    """Return the statuses of a try that completed, or None."""
    try:
        content = store.get(handle.path).content
    except NotFound:
        return None
    return _statuses(store, handle, handle_mark.decode(content, where=_where(store, handle)))


def complete(store: Store, handle: Handle, statuses: bytes, *, unique: str) -> bytes:
    """Mark the handle as complete and return the statuses that count.

    They are ``statuses`` if this try was first; else the caller discards what it wrote.
    ``unique`` names this try.
    """
    content = handle_mark.encode(_mark(store, handle, statuses, unique))
    for _ in range(_ATTEMPTS):
        if store.put_new(handle.path, content) is PutOutcome.WRITTEN:
            return statuses
        found = find_completed(store, handle)  # another's, or ours after a lost reply
        if found is not None:
            return found
    raise Unavailable(f"{_where(store, handle)} does not stay as it was written")


def _mark(store: Store, handle: Handle, statuses: bytes, unique: str) -> HandleMark:
    digest = digest_of(statuses)
    if len(statuses) <= INLINE_BYTES:
        return HandleMark(digest, inline=statuses)
    side = f"{_folder(handle.time, handle.epoch)}/{handle.prefix}.{unique}.statuses"
    store.put(side, statuses)
    return HandleMark(digest, side_object=side)


def _statuses(store: Store, handle: Handle, mark: HandleMark) -> bytes:
    if mark.side_object is None:
        found = mark.inline or b""
    else:
        below = f"{_folder(handle.time, handle.epoch)}/"
        if not mark.side_object.startswith(below):
            raise Corrupt("it names a side object elsewhere", where=_where(store, handle))
        found = store.get(mark.side_object).content
    if digest_of(found) != mark.digest:
        raise Corrupt(
            "the statuses are not those that were marked; do the write again",
            where=_where(store, handle),
        )
    return found


def _where(store: Store, handle: Handle) -> str:
    return f"{store.uri}/{handle.path}"


def finalize(store: Store, time: str, epoch: int) -> None:
    """Stop the write of an attempt from growing: what is not marked complete now never counts."""
    path = f"{_folder(time, epoch)}/{_FINALIZED}"
    for _ in range(_ATTEMPTS):
        if store.put_new(path, b"") is not PutOutcome.UNKNOWN or store.head(path) is not None:
            return
    raise Unavailable(f"{store.uri}/{path} cannot be written")


def require_not_finalized(store: Store, time: str, epoch: int) -> None:
    """Refuse to make files for a write whose driver takes no more results."""
    if store.head(f"{_folder(time, epoch)}/{_FINALIZED}") is not None:
        raise Fenced(
            f"the write {time} (epoch {epoch}) is finalized: this task is a stray, and what it "
            "would write can never be part of it"
        )
