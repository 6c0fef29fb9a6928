"""What log blocks hold: records as Arrow batches, deletions, and the blocks to write them in.

Avro blocks are read a piece at a time, so that memory depends on ``batch_rows`` and not on the
size of the block. The records of a batch are decoded column by column (``avro_columns``).
"""

from __future__ import annotations

import struct
from io import BytesIO
from itertools import repeat
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from lakehand.errors import Invalid, LimitExceeded, Unsupported
from lakehand.formats import log_deletes
from lakehand.formats.avro.nodes import Record, refuse_choices
from lakehand.formats.avro.parsing import parse
from lakehand.formats.avro_columns import MAX_CELLS, Records, decode
from lakehand.formats.avro_encoding import encode_framed
from lakehand.formats.base_file import BaseFileOptions, BaseFileWriter
from lakehand.formats.log_file import BlockType, HeaderKey, LogBlock, encode_block
from lakehand.formats.untrusted_parquet import open_parquet, sound_batches

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    import numpy.typing as npt

    from lakehand.formats.log_deletes import Deletes

DATA_VERSION: Final = 3
_HEAD: Final = struct.Struct(">ii")
_LENGTH: Final = struct.Struct(">i")
_PIECE: Final = 16 << 20
"""How much of an Avro block is read at once, unless a record is longer."""


def read_data(
    block: LogBlock, *, columns: Collection[str] | None = None, batch_rows: int = 1 << 14
) -> Iterator[pa.RecordBatch]:
    """Yield the records of a data block in their order, at most ``batch_rows`` at a time.

    The default keeps a batch in the processor's caches, which is fastest.
    With ``columns``, only those of these that the block has; the order is the block's. A partial
    block (``block.is_partial``) gives the columns that it has.
    """
    match block.type:
        case BlockType.AVRO_DATA:
            yield from _read_avro(block, columns, batch_rows)
        case BlockType.PARQUET_DATA:
            yield from _read_parquet(block, columns, batch_rows)
        case BlockType.HFILE_DATA | BlockType.CDC_DATA:
            raise Unsupported(
                f"{block.where}, byte {block.offset}: records of a {block.type.name} block"
            )
        case BlockType.COMMAND | BlockType.DELETE | BlockType.CORRUPT:
            raise Invalid(f"{block.where}, byte {block.offset}: {block.type.name} holds no records")


def read_deletes(block: LogBlock) -> Deletes:
    """Return the entries of a delete block."""
    if block.type is not BlockType.DELETE:
        raise Invalid(f"{block.where}, byte {block.offset}: {block.type.name} holds no deletions")
    return log_deletes.decode(block)


def encode_avro_data(
    batches: Iterable[pa.RecordBatch],
    *,
    instant: str,
    schema: str,
    extra: Mapping[HeaderKey, str] | None = None,
) -> bytes:
    """Return a data block of Avro records; ``schema`` is Avro's and has the meta columns."""
    root = parse(schema, where="the schema to write")
    count = 0
    parts: list[bytes | memoryview] = [b""]
    for batch in batches:
        count += batch.num_rows
        parts.append(memoryview(encode_framed(batch, root)))
    parts[0] = _HEAD.pack(DATA_VERSION, count)
    return _data_block(BlockType.AVRO_DATA, b"".join(parts), instant, schema, extra)


def encode_parquet_data(
    batches: Iterable[pa.RecordBatch],
    *,
    instant: str,
    schema: str,
    options: BaseFileOptions | None = None,
    extra: Mapping[HeaderKey, str] | None = None,
) -> bytes:
    """Return a data block that is a Parquet file; ``schema`` is Avro's, for the header."""
    sink = BytesIO()
    arrow = parse(schema, where="the schema to write").arrow_schema()
    options = options or BaseFileOptions(bloom=None)
    with BaseFileWriter(sink, arrow, options=options, avro_schema=schema) as writer:
        for batch in batches:
            writer.write(_in_form(batch, arrow))
    return _data_block(BlockType.PARQUET_DATA, sink.getvalue(), instant, schema, extra)


def encode_deletes(
    deletes: Deletes,
    *,
    instant: str,
    schema: str | None = None,
    extra: Mapping[HeaderKey, str] | None = None,
) -> bytes:
    """Return a delete block. Java gives it the table's schema, but for a metadata table's first."""
    header = _header(instant, schema, extra)
    return encode_block(BlockType.DELETE, header, log_deletes.encode(deletes))


def encode_rollback_command(*, instant: str, target: str) -> bytes:
    """Return the block by which rollback ``instant`` takes back the blocks of ``target``."""
    header = {
        HeaderKey.TARGET_INSTANT_TIME: target,
        HeaderKey.COMMAND_BLOCK_TYPE: "0",
        HeaderKey.INSTANT_TIME: instant,
    }
    return encode_block(BlockType.COMMAND, header, b"")


def _header(
    instant: str, schema: str | None, extra: Mapping[HeaderKey, str] | None
) -> dict[HeaderKey, str]:
    header = {HeaderKey.INSTANT_TIME: instant}
    if schema is not None:
        header[HeaderKey.SCHEMA] = schema
    return header | dict(extra or {})


def _data_block(
    block_type: BlockType,
    content: bytes,
    instant: str,
    schema: str,
    extra: Mapping[HeaderKey, str] | None,
) -> bytes:
    # Java reads a block's content into one array.
    if len(content) >= 1 << 31:
        raise Invalid(f"a log block of {len(content)} bytes; write several of less than 2 GiB")
    return encode_block(block_type, _header(instant, schema, extra), content)


def _in_form(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return the batch with the schema's columns, in its order and of its types."""
    unknown = set(batch.schema.names) - set(schema.names)
    if unknown:
        raise Invalid(f"the schema to write has no column {min(unknown)}")
    columns: list[pa.Array[Any]] = []
    for field in schema:
        try:
            if field.name in batch.schema.names:
                columns.append(batch.column(field.name).cast(field.type))
            else:
                columns.append(pa.array([None] * batch.num_rows, field.type))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise Invalid(f"column {field.name} cannot be written: {error}") from error
        if columns[-1].null_count and not field.nullable:
            raise Invalid(f"column {field.name} holds nulls, and its schema has none")
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _read_avro(
    block: LogBlock, columns: Collection[str] | None, batch_rows: int
) -> Iterator[pa.RecordBatch]:
    left = _avro_count(block)
    root = _schema(block)
    rows = max(1, min(batch_rows, MAX_CELLS // root.cells))
    at, size = _HEAD.size, _PIECE
    while left:
        piece = block.read_range(at, min(size, block.content_length - at))
        size = _PIECE
        done = 0
        while left:
            edges = _record_ends(block, at, piece, done, min(rows, left))
            if edges.size == 1:
                break
            end = int(edges[-1])
            records = Records(
                memoryview(piece)[done:end],
                edges[:-1] + _LENGTH.size - done,
                edges[1:] - done,
                where=block.where,
                base=block.content_offset + at + done,
            )
            yield decode(records, root, columns)
            left -= edges.size - 1
            done = end
        at += done
        if not done and left:
            size = _room_for_one(block, at, piece)
    if at != block.content_length:
        raise block.corrupt("bytes follow the last record of a block", at)


def _avro_count(block: LogBlock) -> int:
    if block.content_length < _HEAD.size:
        raise block.corrupt("a data block without a count of records")
    version, count = _HEAD.unpack(block.read_range(0, _HEAD.size))
    if version != DATA_VERSION:
        raise Unsupported(
            f"{block.where}, byte {block.content_offset}: an Avro data block of version {version};"
            " compact the table with the Hudi version that wrote it"
        )
    if not 0 <= count <= (block.content_length - _HEAD.size) // _LENGTH.size:
        raise block.corrupt(f"a data block of {count} records", 4)
    return int(count)


def _schema(block: LogBlock) -> Record:
    if block.schema is None:
        raise block.corrupt("a data block without a schema")
    root = parse(block.schema, where=block.where)
    refuse_choices(root, where=block.where)
    return root


def _record_ends(
    block: LogBlock, at: int, piece: bytes, done: int, most: int
) -> npt.NDArray[np.int64]:
    """Return ``done`` and the ends of the whole records behind it in the piece."""
    ends = [done]
    append, unpack, end = ends.append, _LENGTH.unpack_from, done
    # One record's place depends on the one before, so this loop cannot be done column-wise; it
    # is half the cost of reading small records, and leaves all checks to numpy.
    try:
        for _ in repeat(None, most):
            end += unpack(piece, end)[0] + 4
            append(end)
    except struct.error:
        pass  # the next length lies behind the piece
    edges = np.array(ends, dtype=np.int64)
    wrong = np.flatnonzero(np.diff(edges) < _LENGTH.size)
    if wrong.size:
        raise block.corrupt("a record of less than no bytes", at + int(edges[wrong[0]]))
    return edges[:-1] if edges[-1] > len(piece) else edges


def _room_for_one(block: LogBlock, at: int, piece: bytes) -> int:
    """Return how much to read for the record at ``at``, which the piece does not hold whole."""
    rest = block.content_length - at
    if len(piece) < _LENGTH.size:
        raise block.corrupt("a data block ends before its last record", at)
    size = _LENGTH.size + int(_LENGTH.unpack_from(piece)[0])
    if size > rest:
        raise block.corrupt("a record runs past the end of its block", at)
    if size > block.limits.max_content_bytes:
        raise LimitExceeded(
            f"{block.where}, byte {block.content_offset + at}: a record of {size} bytes"
        )
    return size


def _read_parquet(
    block: LogBlock, columns: Collection[str] | None, batch_rows: int
) -> Iterator[pa.RecordBatch]:
    place = f"{block.where}, the block at byte {block.offset}"
    file = open_parquet(pa.BufferReader(block.read()), where=place)
    wanted = [name for name in file.schema_arrow.names if columns is None or name in columns]
    for batch in sound_batches(file, where=place, rows=batch_rows, columns=wanted):
        yield batch.replace_schema_metadata(None)
