"""Which row groups of a base file can hold a row for the filter, by their statistics.

PyArrow's own pruning (dataset fragments) ends the process on a footer whose column types are
broken, so the few comparisons are made here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, assert_never

import pyarrow.types as pt

from lakehand.formats.untrusted_parquet import BROKEN_PARQUET
from lakehand.read.filters import Operator

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa
    import pyarrow.parquet as pq

    from lakehand.read.filters import Predicate


def matching_row_groups(
    parquet: pq.ParquetFile, predicates: Sequence[Predicate], schema: pa.Schema
) -> list[int]:
    """Return the row groups that no predicate rules out; ``schema`` is what is being read."""
    metadata = parquet.metadata
    everything = list(range(metadata.num_row_groups))
    if not predicates or not everything:
        return everything
    stored = parquet.schema_arrow
    usable = [
        predicate
        for predicate in predicates
        if predicate.column in stored.names
        and stored.field(predicate.column).type == schema.field(predicate.column).type
        and _has_plain_order(schema.field(predicate.column).type)
    ]
    leaves = {metadata.schema.column(leaf).path: leaf for leaf in range(metadata.num_columns)}
    return [
        group
        for group in everything
        if not any(
            _rules_out(predicate, _bounds(metadata, group, leaves[predicate.column]), schema)
            for predicate in usable
        )
    ]


def _has_plain_order(kind: pa.DataType) -> bool:
    """Whether Python orders the values as Parquet orders its statistics."""
    known = (pt.is_string, pt.is_signed_integer, pt.is_floating, pt.is_date32)
    return any(is_kind(kind) for is_kind in known)


def _bounds(metadata: pq.FileMetaData, group: int, leaf: int) -> tuple[Any, Any] | None:
    """Return the smallest and the largest value, or None if the file does not say."""
    try:
        chunk = metadata.row_group(group).column(leaf)
        # Asking a chunk of another type than the schema's for statistics ends the process.
        if chunk.physical_type != metadata.schema.column(leaf).physical_type:
            return None
        found = chunk.statistics
    except BROKEN_PARQUET:
        return None
    return _min_max(found) if found is not None and found.has_min_max else None


def _min_max(statistics: pq.Statistics) -> tuple[Any, Any] | None:
    try:
        return statistics.min, statistics.max
    except BROKEN_PARQUET:
        return None


def _rules_out(predicate: Predicate, bounds: tuple[Any, Any] | None, schema: pa.Schema) -> bool:
    if bounds is None:
        return False
    low, high = bounds
    values = predicate.operands(schema)
    match predicate.operator:
        case Operator.EQUAL | Operator.IN:
            outside = all(value < low or value > high for value in values)
        case Operator.LESS:
            outside = low >= values[0]
        case Operator.LESS_OR_EQUAL:
            outside = low > values[0]
        case Operator.GREATER:
            outside = high <= values[0]
        case Operator.GREATER_OR_EQUAL:
            outside = high < values[0]
        case Operator.NOT_EQUAL | Operator.NOT_IN:
            outside = False
        case _:
            assert_never(predicate.operator)
    return bool(outside)
