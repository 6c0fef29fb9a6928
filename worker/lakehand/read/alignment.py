"""Give every batch the table's schema, whatever schema its file was written with.

A table's files span its history: columns were added, reordered or widened, lists have two
Parquet layouts, and a log block has its writer's field order. Columns are resolved by name, at
every level of nesting; a column that a file does not have is null; a narrower type is widened by
the same promotions as Hudi's readers. What cannot be widened is refused by name, never guessed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from lakehand.errors import Corrupt, Unsupported
from lakehand.read.columns import nulls

if TYPE_CHECKING:
    from collections.abc import Callable

MAX_DEPTH = 64
"""Deeper nesting than this in a schema is taken for an attack."""


@dataclass(frozen=True, slots=True)
class _Place:
    """Where in a file a column is, for errors and against bottomless nesting."""

    where: str
    column: str
    depth: int = 0

    def below(self, step: str) -> _Place:
        if self.depth >= MAX_DEPTH:
            raise Unsupported(f"{self.where}: column {self.column} nests deeper than {MAX_DEPTH}")
        return _Place(self.where, self.column + step, self.depth + 1)


def align(batch: pa.RecordBatch, schema: pa.Schema, *, where: str) -> pa.RecordBatch:
    """Return ``batch`` with exactly the columns and types of ``schema``."""
    if batch.schema.equals(schema):
        return batch
    columns = []
    for field in schema:
        at = batch.schema.get_field_index(field.name)
        if at >= 0:
            columns.append(_convert(batch.column(at), field.type, _Place(where, field.name)))
        elif batch.schema.get_all_field_indices(field.name):
            raise Corrupt(f"column {field.name} is there more than once", where=where)
        else:
            columns.append(nulls(batch.num_rows, field.type))
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _convert(array: pa.Array[Any], target: pa.DataType, place: _Place) -> pa.Array[Any]:
    source = array.type
    if source.equals(target):
        return array
    if pt.is_null(source):
        return nulls(len(array), target)
    if pt.is_dictionary(source):
        encoded: Any = array
        return _convert(encoded.dictionary_decode(), target, place)
    nested = _nested(array, target, place)
    if nested is not None:
        return nested
    promote = _promotion(source, target)
    if promote is None:
        raise Unsupported(
            f"{place.where}: column {place.column} is stored as {source} but the table's schema "
            f"says {target}; Lakehand knows no promotion between the two"
        )
    try:
        return promote(array)
    except pa.ArrowInvalid as error:
        problem = f"column {place.column} does not fit {target}: {error}"
        raise Corrupt(problem, where=place.where) from error


def _nested(column: pa.Array[Any], kind: pa.DataType, place: _Place) -> pa.Array[Any] | None:
    """Convert a struct, list or map level by level; None for anything else."""
    array: Any = column
    target: Any = kind
    if pt.is_struct(array.type) and pt.is_struct(target):
        children = [_member(array, field, place) for field in target]
        mask = array.is_null() if array.null_count else None
        return pa.StructArray.from_arrays(children, fields=list(target), mask=mask)
    if pt.is_list(array.type) and pt.is_list(target):
        values = _convert(array.values, target.value_type, place.below("[]"))
        return _with_child(array, target, values)
    if pt.is_map(array.type) and pt.is_map(target):
        keys = _convert(array.keys, target.key_type, place.below("{key}"))
        items = _convert(array.items, target.item_type, place.below("{value}"))
        fields = [target.key_field, target.item_field]
        return _with_child(array, target, pa.StructArray.from_arrays([keys, items], fields=fields))
    return None


def _member(array: pa.StructArray, field: pa.Field[Any], place: _Place) -> pa.Array[Any]:
    at = array.type.get_field_index(field.name)
    if at < 0:
        return nulls(len(array), field.type)
    return _convert(array.field(at), field.type, place.below(f".{field.name}"))


def _with_child(array: pa.Array[Any], target: pa.DataType, child: pa.Array[Any]) -> pa.Array[Any]:
    """Rebuild a list or map around a new child, keeping offsets, nulls and slice."""
    validity, offsets = array.buffers()[:2]
    return pa.Array.from_buffers(
        target, len(array), [validity, offsets], offset=array.offset, children=[child]
    )


def _promotion(
    source: pa.DataType, target: pa.DataType
) -> Callable[[pa.Array[Any]], pa.Array[Any]] | None:
    """Return how a primitive of type ``source`` becomes ``target``, or None if it must not."""
    checked = {
        "integer to a wider integer": pt.is_integer(source)
        and pt.is_integer(target)
        and source.bit_width <= target.bit_width,
        "decimal to a wider decimal": pt.is_decimal(source) and pt.is_decimal(target),
        "text and bytes": _is_bytes_like(source) and _is_bytes_like(target),
        "a time stamp of another unit": pt.is_timestamp(source) and pt.is_timestamp(target),
        "a day as text": pt.is_date(source) and pt.is_string(target),
        "an integer as text": pt.is_integer(source) and pt.is_string(target),
        "an integer as decimal": pt.is_integer(source) and pt.is_decimal(target),
        "a decimal as text": pt.is_decimal(source) and pt.is_string(target),
    }
    if any(checked.values()):
        return lambda array: pc.cast(array, target)
    if pt.is_integer(source) and pt.is_floating(target):
        # Java rounds an integer that the float cannot hold exactly; so do we.
        return lambda array: pc.cast(array, target, safe=False)
    if pt.is_float32(source) and pt.is_float64(target):
        # Hudi's readers widen a float by its decimal text, so that 1.1 stays 1.1.
        return lambda array: pc.cast(pc.cast(array, pa.string()), target)
    return None


def _is_bytes_like(kind: pa.DataType) -> bool:
    return bool(
        pt.is_string(kind)
        or pt.is_binary(kind)
        or pt.is_large_string(kind)
        or pt.is_large_binary(kind)
        or pt.is_fixed_size_binary(kind)
    )
