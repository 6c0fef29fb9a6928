"""The framing of Hudi's log files: blocks, found without reading what they hold.

::

    "#HUDI#"  int64 block length  int32 format version  int32 block type
    header    int64 content length  content  footer  int64 total length

All integers are big-endian. The block length counts what follows it, the total length what came
before it. A header is a count and pairs of a key's number and a text.

A writer may have died in the middle of a block, and another may have appended behind it. A block
therefore counts as whole only if it fits in the file, its total length agrees, and behind it the
file ends or the next block begins. Anything else is passed over up to the next magic and given
to the caller as a block of type CORRUPT, so that it is seen and can be counted.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from enum import IntEnum, unique
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from lakehand.errors import Corrupt, Invalid, LimitExceeded, Unsupported

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

MAGIC: Final = b"#HUDI#"
FORMAT_VERSION: Final = 1

_LENGTH: Final = struct.Struct(">q")
_PREFIX: Final = struct.Struct(">qii")  # block length, format version, block type
_INT: Final = struct.Struct(">i")
_PAIR: Final = struct.Struct(">ii")
_SMALLEST: Final = 4 + 4 + 4 + 8 + 4 + 8
"""A block's length with no header, content or footer entries."""
_WINDOW: Final = 1 << 20


@unique
class BlockType(IntEnum):
    """What a block holds."""

    COMMAND = 0
    DELETE = 1
    CORRUPT = 2
    """Never written: what the reader passed over."""
    AVRO_DATA = 3
    HFILE_DATA = 4
    PARQUET_DATA = 5
    CDC_DATA = 6
    """Changes for incremental queries; no part of a slice's rows."""


@unique
class HeaderKey(IntEnum):
    """The entries of a block's header."""

    INSTANT_TIME = 0
    TARGET_INSTANT_TIME = 1
    SCHEMA = 2
    COMMAND_BLOCK_TYPE = 3
    COMPACTED_BLOCK_TIMES = 4
    RECORD_POSITIONS = 5
    BLOCK_IDENTIFIER = 6
    IS_PARTIAL = 7
    BASE_FILE_INSTANT_TIME_OF_RECORD_POSITIONS = 8
    VERSION = 9


@dataclass(frozen=True, slots=True)
class LogLimits:
    """What guards memory against a broken or hostile log file."""

    max_content_bytes: int = 1 << 30
    """The largest content that is read at once, in bytes. Hudi's writers split at 256 MiB."""

    max_header_bytes: int = 64 << 20
    """The largest header, in bytes; it holds a schema and maybe a bitmap of positions."""


class _Source:
    """A file read at any place, with one window for the small reads along the way."""

    __slots__ = ("_base", "_file", "_window", "size")

    def __init__(self, source: pa.NativeFile | bytes) -> None:
        self._file = pa.BufferReader(source) if isinstance(source, bytes) else source
        self.size = int(self._file.size())
        self._base = 0
        self._window = b""

    def at(self, offset: int, length: int) -> bytes:
        """Return ``length`` bytes, reading ahead for what follows them."""
        held = self._held(offset, length)
        if held is None:
            self._window = self._read(offset, max(length, min(_WINDOW, self.size - offset)))
            self._base = offset
            held = self._window[:length]
        return held

    def exactly(self, offset: int, length: int) -> bytes:
        """Return ``length`` bytes without reading ahead."""
        held = self._held(offset, length)
        return self._read(offset, length) if held is None else held

    def _held(self, offset: int, length: int) -> bytes | None:
        start = offset - self._base
        if start < 0 or start + length > len(self._window):
            return None
        return self._window[start : start + length]

    def _read(self, offset: int, length: int) -> bytes:
        self._file.seek(offset)
        return self._file.read(length)


@dataclass(frozen=True, slots=True)
class LogBlock:
    """One block: its header is read, its content is fetched when asked for.

    ``offset`` is that of the block's magic in the file ``where``. Header keys of later Hudi
    versions are kept under their number.
    """

    type: BlockType
    header: Mapping[int, str]
    footer: Mapping[int, str]
    offset: int
    size: int
    content_offset: int
    content_length: int
    where: str
    limits: LogLimits = field(repr=False)
    _source: _Source = field(repr=False, compare=False)

    @property
    def instant_time(self) -> str | None:
        """The instant that wrote the block."""
        return self.header.get(HeaderKey.INSTANT_TIME)

    @property
    def target_instant_time(self) -> str | None:
        """The instant that a rollback command takes back."""
        return self.header.get(HeaderKey.TARGET_INSTANT_TIME)

    @property
    def schema(self) -> str | None:
        """The Avro schema of the records, with meta columns, as JSON."""
        return self.header.get(HeaderKey.SCHEMA)

    @property
    def compacted_block_times(self) -> tuple[str, ...]:
        """The instants whose blocks a log compaction merged into this one."""
        listed = self.header.get(HeaderKey.COMPACTED_BLOCK_TIMES)
        return tuple(time for time in listed.split(",") if time) if listed else ()

    @property
    def is_partial(self) -> bool:
        """Whether the records hold the changed columns only."""
        return self.header.get(HeaderKey.IS_PARTIAL, "").lower() == "true"

    @property
    def content(self) -> bytes:
        """The whole content, read anew each time."""
        return self.read()

    def read(self) -> bytes:
        """Return the whole content."""
        if self.content_length > self.limits.max_content_bytes:
            raise LimitExceeded(
                f"{self.where}, byte {self.offset}: a block of {self.content_length} bytes; the"
                f" limit is {self.limits.max_content_bytes}"
            )
        return self.read_range(0, self.content_length)

    def read_range(self, start: int, length: int) -> bytes:
        """Return ``length`` bytes of the content from ``start``."""
        if start < 0 or length < 0 or start + length > self.content_length:
            raise self.corrupt("the content ends early", start)
        content = self._source.exactly(self.content_offset + start, length)
        if len(content) != length:
            raise self.corrupt("the file ends early", start + len(content))
        return content

    def corrupt(self, problem: str, at: int = 0) -> Corrupt:
        """Return the error for a problem at a byte of the content."""
        return Corrupt(problem, where=self.where, offset=self.content_offset + at)


def read_blocks(
    source: pa.NativeFile | bytes, *, where: str, limits: LogLimits | None = None
) -> Iterator[LogBlock]:
    """Yield the blocks of a log file in their order; corrupt stretches are blocks too.

    The blocks read their content through ``source``, which must stay open as long.
    """
    limits = limits or LogLimits()
    file = _Source(source)
    offset = 0
    if file.size and file.at(0, min(file.size, len(MAGIC))) != MAGIC[: file.size]:
        raise Corrupt("not a log file: it does not begin with #HUDI#", where=where, offset=0)
    while offset < file.size:
        if _is_whole(file, offset):
            block = _read_block(file, offset, where, limits)
        else:
            block = _corrupt_block(file, offset, where, limits)
        yield block
        offset += block.size


def encode_block(block_type: BlockType, header: Mapping[HeaderKey, str], content: bytes) -> bytes:
    """Return a whole block; header entries keep the order of ``header``."""
    if block_type is BlockType.CORRUPT:
        raise Invalid("a corrupt block is found, not written")
    head = _encode_header(header)
    block_length = _SMALLEST - 4 + len(head) + len(content)
    return b"".join(
        (
            MAGIC,
            _PREFIX.pack(block_length, FORMAT_VERSION, block_type),
            head,
            _LENGTH.pack(len(content)),
            content,
            _encode_header({}),
            _LENGTH.pack(block_length + len(MAGIC)),
        )
    )


def _encode_header(header: Mapping[HeaderKey, str]) -> bytes:
    parts = [_INT.pack(len(header))]
    for key, text in header.items():
        encoded = text.encode()
        parts += (_PAIR.pack(key, len(encoded)), encoded)
    return b"".join(parts)


def _is_whole(file: _Source, offset: int) -> bool:
    """Apply the three tests of a whole block."""
    start = offset + len(MAGIC)
    if start + _LENGTH.size + _SMALLEST > file.size:
        return False
    (block_length,) = _LENGTH.unpack(file.at(start, _LENGTH.size))
    end = start + _LENGTH.size + block_length
    if block_length < _SMALLEST or end > file.size:
        return False
    tail = file.exactly(end - _LENGTH.size, min(_LENGTH.size + len(MAGIC), file.size - end + 8))
    (total_length,) = _LENGTH.unpack(tail[: _LENGTH.size])
    if total_length - len(MAGIC) != block_length:
        return False
    following = tail[_LENGTH.size :]
    # Too few bytes for a magic count as the file's end; they become a corrupt block of their own.
    return len(following) < len(MAGIC) or following == MAGIC


def _read_block(file: _Source, offset: int, where: str, limits: LogLimits) -> LogBlock:
    start = offset + len(MAGIC)
    block_length, version, number = _PREFIX.unpack(file.at(start, _PREFIX.size))
    if version != FORMAT_VERSION:
        raise Unsupported(f"{where}, byte {offset}: a log block of format version {version}")
    try:
        block_type = BlockType(number)
    except ValueError:
        raise Unsupported(f"{where}, byte {offset}: a log block of type {number}") from None
    end = start + _LENGTH.size + block_length
    header, at = _read_header(file, start + _PREFIX.size, end, where, limits)
    if at + _LENGTH.size > end:
        raise Corrupt("a block's header leaves no room", where=where, offset=at)
    (content_length,) = _LENGTH.unpack(file.at(at, _LENGTH.size))
    content_offset = at + _LENGTH.size
    if not 0 <= content_length <= end - _LENGTH.size - _INT.size - content_offset:
        raise Corrupt("a block's content is longer than its block", where=where, offset=at)
    footer, at = _read_header(file, content_offset + content_length, end, where, limits)
    if at != end - _LENGTH.size:
        raise Corrupt("a block's parts do not fill it", where=where, offset=at)
    size = end - offset
    return LogBlock(
        block_type,
        header,
        footer,
        offset,
        size,
        content_offset,
        content_length,
        where,
        limits,
        file,
    )


def _read_header(
    file: _Source, at: int, end: int, where: str, limits: LogLimits
) -> tuple[dict[int, str], int]:
    """Return the entries of a header or footer, and where it ends."""
    entries: dict[int, str] = {}
    begin = at
    if at + _INT.size > end:
        raise Corrupt("a block's header is cut off", where=where, offset=at)
    # A footer is the last thing that a block is asked for: the block may end right behind it.
    (count,) = _INT.unpack(file.exactly(at, _INT.size))
    at += _INT.size
    if not 0 <= count <= (end - at) // _PAIR.size:
        raise Corrupt(f"a block's header has {count} entries", where=where, offset=begin)
    for _ in range(count):
        if at + _PAIR.size > end:
            raise Corrupt("a block's header is cut off", where=where, offset=at)
        key, length = _PAIR.unpack(file.at(at, _PAIR.size))
        start = at + _PAIR.size
        if not 0 <= length <= end - start:
            raise Corrupt("a header entry runs past its block", where=where, offset=at)
        if start + length - begin > limits.max_header_bytes:
            raise LimitExceeded(
                f"{where}, byte {begin}: a header of more than {limits.max_header_bytes} bytes"
            )
        if key in entries:
            raise Corrupt(f"the header entry {key} comes twice", where=where, offset=at)
        try:
            entries[key] = file.at(start, length).decode()
        except UnicodeDecodeError as error:
            raise Corrupt("a header entry is not UTF-8", where=where, offset=start) from error
        at = start + length
    return entries, at


def _corrupt_block(file: _Source, offset: int, where: str, limits: LogLimits) -> LogBlock:
    end = _find_magic(file, offset + len(MAGIC))
    start = min(offset + len(MAGIC), end)
    return LogBlock(
        BlockType.CORRUPT, {}, {}, offset, end - offset, start, end - start, where, limits, file
    )


def _find_magic(file: _Source, start: int) -> int:
    """Return the offset of the next magic, or the file's size."""
    while start < file.size:
        piece = file.at(start, min(_WINDOW // 16, file.size - start))
        found = piece.find(MAGIC)
        if found >= 0:
            return start + found
        if start + len(piece) >= file.size:
            break
        start += len(piece) - len(MAGIC) + 1
    return file.size
