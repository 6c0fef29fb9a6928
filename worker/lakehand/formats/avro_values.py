"""One Avro record into a dictionary, strictly: the decoder of Hudi's small documents.

``reader_for(writer, own)`` turns a pair of schemas into a function once; the function then reads
record after record. Both schemas must be in the form that ``writer_schemas.canonical`` gives, which
is what bounds the work: every value outside a union takes a byte, and nothing nests without end.
Our own schemas are simple: a union is null and one other type.

Fields are matched by name. A field that only the writer has is read and dropped; one that only we
have takes our default; numbers widen as Avro allows. A union's branch that does not fit ours is an
error only when a record takes it. Nothing is guessed: a union index, a boolean or a length that
cannot be is ``BadValue``, where a laxer decoder would go on.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, TypeAlias

from lakehand.errors import InvariantBroken
from lakehand.formats.writer_schemas import BadSchema

Reader: TypeAlias = Callable[[bytes, int], tuple[Any, int]]
"""Reads the value at a place in the bytes; returns it and the place behind it.

Bytes that end too early may also raise ``IndexError`` or ``struct.error``."""

TOO_SHORT = (IndexError, struct.error)


class BadValue(Exception):
    """The bytes hold a value that their schema does not allow. Callers add file and place."""


def reader_for(writer: Any, own: Any, defaults: dict[str, dict[str, Any]]) -> Reader:  # noqa: ANN401
    """Return the function that reads what ``writer`` wrote as ``own`` wants it.

    ``defaults`` are our fields' defaults by full record name and field name.
    """
    return _Compiler(_named(writer, {}), _named(own, {}), defaults).compile(writer, own)


class _Compiler:
    """Makes readers of pairs of schemas; ``own`` is None where the value will be dropped."""

    def __init__(
        self,
        writer_names: dict[str, Any],
        own_names: dict[str, Any],
        defaults: dict[str, dict[str, Any]],
    ) -> None:
        self._writer_names = writer_names
        self._own_names = own_names
        self._defaults = defaults
        self._records: dict[tuple[str, str | None], Reader] = {}

    def compile(self, writer: Any, own: Any) -> Reader:  # noqa: ANN401 - a schema
        writer = self._writer_names.get(writer, writer) if isinstance(writer, str) else writer
        own = self._own_names.get(own, own) if isinstance(own, str) else own
        if isinstance(writer, list):
            return self._union(writer, own)
        if isinstance(own, list):
            own = self._not_null(own)
        if own is not None and not _fits(writer, own):
            raise BadSchema(f"the writer has {_kind(writer)} where {_kind(own)} belongs")
        if isinstance(writer, str):
            widened = own in ("float", "double") and writer in ("int", "long")
            return _read_long_as_float if widened else _PRIMITIVES[writer]
        return self._complex(writer, own)

    def _complex(self, writer: dict[str, Any], own: dict[str, Any] | None) -> Reader:
        match writer:
            case {"type": "record"}:
                return self._record(writer, own)
            case {"type": "array", "items": items}:
                return _array(self.compile(items, None if own is None else own["items"]))
            case {"type": "map", "values": values}:
                return _map(self.compile(values, None if own is None else own["values"]))
            case {"type": "enum", "symbols": symbols}:
                return _enum(symbols)
            case _:
                return _fixed(writer["size"])

    def _union(self, writer: list[Any], own: Any) -> Reader:  # noqa: ANN401 - a schema
        readers: list[Reader | None] = []
        for branch in writer:
            if branch == "null":
                nullable = own is None or (isinstance(own, list) and "null" in own)
                readers.append(None if nullable else _refuse("null"))
                continue
            try:
                readers.append(self.compile(branch, own))
            except BadSchema as error:
                readers.append(_refuse(str(error)))
        if readers == [None, _read_long]:
            return _read_null_or_long
        return _branches(tuple(readers))

    def _not_null(self, own: list[Any]) -> Any:  # noqa: ANN401 - a schema
        others = [branch for branch in own if branch != "null"]
        if len(others) != 1:
            raise InvariantBroken("a document's schema has a union of more than null and one type")
        other = others[0]
        return self._own_names.get(other, other) if isinstance(other, str) else other

    def _record(self, writer: dict[str, Any], own: dict[str, Any] | None) -> Reader:
        # Once for each pair: names that refer to names would otherwise multiply without end.
        pair = (writer["name"], None if own is None else own["name"])
        if pair not in self._records:
            self._records[pair] = self._new_record(writer, own)
        return self._records[pair]

    def _new_record(self, writer: dict[str, Any], own: dict[str, Any] | None) -> Reader:
        wanted = {} if own is None else {one["name"]: one["type"] for one in own["fields"]}
        members: list[tuple[str | None, Reader]] = []
        for one in writer["fields"]:
            name = one["name"] if one["name"] in wanted else None
            members.append((name, self.compile(one["type"], wanted.get(one["name"]))))
        missing = wanted.keys() - {name for name, _ in members}
        defaults = {} if own is None else self._defaults.get(own["name"], {})
        if needed := sorted(missing - defaults.keys()):
            raise BadSchema(f"the writer's {_kind(own)} has no {needed[0]}")
        return _record(members, {name: defaults[name] for name in missing})


def _named(schema: Any, found: dict[str, Any]) -> dict[str, Any]:  # noqa: ANN401 - a schema
    """Collect all named types by their full names."""
    match schema:
        case list():
            for branch in schema:
                _named(branch, found)
        case {"type": "record", "name": name, "fields": fields}:
            found[name] = schema
            for one in fields:
                _named(one["type"], found)
        case {"type": "enum" | "fixed", "name": name}:
            found[name] = schema
        case {"type": "array", "items": inner} | {"type": "map", "values": inner}:
            _named(inner, found)
    return found


_WIDENINGS = {
    ("int", "long"), ("int", "float"), ("int", "double"), ("long", "float"), ("long", "double"),
    ("float", "double"),
}  # fmt: skip


def _fits(writer: Any, own: Any) -> bool:  # noqa: ANN401 - two schemas
    if isinstance(writer, dict) and isinstance(own, dict):
        same_name = _short(writer.get("name", "")) == _short(own.get("name", ""))
        return bool(writer["type"] == own["type"]) and same_name
    if isinstance(writer, str) and isinstance(own, str):
        return writer == own or (writer, own) in _WIDENINGS
    return False


def _kind(schema: Any) -> str:  # noqa: ANN401 - a schema
    return schema if isinstance(schema, str) else _short(schema.get("name", schema["type"]))


def _short(name: str) -> str:
    return name.rpartition(".")[2]


def _read_long(data: bytes, at: int) -> tuple[int, int]:
    byte = data[at]
    at += 1
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), at
    value = byte & 0x7F
    shift = 7
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value >> 64:
                raise BadValue("a number of more than 64 bits")
            return (value >> 1) ^ -(value & 1), at
        shift += 7
        if shift > 63:
            raise BadValue("a number of more than 64 bits")


def _read_int(data: bytes, at: int) -> tuple[int, int]:
    value, at = _read_long(data, at)
    if not -(1 << 31) <= value < 1 << 31:
        raise BadValue("a number of more than 32 bits")
    return value, at


def _read_long_as_float(data: bytes, at: int) -> tuple[float, int]:
    value, at = _read_long(data, at)
    return float(value), at


def _read_null_or_long(data: bytes, at: int) -> tuple[int | None, int]:
    branch = data[at]
    if branch == 0:
        return None, at + 1
    if branch != 2:
        raise BadValue("a union index that is not of the union")
    return _read_long(data, at + 1)


def _read_boolean(data: bytes, at: int) -> tuple[bool, int]:
    value = data[at]
    if value > 1:
        raise BadValue("a boolean that is neither true nor false")
    return value == 1, at + 1


def _read_float(data: bytes, at: int) -> tuple[float, int]:
    return struct.unpack_from("<f", data, at)[0], at + 4


def _read_double(data: bytes, at: int) -> tuple[float, int]:
    return struct.unpack_from("<d", data, at)[0], at + 8


def _read_bytes(data: bytes, at: int) -> tuple[bytes, int]:
    length, at = _read_long(data, at)
    end = at + length
    if length < 0 or end > len(data):
        raise BadValue(f"a length of {length} where {len(data) - at} bytes are left")
    return data[at:end], end


def _read_string(data: bytes, at: int) -> tuple[str, int]:
    content, at = _read_bytes(data, at)
    try:
        return content.decode(), at
    except UnicodeDecodeError as error:
        raise BadValue(f"a string that is not UTF-8: {error}") from error


_PRIMITIVES: dict[str, Reader] = {
    "boolean": _read_boolean,
    "int": _read_int,
    "long": _read_long,
    "float": _read_float,
    "double": _read_double,
    "bytes": _read_bytes,
    "string": _read_string,
}


def _record(members: list[tuple[str | None, Reader]], defaults: dict[str, Any]) -> Reader:
    def read(data: bytes, at: int) -> tuple[dict[str, Any], int]:
        record = dict(defaults)
        for name, reader in members:
            value, at = reader(data, at)
            if name is not None:
                record[name] = value
        return record, at

    return read


def _branches(readers: tuple[Reader | None, ...]) -> Reader:
    def read(data: bytes, at: int) -> tuple[Any, int]:
        index, at = _read_long(data, at)
        if not 0 <= index < len(readers):
            raise BadValue("a union index that is not of the union")
        reader = readers[index]
        return (None, at) if reader is None else reader(data, at)

    return read


def _refuse(problem: str) -> Reader:
    def read(_data: bytes, _at: int) -> tuple[Any, int]:
        raise BadValue(problem)

    return read


def _count(data: bytes, at: int) -> tuple[int, int]:
    """Read how many items come next; every item takes a byte at least."""
    count, at = _read_long(data, at)
    if count < 0:
        count = -count
        _, at = _read_long(data, at)  # the block's length in bytes, for those who skip it
    if count > len(data) - at:
        raise BadValue(f"{count} items where {len(data) - at} bytes are left")
    return count, at


def _array(item: Reader) -> Reader:
    def read(data: bytes, at: int) -> tuple[list[Any], int]:
        items = []
        count, at = _count(data, at)
        while count:
            for _ in range(count):
                value, at = item(data, at)
                items.append(value)
            count, at = _count(data, at)
        return items, at

    return read


def _map(value: Reader) -> Reader:
    def read(data: bytes, at: int) -> tuple[dict[str, Any], int]:
        entries: dict[str, Any] = {}
        count, at = _count(data, at)
        while count:
            for _ in range(count):
                key, at = _read_string(data, at)
                entries[key], at = value(data, at)
            count, at = _count(data, at)
        return entries, at

    return read


def _enum(symbols: list[str]) -> Reader:
    def read(data: bytes, at: int) -> tuple[str, int]:
        index, at = _read_long(data, at)
        if not 0 <= index < len(symbols):
            raise BadValue("an enum index that is not of the enum")
        return symbols[index], at

    return read


def _fixed(size: int) -> Reader:
    def read(data: bytes, at: int) -> tuple[bytes, int]:
        if size > len(data) - at:
            raise BadValue(f"{size} bytes where {len(data) - at} are left")
        return data[at : at + size], at + size

    return read
