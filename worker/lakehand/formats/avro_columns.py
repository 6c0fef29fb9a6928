"""Avro records → Arrow columns, many records at a time.

Log blocks hold Avro records without a schema, each behind its length, so the start and the end
of every record are known. ``decode`` reads the first field of all records, then the second, and
so on (see ``avro.cursors``); the work per value is a few numpy operations, the bytes of strings
are gathered by Arrow. Columns not asked for are walked and not built.

The way of one column: cursors at its values → union branches split off the nulls → values of
the rows that have one → spread over all rows → an Arrow array over numpy's memory.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, assert_never

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakehand.errors import Corrupt, LimitExceeded
from lakehand.formats.avro import decimals, walk
from lakehand.formats.avro.cursors import FRONT, Content, Cursors, Integers, Mask
from lakehand.formats.avro.memory import Column, array_over, buffer_of, places
from lakehand.formats.avro.nodes import (
    Choice,
    Fixed,
    Items,
    Node,
    Nullable,
    Plain,
    Record,
    Symbols,
    Wire,
    refuse_choices,
)
from lakehand.formats.avro.parsing import parse

if TYPE_CHECKING:
    from collections.abc import Collection

MAX_CELLS: Final = 1 << 25
"""Values in one batch, nulls included: some hundred megabytes of Arrow memory."""


@dataclass(frozen=True, slots=True)
class Records:
    """Avro records in one piece of content: record ``i`` is ``content[starts[i]:ends[i]]``.

    Starts ascend, records do not overlap. ``base`` is the offset of the content in the file
    ``where``, for errors.
    """

    content: bytes | memoryview
    starts: Integers
    ends: Integers
    where: str
    base: int = 0


@dataclass(frozen=True, slots=True)
class _Rows:
    """The rows that a column is built for: ``count`` of them, values only at ``at`` (None: all).

    ``valid`` is the column's validity bitmap; None when the column has no nulls of its own.
    """

    count: int
    at: Integers | None = None
    valid: pa.Buffer | None = None


def decode(
    records: Records, schema: str | Record, columns: Collection[str] | None = None
) -> pa.RecordBatch:
    """Return the records as a batch, in the schema's order of fields.

    With ``columns``, only those of these that the schema has.
    """
    root = parse(schema, where=records.where) if isinstance(schema, str) else schema
    refuse_choices(root, where=records.where)
    wanted = {member.name for member in root.members} if columns is None else set(columns)
    content = Content(records.content, base=records.base, where=records.where)
    cursors = Cursors(content, records.starts + FRONT, records.ends + FRONT)
    _check_bounds(records, cursors)
    rows = _Rows(len(cursors))
    fields: list[pa.Field[Any]] = []
    arrays: list[Column] = []
    left = len(wanted.intersection(member.name for member in root.members))
    for member in root.members:
        if member.name in wanted:
            arrays.append(read(member.node, cursors, rows))
            fields.append(member.arrow_field())
            left -= 1
        elif left == 0:
            break
        else:
            walk.skip(member.node, cursors)
    else:
        cursors.refuse(cursors.positions != cursors.ends, "bytes are left over in a record")
    if not fields:
        return pa.RecordBatch.from_arrays([pa.nulls(rows.count)], names=["rows"]).select([])
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))


def _check_bounds(records: Records, cursors: Cursors) -> None:
    size = memoryview(records.content).nbytes
    starts, ends = records.starts, records.ends
    sound = starts.shape == ends.shape and bool(((starts >= 0) & (starts <= ends)).all())
    if starts.size:
        sound = sound and int(ends.max()) <= size and bool((starts[1:] >= ends[:-1]).all())
    if not sound:
        raise Corrupt("the records' places do not fit in their content", where=records.where)


def read_all(node: Node, cursors: Cursors) -> Column:
    """Read one value of type ``node`` from every cursor."""
    return read(node, cursors, _Rows(len(cursors)))


def read(node: Node, cursors: Cursors, rows: _Rows) -> Column:
    """Read one value per cursor and return the column for ``rows``."""
    if rows.count * node.cells > MAX_CELLS:
        raise LimitExceeded(
            f"{cursors.content.where}: {rows.count} rows of {node.cells} columns in one batch;"
            " read fewer rows at a time"
        )
    match node:
        case Plain():
            return _read_plain(node, cursors, rows)
        case Fixed(size=size):
            starts = cursors.skip(size)
            if pa.types.is_decimal(node.arrow):
                return _decimals(node.arrow, cursors, starts, starts + size, rows)
            data = _gather(cursors.content, starts, starts + size)
            values = array_over(data, f"V{size}")[: starts.size]
            return _array(node.arrow, rows, values)
        case Symbols():
            return _read_symbols(node, cursors, rows)
        case Nullable(item=item, null_branch=null_branch):
            return _read_nullable(item, null_branch, cursors, rows)
        case Items():
            return _read_items(node, cursors, rows)
        case Record(members=members):
            below = replace(rows, valid=None)
            children = [read(member.node, cursors, below) for member in members]
            return pa.Array.from_buffers(node.arrow, rows.count, [rows.valid], children=children)
        case Choice():
            return _read_choice(node, cursors, rows)
        case _:
            assert_never(node)


def _read_plain(node: Plain, cursors: Cursors, rows: _Rows) -> Column:
    match node.wire:
        case Wire.BOOLEAN:
            start = cursors.skip(1)
            values = cursors.content.data[start]
            cursors.refuse(values > 1, "a boolean is neither 0 nor 1", start)
            bits = np.packbits(_spread(values, rows), bitorder="little")
            return pa.Array.from_buffers(node.arrow, rows.count, [rows.valid, buffer_of(bits)])
        case Wire.INT:
            return _array(node.arrow, rows, cursors.ints())
        case Wire.LONG:
            return _array(node.arrow, rows, cursors.longs())
        case Wire.FLOAT:
            words = cursors.content.words[cursors.skip(4)]
            return _array(node.arrow, rows, words.astype(np.uint32))
        case Wire.DOUBLE:
            return _array(node.arrow, rows, cursors.content.words[cursors.skip(8)])
        case Wire.BYTES | Wire.STRING:
            starts, ends = cursors.spans()
            if pa.types.is_decimal(node.arrow):
                return _decimals(node.arrow, cursors, starts, ends, rows)
            return _read_bytes(node, cursors, starts, ends, rows)
        case _:
            assert_never(node.wire)


def _spread(values: npt.NDArray[Any], rows: _Rows) -> npt.NDArray[Any]:
    """Put the values where their rows are, zeros elsewhere."""
    if rows.at is None:
        return values
    spread = np.zeros((rows.count, *values.shape[1:]), dtype=values.dtype)
    spread[rows.at] = values
    return spread


def _array(arrow: pa.DataType, rows: _Rows, values: npt.NDArray[Any]) -> Column:
    data = buffer_of(np.ascontiguousarray(_spread(values, rows)))
    return pa.Array.from_buffers(arrow, rows.count, [rows.valid, data])


def _bitmap(mask: Mask) -> pa.Buffer:
    return buffer_of(np.packbits(mask, bitorder="little"))


def _offsets(lengths: Integers, rows: _Rows) -> pa.Buffer:
    offsets = np.zeros(rows.count + 1, dtype=np.int32)
    np.cumsum(_spread(lengths, rows), out=offsets[1:])
    return buffer_of(offsets)


def _gather(content: Content, starts: Integers, ends: Integers) -> pa.Buffer:
    """Copy the bytes between starts and ends, which ascend, one behind the other.

    An Arrow array over the content has the wanted values at its even places and what lies
    between them at the odd ones; taking the even ones makes Arrow do the copying.
    """
    count = starts.size
    if not count:
        return pa.py_buffer(b"")
    edges = np.empty(2 * count, dtype=np.int32)
    edges[0::2] = starts
    edges[1::2] = ends
    buffers = [None, buffer_of(edges), buffer_of(content.data)]
    both = pa.Array.from_buffers(pa.binary(), 2 * count - 1, buffers)
    wanted: Column = both.take(places(np.arange(0, 2 * count, 2, dtype=np.int32)))
    data = wanted.buffers()[2]
    return pa.py_buffer(b"") if data is None else data


def _read_bytes(
    node: Plain, cursors: Cursors, starts: Integers, ends: Integers, rows: _Rows
) -> Column:
    data = _gather(cursors.content, starts, ends)
    buffers = [rows.valid, _offsets(ends - starts, rows), data]
    array = pa.Array.from_buffers(node.arrow, rows.count, buffers)
    if node.wire is Wire.STRING:
        try:
            array.validate(full=True)
        except pa.ArrowInvalid:
            raise _not_text(cursors.content, starts, ends) from None
    return array


def _not_text(content: Content, starts: Integers, ends: Integers) -> Corrupt:
    """Find the first string that is not UTF-8."""
    for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
        try:
            content.data[start:end].tobytes().decode()
        except UnicodeDecodeError:
            return content.corrupt("a string is not UTF-8", start)
    return content.corrupt("the strings of a column are not UTF-8", int(starts[0]))


def _decimals(
    arrow: pa.DataType, cursors: Cursors, starts: Integers, ends: Integers, rows: _Rows
) -> Column:
    words = decimals.to_words(cursors, starts, ends, width=arrow.bit_width // 64)
    array = _array(arrow, rows, words)
    try:
        array.validate(full=True)
    except pa.ArrowInvalid as error:
        problem = f"a decimal does not fit in {arrow}: {error}"
        raise cursors.content.corrupt(problem, int(starts[0])) from error
    return array


def _read_symbols(node: Symbols, cursors: Cursors, rows: _Rows) -> Column:
    chosen = _spread(cursors.choices(len(node.symbols), "symbol of an enum"), rows)
    texts = pa.array(node.symbols, node.arrow).take(places(chosen))
    _, offsets, data = texts.buffers()
    return pa.Array.from_buffers(node.arrow, rows.count, [rows.valid, offsets, data])


def _read_nullable(item: Node, null_branch: int, cursors: Cursors, rows: _Rows) -> Column:
    present = cursors.choices(2, "branch of a union") != null_branch
    if present.all():
        # Rows without a cursor lie under a null of a record around: any value will do there.
        return read(item, cursors, rows)
    some = np.flatnonzero(present)
    at = some if rows.at is None else rows.at[some]
    valid = np.zeros(rows.count, dtype=np.bool_)
    valid[at] = True
    moved = cursors.select(some)
    column = read(item, moved, _Rows(rows.count, at, _bitmap(valid)))
    cursors.put_back(some, moved)
    return column


def _read_items(node: Items, cursors: Cursors, rows: _Rows) -> Column:
    found, counts = walk.items(node, cursors)
    values = read_all(node.entry, found)
    offsets = _offsets(counts, rows)
    return pa.Array.from_buffers(node.arrow, rows.count, [rows.valid, offsets], children=[values])


def _read_choice(node: Choice, cursors: Cursors, rows: _Rows) -> Column:
    """Build a dense union; rows without a value are of branch 0, which is null."""
    chosen = cursors.choices(len(node.branches) + 1, "branch of a union")
    offsets = np.zeros(chosen.size, dtype=np.int32)
    children: list[Column] = [pa.nulls(1)]
    for index, branch in enumerate(node.branches, start=1):
        some = np.flatnonzero(chosen == index)
        moved = cursors.select(some)
        children.append(read_all(branch, moved))
        cursors.put_back(some, moved)
        offsets[some] = np.arange(some.size)
    buffers = [_spread(chosen.astype(np.int8), rows), _spread(offsets, rows)]
    return pa.Array.from_buffers(
        node.arrow, rows.count, [None, *map(buffer_of, buffers)], children=children
    )
