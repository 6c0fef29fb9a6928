"""Delete blocks: keys, and the ordering values that decide whether a deletion wins.

The content is ``int32`` version, ``int32`` length and one Avro record with a list of entries. An
ordering value is a union of wrappers, and *which* wrapper it is matters: Java writes an int 0 for
a deletion that always wins, where a long 0 is compared like any other value.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from enum import IntEnum, unique
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from lakehand.errors import Invalid, LimitExceeded, Unsupported
from lakehand.formats.avro import walk
from lakehand.formats.avro.cursors import FRONT, Content, Cursors
from lakehand.formats.avro.memory import ArrowType, Column, buffer_of, nulls, numbers, places
from lakehand.formats.avro.nodes import Items, Record
from lakehand.formats.avro.parsing import parse
from lakehand.formats.avro_columns import read_all
from lakehand.formats.avro_encoding import encode_value

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy.typing as npt

    from lakehand.formats.log_file import LogBlock

VERSION: Final = 3
MAX_ORDERING_FIELDS: Final = 64
_HEAD: Final = struct.Struct(">ii")


@unique
class OrderingKind(IntEnum):
    """The wrapper around an ordering value: its branch of the union, but for LOCAL_DATE."""

    NONE = 0
    BOOLEAN = 1
    INT = 2
    LONG = 3
    FLOAT = 4
    DOUBLE = 5
    BYTES = 6
    STRING = 7
    DATE = 8
    DECIMAL = 9
    TIME_MICROS = 10
    TIMESTAMP_MICROS = 11
    ARRAY = 12
    """Several ordering fields: one value each, in ``Ordering.parts``."""
    LOCAL_DATE = 13
    """Branch 12 inside an array."""


@dataclass(frozen=True, slots=True)
class Ordering:
    """One ordering value per entry.

    ``kinds`` has the ``OrderingKind`` of each; ``values`` has, for every kind that occurs but
    NONE and ARRAY, a column of that kind's values, null in the other rows. ``parts`` has the
    fields of the ARRAY rows, first field first, each with a kind for every row again.
    """

    kinds: npt.NDArray[np.int8]
    values: Mapping[OrderingKind, Column] = field(default_factory=dict)
    parts: tuple[Ordering, ...] = ()

    @property
    def kinds_present(self) -> frozenset[OrderingKind]:
        """The kinds that occur."""
        return frozenset(OrderingKind(int(kind)) for kind in np.unique(self.kinds))

    def always_wins(self) -> npt.NDArray[np.bool_]:
        """Return which entries delete whatever the ordering value of the row is."""
        wins: npt.NDArray[np.bool_] = self.kinds == OrderingKind.NONE
        if OrderingKind.INT in self.values:
            zero = numbers(self.values[OrderingKind.INT].fill_null(1)) == 0
            wins |= zero & (self.kinds == OrderingKind.INT)
        return wins

    @classmethod
    def natural(cls, count: int) -> Ordering:
        """Return what Java's delete operation writes: an int 0 each, which always wins."""
        zeros = pa.array(np.zeros(count, dtype=np.int32))
        kinds = np.full(count, OrderingKind.INT, dtype=np.int8)
        return cls(kinds, {OrderingKind.INT: zeros} if count else {})

    @classmethod
    def of(cls, column: Column) -> Ordering:
        """Return the values of one ordering column, wrapped as Java wraps that type."""
        kind, stored = _wrapped(column.type)
        valid = numbers(column.is_valid())
        kinds = np.where(valid, np.int8(kind), np.int8(OrderingKind.NONE))
        if not valid.any():
            return cls(kinds)
        try:
            return cls(kinds, {kind: _as(column, stored)})
        except pa.ArrowInvalid as error:
            raise Invalid(f"an ordering value does not fit in {stored}: {error}") from error

    @classmethod
    def of_several(cls, columns: list[Column]) -> Ordering:
        """Return the values of several ordering columns (table version 9)."""
        count = len(columns[0])
        kinds = np.full(count, OrderingKind.ARRAY, dtype=np.int8)
        return cls(kinds, {}, tuple(cls.of(column) for column in columns))


@dataclass(frozen=True, slots=True)
class Deletes:
    """The entries of a delete block."""

    record_keys: Column
    partition_paths: Column
    ordering: Ordering

    def __len__(self) -> int:
        return len(self.record_keys)


def _wrapped(arrow: pa.DataType) -> tuple[OrderingKind, pa.DataType]:
    kinds = pa.types
    if kinds.is_integer(arrow) and arrow.bit_width <= 32 and kinds.is_signed_integer(arrow):
        return OrderingKind.INT, pa.int32()
    if kinds.is_integer(arrow):
        return OrderingKind.LONG, pa.int64()
    # Java takes a timestamp's number, not the wrapper that is named for it.
    if kinds.is_timestamp(arrow):
        return OrderingKind.LONG, pa.int64()
    if kinds.is_decimal(arrow):
        return OrderingKind.DECIMAL, pa.decimal128(30, 15)
    if kinds.is_large_string(arrow):
        return OrderingKind.STRING, pa.string()
    found = _WRAPPED.get(arrow)
    if found is None:
        raise Unsupported(f"Hudi cannot order deletions by a column of type {arrow}")
    return found, arrow


def _as(column: Column, stored: pa.DataType) -> Column:
    return column.view(stored) if pa.types.is_timestamp(column.type) else column.cast(stored)


_WRAPPED: Final[dict[pa.DataType, OrderingKind]] = {
    pa.bool_(): OrderingKind.BOOLEAN,
    pa.float32(): OrderingKind.FLOAT,
    pa.float64(): OrderingKind.DOUBLE,
    pa.binary(): OrderingKind.BYTES,
    pa.string(): OrderingKind.STRING,
    pa.date32(): OrderingKind.DATE,
    pa.time64("us"): OrderingKind.TIME_MICROS,
}


def decode(block: LogBlock) -> Deletes:
    """Return the entries of a delete block."""
    content = block.read()
    if len(content) < _HEAD.size:
        raise block.corrupt("a delete block without entries")
    version, length = _HEAD.unpack_from(content)
    if version != VERSION:
        raise Unsupported(
            f"{block.where}, byte {block.content_offset}: a delete block of version {version};"
            " compact the table with the Hudi version that wrote it"
        )
    if length != len(content) - _HEAD.size:
        raise block.corrupt(f"a delete block says that its entries take {length} bytes", 4)
    held = Content(
        memoryview(content)[_HEAD.size :], base=block.content_offset + _HEAD.size, where=block.where
    )
    whole = Cursors(held, np.array([FRONT], np.int64), np.array([FRONT + length], np.int64))
    entries, _ = walk.items(_entries(), whole)
    whole.refuse(whole.positions != whole.ends, "bytes are left over in a delete block")
    rows = read_all(_entries().entry, entries)
    return Deletes(rows.field(0), rows.field(1), _ordering(rows.field(2), held))


def encode(deletes: Deletes) -> bytes:
    """Return the content of a delete block."""
    item: ArrowType = _entries().entry.arrow
    columns = [
        deletes.record_keys.cast(pa.string()),
        deletes.partition_paths.cast(pa.string()),
        _union(deletes.ordering, item.field(2).type),
    ]
    rows = pa.StructArray.from_arrays(columns, fields=list(item.fields))
    offsets = pa.array([0, len(rows)], pa.int32())
    records = encode_value(_entries(), pa.ListArray.from_arrays(offsets, rows))
    return _HEAD.pack(VERSION, records.size) + records.to_pybytes()


@cache
def _entries() -> Items:
    """Return the node of the list of entries, the only field of Hudi's record."""
    source = resources.files("lakehand.formats") / "schemas" / "HoodieDeleteRecordList.avsc"
    root = parse(source.read_text("utf-8"), where="HoodieDeleteRecordList.avsc")
    node = root.members[0].node
    if not isinstance(node, Items) or not isinstance(node.entry, Record):
        raise TypeError("HoodieDeleteRecordList.avsc is not a list of records")
    return node


def _ordering(union: Column, content: Content) -> Ordering:
    kinds = numbers(union.type_codes).astype(np.int8)
    offsets = numbers(union.offsets)
    values: dict[OrderingKind, Column] = {}
    parts: tuple[Ordering, ...] = ()
    for number in np.unique(kinds).tolist():
        kind = OrderingKind(number)
        if kind is OrderingKind.NONE:
            continue
        wrapper = union.field(number).field(0)
        taken = wrapper.take(places(offsets, kinds != number))
        if kind is OrderingKind.ARRAY:
            parts = _parts(taken, content)
        else:
            values[kind] = taken
    return Ordering(kinds, values, parts)


def _parts(lists: Column, content: Content) -> tuple[Ordering, ...]:
    """Return the first values of all lists, the second ones, and so on."""
    lengths = numbers(lists.value_lengths().fill_null(0))
    longest = int(lengths.max(initial=0))
    if longest > MAX_ORDERING_FIELDS:
        raise LimitExceeded(f"{content.where}: a deletion with {longest} ordering values")
    starts = numbers(lists.offsets)[:-1]
    union = lists.values
    kinds = numbers(union.type_codes)
    offsets = numbers(union.offsets)
    parts: list[Ordering] = []
    for index in range(longest):
        has = index < lengths
        at = starts[has] + index
        part_kinds = np.zeros(lengths.size, dtype=np.int8)
        part_offsets = np.zeros(lengths.size, dtype=np.int32)
        part_kinds[has], part_offsets[has] = kinds[at], offsets[at]
        values = {
            _inner_kind(number): union.field(number)
            .field(0)
            .take(places(part_offsets, part_kinds != number))
            for number in np.unique(part_kinds).tolist()
            if number != OrderingKind.NONE
        }
        local = part_kinds == OrderingKind.ARRAY
        part_kinds[local] = OrderingKind.LOCAL_DATE
        parts.append(Ordering(part_kinds, values))
    return tuple(parts)


def _inner_kind(number: int) -> OrderingKind:
    return OrderingKind.LOCAL_DATE if number == OrderingKind.ARRAY else OrderingKind(number)


def _union(ordering: Ordering, arrow: ArrowType) -> Column:
    """Return the values as the union that the schema has."""
    kinds = ordering.kinds.copy()
    inner = arrow.num_fields and pa.types.is_int32(arrow.field(12).type.field(0).type)
    if inner:
        kinds[kinds == OrderingKind.LOCAL_DATE] = 12
    elif (kinds == OrderingKind.LOCAL_DATE).any():
        raise Unsupported("a local date as the only ordering value")
    offsets = np.zeros(kinds.size, dtype=np.int32)
    children: list[Column] = [pa.nulls(1)]
    for number in range(1, arrow.num_fields):
        rows = np.flatnonzero(kinds == number)
        offsets[rows] = np.arange(rows.size)
        wrapper = arrow.field(number).type
        kind = _inner_kind(number) if inner else OrderingKind(number)
        if not rows.size:
            children.append(nulls(0, wrapper))
            continue
        if kind is OrderingKind.ARRAY:
            taken = _lists(ordering.parts, rows, wrapper.field(0).type)
        else:
            taken = ordering.values[kind].take(places(rows)).cast(wrapper.field(0).type)
        children.append(pa.StructArray.from_arrays([taken], fields=list(wrapper.fields)))
    buffers = [None, buffer_of(kinds), buffer_of(offsets)]
    return pa.Array.from_buffers(arrow, kinds.size, buffers, children=children)


def _lists(parts: tuple[Ordering, ...], rows: npt.NDArray[np.int64], arrow: ArrowType) -> Column:
    """Return, for each row, the list of its parts."""
    width = len(parts)
    kinds = np.concatenate([part.kinds[rows] for part in parts])
    present = frozenset[OrderingKind]().union(*(part.kinds_present for part in parts))
    values: dict[OrderingKind, Column] = {}
    for kind in present - {OrderingKind.NONE}:
        known = [part.values.get(kind) for part in parts]
        type_ = next(column.type for column in known if column is not None)
        values[kind] = pa.concat_arrays(
            [
                nulls(rows.size, type_) if column is None else column.take(places(rows))
                for column in known
            ]
        )
    # The parts lie one behind the other; lists want the parts of each row together.
    order = np.arange(rows.size * width).reshape(width, rows.size).T.ravel()
    shuffled = {kind: column.take(places(order)) for kind, column in values.items()}
    union = _union(Ordering(kinds[order], shuffled), arrow.value_type)
    offsets = pa.array(np.arange(rows.size + 1, dtype=np.int32) * width)
    made: Column = pa.ListArray
    return made.from_arrays(offsets, union, type=arrow)
