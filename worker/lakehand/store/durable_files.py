"""The steps by which a local file becomes visible, whole and durable; and the lock beside them.

``local.py`` says in which order they are taken. Each is one system call, or is harmless when the
process dies in its middle.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
import time
from typing import TYPE_CHECKING

from lakehand.errors import Unavailable
from lakehand.store import paths

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import BinaryIO

MISSING = (errno.ENOENT, errno.ENOTDIR)
"""The system's words for "there is no such file"."""

_PRUNED_TIMES = 20


def replace(aside: str, target: str) -> os.stat_result:
    """Rename over ``target``, giving ``aside`` another modification time first if it is equal.

    Returned is what became visible: read before the rename, so that it is no successor's.
    """
    drop_side_file(target)
    with contextlib.suppress(FileNotFoundError):
        before, after = os.stat(target), os.stat(aside)
        if before.st_mtime_ns == after.st_mtime_ns:
            os.utime(aside, ns=(after.st_atime_ns, after.st_mtime_ns + 1))
    became = os.stat(aside)
    os.replace(aside, target)
    return became


def drop_side_file(target: str) -> None:
    """Remove Hadoop's checksum of ``target``, durably, before the content changes."""
    try:
        os.unlink(paths.side_file(target))
    except OSError as error:
        if error.errno not in MISSING:
            raise
    else:
        sync_folder(os.path.dirname(target))


def make_folders(folder: str) -> None:
    """Make a folder and those above it, each durable in the one that holds it."""
    if os.path.isdir(folder):
        return
    above = os.path.dirname(folder)
    make_folders(above)
    try:
        os.mkdir(folder)
    except FileNotFoundError:
        return  # somebody pruned the one above; the caller tries again
    except FileExistsError:
        _refuse_a_file(folder)
    with contextlib.suppress(FileNotFoundError):
        sync_folder(above)


def _refuse_a_file(folder: str) -> None:
    """Raise if ``folder`` is something else. One look: it may be pruned, and remade, meanwhile."""
    with contextlib.suppress(FileNotFoundError):
        if not stat.S_ISDIR(os.stat(folder).st_mode):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), folder)


def create(path: str) -> BinaryIO:
    """Create a file for writing. Its folder may be pruned while this goes on, so: try again."""
    for _ in range(_PRUNED_TIMES):
        make_folders(os.path.dirname(path))
        with contextlib.suppress(FileNotFoundError):
            return open(path, "xb", buffering=1 << 20)
    raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)


def remove_staged(path: str) -> None:
    """Remove a staged file, durably, and the folders that it leaves empty."""
    folder = os.path.dirname(path)
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
        sync_folder(folder)
    prune(folder)


def remove_staging_area(folder: str) -> None:
    """Remove every staged file in a folder and below it, and the folders that are empty then.

    If all areas of an instant go, so do the empty folders of its markers: nobody else removes them.
    """
    _remove_staged_below(folder)
    if os.path.basename(folder) == ".staging":
        _remove_staged_below(os.path.dirname(folder))


def _remove_staged_below(folder: str) -> None:
    for inner, _, names in os.walk(folder, topdown=False):
        for name in names:
            if name.endswith(paths.STAGED_SUFFIX):
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(f"{inner}/{name}")
        with contextlib.suppress(OSError):
            os.rmdir(inner)


def prune(folder: str) -> None:
    """Remove a staging area that is empty, and its ``.staging`` folder if that is empty too."""
    with contextlib.suppress(OSError):
        sync_folder(folder)
        os.rmdir(folder)
        if os.path.basename(os.path.dirname(folder)) == ".staging":
            os.rmdir(os.path.dirname(folder))


def sync_folder(folder: str) -> None:
    """Make the names in ``folder`` durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def made_durable(target: str) -> bool:
    """Sync the folder of a name that has just appeared; False if that failed."""
    try:
        sync_folder(os.path.dirname(target))
    except OSError:
        return False
    return True


def is_plain_file(path: str) -> bool:
    """Tell whether a regular file, not a link to one, is there."""
    try:
        return stat.S_ISREG(os.lstat(path).st_mode)
    except OSError as error:
        if error.errno in MISSING:
            return False
        raise


@contextlib.contextmanager
def locked(name: str, patience_s: float) -> Iterator[None]:
    """Hold the lock file ``name`` exclusively; it is made if need be, and never removed."""
    deadline = time.monotonic() + patience_s
    while True:
        descriptor = os.open(name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            _flock(descriptor, name, deadline)
            if _is_still(descriptor, name):
                yield
                return
        finally:
            os.close(descriptor)


def _flock(descriptor: int, name: str, deadline: float) -> None:
    """Take the lock; it is held for a few system calls, so waiting long means a stopped holder."""
    pause = 0.0005
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            if time.monotonic() > deadline:
                raise Unavailable(
                    f"{name} is held for too long: a stopped process must go on or be ended"
                ) from error
        else:
            return
        time.sleep(pause)
        pause = min(pause * 2, 0.02)


def _is_still(descriptor: int, name: str) -> bool:
    """Tell whether the locked file still has its name, so that all who lock it exclude us."""
    try:
        named = os.stat(name)
    except FileNotFoundError:
        return False
    return os.path.samestat(named, os.fstat(descriptor))
