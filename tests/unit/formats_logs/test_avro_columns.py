"""Avro records become the same columns that fastavro reads record by record."""

import json
import random
import struct

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from avro_data import decode_one, encode_all, tables, to_rows, together
from lakehand.errors import Corrupt, LakehandError
from lakehand.formats import avro_columns
from lakehand.formats.avro.cursors import Cursors
from lakehand.formats.avro_columns import Records, decode

SLOW = settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


@SLOW
@given(tables())
def test_every_record_reads_as_fastavro_reads_it(table):
    schema, rows = table
    records = encode_all(schema, rows)
    batch = decode(records, json.dumps(schema))
    assert to_rows(batch) == [
        decode_one(schema, records.content[start:end])
        for start, end in zip(records.starts, records.ends, strict=True)
    ]


@SLOW
@given(tables(), st.data())
def test_columns_not_asked_for_are_walked_over(table, data):
    schema, rows = table
    names = [field["name"] for field in schema["fields"]]
    wanted = data.draw(st.sets(st.sampled_from([*names, "elsewhere"])))
    records = encode_all(schema, rows)
    whole = decode(records, json.dumps(schema))
    some = decode(records, json.dumps(schema), wanted)
    assert some.num_rows == len(rows)
    assert some.equals(whole.select([name for name in names if name in wanted]))


@SLOW
@given(tables(depth=1), st.data())
def test_a_changed_byte_is_an_error_or_reads_as_fastavro_reads_it(table, data):
    schema, rows = table
    records = encode_all(schema, rows[:1])
    content = bytearray(records.content)
    if not content:
        return
    at = data.draw(st.integers(0, len(content) - 1))
    content[at] ^= 1 << data.draw(st.integers(0, 7))
    try:
        ours = to_rows(decode(together([bytes(content)]), json.dumps(schema)))
    except LakehandError:
        return
    except (OverflowError, ValueError):
        return  # Arrow holds dates and times that Python's cannot
    try:
        theirs = decode_one(schema, bytes(content))
    except (OverflowError, ValueError, AssertionError):
        return
    assert ours == [theirs] or "nan" in repr(theirs)


def _varint(number: int) -> bytes:
    zigzag = (number << 1) ^ (number >> 63)
    out = bytearray()
    while zigzag > 0x7F:
        out.append(zigzag & 0x7F | 0x80)
        zigzag >>= 7
    return bytes([*out, zigzag])


def _schema(kind, name="x"):
    fields = [{"name": name, "type": kind}]
    return json.dumps({"type": "record", "name": "rows", "fields": fields})


def _blocks(items: list[bytes], sizes: list[int], *, with_bytes: bool) -> bytes:
    """Write an array in blocks of the given sizes, each with its length in bytes or without."""
    out, at = b"", 0
    for size in sizes:
        body = b"".join(items[at : at + size])
        at += size
        out += _varint(-size) + _varint(len(body)) if with_bytes else _varint(size)
        out += body
    assert at == len(items)
    return out + _varint(0)


@pytest.mark.parametrize("rows", [1, 3, 100])
@pytest.mark.parametrize("with_bytes", [False, True])
@pytest.mark.parametrize(
    ("kind", "write"),
    [
        ("long", _varint),
        ("double", lambda number: struct.pack("<d", number)),
        (["null", "long"], lambda number: _varint(1) + _varint(number)),
    ],
)
def test_arrays_may_come_in_several_blocks(kind, write, with_bytes, rows):
    numbers = [list(range(row % 5 * 7)) for row in range(rows)]
    pieces = []
    for row, values in enumerate(numbers):
        sizes = [7] * (row % 5) if row % 2 else [1] * len(values)
        pieces.append(_blocks([write(value) for value in values], sizes, with_bytes=with_bytes))
    batch = decode(together(pieces), _schema({"type": "array", "items": kind}))
    assert batch.column("x").to_pylist() == numbers


@pytest.mark.parametrize("rows", [1, 100])
@pytest.mark.parametrize("number", [0, -1, 63, 64, 2**62, -(2**63), 2**63 - 1])
def test_integers_may_be_longer_than_they_need_be(number, rows):
    short = _varint(number)
    for extra in range(10 - len(short) + 1):
        padded = short
        if extra:
            padded = short[:-1] + bytes([short[-1] | 0x80]) + b"\x80" * (extra - 1) + b"\0"
        batch = decode(together([padded] * rows), _schema("long"))
        assert batch.column("x").to_pylist() == [number] * rows


@pytest.mark.parametrize(("kind", "items_of_a_block"), [("long", 50_000), ("boolean", 1)])
def test_an_array_takes_steps_over_all_rows_only_while_many_rows_are_left(
    kind, items_of_a_block, monkeypatch
):
    steps = []
    longs = Cursors.longs
    monkeypatch.setattr(Cursors, "longs", lambda cursors: steps.append(1) or longs(cursors))
    values = [number % 2 for number in range(50_000)]
    item = _varint if kind == "long" else lambda value: bytes([value])
    sizes = [items_of_a_block] * (len(values) // items_of_a_block)
    piece = _blocks([item(value) for value in values], sizes, with_bytes=False)
    batch = decode(together([piece]), _schema({"type": "array", "items": kind}))
    assert batch.column("x").to_pylist() == [values]
    assert len(steps) < 50


LISTS = {"type": "array", "items": ["null", "string"]}
MAPS = {"type": "map", "values": ["null", LISTS]}
POINT = {"type": "record", "name": "point", "fields": [{"name": "l", "type": ["null", LISTS]}]}


def _nested(random_, kind):
    """Return a random value of a type made of arrays, maps, records, nulls and strings."""
    if isinstance(kind, list):
        return None if random_.random() < 0.2 else _nested(random_, kind[1])
    if kind == "string":
        return "x" * random_.randrange(3)
    if kind["type"] == "record":
        return {field["name"]: _nested(random_, field["type"]) for field in kind["fields"]}
    size = random_.choice([0, 1, 1, 2, 3, 7, 30])
    if kind["type"] == "map":
        return {f"k{index}": _nested(random_, kind["values"]) for index in range(size)}
    return [_nested(random_, kind["items"]) for _ in range(size)]


@pytest.mark.parametrize("rows", [1, 10, 30, 300])
@pytest.mark.parametrize(
    "item", [LISTS, MAPS, POINT, ["null", LISTS], {"type": "array", "items": POINT}]
)
def test_arrays_in_arrays_read_as_fastavro_reads_them(item, rows):
    random_ = random.Random(rows)
    kind = ["null", {"type": "array", "items": item}]
    schema = json.loads(_schema(kind))
    table = [{"x": _nested(random_, kind)} for _ in range(rows)]
    batch = decode(encode_all(schema, table), json.dumps(schema))
    assert to_rows(batch) == table


def test_no_records_make_an_empty_batch_of_the_schema():
    batch = decode(together([]), _schema({"type": "array", "items": ["null", "string"]}))
    assert batch.num_rows == 0
    assert batch.schema.names == ["x"]


def test_records_need_not_touch_each_other():
    content = b"??" + _varint(5) + b"?" + _varint(-5) + b"???"
    records = Records(content, np.array([2, 4]), np.array([3, 5]), where="f")
    assert decode(records, _schema("long")).column("x").to_pylist() == [5, -5]


def test_places_outside_of_the_content_are_refused():
    for starts, ends in ([0], [9]), ([3], [2]), ([0, 0], [2, 2]), ([-1], [1]):
        records = Records(b"\0\0\0", np.array(starts), np.array(ends), where="f")
        with pytest.raises(Corrupt, match="do not fit"):
            decode(records, _schema("long"))


def test_nulls_of_a_record_leave_its_fields_null():
    inner = {"type": "record", "name": "inner", "fields": [{"name": "n", "type": "long"}]}
    schema = _schema(["null", inner])
    batch = decode(together([b"\0", b"\x02\x0e"]), schema)
    batch.validate(full=True)
    assert batch.column("x").to_pylist() == [None, {"n": 7}]
    field = batch.schema.field("x")
    assert field.nullable
    assert field.type == pa.struct([pa.field("n", pa.int64(), nullable=False)])


def test_nulls_that_would_take_gigabytes_are_refused(monkeypatch):
    monkeypatch.setattr(avro_columns, "MAX_CELLS", 1000)
    fields = [{"name": f"f{index}", "type": "double"} for index in range(100)]
    wide = {"type": "record", "name": "wide", "fields": fields}
    with pytest.raises(LakehandError, match="read fewer rows"):
        decode(together([b"\0"] * 10), _schema(["null", wide]))
