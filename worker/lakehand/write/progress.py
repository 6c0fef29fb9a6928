"""One line on a terminal that says how far a write is; nothing at all anywhere else.

Each step has a line of its own, rewritten in place at most a few times a second and closed when
the next step begins. Counts are of the step. Logs and files get no half lines: a stream that is no
terminal is never written to.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TextIO

if TYPE_CHECKING:
    from collections.abc import Callable

_REDRAW_S: Final = 0.2
_START_OF_LINE: Final = "\r"
_ERASE_REST: Final = "\x1b[K"


class Progress:
    """Counts what is done and shows it. One thread uses it."""

    def __init__(
        self, stream: TextIO, monotonic: Callable[[], float], *, columns: int = 80
    ) -> None:
        """Write to ``stream`` if it is a terminal, lines no longer than ``columns``."""
        self._stream = stream if stream.isatty() else None
        self._monotonic = monotonic
        self._columns = columns
        self._step = ""
        self._begin()

    def _begin(self) -> None:
        self._started = self._drawn = self._monotonic()
        self._rows = self._files = self._size = 0

    def step(self, text: str) -> None:
        """Begin a step; the one before is done."""
        self.done()
        self._step = text
        self._begin()
        self._draw()

    def advance(self, *, rows: int = 0, files: int = 0, size: int = 0) -> None:
        """Add what was done; ``size`` in bytes."""
        self._rows += rows
        self._files += files
        self._size += size
        if self._monotonic() - self._drawn >= _REDRAW_S:
            self._draw()

    def done(self) -> None:
        """Close the step's line. Idempotent."""
        if self._step:
            self._draw()
            self._step = ""
            self._write("\n")

    def _draw(self) -> None:
        self._drawn = self._monotonic()
        # The last column stays free: some terminals wrap when it is written.
        self._write(_START_OF_LINE + self._line()[: self._columns - 1] + _ERASE_REST)

    def _line(self) -> str:
        seconds = self._drawn - self._started
        parts = [f"{self._step}:"]
        if self._rows:
            parts.append(f"{self._rows:,} rows")
        if self._files:
            parts.append(f"{self._files:,} files")
        if self._size:
            parts.append(f"{self._size / (1 << 20):,.1f} MB")
        if self._rows and seconds > 0:
            parts.append(f"{self._rows / seconds:,.0f} rows/s")
        return " ".join((*parts, f"{seconds:.0f} s"))

    def _write(self, text: str) -> None:
        if self._stream is not None:
            self._stream.write(text)
            self._stream.flush()
