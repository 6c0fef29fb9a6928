"""Rename that never replaces: one system call, so that a name appears at most once.

``link`` followed by ``unlink`` is not the same: between the two steps the content has two names,
and a process that pauses there makes the name appear again later. Python has no binding for the
calls that are (Linux ``renameat2`` with ``RENAME_NOREPLACE``, macOS ``renamex_np`` with
``RENAME_EXCL``), so they are called through ctypes, which releases the interpreter lock.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import sys
from typing import TYPE_CHECKING

from lakehand.errors import Unsupported

if TYPE_CHECKING:
    from collections.abc import Callable

_AT_FDCWD = -100
_RENAME_NOREPLACE = 1
_RENAME_EXCL = 4
_RENAMEAT2_NUMBERS = {"x86_64": 316, "aarch64": 276, "ppc64le": 357, "s390x": 347, "riscv64": 276}
_NOT_OFFERED = (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP)


def _system_call() -> Callable[[bytes, bytes], int] | None:
    """Return the platform's exclusive rename, or None if it has none."""
    library = ctypes.CDLL(None, use_errno=True)
    if sys.platform == "darwin":
        if not hasattr(library, "renamex_np"):
            return None
        return lambda old, new: int(library.renamex_np(old, new, ctypes.c_uint(_RENAME_EXCL)))
    if hasattr(library, "renameat2"):
        return lambda old, new: int(
            library.renameat2(_AT_FDCWD, old, _AT_FDCWD, new, ctypes.c_uint(_RENAME_NOREPLACE))
        )
    number = _RENAMEAT2_NUMBERS.get(platform.machine()) if sys.platform == "linux" else None
    if number is None:
        return None
    return lambda old, new: int(
        library.syscall(
            ctypes.c_long(number), _AT_FDCWD, old, _AT_FDCWD, new, ctypes.c_uint(_RENAME_NOREPLACE)
        )
    )


_RENAME = _system_call()


def rename_exclusively(old: str, new: str) -> None:
    """Rename ``old`` to ``new``; raise ``FileExistsError`` if ``new`` is there.

    Raises ``FileNotFoundError`` when ``old`` or the folder of ``new`` is missing, and
    ``Unsupported`` where the platform or the file system has no such call.
    """
    number = errno.ENOSYS
    if _RENAME is not None:
        if _RENAME(os.fsencode(old), os.fsencode(new)) == 0:
            return
        number = ctypes.get_errno()
    if number in _NOT_OFFERED:
        raise Unsupported(
            f"the file system at {os.path.dirname(new)} cannot rename without replacing "
            f"({os.strerror(number)}): writers could overwrite each other's files. Keep the table "
            "on a local Linux or macOS file system, or in an object store"
        )
    raise OSError(number, os.strerror(number), new)
