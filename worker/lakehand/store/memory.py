"""A store in memory: the model that says what the other adapters have to do.

One lock makes every call one step, so the port's laws can be read off the code. Clock and
identities are arguments, so that a simulation can replay a run.
"""

from __future__ import annotations

import threading
import time
import uuid
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa

from lakehand.errors import Invalid, NotFound
from lakehand.ports import (
    Listing,
    ObjectInfo,
    PromoteOutcome,
    PutOutcome,
    Staged,
    StoredObject,
    Swapped,
)
from lakehand.store import paths

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import TracebackType
    from typing import Self


def _system_clock() -> int:
    return time.time_ns() // 1_000_000


def _random_id() -> str:
    return uuid.uuid4().hex


@dataclass(slots=True)
class _Content:
    """What has been staged so far; ``closed`` once it is whole."""

    chunks: list[bytes] = field(default_factory=list)
    closed: bool = False


class MemoryStore:
    """Objects in a dictionary. Threads may share it; other processes cannot see it."""

    def __init__(
        self,
        uri: str = "memory://table",
        *,
        clock: Callable[[], int] = _system_clock,
        new_id: Callable[[], str] = _random_id,
    ) -> None:
        """``new_id`` gives hexadecimal words, at most 32 characters, each only once."""
        self._uri = uri.rstrip("/")
        self._clock = clock
        self._new_id = new_id
        self._lock = threading.RLock()
        self._objects: dict[str, StoredObject] = {}
        self._staged: dict[str, _Content] = {}
        self._writes = 0

    def __repr__(self) -> str:
        return f"MemoryStore({self._uri!r})"

    @property
    def uri(self) -> str:
        """The URI that it was made with."""
        return self._uri

    def get(self, path: str) -> StoredObject:
        """Return the whole object."""
        with self._lock:
            found = self._objects.get(paths.checked(path))
        if found is None:
            raise NotFound(f"no object {path!r} in {self._uri}")
        return found

    def open(self, path: str) -> pa.NativeFile:
        """Open the content as it is now."""
        return pa.BufferReader(self.get(path).content)

    def head(self, path: str) -> ObjectInfo | None:
        """Return size and modification time."""
        with self._lock:
            found = self._objects.get(paths.checked(path))
        return None if found is None else _info(path, found)

    def list(self, folder: str) -> Listing:
        """Return the direct children; folders of staged files are there, as on a disk."""
        prefix = paths.below(paths.checked_folder(folder))
        objects: list[ObjectInfo] = []
        with self._lock:
            folders = paths.folders_in(folder, self._staged)
        for info in self.walk(folder):
            name, slash, _ = info.path[len(prefix) :].partition("/")
            if slash:
                folders.add(prefix + name)
            else:
                objects.append(info)
        return Listing(tuple(objects), tuple(sorted(folders)))

    def names(self, folder: str) -> tuple[str, ...]:
        """Return the names of the objects of a listing."""
        return paths.names_of(self.list(folder), folder)

    def walk(self, folder: str) -> Iterator[ObjectInfo]:
        """Yield a snapshot, in order of path."""
        prefix = paths.below(paths.checked_folder(folder))
        with self._lock:
            found = sorted(
                (path, stored)
                for path, stored in self._objects.items()
                if path.startswith(prefix) and not paths.is_hidden(path)
            )
        return (_info(path, stored) for path, stored in found)

    def put_new(self, path: str, content: bytes) -> PutOutcome:
        """Create the object if the name is free."""
        return self.swap(path, content, None).outcome

    def put_if(self, path: str, content: bytes, version: str) -> PutOutcome:
        """Replace the object if it is still the version named."""
        return self.swap(path, content, version).outcome

    def swap(self, path: str, content: bytes, version: str | None) -> Swapped:
        """Create or replace the object if it is still as expected."""
        with self._lock:
            found = self._objects.get(paths.checked(path))
            if (None if found is None else found.version) != version:
                return Swapped(PutOutcome.EXISTS)
            self.put(path, content)
            return Swapped(PutOutcome.WRITTEN, self._objects[path].version)

    def put(self, path: str, content: bytes) -> None:
        """Create or replace the object."""
        with self._lock:
            self._objects.pop(paths.side_file(paths.checked(path)), None)
            self._writes += 1
            self._objects[path] = StoredObject(bytes(content), str(self._writes), self._clock())

    def delete(self, path: str) -> None:
        """Remove the object and its side file."""
        with self._lock:
            self._objects.pop(paths.side_file(paths.checked(path)), None)
            self._objects.pop(path, None)

    def now(self) -> int:
        """Return what the clock says."""
        return self._clock()

    def stage(self, final: str, *, area: str) -> MemoryStagedWriter:
        """Open a new staged file."""
        place = paths.staged_place(area, self._new_id())
        content = _Content()
        with self._lock:
            self._staged[place] = content
        return MemoryStagedWriter(self, Staged(paths.checked(final), place), content)

    def promote(self, staged: Staged) -> PromoteOutcome:
        """Move what is staged to its final name if that is free; drop it if not."""
        final, place = paths.checked(staged.final), paths.checked_place(staged.place)
        if not staged.parts:
            raise Invalid(f"the staged file for {final!r} was never closed")
        with self._lock:
            content = self._staged.pop(place, None)
            if content is None or not content.closed:
                return PromoteOutcome.GONE
            match self.put_new(final, b"".join(content.chunks)):
                case PutOutcome.WRITTEN:
                    return PromoteOutcome.WRITTEN
                case _:
                    return PromoteOutcome.EXISTS

    def discard(self, staged: Staged) -> None:
        """Drop what is staged."""
        place = paths.checked_place(staged.place)
        with self._lock:
            self._staged.pop(place, None)

    def discard_area(self, area: str) -> None:
        """Drop what is staged there."""
        below = f"{paths.checked_area(area)}/"
        with self._lock:
            for place in [one for one in self._staged if one.startswith(below)]:
                del self._staged[place]


class MemoryStagedWriter:
    """Collects chunks. They count only when the writer was closed, and nobody discarded them."""

    def __init__(self, store: MemoryStore, staged: Staged, content: _Content) -> None:
        self._store = store
        self._staged = staged
        self._content = content
        self._size = 0

    @property
    def staged(self) -> Staged:
        """The handle."""
        return self._staged

    @property
    def closed(self) -> bool:
        """Tell whether it takes no more."""
        return self._content.closed

    def write(self, data: bytes | memoryview) -> int:
        """Append a copy of ``data``."""
        if self._content.closed:
            raise Invalid(f"the staged file for {self._staged.final!r} is closed")
        chunk = bytes(data)
        self._content.chunks.append(chunk)
        self._size += len(chunk)
        return len(chunk)

    def close(self) -> None:
        """Make the content promotable."""
        if not self._content.closed:
            self._content.closed = True
            self._staged = Staged(self._staged.final, self._staged.place, (str(self._size),))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None:
            self.close()
        else:
            self._store.discard(self._staged)


def _info(path: str, stored: StoredObject) -> ObjectInfo:
    return ObjectInfo(path, len(stored.content), stored.modified_ms)
