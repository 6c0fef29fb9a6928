"""Arrow columns become the same bytes that fastavro writes record by record."""

import decimal
import json

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings

from avro_data import encode_all, tables
from lakehand.errors import Invalid, Unsupported
from lakehand.formats.avro_columns import decode
from lakehand.formats.avro_encoding import encode, encode_framed
from lakehand.formats.avro_schema import from_arrow

SLOW = settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


@SLOW
@given(tables())
def test_every_record_is_written_as_fastavro_writes_it(table):
    schema, rows = table
    records = encode_all(schema, rows)
    content, lengths = encode(decode(records, json.dumps(schema)), json.dumps(schema))
    assert content.to_pybytes() == records.content
    assert np.cumsum(lengths).tolist() == records.ends.tolist()


@SLOW
@given(tables())
def test_a_slice_of_a_batch_is_written_like_a_batch_of_its_own(table):
    schema, rows = table
    batch = decode(encode_all(schema, rows), json.dumps(schema))
    padded = pa.Table.from_batches([batch, batch, batch]).combine_chunks().to_batches()[0]
    part = padded.slice(len(rows), len(rows))
    assert encode(part, json.dumps(schema))[0] == encode(batch, json.dumps(schema))[0]


def test_framed_records_stand_behind_their_length():
    batch = pa.RecordBatch.from_pydict({"x": ["a", None, "bcd"]})
    framed = encode_framed(batch, _schema(["null", "string"])).to_pybytes()
    assert framed == b"\0\0\0\x03\x02\x02a" + b"\0\0\0\x01\0" + b"\0\0\0\x05\x02\x06bcd"


def _schema(kind):
    return json.dumps({"type": "record", "name": "r", "fields": [{"name": "x", "type": kind}]})


@pytest.mark.parametrize(
    ("column", "kind", "expected"),
    [
        (pa.array(["a"], pa.large_string()), "string", b"\x02a"),
        (pa.array(["a"]).dictionary_encode(), "string", b"\x02a"),
        (pa.array([3], pa.int8()), "long", b"\x06"),
        (pa.array([[1]], pa.large_list(pa.int16())), {"type": "array", "items": "int"}, b"\2\2\0"),
    ],
)
def test_columns_of_kindred_types_are_converted(column, kind, expected):
    batch = pa.RecordBatch.from_arrays([column], names=["x"])
    assert encode(batch, _schema(kind))[0].to_pybytes() == expected


def test_a_column_that_is_missing_is_written_as_nulls():
    batch = pa.RecordBatch.from_arrays([pa.nulls(2)], names=["y"]).select([])
    assert encode(batch, _schema(["null", "long"]))[0].to_pybytes() == b"\0\0"


@pytest.mark.parametrize(
    ("column", "kind", "problem"),
    [
        (pa.array([1, None]), "long", "holds nulls"),
        (pa.nulls(1), "long", "holds nulls"),
        (pa.array([2**40]), "int", "cannot be written"),
        (pa.array(["x"]), {"type": "enum", "name": "e", "symbols": ["A"]}, "no symbol"),
        (pa.array([b"abc"]), {"type": "fixed", "name": "f", "size": 2}, "cannot be written"),
    ],
)
def test_values_that_the_schema_cannot_hold_are_refused(column, kind, problem):
    batch = pa.RecordBatch.from_arrays([column], names=["x"])
    with pytest.raises(Invalid, match=problem):
        encode(batch, _schema(kind))


def test_a_column_that_the_schema_does_not_have_is_refused():
    batch = pa.RecordBatch.from_pydict({"x": [1], "y": [2]})
    with pytest.raises(Invalid, match="no column y"):
        encode(batch, _schema("long"))


def test_a_union_of_several_types_cannot_be_written_from_plain_columns():
    batch = pa.RecordBatch.from_pydict({"x": [1]})
    with pytest.raises((Unsupported, Invalid)):
        encode(batch, _schema(["null", "long", "string"]))


def test_a_decimal_is_written_in_as_few_bytes_as_java_takes():
    schema = _schema({"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 0})
    numbers = [0, 1, -1, 127, 128, -128, -129, 10**37, -(10**37), 255, -32768]
    column = pa.array([decimal.Decimal(number) for number in numbers], pa.decimal128(38, 0))
    content, lengths = encode(pa.RecordBatch.from_arrays([column], names=["x"]), schema)
    pieces = np.split(np.frombuffer(content, np.uint8), np.cumsum(lengths)[:-1])
    for number, piece in zip(numbers, pieces, strict=True):
        size = max((number if number >= 0 else ~number).bit_length() // 8 + 1, 1)
        assert piece[1:].tobytes() == number.to_bytes(size, "big", signed=True)


def test_a_decimal_column_without_a_value_is_written_as_nulls():
    column = pa.array([None, None], pa.decimal128(9, 2))
    batch = pa.record_batch({"price": column})
    schema = from_arrow(batch.schema, table_name="t")
    content, lengths = encode(batch, schema)
    assert bytes(content) == b"\0\0"
    assert list(lengths) == [1, 1]
