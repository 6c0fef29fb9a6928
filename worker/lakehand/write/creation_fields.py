"""What the fields of a new table must be: there, of types that will do, fit for a key generator."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Any, assert_never

import pyarrow as pa

from lakehand.core.key_generators import KeyGenerator
from lakehand.core.partition_paths import PartitionField, PartitionType
from lakehand.core.table_kinds import TableVersion
from lakehand.errors import Invalid, Unsupported
from lakehand.formats import avro_schema

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from lakehand.core.table_config import TableConfig


def data_schema(schema: pa.Schema) -> pa.Schema:
    """Return the columns that are the user's own; two that Spark cannot tell apart are refused."""
    data = avro_schema.without_meta_columns(schema)
    if not len(data):
        raise Invalid("a table needs columns: the schema has none beside Hudi's own")
    seen: dict[str, str] = {}
    for name in data.names:
        other = seen.setdefault(name.lower(), name)
        if other is not name:
            raise Invalid(
                f"columns {other!r} and {name!r} are the same to Spark, which does not look at "
                "upper and lower case: rename one"
            )
    return data


def require_fields(data: pa.Schema, config: TableConfig) -> None:
    """Raise ``Invalid`` where a field is not in the schema, or of a type that will not do."""
    if not config.record_key_fields:
        raise Invalid("a table needs a key: name the fields that tell its records apart")
    if len(config.ordering_fields) > 1 and config.version < TableVersion.NINE:
        raise Unsupported(
            f"table version {int(config.version)} has one ordering field, not "
            f"{', '.join(config.ordering_fields)}: name one, or create a table of version 9"
        )
    for field in config.record_key_fields:
        _require_text(data, "key", field)
    for partition in config.partitioning.fields:
        _require_partition(data, partition)
    for field in config.ordering_fields:
        found = _field_type(data, "ordering", field)
        if not _has_text(found):
            raise Invalid(f"ordering field {field!r} is of type {found}, which has no order")


def require_list(argument: str, fields: Sequence[str]) -> None:
    """Raise ``Invalid`` for a name where a list of names belongs, and for a name twice."""
    if isinstance(fields, str):
        raise Invalid(f"{argument} is a list of fields: write {argument}=({fields!r},)")
    twice = {one for one in fields if list(fields).count(one) > 1}
    if twice:
        raise Invalid(f"{argument} names {', '.join(sorted(twice))} twice")


def _require_partition(data: pa.Schema, field: PartitionField) -> None:
    found = _field_type(data, "partition", field.name)
    is_no_moment = field.kind is PartitionType.TIMESTAMP and pa.types.is_boolean(found)
    if is_no_moment or not _has_text(found):
        raise Invalid(f"partition field {field.name!r} is of type {found}, which makes no folder")


def _require_text(data: pa.Schema, what: str, field: str) -> None:
    found = _field_type(data, what, field)
    if not _has_text(found):
        raise Invalid(
            f"{what} field {field!r} is of type {found}: a key is made of text, numbers, dates "
            "and timestamps"
        )


def _has_text(kind: pa.DataType) -> bool:
    """Whether keys and folders can be made of the type's values, and versions ordered by them."""
    types = pa.types
    if types.is_dictionary(kind):
        return _has_text(kind.value_type)
    return (
        types.is_string(kind)
        or types.is_large_string(kind)
        or types.is_boolean(kind)
        or types.is_integer(kind)
        or types.is_floating(kind)
        or types.is_decimal(kind)
        or types.is_date(kind)
        or types.is_timestamp(kind)
    )


def _field_type(data: pa.Schema, what: str, path: str) -> pa.DataType:
    """Return the type of a column, or of a field within structs (``a.b``)."""
    fields: Sequence[pa.Field[Any]] = list(data)
    found: pa.DataType | None = None
    for depth, name in enumerate(path.split(".")):
        field = next((one for one in fields if one.name == name), None)
        if field is None:
            names = [one.name for one in fields]
            around = ".".join(path.split(".")[:depth])
            inside = f" in {around!r}" if around else ""
            raise Invalid(
                f"{what} field {path!r}: there is no column {name!r}{inside}{hint(name, names)}; "
                f"there are {', '.join(names) or 'none'}"
            )
        found = field.type
        fields = found.fields if pa.types.is_struct(found) else []
    if found is None:
        raise Invalid(f"a {what} field without a name")
    return found


def hint(word: str, known: Iterable[str]) -> str:
    """Return a question after the nearest known word, for an error message."""
    by_lower = {one.lower(): one for one in known}
    close = difflib.get_close_matches(word.lower(), by_lower, n=1, cutoff=0.5)
    return f" (did you mean {by_lower[close[0]]!r}?)" if close else ""


def require_generator(config: TableConfig) -> None:
    """Raise ``Invalid`` if a key generator that was named does not take so many fields."""
    keys, folders = len(config.record_key_fields), len(config.partition_fields)
    match config.key_generator:
        case KeyGenerator.SIMPLE | KeyGenerator.TIMESTAMP as generator:
            takes, fits = "one key and one partition field", (keys, folders) == (1, 1)
        case KeyGenerator.NON_PARTITION as generator:
            takes, fits = "no partition fields", folders == 0
        case KeyGenerator.METADATA_TABLE as generator:
            takes, fits = "the records of a metadata table", False
        case KeyGenerator.COMPLEX | KeyGenerator.CUSTOM | None:
            return
        case _ as unknown:
            assert_never(unknown)
    if not fits:
        raise Invalid(
            f"key generator {generator.type_name} takes {takes}; this table has {keys} key and "
            f"{folders} partition fields"
        )
