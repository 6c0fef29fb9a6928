"""A store on a local disk: everything appears whole or not at all, also after ``kill -9``.

How content becomes visible, always in this order::

    write aside -> fsync -> drop a stale .crc -> one rename -> fsync the folder
      |                                            |
      |  .hoodie/.lakehand/.put/<unique>.tmp       |  put_new, promote: rename_exclusively
      |  <area>/<unique>.staged                    |  put, put_if: replace, under a lock

* A crash before the rename leaves a hidden file that nobody reads; old ones are swept away.
* Hadoop's ``.<name>.crc`` goes *before* the content changes: Hadoop reads a file without one,
  but refuses a file beside a stale one.
* ``put_if`` compares and renames under an exclusive ``flock`` on one of the lock files, which
  ``put`` and ``delete`` of the same path take too. It ends with its holder, however that dies.
  Writers that know nothing of the lock (Java) are excluded by the table's lock, not by this one.
* A version is inode, modification time, size and digest of the content. A replacement never
  keeps the modification time of what it replaces, so equal content does not mean equal version.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import stat
import tempfile
import threading
import time
import uuid
import weakref
import zlib
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from lakehand.errors import Fenced, Invalid, LakehandError, NotFound, Unavailable
from lakehand.ports import (
    Listing,
    ObjectInfo,
    PromoteOutcome,
    PutOutcome,
    Staged,
    StoredObject,
    Swapped,
)
from lakehand.store import durable_files, paths
from lakehand.store.durable_files import MISSING
from lakehand.store.exclusive_rename import rename_exclusively

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from types import TracebackType
    from typing import BinaryIO, Self

_LOCK_STRIPES = 64
_KIND_BITS = 0o170000
_LOCK_SECONDS = 30.0
_LEFTOVER_SECONDS = 86_400
_USER_MENDS = {
    errno.EACCES: "permission denied",
    errno.EPERM: "operation not permitted",
    errno.EROFS: "the file system is read-only",
    errno.ENAMETOOLONG: "the name is too long for the file system",
    errno.EISDIR: "a folder has this name",
    errno.ENOTEMPTY: "a folder has this name",
    errno.ENOTDIR: "a part of the path is a file",
    errno.ELOOP: "a circle of symbolic links",
}


class LocalStore:
    """Files below a folder. Processes and threads may share it."""

    def __init__(self, base: str | os.PathLike[str]) -> None:
        """Take the table's folder, which the first write creates."""
        self._base = os.path.abspath(os.fspath(base))
        self._private = f"{self._base}/{paths.PRIVATE_FOLDER}"
        self._is_prepared = False
        self._clock: int | None = None
        self._clock_lock = threading.Lock()

    def __repr__(self) -> str:
        return f"LocalStore({self._base!r})"

    @property
    def uri(self) -> str:
        """The base as a ``file:`` URI."""
        return Path(self._base).as_uri()

    # Reading

    def get(self, path: str) -> StoredObject:
        """Return the whole object: one open file is one version."""
        try:
            with open(self._absolute(path), "rb") as file:
                content = file.read()
                status = os.fstat(file.fileno())
        except OSError as error:
            raise self._not_readable(path, error) from error
        return StoredObject(content, _version(status, content), status.st_mtime_ns // 1_000_000)

    def open(self, path: str) -> pa.NativeFile:
        """Open for random access."""
        try:
            return pa.OSFile(self._absolute(path), "rb")
        except OSError as error:
            raise self._not_readable(path, error) from error

    def head(self, path: str) -> ObjectInfo | None:
        """Return size and modification time."""
        try:
            status = os.stat(self._absolute(path))
        except OSError as error:
            if error.errno in MISSING:
                return None
            raise self._not_readable(path, error) from error
        if not stat.S_ISREG(status.st_mode):
            return None
        return ObjectInfo(path, status.st_size, status.st_mtime_ns // 1_000_000)

    def list(self, folder: str) -> Listing:
        """Return the direct children. One ``stat`` per file, relative to the open folder."""
        prefix = paths.below(paths.checked_folder(folder))
        objects: list[ObjectInfo] = []
        folders: list[str] = []
        with self._listing(folder) as (names, descriptor):
            for name in names:
                path = prefix + name
                if (name[0] == "." or name.endswith(paths.STAGED_SUFFIX)) and paths.is_hidden(path):
                    continue
                try:
                    status = os.stat(name, dir_fd=descriptor)
                except OSError:
                    continue  # deleted since it was listed, or a dangling link
                mode = status.st_mode & _KIND_BITS
                if mode == stat.S_IFREG:
                    objects.append(
                        ObjectInfo(path, status.st_size, status.st_mtime_ns // 1_000_000)
                    )
                elif mode == stat.S_IFDIR:
                    folders.append(path)
        return Listing(tuple(objects), tuple(folders))

    def names(self, folder: str) -> tuple[str, ...]:
        """Return the names of the files, without a ``stat`` for each."""
        prefix = paths.below(paths.checked_folder(folder))
        try:
            with os.scandir(f"{self._base}/{folder}") as entries:
                found = [entry.name for entry in entries if entry.is_file()]
        except OSError as error:
            if error.errno in MISSING:
                return ()
            raise self._failure(folder, error) from error
        return tuple(sorted(name for name in found if not paths.is_hidden(prefix + name)))

    def walk(self, folder: str) -> Iterator[ObjectInfo]:
        """Yield folder by folder; one listing is held at a time, and the folders to come."""
        return self._walk(paths.checked_folder(folder))

    def _walk(self, folder: str) -> Iterator[ObjectInfo]:
        waiting = deque([folder])
        while waiting:
            listing = self.list(waiting.popleft())
            yield from listing.objects
            waiting.extend(listing.folders)

    @contextlib.contextmanager
    def _listing(self, folder: str) -> Iterator[tuple[Sequence[str], int]]:
        """Give the names in a folder, in order, and its descriptor; none if it is not there."""
        place = f"{self._base}/{folder}" if folder else self._base
        try:
            descriptor = os.open(place, os.O_RDONLY | os.O_DIRECTORY)
        except OSError as error:
            if error.errno not in MISSING:
                raise self._failure(folder, error) from error
            yield [], -1
            return
        try:
            yield sorted(os.listdir(descriptor)), descriptor
        finally:
            os.close(descriptor)

    # Writing

    def put_new(self, path: str, content: bytes) -> PutOutcome:
        """Create the object by one exclusive rename."""
        return self._put_new(path, content).outcome

    def put_if(self, path: str, content: bytes, version: str) -> PutOutcome:
        """Compare and replace under the path's lock."""
        return self._put_if(path, content, version).outcome

    def swap(self, path: str, content: bytes, version: str | None) -> Swapped:
        """Create or replace; the version is known before anybody can see the file."""
        if version is None:
            return self._put_new(path, content)
        return self._put_if(path, content, version)

    def _put_new(self, path: str, content: bytes) -> Swapped:
        target = self._absolute(path)
        with self._translated(path):
            if os.path.lexists(target):
                return Swapped(PutOutcome.EXISTS)
            with self._written_aside(content) as aside:
                durable_files.make_folders(os.path.dirname(target))
                durable_files.drop_side_file(target)
                left = _version(os.stat(aside), content)
                try:
                    rename_exclusively(aside, target)
                except FileExistsError:
                    return Swapped(PutOutcome.EXISTS)
            return _swapped(target, left)

    def _put_if(self, path: str, content: bytes, version: str) -> Swapped:
        target = self._absolute(path)
        with self._translated(path):
            if not os.path.isfile(target):
                return Swapped(PutOutcome.EXISTS)
            with self._written_aside(content) as aside, self._locked(path):
                try:
                    if self.get(path).version != version:
                        return Swapped(PutOutcome.EXISTS)
                except NotFound:
                    return Swapped(PutOutcome.EXISTS)
                left = _version(durable_files.replace(aside, target), content)
            return _swapped(target, left)

    def put(self, path: str, content: bytes) -> None:
        """Create or replace the object by one rename, under the path's lock."""
        target = self._absolute(path)
        with self._translated(path):
            with self._written_aside(content) as aside:
                durable_files.make_folders(os.path.dirname(target))
                with self._locked(path):
                    durable_files.replace(aside, target)
            durable_files.sync_folder(os.path.dirname(target))

    def delete(self, path: str) -> None:
        """Remove the side file, then the object."""
        target = self._absolute(path)
        with self._translated(path):
            if not os.path.lexists(target) and not os.path.lexists(paths.side_file(target)):
                return
            with self._locked(path):
                durable_files.drop_side_file(target)
                try:
                    os.unlink(target)
                except OSError as error:
                    if error.errno not in MISSING:
                        raise
            durable_files.sync_folder(os.path.dirname(target))

    def now(self) -> int:
        """Return the file system's clock: the time it gives to a file that is touched now.

        The file is open and nameless, so this is two system calls. Whoever may not write gets
        the machine's clock, which is the file system's own on a local disk.
        """
        try:
            clock = self._clock if self._clock is not None else self._open_clock()
            os.utime(clock)
            return os.fstat(clock).st_mtime_ns // 1_000_000
        except OSError as error:
            if error.errno not in (errno.EACCES, errno.EPERM, errno.EROFS):
                raise self._failure("", error) from error
            return time.time_ns() // 1_000_000

    def _open_clock(self) -> int:
        with self._clock_lock:
            if self._clock is None:
                with tempfile.TemporaryFile(dir=self._nearest_folder()) as file:
                    clock = os.dup(file.fileno())
                weakref.finalize(self, os.close, clock)
                self._clock = clock
            return self._clock

    # Staging

    def stage(self, final: str, *, area: str) -> LocalStagedWriter:
        """Create an empty staged file in ``area``."""
        staged = Staged(paths.checked(final), paths.staged_place(area, uuid.uuid4().hex))
        with self._translated(staged.place):
            file = durable_files.create(self._absolute(staged.place))
        return LocalStagedWriter(self, staged, file)

    def promote(self, staged: Staged) -> PromoteOutcome:
        """Rename what is staged to its final name, without replacing."""
        place = self._absolute(paths.checked_place(staged.place))
        target = self._absolute(staged.final)
        if not staged.parts:
            raise Invalid(f"the staged file for {staged.final!r} was never closed")
        with self._translated(staged.final):
            if not durable_files.is_plain_file(place):
                return PromoteOutcome.GONE
            durable_files.make_folders(os.path.dirname(target))
            if not os.path.lexists(target):
                durable_files.drop_side_file(target)
            try:
                rename_exclusively(place, target)
            except FileNotFoundError:
                if durable_files.is_plain_file(place):
                    raise  # the final name's folder went away under us: nothing happened
                return PromoteOutcome.GONE  # another promotion or a discard came first
            except FileExistsError:
                durable_files.remove_staged(place)
                return PromoteOutcome.EXISTS
            is_durable = durable_files.made_durable(target)
            durable_files.prune(os.path.dirname(place))
        return PromoteOutcome.WRITTEN if is_durable else PromoteOutcome.UNKNOWN

    def discard(self, staged: Staged) -> None:
        """Unlink what is staged."""
        place = self._absolute(paths.checked_place(staged.place))
        with self._translated(staged.place):
            if durable_files.is_plain_file(place):
                durable_files.remove_staged(place)

    def discard_area(self, area: str) -> None:
        """Unlink what is staged there, and the folders."""
        folder = self._absolute(paths.checked_area(area))
        with self._translated(area):
            durable_files.remove_staging_area(folder)

    # The private folder

    @contextlib.contextmanager
    def _written_aside(self, content: bytes) -> Iterator[str]:
        """Give the path of a durable file with ``content``, and remove it if it is still there."""
        self._prepare()
        aside = f"{self._private}/{uuid.uuid4().hex}.tmp"
        try:
            with open(aside, "xb", buffering=0) as file:
                view = memoryview(content)
                while view:
                    view = view[file.write(view) :]
                os.fsync(file.fileno())
            yield aside
        finally:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(aside)

    def _prepare(self) -> None:
        """Make the private folder, once, and sweep away what crashed writers left in it."""
        if self._is_prepared:
            return
        durable_files.make_folders(self._private)
        oldest = self.now() / 1000 - _LEFTOVER_SECONDS
        with os.scandir(self._private) as entries:
            for entry in entries:
                if entry.name.endswith(".tmp"):
                    with contextlib.suppress(FileNotFoundError):
                        if entry.stat().st_mtime < oldest:
                            os.unlink(entry.path)
        self._is_prepared = True

    @contextlib.contextmanager
    def _locked(self, path: str) -> Iterator[None]:
        """Exclude other replacements of ``path`` by any thread of any process on this machine."""
        self._prepare()
        stripe = zlib.crc32(path.encode()) % _LOCK_STRIPES
        with durable_files.locked(f"{self._private}/lock-{stripe:02d}", _LOCK_SECONDS):
            yield

    # Paths and errors

    def _absolute(self, path: str) -> str:
        return f"{self._base}/{paths.checked(path)}"

    def _nearest_folder(self) -> str:
        """Return the base, or the folder above it that exists: reading the clock makes none."""
        folder = self._base
        while not os.path.isdir(folder):
            folder = os.path.dirname(folder)
        return folder

    def _not_readable(self, path: str, error: OSError) -> LakehandError:
        if error.errno in (*MISSING, errno.EISDIR) or os.path.isdir(self._absolute(path)):
            return NotFound(f"no object {path!r} in {self.uri}")
        return self._failure(path, error)

    def _failure(self, path: str, error: OSError) -> LakehandError:
        where = f"{path!r} in {self.uri}"
        if error.errno in _USER_MENDS:
            return Invalid(f"{where}: {_USER_MENDS[error.errno]}")
        return Unavailable(f"{where}: {error.strerror}")

    @contextlib.contextmanager
    def _translated(self, path: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise self._failure(path, error) from error


class LocalStagedWriter:
    """Writes a staged file; ``close`` makes its content and its name durable."""

    def __init__(self, store: LocalStore, staged: Staged, file: BinaryIO) -> None:
        self._store = store
        self._staged = staged
        self._file = file

    @property
    def staged(self) -> Staged:
        """The handle."""
        return self._staged

    @property
    def closed(self) -> bool:
        """Tell whether it takes no more."""
        return self._file.closed

    def write(self, data: bytes | memoryview) -> int:
        """Append ``data``."""
        if self._file.closed:
            raise Invalid(f"the staged file for {self._staged.final!r} is closed")
        try:
            return self._file.write(data)
        except OSError as error:
            raise Unavailable(f"{self._staged.place!r}: {error.strerror}") from error

    def close(self) -> None:
        """Make the file durable, unless somebody discarded it."""
        if self._file.closed:
            return
        try:
            with self._file:
                self._file.flush()
                os.fsync(self._file.fileno())
                status = os.fstat(self._file.fileno())
                if status.st_nlink == 0:
                    raise Fenced(f"what was staged for {self._staged.final!r} was discarded")
            durable_files.sync_folder(os.path.dirname(self._file.name))
        except OSError as error:
            raise Unavailable(f"{self._staged.place!r}: {error.strerror}") from error
        self._staged = Staged(self._staged.final, self._staged.place, (str(status.st_size),))

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
            return
        with contextlib.suppress(OSError):  # the disk may be full; the file goes anyway
            self._file.close()
        self._store.discard(self._staged)


def _swapped(target: str, version: str) -> Swapped:
    if durable_files.made_durable(target):
        return Swapped(PutOutcome.WRITTEN, version)
    return Swapped(PutOutcome.UNKNOWN)


def _version(status: os.stat_result, content: bytes) -> str:
    digest = hashlib.sha256(content).hexdigest()[:32]
    return f"{status.st_ino:x}-{status.st_mtime_ns:x}-{status.st_size:x}-{digest}"
