"""Leave out the slices of partitions that cannot hold a row for the filter.

Only comparisons with a partition column whose path part is the value's own text prune, and only
where that text can be read back without doubt; everything else is left to the filter on rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.types as pt

from lakehand.core.partition_paths import PartitionType
from lakehand.errors import Invalid

if TYPE_CHECKING:
    from collections.abc import Callable

    from lakehand.core.partition_paths import PartitionScheme
    from lakehand.read.filters import Predicate, RowFilter


def partition_test(
    row_filter: RowFilter | None, scheme: PartitionScheme, schema: pa.Schema
) -> Callable[[str], bool]:
    """Return which partition paths may hold rows for the filter."""
    simple = {field.name for field in scheme.fields if field.kind is PartitionType.SIMPLE}
    predicates = [
        predicate
        for predicate in (row_filter.predicates if row_filter else ())
        if predicate.column in simple and _reads_back(schema.field(predicate.column).type)
    ]
    answers: dict[str, bool] = {}

    def may_hold(path: str) -> bool:
        if path not in answers:
            answers[path] = _may_hold(path, predicates, scheme, schema)
        return answers[path]

    return may_hold if predicates else lambda _: True


def _reads_back(kind: pa.DataType) -> bool:
    return bool(pt.is_string(kind) or pt.is_integer(kind) or pt.is_date32(kind))


def _may_hold(
    path: str, predicates: list[Predicate], scheme: PartitionScheme, schema: pa.Schema
) -> bool:
    try:
        texts = scheme.values_of(path)
    except Invalid:
        return True
    for predicate in predicates:
        name, text = predicate.column, texts.get(predicate.column)
        looks_hive_style = not scheme.hive_style and f"{name}=" in path
        if text is None or looks_hive_style:
            continue
        try:
            value = pa.array([text]).cast(schema.field(name).type)
        except pa.ArrowInvalid:
            continue
        row = pa.table([value], schema=pa.schema([schema.field(name)]))
        if row.filter(predicate.expression(schema)).num_rows == 0:
            return False
    return True
