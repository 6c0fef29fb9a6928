"""Which schema a write commits: the table's, changed by what its data brings.

The rules are those of schema on write. New columns are appended, if they may be null; columns
that the data lacks become null, if they may; what may not be null can become nullable, never the
other way. Of two types of one column the wider stands: integers widen to longer ones and to
floats, floats to doubles, decimals to more digits, integers to text (a table's text takes days
and decimals as well). All of it holds in structs, lists and maps too. Anything else is refused by
the path of its field, before data is written.

First every type becomes the one that Hudi keeps: ``table_type`` says which.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.types as pt

from lakehand.errors import Invalid, Unsupported
from lakehand.formats.avro_schema import META_COLUMNS, OPERATION_COLUMN
from lakehand.read.alignment import MAX_DEPTH

if TYPE_CHECKING:
    from collections.abc import Iterable

    Field = pa.Field[Any]

_RESERVED: Final = frozenset({*META_COLUMNS, OPERATION_COLUMN})


def reconcile(
    table: pa.Schema | None,
    incoming: pa.Schema,
    *,
    allow_new_columns: bool = True,
    same_text: Iterable[str] = (),
) -> pa.Schema:
    """Return the schema, without meta columns, of a table after a write of ``incoming``.

    ``same_text`` names columns that keys and paths are made of: they widen only as long as their
    values' text stays, because a key that reads otherwise is another key.
    """
    old = [] if table is None else _without_reserved(table)
    if not old:
        return table_schema(incoming)
    merged = pa.schema(_members(old, _without_reserved(incoming), "", allow_new=allow_new_columns))
    for name in same_text:
        _require_same_text(type_at(old, name), type_at(merged, name), name)
    return merged


def table_schema(schema: pa.Schema) -> pa.Schema:
    """Return data's own schema as a table keeps it: Hudi's types, without meta columns."""
    fields = _without_reserved(schema)
    _refuse_twins(fields, "")
    return pa.schema([_new_field(field, field.name) for field in fields])


def _without_reserved(schema: pa.Schema) -> list[Field]:
    """Leave out Hudi's meta columns: data that was read from a table brings them along."""
    return [field for field in schema if field.name not in _RESERVED]


def _refuse_twins(fields: Iterable[Field], within: str) -> None:
    seen: dict[str, str] = {}
    for field in fields:
        twin = seen.get(field.name.lower())
        if twin is not None:
            raise Invalid(
                f"columns {within}{twin} and {within}{field.name} are one to Spark, which does not "
                "tell names apart by case: rename one of them"
            )
        seen[field.name.lower()] = field.name


# -- types as Hudi keeps them ----------------------------------------------------------------------


def _new_field(field: Field, path: str) -> Field:
    kept = _table_field(field, path, 0)
    _refuse_untyped(kept.type, path)
    return kept


def _refuse_untyped(kind: pa.DataType, path: str) -> None:
    if pt.is_null(kind):
        raise Unsupported(f"column {path} has nulls only and no type: cast it to one")
    for number in range(kind.num_fields):
        member = kind.field(number)
        _refuse_untyped(member.type, f"{path}.{member.name}")


def _table_field(field: Field, path: str, depth: int) -> Field:
    return pa.field(field.name, table_type(field.type, path, depth), nullable=field.nullable)


def table_type(kind: pa.DataType, path: str, depth: int = 0) -> pa.DataType:
    """Return the type that a table has for an Arrow type; refuses, by its path, one without.

    Times have microseconds, and those with a zone are kept in UTC; finer ones are taken if their
    values need no more. Avro's smallest integer is Spark's ``int``. Nulls without a type stay so.
    """
    if depth > MAX_DEPTH:
        raise Unsupported(f"column {path} nests deeper than {MAX_DEPTH} levels")
    plain = _plain_type(kind)
    if plain is not None:
        return plain
    nested: Any = kind
    if pt.is_dictionary(kind):
        return table_type(nested.value_type, path, depth + 1)
    if pt.is_struct(kind):
        members = list(nested)
        if any((one.metadata or {}).get(b"variant") == b"true" for one in members):
            raise Unsupported(f"column {path} is a variant, which Hudi tables do not have: cast it")
        _refuse_twins(members, f"{path}.")
        return pa.struct([_table_field(one, f"{path}.{one.name}", depth + 1) for one in members])
    if pt.is_map(kind):
        if not pt.is_string(table_type(nested.key_type, f"{path}.key", depth + 1)):
            raise Unsupported(
                f"column {path} is a map with keys of type {nested.key_type}; Hudi's maps have "
                "text as keys: cast them to string"
            )
        return _map(pa.string(), _table_field(nested.item_field, f"{path}.value", depth + 1))
    if _is_list(kind):
        return pa.list_(_table_field(nested.value_field, f"{path}.element", depth + 1))
    raise Unsupported(
        f"column {path} has type {kind}, which Hudi tables do not have: leave it out, or cast it"
    )


def _plain_type(kind: pa.DataType) -> pa.DataType | None:
    """Return the table's type of values that hold no others; None if there is none."""
    if pt.is_timestamp(kind):
        return pa.timestamp("us", None if kind.tz is None else "UTC")
    if pt.is_decimal(kind):
        narrow = kind.precision <= 38 and 0 <= kind.scale <= kind.precision
        return pa.decimal128(kind.precision, kind.scale) if narrow else None
    if pt.is_fixed_size_binary(kind):
        return kind
    return _PLAIN.get(kind)


_PLAIN: Final[dict[pa.DataType, pa.DataType]] = {
    **dict.fromkeys((pa.int8(), pa.int16(), pa.int32(), pa.uint8(), pa.uint16()), pa.int32()),
    **dict.fromkeys((pa.int64(), pa.uint32()), pa.int64()),
    **dict.fromkeys((pa.float16(), pa.float32()), pa.float32()),
    **dict.fromkeys((pa.string(), pa.large_string(), pa.string_view()), pa.string()),
    **dict.fromkeys((pa.binary(), pa.large_binary(), pa.binary_view()), pa.binary()),
    **dict.fromkeys((pa.date32(), pa.date64()), pa.date32()),
    **dict.fromkeys((pa.time32("s"), pa.time32("ms")), pa.time32("ms")),
    **dict.fromkeys((pa.time64("us"), pa.time64("ns")), pa.time64("us")),
    pa.float64(): pa.float64(),
    pa.bool_(): pa.bool_(),
    pa.null(): pa.null(),
}


# -- two schemas -----------------------------------------------------------------------------------


def _members(old: list[Field], new: list[Field], within: str, *, allow_new: bool) -> list[Field]:
    """Return the fields of a table, or of a struct (``within`` its path), after the write."""
    _refuse_twins(new, within)
    known = {field.name for field in old}
    _refuse_twins([*old, *(field for field in new if field.name not in known)], within)
    coming = {field.name: field for field in new}
    merged = []
    for field in old:
        other = coming.pop(field.name, None)
        if other is not None:
            merged.append(_wider_field(field, other, f"{within}{field.name}", allow_new=allow_new))
        elif field.nullable:
            merged.append(field)
        else:
            raise Invalid(
                f"the data lacks column {within}{field.name}, which may not be null in the table "
                f"({field.type}): add it to the data"
            )
    for name, field in coming.items():
        if not allow_new:
            raise Invalid(
                f"the data has column {within}{name} ({field.type}), which the table does not "
                "have: leave it out, or allow the write to add columns"
            )
        # The rows that are there have none, so it may be null whatever the data says.
        merged.append(_new_field(field, f"{within}{name}").with_nullable(True))
    return merged


def _wider_field(old: Field, new: Field, path: str, *, allow_new: bool) -> Field:
    kind = _wider(old.type, new.type, path, allow_new=allow_new)
    return pa.field(old.name, kind, nullable=old.nullable or new.nullable)


def _wider(table: pa.DataType, data: pa.DataType, path: str, *, allow_new: bool) -> pa.DataType:
    """Return the type that holds both; a struct's has the fields of both."""
    old: Any = table
    new: Any = data
    if pt.is_null(new):
        return table
    if pt.is_dictionary(new):
        return _wider(table, new.value_type, path, allow_new=allow_new)
    if pt.is_struct(old) and pt.is_struct(new):
        return pa.struct(_members(list(old), list(new), f"{path}.", allow_new=allow_new))
    if pt.is_list(old) and _is_list(new):
        element = f"{path}.element"
        return pa.list_(
            _wider_field(old.value_field, new.value_field, element, allow_new=allow_new)
        )
    if pt.is_map(old) and pt.is_map(new):
        key = _wider(old.key_type, new.key_type, f"{path}.key", allow_new=allow_new)
        value = _wider_field(old.item_field, new.item_field, f"{path}.value", allow_new=allow_new)
        return _map(key, value)
    wider = _wider_plain(old, table_type(new, path))
    if wider is None:
        raise Invalid(
            f"column {path} has type {old} in the table and {new} in the data, and neither holds "
            f"the other: cast it to {old}, or write it under another name"
        )
    return wider


_NUMBERS: Final[tuple[pa.DataType, ...]] = (pa.int32(), pa.int64(), pa.float32(), pa.float64())
"""Each widens to all that follow."""


def _wider_plain(table: pa.DataType, data: pa.DataType) -> pa.DataType | None:
    """Return which of two types holds the other's values, as ``read.alignment`` casts them."""
    old: Any = table
    new: Any = data
    rules = {
        "the same": old.equals(new),
        "a time, in the table's unit": pt.is_timestamp(old)
        and pt.is_timestamp(new)
        and (old.tz is None) == (new.tz is None),
        "a decimal of more digits": _holds_digits(old, new),
        "text of whatever reads back": pt.is_string(old)
        and (pt.is_integer(new) or pt.is_date(new) or pt.is_decimal(new)),
    }
    if any(rules.values()):
        return table
    if _holds_digits(new, old) or (pt.is_integer(old) and pt.is_string(new)):
        return data
    if table in _NUMBERS and data in _NUMBERS:
        return max(table, data, key=_NUMBERS.index)
    return None


def _holds_digits(one: Any, other: Any) -> bool:  # noqa: ANN401 - types with details
    """Whether each decimal of type ``other`` is one of type ``one`` too."""
    return bool(
        pt.is_decimal(one)
        and pt.is_decimal(other)
        and one.scale >= other.scale
        and one.precision - one.scale >= other.precision - other.scale
    )


def _map(key: pa.DataType, value: Field) -> pa.DataType:
    map_of: Any = pa.map_
    kind: pa.DataType = map_of(key, value)
    return kind


def _is_list(kind: pa.DataType) -> bool:
    return pt.is_list(kind) or pt.is_large_list(kind) or pt.is_fixed_size_list(kind)


# -- columns of keys and paths ---------------------------------------------------------------------


def type_at(fields: Iterable[Field], name: str) -> pa.DataType | None:
    """Return the type of a possibly nested field (``a.b``); None if there is none."""
    top, _, below = name.partition(".")
    kind: Any = next((field.type for field in fields if field.name == top), None)
    if kind is None or not below:
        found: pa.DataType | None = kind
        return found
    return type_at(list(kind), below) if pt.is_struct(kind) else None


def _require_same_text(old: Any, new: Any, name: str) -> None:  # noqa: ANN401 - types with details
    if old is None or new is None or old.equals(new):
        return
    if pt.is_integer(old) and (pt.is_integer(new) or pt.is_string(new)):
        return
    if pt.is_decimal(old) and old.scale == getattr(new, "scale", None):
        return
    raise Invalid(
        f"column {name} is part of the table's keys or partition paths and cannot widen from {old} "
        f"to {new}: its values would read otherwise, and the rows that are there not be found; "
        f"cast it to {old}"
    )
