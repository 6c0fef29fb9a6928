"""Hudi's small Avro documents: object container files that hold exactly one record.

::

    decode: container frame -> writer schema judged -> avro_values, to our schema -> dict
    encode: dict -> fastavro -> container frame, codec null

Documents are read by our own decoder: fastavro trusts the writer schema (one that holds itself
overruns its stack) and takes some broken bytes for values. For these schemas it is also slower.
The schemas that documents are read and written with lie beside this module in ``schemas/``, one
file for each type; a type that another file defines is named in full, and put in place where it
is first used.

Java writes the codec null and accepts plain ``string`` where its own classes say
``avro.java.string``. A writer's fields that our schemas do not know are dropped; fields that it
does not have take our defaults.
"""

from __future__ import annotations

import hashlib
import json
import struct
import zlib
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib import resources
from io import BytesIO
from typing import TYPE_CHECKING, Any

import fastavro

from lakehand.errors import Corrupt, Invalid, InvariantBroken, LimitExceeded, Unsupported
from lakehand.formats import avro_values
from lakehand.formats.writer_schemas import BadSchema, Schema, canonical

if TYPE_CHECKING:
    from collections.abc import Iterator

SIZE_LIMIT = 256 << 20
"""Bytes of one document, on storage and inflated."""

MAGIC = b"Obj\x01"
NAMESPACE = "org.apache.hudi.avro.model"

_SYNC_LENGTH = 16
_ZLIB_CHECKSUM = 4
_ENCODE_ERRORS = (
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    ArithmeticError,
    struct.error,
)
"""What fastavro raises for records that do not fit the schema."""


def decode(
    content: bytes, schema_name: str, *, where: str, limit: int = SIZE_LIMIT
) -> dict[str, Any]:
    """Return the document's one record, resolved to Lakehand's schema ``schema_name``."""
    frame = _read_frame(content, where=where, limit=limit)
    _, name = _judged(frame.schema, where=where)
    if name != schema_name:
        raise Corrupt(f"holds a {name}, not a {schema_name}", where=where, offset=len(MAGIC))
    try:
        record, end = _reader(frame.schema, schema_name)(frame.record, 0)
    except BadSchema as error:
        raise Corrupt(str(error), where=where, offset=len(MAGIC)) from error
    except avro_values.BadValue as error:
        problem = f"not a valid {schema_name}: {error}"
        raise Corrupt(problem, where=where, offset=frame.offset) from error
    except avro_values.TOO_SHORT as error:
        problem = f"the {schema_name} ends in the middle of a value"
        raise Corrupt(problem, where=where, offset=frame.offset) from error
    if end != len(frame.record):
        problem = f"the {schema_name} ends before its block does"
        raise Corrupt(problem, where=where, offset=frame.offset)
    return dict(record)


def record_name(content: bytes, *, where: str, limit: int = SIZE_LIMIT) -> str:
    """Return the name, without namespace, of the record type that the document holds."""
    frame = _read_frame(content, where=where, limit=limit)
    return _judged(frame.schema, where=where)[1]


def encode(record: dict[str, Any], schema_name: str) -> bytes:
    """Return a container with ``record``; equal records give equal bytes."""
    writing = _own(schema_name)
    body = BytesIO()
    try:
        fastavro.schemaless_writer(body, writing.parsed, record)
    except _ENCODE_ERRORS as error:
        raise Invalid(f"not a record of {schema_name}: {type(error).__name__}: {error}") from error
    content = body.getvalue()
    # Any 16 bytes will do that are unlikely inside the record; a digest keeps encoding pure.
    sync = hashlib.blake2b(content, digest_size=_SYNC_LENGTH).digest()
    head = MAGIC + _long(2)
    for key, value in ((b"avro.schema", writing.text.encode()), (b"avro.codec", b"null")):
        head += _long(len(key)) + key + _long(len(value)) + value
    return b"".join((head, _long(0), sync, _long(1), _long(len(content)), content, sync))


def schema_json(schema_name: str) -> str:
    """Return the self-contained JSON text of one of the schemas in ``schemas/``."""
    return _own(schema_name).text


@dataclass(frozen=True, slots=True)
class _OwnSchema:
    """A schema of ours in its three forms: to embed, for fastavro, and for ``avro_values``."""

    text: str
    parsed: Any
    canonical: Schema
    defaults: dict[str, dict[str, Any]]


@cache
def _own(schema_name: str) -> _OwnSchema:
    whole: Any = _inline(_load(schema_name), set())
    text = json.dumps(whole, separators=(",", ":"))
    return _OwnSchema(
        text=text,
        parsed=fastavro.parse_schema(whole),
        canonical=canonical(text),
        defaults=dict(_defaults(whole)),
    )


def _load(schema_name: str) -> object:
    source = resources.files("lakehand.formats") / "schemas" / f"{schema_name}.avsc"
    if not source.is_file():
        raise InvariantBroken(f"there is no schema named {schema_name}")
    return json.loads(source.read_text(encoding="utf-8"))


def _inline(node: object, defined: set[str]) -> object:
    """Put a type's definition where its full name is used first."""
    match node:
        case str() if node.startswith(NAMESPACE) and node not in defined:
            return _inline(_load(node.rpartition(".")[2]), defined)
        case {"type": "record", "name": name, "fields": list(fields), **attributes}:
            defined.add(f"{NAMESPACE}.{name}")
            members = [_inline(member, defined) for member in fields]
            return {"type": "record", "name": name, **attributes, "fields": members}
        case dict():
            return {key: _inline(value, defined) for key, value in node.items()}
        case list():
            return [_inline(value, defined) for value in node]
        case _:
            return node


def _defaults(node: object) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each record's full name with the defaults of its fields."""
    match node:
        case {"type": "record", "name": name, "fields": list(fields)}:
            given = {own["name"]: own["default"] for own in fields if "default" in own}
            yield f"{NAMESPACE}.{name}", given
            yield from _defaults(fields)
        case dict():
            yield from _defaults(list(node.values()))
        case list():
            for inner in node:
                yield from _defaults(inner)


@lru_cache(maxsize=64)
def _judge(schema: bytes) -> tuple[Schema, str]:
    judged = canonical(schema)
    match judged:
        case {"type": "record", "name": str() as full}:
            return judged, full.rpartition(".")[2]
        case _:
            raise BadSchema("the writer schema is not of a record")


def _judged(schema: bytes, *, where: str) -> tuple[Schema, str]:
    try:
        return _judge(schema)
    except BadSchema as error:
        raise Corrupt(str(error), where=where, offset=len(MAGIC)) from error


@lru_cache(maxsize=64)
def _reader(schema: bytes, schema_name: str) -> avro_values.Reader:
    own = _own(schema_name)
    return avro_values.reader_for(_judge(schema)[0], own.canonical, own.defaults)


@dataclass(frozen=True, slots=True)
class _Frame:
    """A container taken apart: ``offset`` is where the record's block begins."""

    schema: bytes
    record: bytes
    offset: int


@dataclass(slots=True)
class _Cursor:
    """Reads Avro's primitives, never beyond the end."""

    content: bytes
    where: str
    at: int = 0

    def fail(self, problem: str) -> Corrupt:
        return Corrupt(problem, where=self.where, offset=self.at)

    def take(self, length: int) -> bytes:
        if not 0 <= length <= len(self.content) - self.at:
            left = len(self.content) - self.at
            raise self.fail(f"a length of {length} where {left} bytes are left")
        self.at += length
        return self.content[self.at - length : self.at]

    def long(self) -> int:
        value = 0
        for shift in range(0, 64, 7):
            byte = self.take(1)[0]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return (value >> 1) ^ -(value & 1)
        raise self.fail("a number longer than 64 bits")


def _read_frame(content: bytes, *, where: str, limit: int) -> _Frame:
    if len(content) > limit:
        raise LimitExceeded(f"{where}: a document of {len(content)} bytes; the limit is {limit}")
    cursor = _Cursor(content, where)
    if content[: len(MAGIC)] != MAGIC:
        problem = "not an Avro document" if content else "the file is empty, not an Avro document"
        raise cursor.fail(problem)
    cursor.at = len(MAGIC)
    header = _read_header(cursor)
    sync = cursor.take(_SYNC_LENGTH)
    found: _Frame | None = None
    while cursor.at < len(content):
        start = cursor.at
        count = cursor.long()
        block = cursor.take(cursor.long())
        if cursor.take(_SYNC_LENGTH) != sync:
            raise cursor.fail("a block does not end with the file's sync marker")
        if count == 0 and not block:
            continue
        if count != 1 or found is not None:
            raise Corrupt("holds more or less than one record", where=where, offset=start)
        codec = header.get(b"avro.codec", b"null")
        record = _decompress(block, codec, where=where, offset=start, limit=limit)
        found = _Frame(header.get(b"avro.schema", b""), record, start)
    if found is None:
        raise cursor.fail("the document ends before its record")
    return found


def _read_header(cursor: _Cursor) -> dict[bytes, bytes]:
    header: dict[bytes, bytes] = {}
    while count := cursor.long():
        if count < 0:
            cursor.long()  # the block's length in bytes: of use only to those who skip it
        for _ in range(abs(count)):  # each turn takes at least two bytes or fails
            key = cursor.take(cursor.long())
            header[key] = cursor.take(cursor.long())
    return header


def _decompress(block: bytes, codec: bytes, *, where: str, offset: int, limit: int) -> bytes:
    if codec == b"null":
        return block
    if codec != b"deflate":
        raise Unsupported(f"{where}: the Avro codec {codec[:40]!r}; Hudi writes null")
    inflater = zlib.decompressobj(-zlib.MAX_WBITS)
    try:
        plain = inflater.decompress(block, limit + 1)
    except zlib.error as error:
        raise Corrupt(f"broken deflate data: {error}", where=where, offset=offset) from error
    if len(plain) > limit:
        raise LimitExceeded(f"{where}: inflates to more than the limit of {limit} bytes")
    # Some writers leave bytes of zlib's checksum behind the data, which Avro does not have.
    if not inflater.eof or len(inflater.unused_data) > _ZLIB_CHECKSUM:
        raise Corrupt("deflate data that does not end with its block", where=where, offset=offset)
    return plain


def _long(value: int) -> bytes:
    """Return a length as Avro writes it: zigzag, seven bits a byte, the lowest first."""
    left = value << 1
    encoded = bytearray()
    while left > 0x7F:
        encoded.append(left & 0x7F | 0x80)
        left >>= 7
    encoded.append(left)
    return bytes(encoded)
