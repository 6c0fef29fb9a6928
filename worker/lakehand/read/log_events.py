"""What the log files of a slice say, as columns: rows written and keys deleted, in log order.

Events carry their place in the log (``SEQUENCE``) because rows and deletes are kept apart, and
because spilling takes them out of order. A *natural* delete is one without an ordering value (or
with Hudi's stand-in for none, the integer 0): it beats everything before it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from lakehand.core.merge_rules import DELETE_OPERATION, IS_DELETED_COLUMN, OPERATION_COLUMN
from lakehand.errors import Unsupported
from lakehand.read.columns import flags, row_numbers

if TYPE_CHECKING:
    from lakehand.core.merge_rules import MergeRule
    from lakehand.read.columns import Flags

RECORD_KEY = "_hoodie_record_key"

SEQUENCE = "__sequence"
NATURAL = "__natural"
_ORDERING = "__ordering_"


@dataclass(frozen=True, slots=True)
class WrittenRows:
    """Rows of one data block in the merge schema, in log order."""

    rows: pa.RecordBatch


@dataclass(frozen=True, slots=True)
class DeletedKeys:
    """Entries of one delete block: keys, whether natural, and one array per ordering field."""

    keys: pa.Array[Any]
    natural: pa.BooleanArray
    ordering: tuple[pa.Array[Any], ...]


LogEvent = WrittenRows | DeletedKeys


def rule_for(rule: MergeRule, schema: pa.Schema) -> MergeRule:
    """Return the rule as it applies to records of ``schema``.

    Without ordering, the ordering fields do not matter. A field that the table does not have is
    null in every record and decides nothing: 0.x tables name ``ts`` whether they have it or not.
    """
    if not rule.orders_log:
        return replace(rule, ordering_fields=())
    for name in rule.ordering_fields:
        if name not in schema.names and name.partition(".")[0] in schema.names:
            raise Unsupported(f"ordering field {name}: fields within structs are not supported")
    known = tuple(name for name in rule.ordering_fields if name in schema.names)
    return replace(rule, ordering_fields=known)


def ordering_types(schema: pa.Schema, rule: MergeRule) -> list[pa.DataType]:
    """Return the Arrow types of the rule's ordering fields in the merge schema."""
    return [schema.field(name).type for name in rule.ordering_fields]


def deletes_schema(types: list[pa.DataType]) -> pa.Schema:
    """Return the schema of delete events as ``deletes_batch`` lays them out."""
    fields: list[pa.Field[Any]] = [pa.field(RECORD_KEY, pa.string()), pa.field(NATURAL, pa.bool_())]
    fields += [pa.field(f"{_ORDERING}{number}", kind) for number, kind in enumerate(types)]
    return pa.schema([*fields, pa.field(SEQUENCE, pa.int64())])


def deletes_batch(
    deleted: DeletedKeys, *, schema: pa.Schema, first_sequence: int
) -> pa.RecordBatch:
    """Lay delete events out as a batch with their sequence numbers."""
    sequence = row_numbers(np.arange(first_sequence, first_sequence + len(deleted.keys)))
    columns = [deleted.keys, deleted.natural, *deleted.ordering, sequence]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def delete_ordering(deletes: pa.Table) -> list[pa.ChunkedArray[Any]]:
    """Return the ordering columns of delete events."""
    return [deletes.column(name) for name in deletes.column_names if name.startswith(_ORDERING)]


def deletion_flags(rows: pa.Table, rule: MergeRule) -> Flags:
    """Return which rows are deletes in disguise."""
    result = np.zeros(rows.num_rows, dtype=np.bool_)
    names = set(rows.column_names)
    if IS_DELETED_COLUMN in names and pt.is_boolean(rows.schema.field(IS_DELETED_COLUMN).type):
        result |= flags(rows.column(IS_DELETED_COLUMN))
    if OPERATION_COLUMN in names:
        result |= _equal(rows.column(OPERATION_COLUMN), DELETE_OPERATION)
    if rule.delete_field is not None and rule.delete_field in names:
        result |= _equal(pc.cast(rows.column(rule.delete_field), pa.string()), rule.delete_marker)
    return result


def natural_flags(rows: pa.Table, deleted: Flags, rule: MergeRule) -> Flags:
    """Return which of the ``deleted`` rows carry no ordering value (or the integer 0)."""
    natural = deleted.copy()
    for name in rule.ordering_fields if deleted.any() else ():
        values = rows.column(name)
        absent = flags(values.is_null())
        if pt.is_int32(values.type):
            absent |= _equal(values, 0)
        natural &= absent
    return natural


def _equal(values: pa.ChunkedArray[Any], wanted: object) -> Flags:
    scalar: Any = pa.scalar(wanted, values.type)
    return flags(pc.equal(values, scalar))
