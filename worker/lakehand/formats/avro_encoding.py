"""Arrow columns → Avro records, many records at a time.

Every column is turned into *pieces*: Arrow arrays that hold, for each row, the bytes that this
part of the record takes. A string, for example, is two pieces: its branch and length, and its
own bytes, which are not copied. At the end Arrow joins the pieces row by row. The items of an
array are joined first, as rows of their own; being neighbours, they are then one piece per row.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, assert_never

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakehand.errors import Invalid, Unsupported
from lakehand.formats.avro import decimals
from lakehand.formats.avro.memory import (
    Column,
    array_over,
    buffer_of,
    nulls,
    numbers,
    places,
)
from lakehand.formats.avro.nodes import (
    Choice,
    Fixed,
    Items,
    Member,
    Node,
    Nullable,
    Plain,
    Record,
    Symbols,
    Wire,
)
from lakehand.formats.avro.parsing import parse

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lakehand.formats.avro.cursors import Integers


@dataclass(frozen=True, slots=True)
class _Piece:
    """The bytes of one part of each row: row ``i`` has ``data[offsets[i]:offsets[i + 1]]``."""

    offsets: Integers
    data: pa.Buffer

    def lengths(self) -> Integers:
        """Return how many bytes each row has."""
        return np.diff(self.offsets)

    def spread(self, at: Integers, count: int) -> _Piece:
        """Return the piece for ``count`` rows, of which only those ``at`` have bytes."""
        lengths = np.zeros(count + 1, dtype=np.int64)
        lengths[at + 1] = self.lengths()
        return _Piece(np.cumsum(lengths) + self.offsets[0], self.data)


def encode(batch: pa.RecordBatch, schema: str | Record) -> tuple[pa.Buffer, Integers]:
    """Return the records' bytes, one behind the other, and the length of each."""
    pieces = _batch_pieces(batch, schema)
    joined = _join(pieces, batch.num_rows)
    return _used(joined), joined.lengths()


def encode_framed(batch: pa.RecordBatch, schema: str | Record) -> pa.Buffer:
    """Return the records as log blocks hold them: each behind its length, an ``int32``."""
    pieces = _batch_pieces(batch, schema)
    lengths = sum((piece.lengths() for piece in pieces), np.zeros(batch.num_rows, np.int64))
    if lengths.size and int(lengths.max()) >= 1 << 31:
        raise Invalid("a record takes more than 2 GiB")
    prefix = _constant_size(lengths.astype(">i4"), 4)
    return _used(_join([prefix, *pieces], batch.num_rows))


def encode_value(node: Node, column: Column) -> pa.Buffer:
    """Return the values of a column that holds all of a document, one behind the other."""
    return _used(_join(_pieces(node, column, b"", "the document"), len(column)))


def _batch_pieces(batch: pa.RecordBatch, schema: str | Record) -> list[_Piece]:
    root = parse(schema, where="the schema to write") if isinstance(schema, str) else schema
    known = {member.name for member in root.members}
    unknown = [name for name in batch.schema.names if name not in known]
    if unknown:
        raise Invalid(f"the schema to write has no column {unknown[0]}")
    columns: dict[str, Column] = {}
    for member in root.members:
        if member.name not in batch.schema.names:
            columns[member.name] = nulls(batch.num_rows, member.node.arrow)
            continue
        column = batch.column(member.name)
        try:
            columns[member.name] = column.cast(member.node.arrow)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
            raise Invalid(
                f"column {member.name} of type {column.type} cannot be written as"
                f" {member.node.arrow}: {error}"
            ) from error
    return _record_pieces(root.members, columns, b"", "")


def _used(piece: _Piece) -> pa.Buffer:
    return piece.data.slice(int(piece.offsets[0]), int(piece.offsets[-1] - piece.offsets[0]))


def _join(pieces: list[_Piece], count: int) -> _Piece:
    """Put the pieces of each row one behind the other."""
    if not pieces:
        return _Piece(np.zeros(count + 1, dtype=np.int64), pa.py_buffer(b""))
    if len(pieces) == 1:
        return pieces[0]
    arrays: list[Any] = [
        pa.Array.from_buffers(
            pa.large_binary(), count, [None, buffer_of(piece.offsets), piece.data]
        )
        for piece in pieces
    ]
    arrays.append(pa.scalar(b"", pa.large_binary()))
    joined: Column = pc.binary_join_element_wise(*arrays)
    _, offsets, data = joined.buffers()
    ends = array_over(offsets, np.int64)[: count + 1]
    return _Piece(ends, data if data is not None else pa.py_buffer(b""))


def _constant_size(values: npt.NDArray[Any], size: int, prefix: bytes = b"") -> _Piece:
    """Return a piece of ``size`` bytes per row, each behind ``prefix``."""
    rows = np.ascontiguousarray(values).view(np.uint8).reshape(-1, size)
    lead = len(prefix)
    if prefix:
        bare, rows = rows, np.empty((len(rows), lead + size), dtype=np.uint8)
        rows[:, :lead] = np.frombuffer(prefix, dtype=np.uint8)
        rows[:, lead:] = bare
    ends = np.arange(len(rows) + 1, dtype=np.int64) * (lead + size)
    return _Piece(ends, buffer_of(rows))


def _varints(values: Integers, prefix: bytes = b"") -> _Piece:
    """Return zigzag integers, each behind ``prefix``."""
    zigzag = ((values << 1) ^ (values >> 63)).view(np.uint64)
    if not zigzag.size or zigzag.max() < 0x80:
        return _constant_size(zigzag.astype(np.uint8), 1, prefix)
    sizes = np.ones(zigzag.size, dtype=np.int64)
    for bits in range(7, 64, 7):
        sizes += zigzag >= np.uint64(1 << bits)
    width = int(sizes.max())
    lead = len(prefix)
    matrix = np.empty((zigzag.size, lead + width), dtype=np.uint8)
    matrix[:, :lead] = np.frombuffer(prefix, dtype=np.uint8)
    for index in range(width):
        part = (zigzag >> np.uint64(7 * index)).astype(np.uint8) & 0x7F
        matrix[:, lead + index] = part | ((index < sizes - 1).astype(np.uint8) << 7)
    kept = np.arange(lead + width) < (sizes + lead)[:, None]
    return _Piece(_offsets(sizes + lead), buffer_of(matrix[kept]))


def _offsets(lengths: Integers) -> Integers:
    offsets = np.zeros(lengths.size + 1, dtype=np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return offsets


def _pieces(node: Node, column: Column, prefix: bytes, path: str) -> list[_Piece]:
    """Return the pieces of a column; ``prefix`` goes in front of every value."""
    if column.null_count and not isinstance(node, Nullable):
        raise Invalid(f"column {path} holds nulls, and its schema has none")
    match node:
        case Plain():
            return _plain_pieces(node, column, prefix)
        case Fixed():
            return [_constant_size(_fixed_values(node, column, path), node.size, prefix)]
        case Symbols(symbols=symbols):
            chosen: Column = pc.index_in(column, pa.array(symbols, pa.string()))
            if chosen.null_count:
                raise Invalid(f"column {path} holds a value that is no symbol of its enum")
            return [_varints(_integers(chosen.cast(pa.int64())), prefix)]
        case Nullable():
            return _nullable_pieces(node, column, prefix, path)
        case Items():
            return _items_pieces(node, column, prefix, path)
        case Record(members=members):
            columns = {member.name: column.field(member.name) for member in members}
            if not members:
                repeated = np.frombuffer(prefix * len(column), dtype=np.uint8)
                return [_constant_size(repeated, len(prefix))] if prefix else []
            return _record_pieces(members, columns, prefix, path)
        case Choice():
            return _choice_pieces(node, column, prefix, path)
        case _:
            assert_never(node)


def _record_pieces(
    members: tuple[Member, ...], columns: Mapping[str, Column], prefix: bytes, path: str
) -> list[_Piece]:
    pieces: list[_Piece] = []
    for member in members:
        below = f"{path}.{member.name}" if path else member.name
        pieces += _pieces(member.node, columns[member.name], prefix, below)
        prefix = b""
    return pieces


def _integers(column: Column) -> Integers:
    values = column.view(pa.int64() if column.type.bit_width == 64 else pa.int32())
    return numbers(values).astype(np.int64)


def _plain_pieces(node: Plain, column: Column, prefix: bytes) -> list[_Piece]:
    match node.wire:
        case Wire.BOOLEAN:
            return [_constant_size(numbers(column.cast(pa.uint8())), 1, prefix)]
        case Wire.INT | Wire.LONG:
            return [_varints(_integers(column), prefix)]
        case Wire.FLOAT | Wire.DOUBLE:
            return [_constant_size(numbers(column), node.min_size, prefix)]
        case Wire.BYTES | Wire.STRING:
            if pa.types.is_decimal(node.arrow):
                piece = _minimal_decimals(column)
            else:
                _, offsets, data = column.buffers()
                known = array_over(offsets, np.int32) if offsets else np.zeros(1, np.int32)
                ends = known[column.offset : column.offset + len(column) + 1].astype(np.int64)
                piece = _Piece(ends, data if data is not None else pa.py_buffer(b""))
            return [_varints(piece.lengths(), prefix), piece]
        case _:
            assert_never(node.wire)


def _words(column: Column) -> npt.NDArray[np.uint64]:
    width = column.type.bit_width // 64
    words = array_over(column.buffers()[1], np.uint64)
    return words.reshape(-1, width)[column.offset : column.offset + len(column)]


def _minimal_decimals(column: Column) -> _Piece:
    words = _words(column)
    lengths = decimals.minimal_lengths(words)
    width = 8 * words.shape[1]
    kept = np.arange(width) >= (width - lengths)[:, None]
    data = decimals.from_words(words, width)[kept]
    return _Piece(_offsets(lengths), buffer_of(data))


def _fixed_values(node: Fixed, column: Column, path: str) -> npt.NDArray[Any]:
    if not pa.types.is_decimal(node.arrow):
        data = array_over(column.buffers()[1], np.uint8)
        start = column.offset * node.size
        return data[start : start + len(column) * node.size]
    words = _words(column)
    if words.size and int(decimals.minimal_lengths(words).max()) > node.size:
        raise Invalid(f"column {path} holds a decimal of more than {node.size} bytes")
    return decimals.from_words(words, node.size)


def _nullable_pieces(node: Nullable, column: Column, prefix: bytes, path: str) -> list[_Piece]:
    value_branch, null_branch = 2 * (1 - node.null_branch), 2 * node.null_branch
    if not column.null_count:
        return _pieces(node.item, column, prefix + bytes([value_branch]), path)
    valid = numbers(column.is_valid())
    at = np.flatnonzero(valid)
    branches = np.where(valid, np.uint8(value_branch), np.uint8(null_branch))
    below = _pieces(node.item, column.drop_null(), b"", path)
    return [
        _constant_size(branches, 1, prefix),
        *(piece.spread(at, len(column)) for piece in below),
    ]


def _items_pieces(node: Items, column: Column, prefix: bytes, path: str) -> list[_Piece]:
    """Write a count, the items, and a zero behind them; an empty array is the zero alone."""
    ends = numbers(column.offsets).astype(np.int64)
    if not ends.size:
        ends = np.zeros(1, dtype=np.int64)
    first, total = int(ends[0]), int(ends[-1] - ends[0])
    if pa.types.is_map(node.arrow) and isinstance(node.entry, Record):
        keys, values = (member.name for member in node.entry.members)
        columns = {
            keys: column.keys.slice(first, total),
            values: column.items.slice(first, total),
        }
        below = _record_pieces(node.entry.members, columns, b"", path)
    else:
        below = _pieces(node.entry, column.values.slice(first, total), b"", f"{path}[]")
    joined = _join(below, total)
    counts = np.diff(ends)
    closing = _Piece(_offsets((counts > 0).astype(np.int64)), pa.py_buffer(bytes(len(counts))))
    return [_varints(counts, prefix), _Piece(joined.offsets[ends - first], joined.data), closing]


def _choice_pieces(node: Choice, column: Column, prefix: bytes, path: str) -> list[_Piece]:
    if not pa.types.is_union(column.type) or column.type.mode != "dense":
        raise Unsupported(f"column {path} is to be a union and holds {column.type}")
    kinds = numbers(column.type_codes).astype(np.int64)
    offsets = numbers(column.offsets)
    pieces = [_varints(kinds, prefix)]
    for index, branch in enumerate(node.branches, start=1):
        at = np.flatnonzero(kinds == index)
        if at.size:
            values = column.field(index).take(places(offsets[at]))
            pieces += [piece.spread(at, kinds.size) for piece in _pieces(branch, values, b"", path)]
    return pieces
