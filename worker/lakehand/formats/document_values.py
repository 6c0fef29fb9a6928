"""Documents as typed values: one table-driven way between Avro or JSON records and dataclasses.

A document is a frozen, keyword-only dataclass. Its annotations say how each field is read and
written, and its field names say under which name: ``missing_schedule_partitions`` is Hudi's
``missingSchedulePartitions``; a field whose name Hudi spells otherwise says so by ``named``.

::

    str  bool  int (64 bits)  float       themselves, of exactly that type
    T | None                              null
    tuple[T, ...]                         array
    Mapping[str, T]                       map
    another such dataclass                record
    an enum                               its value

A field that is missing, or null where the annotation does not allow it, takes its default; without
one the record is ``Corrupt``. Unknown fields are left out. The table of a class is made once, when
its ``RecordMapping`` is.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from enum import Enum
from operator import attrgetter
from typing import Any, Generic, TypeVar, get_args, get_origin

from lakehand.errors import Corrupt, InvariantBroken
from lakehand.formats import avro_documents

T = TypeVar("T")
_Convert = Callable[[Any], Any]

_NAME = "hudi_name"
_SHOWN = 60
_BEYOND_LONG = 1 << 63


def named(hudi_name: str, **options: Any) -> Any:  # noqa: ANN401 - stands for any field's value
    """Declare a dataclass field that Hudi spells ``hudi_name``; options as for ``field``."""
    return field(metadata={_NAME: hudi_name}, **options)


class RecordMapping(Generic[T]):
    """How one dataclass is made from a record, and a record from it."""

    def __init__(self, kind: type[T]) -> None:
        self._read, self._write = _record_converters(kind)

    def read(self, record: object, *, where: str) -> T:
        """Return the value of ``record``, or raise ``Corrupt`` with the way to what is wrong."""
        try:
            return typing.cast("T", self._read(record))
        except _Unfit as unfit:
            raise Corrupt(str(unfit), where=where) from unfit

    def write(self, value: T) -> dict[str, Any]:
        """Return the record of ``value``, every field in the order of the class."""
        return typing.cast("dict[str, Any]", self._write(value))


class Document(Generic[T]):
    """A dataclass together with the Avro schema that its documents are kept in."""

    def __init__(self, kind: type[T], schema_name: str) -> None:
        self._mapping = RecordMapping(kind)
        self._schema_name = schema_name

    def decode(self, content: bytes, *, where: str) -> T:
        """Read the Avro document ``content``; ``where`` names its file."""
        record = avro_documents.decode(content, self._schema_name, where=where)
        return self._mapping.read(record, where=where)

    def encode(self, value: T) -> bytes:
        """Return ``value`` as an Avro document."""
        return avro_documents.encode(self._mapping.write(value), self._schema_name)


class _Unfit(Exception):
    """A value does not fit its annotation; the message grows a path on its way up."""

    def at(self, place: str) -> _Unfit:
        return _Unfit(f"{place}: {self}")


@dataclass(frozen=True, slots=True)
class _Member:
    """One row of a class's table."""

    name: str
    hudi_name: str
    plain: type[Any] | None
    """The type whose values are taken as they are, integers within their range."""
    read: _Convert
    write: _Convert | None
    takes_null: bool
    default: Any


def _record_converters(kind: type[Any]) -> tuple[_Convert, _Convert]:
    members = tuple(_members(kind))
    rows = tuple((member, member.name, member.hudi_name, member.plain) for member in members)

    def read(record: object) -> object:
        if not isinstance(record, dict):
            raise _Unfit(f"{str(record)[:_SHOWN]!r} is not a {kind.__name__}")
        values: dict[str, Any] = {}
        get = record.get
        for member, name, hudi_name, plain in rows:
            value = get(hudi_name, MISSING)
            # Nearly every value of a large document is plain: this is what its reading costs.
            if type(value) is plain and (plain is not int or -_BEYOND_LONG <= value < _BEYOND_LONG):
                values[name] = value
            else:
                values[name] = _read_member(kind, member, value)
        return kind(**values)

    def write(value: object) -> object:
        record = {}
        for member in members:
            own = getattr(value, member.name)
            convert = member.write
            record[member.hudi_name] = own if own is None or convert is None else convert(own)
        return record

    return read, write


def _read_member(kind: type[Any], member: _Member, value: Any) -> Any:  # noqa: ANN401 - a field
    if value is None and member.takes_null:
        return None
    if value is None or value is MISSING:
        if member.default is MISSING:
            raise _Unfit(f"{kind.__name__} has no {member.hudi_name}")
        return member.default
    try:
        return member.read(value)
    except _Unfit as unfit:
        raise unfit.at(member.hudi_name) from unfit


def _members(kind: type[Any]) -> typing.Iterator[_Member]:
    if not is_dataclass(kind):
        raise InvariantBroken(f"{kind} is not a dataclass")
    hints = typing.get_type_hints(kind)
    for own in fields(kind):
        hint, takes_null = _without_none(hints[own.name])
        read, write = _converters(hint)
        default = own.default if own.default_factory is MISSING else own.default_factory()
        hudi_name = own.metadata.get(_NAME) or _camel_case(own.name)
        plain = hint if hint in (str, bool, int) else None
        yield _Member(own.name, hudi_name, plain, read, write, takes_null, default)


def _without_none(hint: Any) -> tuple[Any, bool]:  # noqa: ANN401 - a type expression
    if get_origin(hint) not in (types.UnionType, typing.Union):
        return hint, False
    kinds = [kind for kind in get_args(hint) if kind is not types.NoneType]
    if len(kinds) != 1:
        raise InvariantBroken(f"no document has a field of type {hint}")
    return kinds[0], True


def _converters(hint: Any) -> tuple[_Convert, _Convert | None]:  # noqa: ANN401 - a type expression
    """Return how a value is read, and how it is written (None: as it is)."""
    origin, arguments = get_origin(hint), get_args(hint)
    if hint in _SCALARS:
        return _SCALARS[hint], None
    if origin is tuple:
        return _array_converters(arguments[0])
    if origin is Mapping:
        return _map_converters(arguments[1])
    if is_dataclass(hint):
        return _record_converters(typing.cast("type[Any]", hint))
    if isinstance(hint, type) and issubclass(hint, Enum):
        return _enum_converters(hint)
    raise InvariantBroken(f"no document has a field of type {hint}")


def _array_converters(item_hint: Any) -> tuple[_Convert, _Convert]:  # noqa: ANN401 - a type
    item, takes_null = _without_none(item_hint)
    read_item, write_item = _converters(item)

    def read(value: object) -> object:
        if not isinstance(value, list):
            raise _Unfit(f"{str(value)[:_SHOWN]!r} is not a list")
        if not takes_null:
            return tuple(map(read_item, value))
        return tuple(None if item is None else read_item(item) for item in value)

    def write(value: tuple[object, ...]) -> object:
        if write_item is None:
            return list(value)
        return [None if item is None else write_item(item) for item in value]

    return read, write


def _map_converters(value_hint: Any) -> tuple[_Convert, _Convert]:  # noqa: ANN401 - a type
    read_value, write_value = _converters(value_hint)

    def read(value: object) -> object:
        if not isinstance(value, dict):
            raise _Unfit(f"{str(value)[:_SHOWN]!r} is not a map")
        result = {}
        for key, inner in value.items():
            try:
                result[key] = read_value(inner)
            except _Unfit as unfit:
                raise unfit.at(repr(key)) from unfit
        return result

    def write(value: Mapping[str, object]) -> object:
        if write_value is None:
            return dict(value)
        return {key: write_value(inner) for key, inner in value.items()}

    return read, write


def _enum_converters(kind: type[Enum]) -> tuple[_Convert, _Convert]:
    members = {member.value: member for member in kind}

    def read(value: object) -> object:
        if not isinstance(value, str) or value not in members:
            raise _Unfit(f"{str(value)[:_SHOWN]!r} is no {kind.__name__}")
        return members[value]

    return read, attrgetter("value")


def _exactly(kind: type[Any]) -> _Convert:
    def read(value: object) -> object:
        if type(value) is not kind:  # a bool is an int to isinstance
            raise _Unfit(f"{str(value)[:_SHOWN]!r} is not a {kind.__name__}")
        return value

    return read


def _read_int(value: object) -> object:
    if type(value) is not int or not -_BEYOND_LONG <= value < _BEYOND_LONG:
        raise _Unfit(f"{str(value)[:_SHOWN]!r} is not an integer of 64 bits")
    return value


def _read_float(value: object) -> object:
    if type(value) is int or type(value) is float:
        return float(value)
    raise _Unfit(f"{str(value)[:_SHOWN]!r} is not a number")


_SCALARS: dict[Any, _Convert] = {
    str: _exactly(str),
    bool: _exactly(bool),
    int: _read_int,
    float: _read_float,
}


def _camel_case(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)
