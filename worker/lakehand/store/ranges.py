"""Random access to an object that can only be fetched by ranges, for PyArrow's readers.

PyArrow asks for what it wants (a footer, the chunks of a column), so nothing is fetched that was
not asked for, except that small reads in sequence, which is how log files are read, are served
from a window that grows with the length of the sequence.
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_FIRST_WINDOW = 64 * 1024
_LARGEST_WINDOW = 8 * 1024 * 1024


class RangeFile(io.RawIOBase):
    """A readable, seekable file over ``fetch(start, end) -> bytes``."""

    def __init__(self, size: int, fetch: Callable[[int, int], bytes]) -> None:
        self._size = size
        self._fetch = fetch
        self._position = 0
        self._window_start = 0
        self._window = b""
        self._reach = _FIRST_WINDOW

    def readable(self) -> bool:
        """Say that it can be read, and not written."""
        return True

    def seekable(self) -> bool:
        """Say that it has a position."""
        return True

    def tell(self) -> int:
        """Return the position."""
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Move the position; nothing is fetched."""
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        if start + offset < 0:
            raise ValueError("a position before the beginning")
        self._position = start + offset
        return self._position

    def read(self, length: int = -1) -> bytes:
        """Return ``length`` bytes, fewer only at the end."""
        left = max(0, self._size - self._position)
        length = left if length is None or length < 0 else min(length, left)
        if length == 0:
            return b""
        start = self._position
        offset = start - self._window_start
        if not 0 <= offset <= offset + length <= len(self._window):
            self._refill(start, length)
            offset = start - self._window_start
        self._position = start + length
        return self._window[offset : offset + length]

    def _refill(self, start: int, length: int) -> None:
        is_sequence = self._window_start <= start <= self._window_start + len(self._window)
        self._reach = min(self._reach * 2, _LARGEST_WINDOW) if is_sequence else _FIRST_WINDOW
        end = min(self._size, start + max(length, self._reach))
        self._window, self._window_start = b"", start  # the old one goes before the new one comes
        self._window = self._fetch(start, end)

    def close(self) -> None:
        """Drop the window."""
        self._window = b""
        super().close()
