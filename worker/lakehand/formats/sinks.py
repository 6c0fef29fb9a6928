"""Where files are written to: anything that takes bytes, wrapped for PyArrow's writers."""

from __future__ import annotations

from typing import Protocol


class Sink(Protocol):
    """Where a file's bytes go: a staged writer, a buffer, an open file."""

    def write(self, data: bytes | memoryview, /) -> int:
        """Append ``data``."""


class CountingSink:
    """What PyArrow writes to: counts, and never closes what belongs to the caller."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self.count = 0
        self.closed = False
        self.deaf = False
        """Set when the file was given up: PyArrow's closing words go nowhere."""

    def write(self, data: bytes | memoryview) -> int:
        """Pass ``data`` on whole."""
        if not self.deaf:
            self._sink.write(data)
        self.count += len(data)
        return len(data)

    def tell(self) -> int:
        """Return how much was written."""
        return self.count

    def flush(self) -> None:
        """Do nothing: the caller's ``close`` makes the file durable."""

    def close(self) -> None:
        """Mark the end of writing."""
        self.closed = True

    def readable(self) -> bool:
        """Return False: a sink only."""
        return False

    def writable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return False: staged files are streams."""
        return False
