"""Every rule that a record can break is an error that names the rule and the byte."""

import json

import pytest

from avro_data import together
from lakehand.errors import Corrupt
from lakehand.formats.avro_columns import decode

FAR = b"\x80\x80\x80\x80\x80\x80\x80\x10"  # 2 ** 49, zigzag
MINUS = b"\x01"
ENDLESS = b"\xff" * 12
TOO_WIDE = b"\xff" * 9 + b"\x02"
DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 0}
SMALL = {"type": "bytes", "logicalType": "decimal", "precision": 2, "scale": 0}
FIXED = {
    "type": "fixed",
    "name": "f",
    "size": 20,
    **{k: DECIMAL[k] for k in DECIMAL if k != "type"},
}
ENUM = {"type": "enum", "name": "e", "symbols": ["A", "B"]}
BOOLEANS = {"type": "array", "items": "boolean"}
STRINGS = {"type": "array", "items": ["null", "string"]}
MAP = {"type": "map", "values": "long"}

BROKEN = [
    ("string", FAR + b"abc", "length runs past"),
    ("string", MINUS + b"abc", "length runs past"),
    ("bytes", b"\x08abc", "length runs past"),
    ("string", b"\x04\xc3\x28", "not UTF-8"),
    ("string", b"\x02\x80", "not UTF-8"),
    ("long", b"", "runs past the end"),
    ("long", b"\x80", "runs past the end|64 bits"),
    ("long", ENDLESS, "64 bits"),
    ("long", TOO_WIDE, "64 bits"),
    ("int", b"\x80\x80\x80\x80\x10", "32 bits"),
    ("boolean", b"\x02", "neither 0 nor 1"),
    ("boolean", b"", "1 bytes run past"),
    ("float", b"123", "4 bytes run past"),
    ("double", b"1234567", "8 bytes run past"),
    (["null", "long"], b"\x04\x02", "no such branch"),
    (["null", "long"], b"\x01\x02", "no such branch"),
    (ENUM, b"\x04", "no such symbol"),
    (ENUM, b"\x01", "no such symbol"),
    (FIXED, b"123", "20 bytes run past"),
    (FIXED, b"\x01" + b"\0" * 19, "more digits than its type"),
    (DECIMAL, b"\0", "without bytes"),
    (DECIMAL, b"\x82\x01" + b"\0" * 65, "more than 64 bytes"),
    (DECIMAL, b"\x20" + b"\x7f" * 16, "does not fit"),
    (SMALL, b"\x02\x64", "does not fit"),
    (BOOLEANS, FAR + b"\x01\x01\0", "more items than"),
    (BOOLEANS, b"\x02", "more items than"),
    (BOOLEANS, TOO_WIDE, "64 bits"),
    (STRINGS, FAR + b"\0\0\0", "more items than"),
    (STRINGS, b"\x02\x04\0", "no such branch"),
    (STRINGS, b"\x02\x01\0", "no such branch"),
    (STRINGS, b"\x02\x02" + FAR, "length runs past"),
    (STRINGS, b"\x02\x02\x01\0", "length runs past"),
    (STRINGS, b"\x02\0", "runs past the end"),
    (STRINGS, b"\x02\0" + ENDLESS, "64 bits"),
    (MAP, b"\x02\x0aabc\0", "length runs past"),
    (MAP, b"\x02\x02a", "runs past the end"),
    ("long", b"\0\0", "left over"),
]


def _schema(kind, *, columns=("x",)):
    fields = [{"name": name, "type": kind} for name in columns]
    return json.dumps({"type": "record", "name": "rows", "fields": fields})


@pytest.mark.parametrize("rows", [1, 60])
@pytest.mark.parametrize(("kind", "content", "problem"), BROKEN)
def test_a_broken_value_is_an_error_with_its_place(kind, content, problem, rows):
    with pytest.raises(Corrupt, match=problem) as caught:
        decode(together([content] * rows), _schema(kind))
    assert 0 <= caught.value.offset <= len(content)


@pytest.mark.parametrize("rows", [1, 60])
@pytest.mark.parametrize(
    ("kind", "content", "problem"),
    [case for case in BROKEN if "past" in case[2] or "items" in case[2] or "64 bits" in case[2]],
)
def test_a_value_that_would_leave_its_record_is_seen_when_its_column_is_passed(
    kind, content, problem, rows
):
    schema = json.loads(_schema(kind))
    schema["fields"].append({"name": "last", "type": ["null", "long"]})
    with pytest.raises(Corrupt):
        decode(together([content] * rows), json.dumps(schema), ["last"])


def test_the_place_is_that_of_the_first_broken_record():
    with pytest.raises(Corrupt) as caught:
        decode(together([b"\0"] * 30 + [b"\x02"] * 5), _schema("boolean"))
    assert caught.value.offset == 30
    assert caught.value.where == "records.avro"
