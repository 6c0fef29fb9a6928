"""A line on a terminal that says how far a write is; nothing at all anywhere else.

Each step that takes a while has a line of its own, rewritten in place twice a second and closed
when the next step begins. Counts are of the step. Logs and files get no half lines.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final, TextIO

if TYPE_CHECKING:
    from collections.abc import Callable

    from lakehand.ports import Background, BackgroundTask, Clock

_REDRAW_S: Final = 0.5
_START_OF_LINE: Final = "\r"
_ERASE_REST: Final = "\x1b[K"


class Progress:
    """Shows the steps of a write, one after the other. One thread begins and ends them."""

    def __init__(
        self,
        stream: TextIO | None,
        clock: Clock,
        background: Background,
        *,
        what: str,
        columns: int = 80,
    ) -> None:
        """Write to ``stream`` if it is a terminal, lines no longer than ``columns``."""
        self._stream = stream if stream is not None and stream.isatty() else None
        self._clock = clock
        self._background = background
        self._what = what
        self._columns = columns
        self._ticker: BackgroundTask | None = None

    def step(self, text: str, rows_taken: Callable[[], int]) -> None:
        """Begin a step; the one before is done. ``rows_taken`` counts over all steps."""
        self.end()
        if self._stream is None:
            return
        self._step = text
        self._rows_taken = rows_taken
        self._rows_before = rows_taken()
        self._began = self._clock.monotonic()
        self._files = self._size = 0
        self._is_drawn = False
        self._ticker = self._background.every(_REDRAW_S, self._draw, name="lakehand-progress")

    def made(self, *, files: int, size: int) -> None:
        """Add what the step made; ``size`` in bytes."""
        if self._ticker is not None:
            self._files += files
            self._size += size

    def end(self) -> None:
        """Close the step's line, if it got one. Idempotent."""
        if self._ticker is None:
            return
        self._ticker.stop()
        self._ticker = None
        if self._is_drawn:
            self._draw()
            self._write("\n")

    def _draw(self) -> bool:
        self._is_drawn = True
        # The last column stays free: some terminals wrap when it is written.
        self._write(_START_OF_LINE + self._line()[: self._columns - 1] + _ERASE_REST)
        return True

    def _line(self) -> str:
        seconds = self._clock.monotonic() - self._began
        rows = self._rows_taken() - self._rows_before
        parts = [f"{self._what}: {self._step}:"]
        if rows:
            parts.append(f"{rows:,} rows")
        if self._files:
            parts.append(f"{self._files:,} file{'s' if self._files > 1 else ''}")
        if self._size:
            parts.append(f"{self._size / (1 << 20):,.1f} MB")
        if rows and seconds > 0:
            parts.append(f"{rows / seconds:,.0f} rows/s")
        return " ".join((*parts, f"{seconds:.0f} s"))

    def _write(self, text: str) -> None:
        """Write, as long as somebody is there: a terminal that is gone must not fail a write."""
        if self._stream is not None:
            with suppress(OSError, ValueError):
                self._stream.write(text)
                self._stream.flush()
