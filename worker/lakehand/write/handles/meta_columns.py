"""Hudi's five meta columns, put in front of keyed batches as Java's write handles fill them.

The sequence number is ``<instant>_<task>_<row>``; rows are counted over all files of a handle, so
no two rows of one write have the same as long as no two handles have one task number.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehand.errors import Invalid
from lakehand.formats.avro_schema import META_COLUMNS
from lakehand.write.shapes import PARTITION_PATH, RECORD_KEY

if TYPE_CHECKING:
    from lakehand.write.shapes import Try, WriteContext

COMMIT_TIME, SEQUENCE, _, _, FILE_NAME = META_COLUMNS
_REPEATED: Final[Any] = pa.dictionary(pa.int8(), pa.string())


class RowStamp:
    """Gives rows their meta columns, and counts them."""

    def __init__(self, context: WriteContext, tried: Try) -> None:
        """Begin to count the rows of one handle."""
        self._schema = context.schema
        self._time = context.time
        self._prefix = f"{context.time}_{tried.task}_"
        self._rows = 0

    def stamp(self, keyed: pa.RecordBatch, *, file_name: str = "") -> pa.RecordBatch:
        """Return the rows as the table's schema has them.

        ``file_name`` is for log records, where Java puts the file id. Rows of a base file get its
        name when they are written (``in_base_file``), whether new or not.
        """
        count = keyed.num_rows
        numbers: Any = pa.array(np.arange(self._rows, self._rows + count)).cast(pa.string())
        self._rows += count
        meta: dict[str, Any] = {
            COMMIT_TIME: pa.repeat(self._time, count),
            SEQUENCE: pc.binary_join_element_wise(self._prefix, numbers, ""),
            RECORD_KEY: keyed.column(RECORD_KEY),
            PARTITION_PATH: keyed.column(PARTITION_PATH),
            FILE_NAME: pa.repeat(file_name, count),
        }
        return _in_schema(keyed, meta, self._schema)


def _in_schema(keyed: pa.RecordBatch, meta: dict[str, Any], schema: pa.Schema) -> pa.RecordBatch:
    columns = []
    for field in schema:
        at = keyed.schema.get_field_index(field.name)
        if field.name not in meta and at < 0:
            raise Invalid(f"column {field.name} of the table is not among the rows to write")
        column = meta[field.name] if field.name in meta else keyed.column(at)
        if not column.type.equals(field.type):
            raise Invalid(
                f"column {field.name} is {column.type} in the rows to write and {field.type} in "
                "the table"
            )
        columns.append(column)
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def base_file_schema(schema: pa.Schema) -> pa.Schema:
    """Return the schema by which rows are handed to the writer of a base file.

    All rows have the file's name, which is longer than many a row: it is kept once.
    """
    at = schema.get_field_index(FILE_NAME)
    return schema.set(at, schema.field(at).with_type(_REPEATED))


def in_base_file(rows: pa.RecordBatch, file_name: str) -> pa.RecordBatch:
    """Return the rows as those of a base file; all else about them stays."""
    at = rows.schema.get_field_index(FILE_NAME)
    indices: Any = pa.array(np.zeros(rows.num_rows, dtype=np.int8))
    names: Any = pa.DictionaryArray.from_arrays(indices, pa.array([file_name]))
    return rows.set_column(at, rows.schema.field(at).with_type(_REPEATED), names)
