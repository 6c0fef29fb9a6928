"""A table's Arrow schema in Spark's types, and the Arrow types that Spark's JVM takes for them.

Spark reads the columns of a batch by the type that it was promised and checks nothing, so both are
derived from one schema here. Nullability is kept at every level. Times of day have no type in
Spark: such a column is refused by name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.types as pt

from lakehand.errors import Unsupported

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType


def sent_schema(schema: pa.Schema) -> pa.Schema:
    """Return the schema in which rows are sent to Spark."""
    fields: list[pa.Field[Any]] = [
        pa.field(column.name, _sent(column.type, column.name), nullable=column.nullable)
        for column in schema
    ]
    return pa.schema(fields)


def spark_schema(sent: pa.Schema) -> StructType:
    """Return what Spark calls a schema of ``sent_schema``."""
    return _struct(list(sent))


def _sent(kind: pa.DataType, name: str) -> pa.DataType:
    # The stubs of Arrow's nested types do not know their fields.
    nested: Any = kind
    if pt.is_struct(kind):
        fields = [one.with_type(_sent(one.type, f"{name}.{one.name}")) for one in nested]
        return pa.struct(fields)
    if pt.is_list(kind) or pt.is_large_list(kind) or pt.is_fixed_size_list(kind):
        item = nested.value_field
        return pa.list_(item.with_type(_sent(item.type, f"{name}[]")))
    if pt.is_map(kind):
        item = nested.item_field
        return pa.map_(nested.key_type, item.with_type(_sent(item.type, f"{name}{{value}}")))
    if pt.is_timestamp(kind):
        return pa.timestamp("us", tz=None if nested.tz is None else "UTC")
    if pt.is_fixed_size_binary(kind):
        return pa.binary()
    if pt.is_time(kind):
        raise Unsupported(
            f"column {name} is a time of day ({kind}), for which Spark has no type: leave it out "
            "with columns=[...], or read the table without Spark"
        )
    return kind


def _struct(fields: list[pa.Field[Any]]) -> StructType:
    from pyspark.sql.types import StructField, StructType

    return StructType([StructField(one.name, _type(one.type), one.nullable) for one in fields])


def _type(kind: pa.DataType) -> DataType:
    from pyspark.sql import types

    nested: Any = kind
    if pt.is_struct(kind):
        return _struct(list(nested))
    if pt.is_list(kind):
        item = nested.value_field
        return types.ArrayType(_type(item.type), item.nullable)
    if pt.is_map(kind):
        item = nested.item_field
        return types.MapType(_type(nested.key_type), _type(item.type), item.nullable)
    if pt.is_decimal(kind):
        return types.DecimalType(nested.precision, nested.scale)
    if pt.is_timestamp(kind):
        return types.TimestampNTZType() if nested.tz is None else types.TimestampType()
    plain: dict[pa.DataType, DataType] = {
        pa.bool_(): types.BooleanType(),
        pa.int32(): types.IntegerType(),
        pa.int64(): types.LongType(),
        pa.float32(): types.FloatType(),
        pa.float64(): types.DoubleType(),
        pa.string(): types.StringType(),
        pa.binary(): types.BinaryType(),
        pa.date32(): types.DateType(),
    }
    if kind not in plain:
        raise Unsupported(f"Spark has no type for Arrow's {kind}")
    return plain[kind]
