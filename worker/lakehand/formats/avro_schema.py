"""Between Hudi's Avro schemas and Arrow's: what a column is called and what type it has.

``from_arrow`` gives the form that Hudi's own writers give to a table's schema: a record
``<table>_record`` in the namespace ``hoodie.<table>``, nullable fields as ``["null", T]`` with
default null, decimals as fixed types that are named ``fixed`` in the namespace of their field.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from lakehand.errors import Invalid, LimitExceeded, Unsupported
from lakehand.formats.avro.nodes import refuse_choices
from lakehand.formats.avro.parsing import MAX_DEPTH, parse

if TYPE_CHECKING:
    from collections.abc import Iterable

META_COLUMNS: Final = (
    "_hoodie_commit_time",
    "_hoodie_commit_seqno",
    "_hoodie_record_key",
    "_hoodie_partition_path",
    "_hoodie_file_name",
)
OPERATION_COLUMN: Final = "_hoodie_operation"
"""A sixth meta column of tables that keep the kind of every change."""

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NO_NAME_CHARACTER: Final = re.compile(r"[^A-Za-z0-9_]")


def to_arrow(schema_json: str, *, where: str) -> pa.Schema:
    """Return the Arrow schema of a record's Avro schema, fields in their order."""
    root = parse(schema_json, where=where)
    refuse_choices(root, where=where)
    return root.arrow_schema()


def from_arrow(schema: pa.Schema, *, table_name: str) -> str:
    """Return the Avro schema that Hudi's writers give to such a table, as JSON."""
    clean = clean_name(table_name)
    record, namespace = f"{clean}_record", f"hoodie.{clean}"
    return json.dumps(_record(schema, record, namespace, 0), separators=(",", ":"))


def clean_name(name: str) -> str:
    """Return a table's name as Avro allows it, by the rule of Hudi's writers."""
    first = "__" if not _NAME.fullmatch(name[:1]) else name[:1]
    return first + _NO_NAME_CHARACTER.sub("__", name[1:])


def with_meta_columns(schema: pa.Schema) -> pa.Schema:
    """Return the schema with the five meta columns in front."""
    meta = [pa.field(name, pa.string(), nullable=True) for name in META_COLUMNS]
    return pa.schema([*meta, *without_meta_columns(schema)]).with_metadata(schema.metadata)


def without_meta_columns(schema: pa.Schema) -> pa.Schema:
    """Return the schema without the five meta columns."""
    kept = [field for field in schema if field.name not in META_COLUMNS]
    return pa.schema(kept).with_metadata(schema.metadata)


def fixed_size(precision: int) -> int:
    """Return the fewest bytes that hold every decimal of so many digits."""
    return (int(10**precision - 1).bit_length() + 8) // 8


def _record(
    fields: Iterable[pa.Field[Any]], name: str, namespace: str, depth: int
) -> dict[str, object]:
    below = f"{namespace}.{name}"
    return {
        "type": "record",
        "name": name,
        "namespace": namespace,
        "fields": [_member(field, below, depth) for field in fields],
    }


def _member(field: pa.Field[Any], namespace: str, depth: int) -> dict[str, object]:
    if not _NAME.fullmatch(field.name):
        raise Invalid(
            f"column {field.name!r}: Avro's names are of letters, digits and underscores; rename it"
        )
    declared = _type(field.type, field.name, namespace, depth)
    if not field.nullable:
        return {"name": field.name, "type": declared}
    return {"name": field.name, "type": ["null", declared], "default": None}


def _nullable(field: pa.Field[Any], name: str, namespace: str, depth: int) -> object:
    declared = _type(field.type, name, namespace, depth)
    return ["null", declared] if field.nullable else declared


def _type(arrow: pa.DataType, name: str, namespace: str, depth: int) -> object:
    """Return the Avro type of an Arrow type; ``name`` is that of the nearest field around."""
    if depth > MAX_DEPTH:
        raise LimitExceeded(f"column {name} nests deeper than {MAX_DEPTH} levels")
    kinds = pa.types
    plain = _plain(arrow)
    if plain is not None:
        return plain
    if kinds.is_decimal(arrow):
        return {
            "type": "fixed",
            "name": "fixed",
            "namespace": f"{namespace}.{name}",
            "size": fixed_size(arrow.precision),
            "logicalType": "decimal",
            "precision": arrow.precision,
            "scale": arrow.scale,
        }
    if kinds.is_fixed_size_binary(arrow):
        size = arrow.byte_width
        return {"type": "fixed", "name": "fixed", "namespace": f"{namespace}.{name}", "size": size}
    if kinds.is_dictionary(arrow):
        return _type(arrow.value_type, name, namespace, depth + 1)
    if kinds.is_struct(arrow):
        return _record(arrow.fields, name, namespace, depth + 1)
    if kinds.is_map(arrow):
        if _plain(arrow.key_type) != "string":
            raise Unsupported(f"column {name} is a map with keys of type {arrow.key_type}")
        values = _nullable(arrow.item_field, name, namespace, depth + 1)
        return {"type": "map", "values": values}
    if kinds.is_list(arrow) or kinds.is_large_list(arrow) or kinds.is_fixed_size_list(arrow):
        items = _nullable(arrow.value_field, name, namespace, depth + 1)
        return {"type": "array", "items": items}
    raise Unsupported(f"column {name}: Hudi has no type for Arrow's {arrow}")


_PLAIN: Final[dict[pa.DataType, object]] = {
    pa.bool_(): "boolean",
    pa.int8(): "int",
    pa.int16(): "int",
    pa.int32(): "int",
    pa.int64(): "long",
    pa.uint8(): "int",
    pa.uint16(): "int",
    pa.uint32(): "long",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.string(): "string",
    pa.large_string(): "string",
    pa.binary(): "bytes",
    pa.large_binary(): "bytes",
    pa.date32(): {"type": "int", "logicalType": "date"},
    pa.time32("ms"): {"type": "int", "logicalType": "time-millis"},
    pa.time64("us"): {"type": "long", "logicalType": "time-micros"},
    pa.timestamp("ms"): {"type": "long", "logicalType": "local-timestamp-millis"},
    pa.timestamp("us"): {"type": "long", "logicalType": "local-timestamp-micros"},
}

_INSTANTS: Final = {"ms": "timestamp-millis", "us": "timestamp-micros"}


def _plain(arrow: pa.DataType) -> object | None:
    # A timestamp with any zone is an instant; the zone is how it is shown.
    if pa.types.is_timestamp(arrow) and arrow.tz is not None and arrow.unit in _INSTANTS:
        return {"type": "long", "logicalType": _INSTANTS[arrow.unit]}
    return _PLAIN.get(arrow)
