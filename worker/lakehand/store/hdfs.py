"""A store in HDFS: written aside, then renamed by the NameNode in one step.

``put_new`` and ``promote`` rename without replacing, ``put`` renames and replaces. HDFS has no
compare-and-swap, so ``put_if`` makes one of what HDFS has:

1. write the new content aside, as ``N``;
2. claim the version: create ``swap-<path>-<version>-<n>``, which holds the name of ``N``; only
   one writer gets each ``n``;
3. see that the object still has the version, then rename ``N`` over it.

Whoever finds a claim that is not carried out *deletes its* ``N`` *first* and claims ``n + 1``: a
paused claimant can then do nothing, because all that it could still do is rename ``N``. So no
time-out decides anything. ``put_if`` excludes other ``put_if``, not a plain ``put`` at the same
moment; no object is written by both.

A version is modification time, length and digest: HDFS times are milliseconds.
"""

from __future__ import annotations

import contextlib
import hashlib
import uuid
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lakehand.errors import Fenced, Invalid, NotFound, Unavailable
from lakehand.ports import (
    Listing,
    ObjectInfo,
    PromoteOutcome,
    PutOutcome,
    Staged,
    StoredObject,
    Swapped,
)
from lakehand.store import hdfs_files, paths
from lakehand.store.hdfs_files import HdfsOptions, translated
from lakehand.store.ranges import RangeFile

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType
    from typing import Self

__all__ = ["HdfsOptions", "HdfsStore"]

_PATIENCE_MS = 5_000
"""How long a claim may stay without being carried out before it is fenced off. Too short costs a
retry, too long a delay; neither is unsafe."""

_MOST_CLAIMS = 1000


class HdfsStore:
    """Files below a folder of a cluster. Threads may share it."""

    def __init__(self, host: str, base: str, options: HdfsOptions) -> None:
        """Take ``name:port`` or a name service, and the table's folder."""
        self._host = host
        self._base = paths.checked_folder(base)
        self._root = f"/{self._base}" if self._base else ""
        self._client = hdfs_files.connect(host, options)

    def __repr__(self) -> str:
        return f"HdfsStore({self.uri!r})"

    @property
    def uri(self) -> str:
        """``hdfs://host/base``."""
        return f"hdfs://{self._host}{self._root}"

    # Reading

    def get(self, path: str) -> StoredObject:
        """Return the whole object."""
        place = self._absolute(path)
        for _ in range(20):
            status = self._status(path)
            if status is None:
                raise NotFound(f"no object {self._where(path)}")
            with contextlib.suppress(FileNotFoundError), translated(self._where(path)):
                with self._client.read(place) as file:
                    content: bytes = file.read()
                again = self._status(path)
                if again is not None and _same(status, again):
                    return StoredObject(
                        content, _version(status, content), status.modification_time
                    )
        raise Unavailable(f"{self._where(path)}: it is replaced faster than it can be read")

    def open(self, path: str) -> pa.NativeFile:
        """Open for random access."""
        try:
            with translated(self._where(path)):
                place = self._absolute(path)
                self._client.get_file_info(place)  # says "not found" where read says "no access"
                file = self._client.read(place)
        except FileNotFoundError as error:
            raise NotFound(f"no object {self._where(path)}") from error

        def fetch(start: int, end: int) -> bytes:
            try:
                with translated(self._where(path)):
                    content: bytes = file.read_range(start, end - start)
                    return content
            except FileNotFoundError as error:
                message = f"{self._where(path)}: it was replaced while it was read"
                raise Unavailable(message) from error

        return pa.PythonFile(RangeFile(len(file), fetch), mode="r")

    def head(self, path: str) -> ObjectInfo | None:
        """Return size and modification time."""
        status = self._status(path)
        if status is None:
            return None
        return ObjectInfo(path, status.length, status.modification_time)

    def list(self, folder: str) -> Listing:
        """Return the direct children."""
        prefix = paths.below(paths.checked_folder(folder))
        place = f"{self._root}/{folder}" if folder else self._root or "/"
        try:
            with translated(self._where(folder)):
                found = list(self._client.list_status(place))
        except FileNotFoundError:
            found = []
        objects: list[ObjectInfo] = []
        folders: list[str] = []
        for status in found:
            if status.path == place:
                break  # it is a file: HDFS lists it as itself
            path = prefix + status.path.rpartition("/")[2]
            if paths.is_hidden(path):
                continue
            if status.isdir:
                folders.append(path)
            else:
                objects.append(ObjectInfo(path, status.length, status.modification_time))
        return Listing(tuple(sorted(objects, key=lambda info: info.path)), tuple(sorted(folders)))

    def names(self, folder: str) -> tuple[str, ...]:
        """Return the names of the objects of a listing."""
        return paths.names_of(self.list(folder), folder)

    def walk(self, folder: str) -> Iterator[ObjectInfo]:
        """Yield folder by folder."""
        return self._walk(paths.checked_folder(folder))

    def _walk(self, folder: str) -> Iterator[ObjectInfo]:
        waiting = [folder]
        while waiting:
            listing = self.list(waiting.pop())
            yield from listing.objects
            waiting.extend(listing.folders)

    # Writing

    def put_new(self, path: str, content: bytes) -> PutOutcome:
        """Write aside, then rename without replacing."""
        target = self._absolute(path)
        if self._status(path) is not None:
            return PutOutcome.EXISTS
        with self._written_aside(content) as aside:
            return self._renamed(aside, target, overwrite=False)

    def swap(self, path: str, content: bytes, version: str | None) -> Swapped:
        """Do either; the version that it left has to be read."""
        if version is None:
            return Swapped(self.put_new(path, content))
        return Swapped(self.put_if(path, content, version))

    def put(self, path: str, content: bytes) -> None:
        """Write aside, then rename and replace."""
        target = self._absolute(path)
        with self._written_aside(content) as aside:
            outcome = self._renamed(aside, target, overwrite=True)
        if outcome is not PutOutcome.WRITTEN:
            raise Unavailable(f"{self._where(path)}: HDFS did not say whether it was written")

    def put_if(self, path: str, content: bytes, version: str) -> PutOutcome:
        """Claim the version, then rename and replace (see the head of this module)."""
        target = self._absolute(path)
        name = "-".join(hashlib.sha256(word.encode()).hexdigest()[:16] for word in (path, version))
        with self._written_aside(content) as aside:
            for number in range(_MOST_CLAIMS):
                if not self._has_version(path, version):
                    return PutOutcome.EXISTS
                claim = f"{paths.PRIVATE_FOLDER}/swap-{name}-{number}"
                match self.put_new(claim, aside.encode()):
                    case PutOutcome.UNKNOWN:
                        return PutOutcome.UNKNOWN
                    case PutOutcome.EXISTS:
                        self._fence(claim, path, version)
                    case PutOutcome.WRITTEN:
                        return self._swap(path, aside, target, version, claim)
        raise Unavailable(f"{self._where(path)}: too many writers replace it at once")

    def _swap(self, path: str, aside: str, target: str, version: str, claim: str) -> PutOutcome:
        if not self._has_version(path, version):
            self.delete(claim)
            return PutOutcome.EXISTS
        outcome = self._renamed(aside, target, overwrite=True)
        if outcome is PutOutcome.WRITTEN:  # nobody needs the claims of a version that is gone
            stem, _, number = claim.rpartition("-")
            for each in range(int(number) + 1):
                self.delete(f"{stem}-{each}")
        return outcome

    def _fence(self, claim: str, path: str, version: str) -> None:
        """Wait for another's claim to be carried out; then make sure that it never will be."""
        info = self.head(claim)
        while info is not None and self._has_version(path, version):
            if self.now() - info.modified_ms > _PATIENCE_MS:
                with contextlib.suppress(NotFound), translated(self._where(claim)):
                    self._client.delete(self.get(claim).content.decode())
                return
            hdfs_files.wait_a_little()
            info = self.head(claim)

    def delete(self, path: str) -> None:
        """Delete the file. HDFS keeps its own checksums: there is no ``.crc`` to remove."""
        place = self._absolute(path)
        if self._status(path) is None:
            return
        with contextlib.suppress(FileNotFoundError), translated(self._where(path)):
            self._client.delete(place)

    def now(self) -> int:
        """Return the time that the NameNode gives to a file written now."""
        with self._written_aside(b"") as aside, translated(self.uri):
            stamp: int = self._client.get_file_info(aside).modification_time
            return stamp

    # Staging

    def stage(self, final: str, *, area: str) -> HdfsStagedWriter:
        """Create a staged file in ``area``."""
        staged = Staged(paths.checked(final), paths.staged_place(area, uuid.uuid4().hex))
        with translated(self._where(staged.place)):
            file = hdfs_files.create(self._client, self._absolute(staged.place))
        return HdfsStagedWriter(self, staged, file)

    def promote(self, staged: Staged) -> PromoteOutcome:
        """Rename what is staged to its final name, without replacing."""
        place = self._absolute(paths.checked_place(staged.place))
        target = self._absolute(staged.final)
        if not staged.parts:
            raise Invalid(f"the staged file for {staged.final!r} was never closed")
        try:
            with translated(self._where(staged.final)):
                hdfs_files.rename_into(self._client, place, target, overwrite=False)
        except FileNotFoundError:
            return PromoteOutcome.GONE
        except FileExistsError:
            is_mine = self._status(staged.place) is not None
            self.discard(staged)
            return PromoteOutcome.EXISTS if is_mine else PromoteOutcome.GONE
        except Unavailable:
            return PromoteOutcome.UNKNOWN
        self._prune(place)
        return PromoteOutcome.WRITTEN

    def discard(self, staged: Staged) -> None:
        """Delete what is staged; a writer that goes on finds no file any more."""
        self.delete(paths.checked_place(staged.place))
        self._prune(self._absolute(staged.place))

    def discard_area(self, area: str) -> None:
        """Delete the folder with all that is staged in it."""
        folder = self._absolute(paths.checked_area(area))
        with contextlib.suppress(FileNotFoundError), translated(area):
            self._client.delete(folder, recursive=True)
        if folder.endswith("/.staging"):
            with contextlib.suppress(FileNotFoundError, Unavailable), translated(area):
                self._client.delete(folder.rpartition("/")[0], recursive=False)

    # Helpers

    def _prune(self, place: str) -> None:
        """Remove a staging area that is empty, and its ``.staging`` folder if that is too."""
        area = place.rpartition("/")[0]
        above = area.rpartition("/")[0]
        with contextlib.suppress(FileNotFoundError, Unavailable), translated(place):
            self._client.delete(area, recursive=False)
            if above.endswith("/.staging"):
                self._client.delete(above, recursive=False)

    @contextlib.contextmanager
    def _written_aside(self, content: bytes) -> Iterator[str]:
        """Give the absolute path of a hidden file, and remove it if it is still there."""
        aside = f"{self._root}/{paths.PRIVATE_FOLDER}/{uuid.uuid4().hex}.tmp"
        with translated(self.uri):
            hdfs_files.write(self._client, aside, content)
        try:
            yield aside
        finally:
            with contextlib.suppress(FileNotFoundError, Unavailable), translated(self.uri):
                self._client.delete(aside)

    def _renamed(self, aside: str, target: str, *, overwrite: bool) -> PutOutcome:
        """Rename a file of ours alone: if it is gone after a lost reply, it was renamed."""
        try:
            with translated(target):
                hdfs_files.rename_into(self._client, aside, target, overwrite=overwrite)
        except (FileExistsError, FileNotFoundError):
            return PutOutcome.EXISTS  # not found: fenced off by another put_if
        except Unavailable:
            return PutOutcome.UNKNOWN
        return PutOutcome.WRITTEN

    def _status(self, path: str) -> Any:  # noqa: ANN401 - the library has no types
        try:
            with translated(self._where(path)):
                status = self._client.get_file_info(self._absolute(path))
        except FileNotFoundError:
            return None
        return None if status.isdir else status

    def _has_version(self, path: str, version: str) -> bool:
        try:
            return self.get(path).version == version
        except NotFound:
            return False

    def _absolute(self, path: str) -> str:
        return f"{self._root}/{paths.checked(path)}"

    def _where(self, path: str) -> str:
        return f"{path!r} in {self.uri}"


class HdfsStagedWriter:
    """Writes a staged file."""

    def __init__(self, store: HdfsStore, staged: Staged, file: Any) -> None:  # noqa: ANN401
        self._store = store
        self._staged = staged
        self._file = file
        self._size = 0
        self._is_closed = False

    @property
    def staged(self) -> Staged:
        """The handle."""
        return self._staged

    @property
    def closed(self) -> bool:
        """Tell whether it takes no more."""
        return self._is_closed

    def write(self, data: bytes | memoryview) -> int:
        """Append ``data``; the client holds a packet of it."""
        if self._is_closed:
            raise Invalid(f"the staged file for {self._staged.final!r} is closed")
        length = memoryview(data).nbytes
        if length:
            with self._fenced():
                self._file.write(bytes(data))
            self._size += length
        return length

    def close(self) -> None:
        """Make the file whole, unless somebody discarded it."""
        if self._is_closed:
            return
        with self._fenced():
            self._file.close()
        self._is_closed = True
        self._staged = Staged(self._staged.final, self._staged.place, (str(self._size),))

    @contextlib.contextmanager
    def _fenced(self) -> Iterator[None]:
        try:
            with translated(self._staged.place):
                yield
        except FileNotFoundError as error:
            message = f"what was staged for {self._staged.final!r} was discarded"
            raise Fenced(message) from error

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
            self._is_closed = True
            self._store.discard(self._staged)


def _same(first: Any, second: Any) -> bool:  # noqa: ANN401
    return (first.modification_time, first.length) == (second.modification_time, second.length)


def _version(status: Any, content: bytes) -> str:  # noqa: ANN401
    digest = hashlib.sha256(content).hexdigest()[:32]
    return f"{status.modification_time:x}-{status.length:x}-{digest}"
