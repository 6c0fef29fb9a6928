"""Bloom filters of record keys, as Hudi keeps them in the footers of base files.

Java's BLOOM index asks each file's filter whether a key may be inside before it opens the file,
so a filter of ours must have Java's very bits. There are two kinds:

* ``SIMPLE``: one bit vector, made for an expected number of keys;
* ``DYNAMIC_V0``: rows of such vectors. Each row takes ``entries`` keys, in order of insertion,
  until the rows together would hold ``max_entries``; from there on keys are dealt out over the
  rows in turn, and the promised rate of false positives no longer holds.

A vector is big-endian ``int -1, int hashes, byte 1, int bits, bytes``, bit *i* in byte ``i // 8``
at position ``i % 8``; a dynamic filter puts ``int -1, int hashes, byte 1, int bits, int entries,
int records, int rows`` in front, where ``records`` counts the keys of the last row (and all that
came after it was full). The footer holds it as base64.

The hash is Hadoop's variant of MurmurHash 2, chained: each round's result is the next round's
seed. Everything below works on whole Arrow arrays: the words of all keys are laid out in columns,
so that one NumPy call serves the j-th word of every key long enough to have one.
"""

from __future__ import annotations

import base64
import binascii
import math
import struct
from dataclasses import dataclass
from enum import Enum, unique
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from lakehand.errors import Corrupt, Invalid, LimitExceeded, Unsupported

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Self

    from numpy.typing import NDArray

    Keys = pa.Array[Any] | pa.ChunkedArray[Any]
    Words = NDArray[np.uint32]

_HEAD = struct.Struct(">iibi")
_DYNAMIC_TAIL = struct.Struct(">iii")
_VERSION = -1
_MURMUR = 1
_MULTIPLIER = np.uint32(0x5BD1E995)
_CHUNK_KEYS = 65_536
"""Keys hashed at a time: fewer, and the calls cost more; more, and the cache is too small."""

_FIRST_HASHES = 4
_MOST_HASHES = 1_100
"""The smallest rate that a double can hold asks for 1,075 hashes."""

_MOST_BITS = 1 << 28
"""Bits of one vector that we make: 6 million keys at Hudi's default rate. A byte each while the
filter is being made."""

_MOST_TEXT = 1 << 28


@unique
class BloomKind(Enum):
    """Which filter; the values are Hudi's words in footers."""

    SIMPLE = "SIMPLE"
    DYNAMIC = "DYNAMIC_V0"


@dataclass(frozen=True, slots=True)
class BloomSettings:
    """How large a filter is made; the defaults are Hudi's."""

    kind: BloomKind = BloomKind.DYNAMIC

    entries: int = 60_000
    """Keys expected (SIMPLE) or keys per row (DYNAMIC): ``hoodie.index.bloom.num_entries``."""

    false_positive_rate: float = 1e-9
    """The promised rate, between 0 and 1: ``hoodie.index.bloom.fpp``."""

    max_entries: int = 100_000
    """Keys up to which a dynamic filter grows:
    ``hoodie.bloom.index.filter.dynamic.max.entries``."""

    def __post_init__(self) -> None:
        if self.entries < 1 or not 0 < self.false_positive_rate < 1:
            raise Invalid("a bloom filter needs entries >= 1 and a rate between 0 and 1")
        if self.vector_bits > _MOST_BITS:
            raise LimitExceeded(
                f"a bloom filter for {self.entries} entries at {self.false_positive_rate} needs"
                f" {self.vector_bits} bits (limit {_MOST_BITS}): expect fewer entries"
            )

    @property
    def vector_bits(self) -> int:
        """The size of one vector, by Java's arithmetic (the order of operations matters)."""
        ln2_squared = math.log(2) * math.log(2)
        return math.ceil(self.entries * (-math.log(self.false_positive_rate) / ln2_squared))

    @property
    def hashes(self) -> int:
        """The number of bits that each key sets."""
        return math.ceil(math.log(2) * self.vector_bits / self.entries)


@dataclass(frozen=True, slots=True)
class BloomFilter:
    """A filter as it stands in a footer; equal filters have equal bytes."""

    kind: BloomKind
    vector_bits: int
    hashes: int
    rows: tuple[bytes, ...]
    """Each row's bits; exactly one row for SIMPLE."""

    entries: int = 0
    """Keys per row; DYNAMIC only."""

    records: int = 0
    """Keys in the last row, and all that came when it was full; DYNAMIC only."""

    def might_contain(self, keys: Keys) -> pa.BooleanArray:
        """Return for each key False if it is surely absent, True if it may be there."""
        found = np.zeros(len(keys), dtype=np.bool_)
        at = 0
        for chunk in _chunks(keys):
            found[at : at + len(chunk)] = self._might_contain(chunk)
            at += len(chunk)
        return pa.array(found)

    def _might_contain(self, chunk: pa.Array[Any]) -> NDArray[np.bool_]:
        """Answer for some keys: a few bits turn most absent keys away before all are hashed."""
        vectors = [np.frombuffer(row, dtype=np.uint8) for row in self.rows]
        found = np.ones(len(chunk), dtype=np.bool_)
        for hashes in (min(_FIRST_HASHES, self.hashes), self.hashes):
            left = np.flatnonzero(found)
            if not len(left):
                break
            asked = chunk if len(left) == len(chunk) else chunk.take(left)
            hashed = _HashedKeys.of(asked, self.vector_bits)
            found[left[hashed.order]] = _members(vectors, hashed, hashes)
        return found

    def to_footer(self) -> bytes:
        """Return the filter as base64, the value of the footer's entry."""
        head = _HEAD.pack(_VERSION, self.hashes, _MURMUR, self.vector_bits)
        parts = [head + row for row in self.rows]
        if self.kind is BloomKind.DYNAMIC:
            parts.insert(0, head + _DYNAMIC_TAIL.pack(self.entries, self.records, len(self.rows)))
        return base64.b64encode(b"".join(parts))


def parse(footer: bytes, kind: BloomKind, *, where: str) -> BloomFilter:
    """Return the filter that a footer's entry (base64) holds."""
    if len(footer) > _MOST_TEXT:
        raise LimitExceeded(f"{where}: a bloom filter of {len(footer)} bytes (limit {_MOST_TEXT})")
    try:
        data = memoryview(base64.b64decode(footer, validate=True))
    except binascii.Error as error:
        raise Corrupt(f"the bloom filter is not base64: {error}", where=where) from error
    hashes, bits = _parse_head(data, 0, where=where)
    if kind is BloomKind.SIMPLE:
        row, end = _parse_row(data, 0, hashes, bits, where=where)
        _require_end(data, end, where=where)
        return BloomFilter(kind, bits, hashes, (row,))
    at = _HEAD.size + _DYNAMIC_TAIL.size
    if len(data) < at:
        raise Corrupt("the bloom filter is cut off", where=where, offset=len(data))
    entries, records, row_count = _DYNAMIC_TAIL.unpack_from(data, _HEAD.size)
    row_size = _HEAD.size + (bits + 7) // 8
    if entries < 1 or records < 0 or row_count < 1 or row_count * row_size != len(data) - at:
        raise Corrupt(
            f"a bloom filter of {row_count} rows of {row_size} bytes ({entries} entries,"
            f" {records} records) does not fit {len(data)} bytes",
            where=where,
        )
    rows = []
    for _ in range(row_count):
        row, at = _parse_row(data, at, hashes, bits, where=where)
        rows.append(row)
    return BloomFilter(kind, bits, hashes, tuple(rows), entries, records)


def _parse_head(data: memoryview, at: int, *, where: str) -> tuple[int, int]:
    """Return the number of hashes and of bits from the head of a filter or a row."""
    if len(data) - at < _HEAD.size:
        raise Corrupt("the bloom filter is cut off", where=where, offset=at)
    version, hashes, hash_type, bits = _HEAD.unpack_from(data, at)
    if version > 0 or (version == _VERSION and hash_type == 0):
        raise Unsupported(
            f"{where}: a bloom filter with Jenkins hashes, as only very old writers made it:"
            " rewrite the file (clustering or compaction does)"
        )
    if version != _VERSION or hash_type != _MURMUR:
        raise Corrupt(f"bloom version {version}, hash type {hash_type}", where=where, offset=at)
    if not (0 < hashes <= _MOST_HASHES and bits > 0):
        raise Corrupt(f"bloom of {bits} bits, {hashes} hashes", where=where, offset=at)
    return hashes, bits


def _parse_row(
    data: memoryview, at: int, hashes: int, bits: int, *, where: str
) -> tuple[bytes, int]:
    """Return the bits of the row at ``at``, whose head must agree, and where it ends."""
    if _parse_head(data, at, where=where) != (hashes, bits):
        raise Corrupt("the rows of the bloom filter differ in size", where=where, offset=at)
    start = at + _HEAD.size
    end = start + (bits + 7) // 8
    if end > len(data):
        raise Corrupt("the bloom filter is cut off", where=where, offset=len(data))
    return bytes(data[start:end]), end


def _require_end(data: memoryview, end: int, *, where: str) -> None:
    if end != len(data):
        raise Corrupt("bytes follow the bloom filter", where=where, offset=end)


def build(keys: Keys, settings: BloomSettings) -> BloomFilter:
    """Return the filter of ``keys``, inserted in their order."""
    return BloomBuilder(settings).add(keys).finish()


class BloomBuilder:
    """Collects keys, batch by batch, into the filter that Java would have made of them."""

    def __init__(self, settings: BloomSettings) -> None:
        self._settings = settings
        self._bits = settings.vector_bits
        self._hashes = settings.hashes
        self._added = 0
        self._row_count = 1
        # A byte per bit, row behind row: setting bits scattered over packed bytes, or over
        # arrays of their own, is many times slower.
        self._rows = np.zeros(self._bits, dtype=np.uint8)

    @property
    def held_bytes(self) -> int:
        """The memory that the filter takes while it is being made."""
        return len(self._rows)

    def add(self, keys: Keys) -> Self:
        """Insert the keys in their order."""
        for chunk in _chunks(keys):
            hashed = _HashedKeys.of(chunk, self._bits)
            row_starts: NDArray[np.int64] | int = 0
            if self._settings.kind is BloomKind.DYNAMIC:
                row_of_key = self._row_of(self._added + hashed.order)
                self._make_room(int(row_of_key.max(initial=0)) + 1)
                row_starts = row_of_key * self._bits
            for positions in hashed.rounds(self._hashes):
                np.add(positions, row_starts, out=positions)
                self._rows[positions] = 1
            self._added += len(chunk)
        return self

    def _make_room(self, row_count: int) -> None:
        self._row_count = max(self._row_count, row_count)
        if row_count * self._bits > len(self._rows):
            grown = np.zeros(max(row_count * self._bits, 2 * len(self._rows)), dtype=np.uint8)
            grown[: len(self._rows)] = self._rows
            self._rows = grown

    def _row_of(self, ordinals: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return which row takes the n-th key ever inserted.

        When all rows are full, the next key goes to row 0 and only then does the dealing start,
        with row 0 again: Java's order, kept.
        """
        entries = self._settings.entries
        row_count = max(1, -(-self._settings.max_entries // entries))
        overflow = ordinals - row_count * entries
        dealt = np.maximum(overflow - 1, 0) % row_count
        return np.where(overflow < 0, ordinals // entries, dealt)

    def finish(self) -> BloomFilter:
        """Return the filter of everything added so far."""
        used = self._rows[: self._row_count * self._bits].reshape(self._row_count, self._bits)
        rows = tuple(np.packbits(row, bitorder="little").tobytes() for row in used)
        kind = self._settings.kind
        if kind is BloomKind.SIMPLE:
            return BloomFilter(kind, self._bits, self._hashes, rows)
        entries = self._settings.entries
        records = self._added - (len(rows) - 1) * entries
        return BloomFilter(kind, self._bits, self._hashes, rows, entries, records)


def _members(
    vectors: list[NDArray[np.uint8]], hashed: _HashedKeys, hashes: int
) -> NDArray[np.bool_]:
    """Return which keys have all their bits set in at least one of the vectors."""
    found = np.ones((len(vectors), len(hashed.order)), dtype=np.bool_)
    for positions in hashed.rounds(hashes):
        byte, bit = positions >> 3, (positions & 7).astype(np.uint8)
        for number, vector in enumerate(vectors):
            found[number] &= ((vector[byte] >> bit) & 1).astype(np.bool_)
    in_one: NDArray[np.bool_] = np.logical_or.reduce(found)
    return in_one


def _chunks(keys: Keys) -> Iterator[pa.Array[Any]]:
    """Yield the keys in their order, as bytes, in runs that are hashed at once."""
    for chunk in keys.chunks if isinstance(keys, pa.ChunkedArray) else [keys]:
        binary = chunk.cast(pa.large_binary())
        if binary.null_count:
            raise Invalid("a record key is null: Hudi's record keys never are")
        for start in range(0, len(binary), _CHUNK_KEYS):
            yield binary[start : start + _CHUNK_KEYS]


@dataclass(frozen=True, slots=True)
class _HashedKeys:
    """Some keys, laid out for hashing."""

    order: NDArray[np.int64]
    """Which key each place is of: the longest first, so that those that still have a j-th word
    are always a prefix."""
    lengths: Words
    words: list[Words]
    tails: Words
    tail_factors: Words
    vector_bits: int

    @classmethod
    def of(cls, keys: pa.Array[Any], vector_bits: int) -> _HashedKeys:
        _, offset_buffer, data_buffer = keys.buffers()
        offsets = np.frombuffer(memoryview(offset_buffer or b""), dtype=np.int64)[keys.offset :][
            : len(keys) + 1
        ]
        lengths = np.diff(offsets)
        if not lengths.all():
            raise Invalid("a record key is empty: Hudi's record keys never are")
        data = np.frombuffer(memoryview(data_buffer or b""), dtype=np.uint8)
        if len(lengths) and (lengths == lengths[0]).all():
            order = np.arange(len(lengths))
            words = _words_of_equals(data[offsets[0] : offsets[-1]].reshape(len(lengths), -1))
        else:
            order = np.argsort(-lengths, kind="stable")
            words = _words(data, offsets[:-1][order], lengths[order])
        tails, tail_factors = _tails(data, offsets[:-1][order], lengths[order])
        lengths_32 = lengths[order].astype(np.uint32)
        return cls(order, lengths_32, words, tails, tail_factors, vector_bits)

    def rounds(self, hashes: int) -> Iterator[NDArray[np.int64]]:
        """Yield for each hash in turn the bit that each key sets.

        All turns share one array, which stays in the processor's cache: it is the taker's until
        the next turn.
        """
        seed = np.zeros(len(self.lengths), dtype=np.uint32)
        magnitude, multiple = np.empty_like(seed), np.empty_like(seed)
        # NumPy turns any other type into this one before it looks bits up.
        positions = np.empty(len(seed), dtype=np.int64)
        bits = np.uint32(self.vector_bits)
        for _ in range(hashes):
            np.bitwise_xor(seed, self.lengths, out=seed)
            _murmur_round(seed, self.words, self.tails, self.tail_factors)
            # |seed| of the signed number: Java takes the remainder first, which is the same.
            np.abs(seed.view(np.int32), out=magnitude.view(np.int32))
            # NumPy divides many numbers at once, but has no such remainder.
            np.floor_divide(magnitude, bits, out=multiple)
            np.multiply(multiple, bits, out=multiple)
            np.subtract(magnitude, multiple, out=positions)
            yield positions


def _murmur_round(state: Words, columns: list[Words], tails: Words, tail_factors: Words) -> None:
    """Run one MurmurHash over the words prepared; ``state`` is seed xor length, then the hash."""
    for column in columns:
        active = state[: len(column)]
        np.multiply(active, _MULTIPLIER, out=active)
        np.bitwise_xor(active, column, out=active)
    np.bitwise_xor(state, tails, out=state)
    np.multiply(state, tail_factors, out=state)
    state ^= state >> np.uint32(13)
    np.multiply(state, _MULTIPLIER, out=state)
    state ^= state >> np.uint32(15)


def _words(
    data: NDArray[np.uint8], starts: NDArray[np.int64], lengths: NDArray[np.int64]
) -> list[Words]:
    """Return for each word position the scrambled words of the keys that have one."""
    words = lengths // 4
    columns = []
    for number in range(int(words[0]) if len(words) else 0):
        active = int(np.searchsorted(-words, -number, side="left"))
        at = starts[:active] + 4 * number
        word = data[at].astype(np.uint32)
        for byte in (1, 2, 3):
            word |= data[at + byte].astype(np.uint32) << np.uint32(8 * byte)
        columns.append(_scrambled(word))
    return columns


def _words_of_equals(keys: NDArray[np.uint8]) -> list[Words]:
    """Return the same of keys of one length, a key a row: most tables' keys are such."""
    whole = keys.shape[1] // 4
    words = np.ascontiguousarray(keys[:, : 4 * whole]).view("<u4")
    return [_scrambled(words[:, number].astype(np.uint32)) for number in range(whole)]


def _scrambled(words: Words) -> Words:
    """Do what does not depend on the seed, once for all rounds."""
    words *= _MULTIPLIER
    words ^= words >> np.uint32(24)
    words *= _MULTIPLIER
    return words


def _tails(
    data: NDArray[np.uint8], starts: NDArray[np.int64], lengths: NDArray[np.int64]
) -> tuple[Words, Words]:
    """Return what the one to three bytes after the last word add, and by what they multiply.

    Hadoop takes these bytes as signed, and the last byte as the lowest. A key without such bytes
    is not multiplied for them.
    """
    left = lengths % 4
    ends = starts + lengths
    signed = data.view(np.int8)
    tails = np.zeros(len(lengths), dtype=np.int32)
    for back in (1, 2, 3):
        has = left >= back
        tails[has] ^= signed[ends[has] - back].astype(np.int32) << (8 * (back - 1))
    return tails.view(np.uint32), np.where(left > 0, _MULTIPLIER, np.uint32(1))
