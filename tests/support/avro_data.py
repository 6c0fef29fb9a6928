"""Random Avro schemas with values that fit, and an encoder that uses all freedom Avro gives.

The values are what fastavro takes and returns: it is the judge of our decoding and encoding.
"""

import datetime
import decimal
import io
import json
from dataclasses import dataclass
from typing import Any

import fastavro
import numpy as np
from hypothesis import strategies as st

from lakehand.formats.avro_columns import Records

UTC = datetime.UTC


@dataclass(frozen=True)
class Typed:
    """An Avro type and the strategy of its values."""

    schema: Any
    values: st.SearchStrategy


def _logical(base: str, name: str, values: st.SearchStrategy) -> Typed:
    return Typed({"type": base, "logicalType": name}, values)


def _milliseconds(moment):
    return moment.replace(microsecond=moment.microsecond // 1000 * 1000)


_first, _last = (datetime.datetime.fromisoformat(day) for day in ("0001-01-02", "9999-12-30"))
_moments = st.datetimes(_first, _last)
_zoned = _moments.map(lambda moment: moment.replace(tzinfo=UTC))
_floats = st.floats(width=32, allow_nan=False)

PLAIN = [
    Typed("boolean", st.booleans()),
    Typed("int", st.integers(-(2**31), 2**31 - 1) | st.integers(-70, 70)),
    Typed("long", st.integers(-(2**63), 2**63 - 1) | st.integers(-70, 70)),
    Typed("float", _floats),
    Typed("double", st.floats(allow_nan=False)),
    Typed("bytes", st.binary(max_size=40)),
    Typed("string", st.text(max_size=40)),
    _logical("int", "date", st.dates()),
    _logical("int", "time-millis", st.times().map(_milliseconds)),
    _logical("long", "time-micros", st.times()),
    _logical("long", "timestamp-millis", _zoned.map(_milliseconds)),
    _logical("long", "timestamp-micros", _zoned),
    _logical("long", "local-timestamp-millis", _moments.map(_milliseconds)),
    _logical("long", "local-timestamp-micros", _moments),
]


@st.composite
def decimals(draw, name: str, *, fixed: bool, largest: int = 76) -> Typed:
    precision = draw(st.integers(1, largest))
    scale = draw(st.integers(0, precision))
    unscaled = st.integers(-(10**precision) + 1, 10**precision - 1)
    if not fixed:
        # fastavro takes a byte more than needed for -128, -32768 …; Java and we do not.
        unscaled = unscaled.filter(lambda value: value >= 0 or (-value) & (-value - 1))
    context = decimal.Context(prec=80)
    values = unscaled.map(lambda number: decimal.Decimal(number).scaleb(-scale, context))
    logical = {"logicalType": "decimal", "precision": precision, "scale": scale}
    if not fixed:
        return Typed({"type": "bytes", **logical}, values)
    least = ((10**precision - 1).bit_length() + 8) // 8
    size = draw(st.sampled_from([least, least, least + 1, 40]))
    return Typed({"type": "fixed", "name": name, "size": max(size, least), **logical}, values)


@st.composite
def types(draw, name: str, depth: int) -> Typed:
    """Return any type that a Hudi table can have; ``name`` is for its named types."""
    kinds = ["plain"] * 4 + ["decimal", "fixed", "enum"]
    if depth:
        kinds += ["record", "array", "map"]
    match draw(st.sampled_from(kinds)):
        case "decimal":
            return draw(decimals(name, fixed=draw(st.booleans())))
        case "fixed":
            size = draw(st.integers(1, 20))
            values = st.binary(min_size=size, max_size=size)
            return Typed({"type": "fixed", "name": name, "size": size}, values)
        case "enum":
            symbols = [f"S{index}" for index in range(draw(st.integers(1, 80)))]
            return Typed(
                {"type": "enum", "name": name, "symbols": symbols}, st.sampled_from(symbols)
            )
        case "record":
            return draw(records(name, depth - 1))
        case "array":
            item = draw(nullables(name, depth - 1))
            return Typed({"type": "array", "items": item.schema}, st.lists(item.values, max_size=5))
        case "map":
            value = draw(nullables(name, depth - 1))
            entries = st.dictionaries(st.text(max_size=5), value.values, max_size=4)
            return Typed({"type": "map", "values": value.schema}, entries)
        case _:
            return draw(st.sampled_from(PLAIN))


@st.composite
def nullables(draw, name: str, depth: int) -> Typed:
    inner = draw(types(name, depth))
    match draw(st.sampled_from(["null first", "null first", "null last", "never"])):
        case "null first":
            return Typed(["null", inner.schema], st.none() | inner.values)
        case "null last":
            return Typed([inner.schema, "null"], st.none() | inner.values)
        case _:
            return inner


@st.composite
def records(draw, name: str = "rows", depth: int = 2) -> Typed:
    count = draw(st.integers(1, 5))
    members = [draw(nullables(f"{name}_{index}", depth)) for index in range(count)]
    schema = {
        "type": "record",
        "name": name,
        "fields": [
            {"name": f"c{index}", "type": member.schema} for index, member in enumerate(members)
        ],
    }
    values = st.fixed_dictionaries(
        {f"c{index}": member.values for index, member in enumerate(members)}
    )
    return Typed(schema, values)


@st.composite
def tables(draw, depth: int = 2) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return a schema and rows: few different ones, repeated so that many go together."""
    typed = draw(records(depth=depth))
    rows = draw(st.lists(typed.values, min_size=1, max_size=4))
    return typed.schema, rows * draw(st.sampled_from([1, 1, 3, 40]))


def encode_all(schema: dict[str, Any], rows: list[dict[str, Any]]) -> Records:
    """Return the rows as fastavro writes them."""
    parsed = fastavro.parse_schema(json.loads(json.dumps(schema)))
    pieces = []
    for row in rows:
        buffer = io.BytesIO()
        fastavro.schemaless_writer(buffer, parsed, row)
        pieces.append(buffer.getvalue())
    return together(pieces)


def together(pieces: list[bytes]) -> Records:
    ends = np.cumsum([len(piece) for piece in pieces], dtype=np.int64)
    starts = np.concatenate([np.zeros(1, np.int64), ends[:-1]])[: len(pieces)]
    return Records(b"".join(pieces), starts, ends, where="records.avro")


def decode_one(schema: dict[str, Any], piece: bytes) -> dict[str, Any]:
    """Return what fastavro reads from one record, which must take all bytes."""
    parsed = fastavro.parse_schema(json.loads(json.dumps(schema)))
    buffer = io.BytesIO(piece)
    row = fastavro.schemaless_reader(buffer, parsed, parsed)
    assert buffer.tell() == len(piece)
    assert isinstance(row, dict)
    return row


def to_rows(batch) -> list[dict[str, Any]]:
    """Return a batch as fastavro would return its records."""
    batch.validate(full=True)
    return batch.to_pylist(maps_as_pydicts="strict")
