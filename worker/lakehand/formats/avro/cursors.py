"""One cursor per record, moved together: Avro's primitives read for thousands of records at once.

Avro has no index, so a reader must walk every record from its start. Here the walk goes column
by column over all records: each step reads the same field of every record with a handful of
numpy operations. Every cursor is bounded by the end of its own record, and the bytes carry
zeros at both ends, so that a step may look a few bytes too far before the bound is checked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from lakehand.errors import Corrupt, LimitExceeded

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Self

Integers: TypeAlias = npt.NDArray[np.int64]
Words: TypeAlias = npt.NDArray[np.uint64]
Bytes: TypeAlias = npt.NDArray[np.uint8]
Mask: TypeAlias = npt.NDArray[np.bool_]

FRONT: Final = 32
BACK: Final = 16
MAX_BYTES: Final = (1 << 31) - (1 << 16)
"""Offsets into one piece of content are Arrow's 32-bit offsets."""

_U = np.uint64
_STOP_BITS: Final = _U(0x8080808080808080)
_INT_MIN: Final = -(1 << 31)
_INT_MAX: Final = (1 << 31) - 1


class Content:
    """The bytes of some records, padded, with what an error needs to name the place."""

    __slots__ = ("_scalar", "base", "data", "skippers", "where", "words")

    def __init__(self, content: bytes | memoryview | Bytes, *, base: int, where: str) -> None:
        """Copy ``content``; ``base`` is the offset in the file ``where`` of its first byte."""
        source = np.frombuffer(content, dtype=np.uint8)
        if source.size > MAX_BYTES:
            raise LimitExceeded(f"{where}: {source.size} bytes of records at once")
        self.data: Bytes = np.zeros(FRONT + source.size + BACK, dtype=np.uint8)
        self.data[FRONT : FRONT + source.size] = source
        self.words: Words = np.ndarray(
            shape=(self.data.size - 7,), dtype="<u8", buffer=self.data.data, strides=(1,)
        )
        self.base = base - FRONT
        self.where = where
        self._scalar: bytes | None = None
        self.skippers: dict[int, Callable[[int, int], int]] = {}
        """The functions of ``walk`` that pass one value, by the identity of their node."""

    @property
    def scalar(self) -> bytes:
        """The same bytes for a walk of single values, which numpy is slow at."""
        if self._scalar is None:
            self._scalar = self.data.tobytes()
        return self._scalar

    def corrupt(self, problem: str, position: int) -> Corrupt:
        """Return the error for ``problem`` at a position in ``data``."""
        return Corrupt(problem, where=self.where, offset=self.base + int(position))


class Cursors:
    """Positions in one ``Content``, each with the end that it must not pass."""

    __slots__ = ("content", "ends", "positions")

    def __init__(self, content: Content, positions: Integers, ends: Integers) -> None:
        """Positions and ends count from the first byte of ``content.data``."""
        self.content = content
        self.positions = positions
        self.ends = ends

    def __len__(self) -> int:
        return int(self.positions.size)

    def select(self, rows: npt.NDArray[Any]) -> Self:
        """Return cursors for some of the rows; ``put_back`` returns where they came to."""
        return type(self)(self.content, self.positions[rows], self.ends[rows])

    def put_back(self, rows: npt.NDArray[Any], moved: Cursors) -> None:
        """Let the ``rows`` stand where the selection came to.

        Changes ``positions`` in place: the caller must know that nobody else holds that array,
        as after any read, which makes a new one.
        """
        self.positions[rows] = moved.positions

    def refuse(self, bad: Mask, problem: str, at: Integers | None = None) -> None:
        """Raise ``Corrupt`` for the first row that is bad, if any."""
        if bad.any():
            row = int(np.argmax(bad))
            places = self.positions if at is None else at
            raise self.content.corrupt(problem, int(places[row]))

    def longs(self) -> Integers:
        """Read a zigzag integer from every row."""
        start = self.positions
        if start.size == 0:
            return np.zeros(0, dtype=np.int64)
        first = self.content.data[start]
        if first.max() < 0x80:
            raw = first.astype(np.uint64)
            end = start + 1
        else:
            raw, end = self._wide_varints(start)
        self.refuse(end > self.ends, "an Avro integer runs past the end of its record", start)
        self.positions = end
        magnitude = (raw >> _U(1)).view(np.int64)
        return magnitude ^ -(raw & _U(1)).view(np.int64)

    def _wide_varints(self, start: Integers) -> tuple[Words, Integers]:
        words = self.content.words[start]
        stops = ~words & _STOP_BITS
        stop = stops & (~stops + _U(1))
        raw = _squeeze(words & (stop | (stop - _U(1))))
        # The exponent of a power of two as a float is its bit's number: 8 * bytes - 1.
        end = start + (((stop.astype(np.float64).view(np.int64) >> 52) - 1022) >> 3)
        long = np.flatnonzero(stops == 0)
        if long.size:
            raw[long], end[long] = self._long_varints(start[long], words[long])
        return raw, end

    def _long_varints(self, start: Integers, words: Words) -> tuple[Words, Integers]:
        ninth = self.content.data[start + 8].astype(np.uint64)
        tenth = self.content.data[start + 9].astype(np.uint64)
        longest = ninth >= 0x80
        overlong = longest & (tenth > 1)
        self.refuse(overlong, "an Avro integer does not fit in 64 bits", start)
        raw = _squeeze(words) | ((ninth & _U(0x7F)) << _U(56))
        raw |= np.where(longest, tenth << _U(63), _U(0))
        return raw, start + np.where(longest, 10, 9)

    def ints(self) -> npt.NDArray[np.int32]:
        """Read a zigzag integer of 32 bits from every row."""
        start = self.positions
        values = self.longs()
        wrong = (values < _INT_MIN) | (values > _INT_MAX)
        self.refuse(wrong, "an Avro int does not fit in 32 bits", start)
        return values.astype(np.int32)

    def choices(self, count: int, what: str) -> npt.NDArray[np.int64]:
        """Read an index below ``count`` from every row."""
        start = self.positions
        values = self.longs()
        self.refuse((values < 0) | (values >= count), f"there is no such {what}", start)
        return values

    def spans(self) -> tuple[Integers, Integers]:
        """Pass a length and as many bytes in every row; return where those begin and end."""
        before = self.positions
        lengths = self.longs()
        wrong = (lengths < 0) | (lengths > self.ends - self.positions)
        self.refuse(wrong, "a length runs past the end of its record", before)
        start = self.positions
        self.positions = start + lengths
        return start, self.positions

    def skip(self, size: int) -> Integers:
        """Pass ``size`` bytes in every row; return where they begin."""
        start = self.positions
        self.refuse(start > self.ends - size, f"{size} bytes run past the end of their record")
        self.positions = start + size
        return start


def _squeeze(words: Words) -> Words:
    """Close the gaps that the continuation bits leave: eight groups of 7 bits become 56."""
    x = words & _U(0x7F7F7F7F7F7F7F7F)
    x = (x & _U(0x007F007F007F007F)) | ((x & _U(0x7F007F007F007F00)) >> _U(1))
    x = (x & _U(0x00003FFF00003FFF)) | ((x & _U(0x3FFF00003FFF0000)) >> _U(2))
    return (x & _U(0x0000000FFFFFFF)) | ((x & _U(0x0FFFFFFF00000000)) >> _U(4))
