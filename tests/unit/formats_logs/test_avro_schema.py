"""Avro's schemas and Arrow's say the same, and Hudi's form is met."""

import json

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from avro_data import tables
from lakehand.errors import Corrupt, Invalid, LakehandError, LimitExceeded, Unsupported
from lakehand.formats import avro_schema
from lakehand.formats.avro_schema import META_COLUMNS, clean_name, from_arrow, to_arrow


def _record(*fields, **more):
    return json.dumps({"type": "record", "name": "r", "fields": list(fields), **more})


def _field(kind, name="x"):
    return {"name": name, "type": kind}


def _logical(kind, logical, **more):
    return {"type": kind, "logicalType": logical, **more}


def _decimal(precision, scale, size):
    return _logical("fixed", "decimal", name="f", size=size, precision=precision, scale=scale)


KINDS = [
    ("boolean", pa.bool_()),
    ("int", pa.int32()),
    ("long", pa.int64()),
    ("float", pa.float32()),
    ("double", pa.float64()),
    ("bytes", pa.binary()),
    ("string", pa.string()),
    ({"type": "string", "avro.java.string": "String"}, pa.string()),
    ({"type": {"type": "long"}}, pa.int64()),
    (_logical("int", "date"), pa.date32()),
    (_logical("int", "time-millis"), pa.time32("ms")),
    (_logical("long", "time-micros"), pa.time64("us")),
    (_logical("long", "timestamp-millis"), pa.timestamp("ms", "UTC")),
    (_logical("long", "timestamp-micros"), pa.timestamp("us", "UTC")),
    (_logical("long", "local-timestamp-millis"), pa.timestamp("ms")),
    (_logical("long", "local-timestamp-micros"), pa.timestamp("us")),
    (_logical("string", "uuid"), pa.string()),
    (_logical("long", "something-new"), pa.int64()),
    (_decimal(9, 2, 4), pa.decimal128(9, 2)),
    (_decimal(50, 10, 21), pa.decimal256(50, 10)),
    (_logical("bytes", "decimal", precision=4, scale=4), pa.decimal128(4, 4)),
    (_logical("bytes", "decimal", precision=4), pa.decimal128(4, 0)),
    ({"type": "fixed", "name": "f", "size": 3}, pa.binary(3)),
    ({"type": "enum", "name": "e", "symbols": ["A"]}, pa.string()),
    ({"type": "array", "items": ["null", "int"]}, pa.list_(pa.int32())),
    ({"type": "map", "values": "long"}, pa.map_(pa.string(), pa.field("value", pa.int64(), False))),
    (
        {"type": "record", "name": "inner", "fields": [_field(["null", "int"], "a")]},
        pa.struct([pa.field("a", pa.int32())]),
    ),
]


@pytest.mark.parametrize(("kind", "arrow"), KINDS)
def test_every_type_has_an_arrow_type(kind, arrow):
    for declared, nullable in ((kind, False), (["null", kind], True), ([kind, "null"], True)):
        schema = to_arrow(_record(_field(declared)), where="f")
        assert schema == pa.schema([pa.field("x", arrow, nullable)])


def test_names_are_resolved_in_their_namespace():
    inner = {"type": "record", "name": "point", "fields": [_field("long", "n")]}
    fields = (_field(inner, "a"), _field("point", "b"), _field(["null", "space.point"], "c"))
    schema = to_arrow(_record(*fields, namespace="space"), where="f")
    assert schema.field("b").type == schema.field("a").type == schema.field("c").type


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        (["int", "string"], "int, string"),
        (["null", "int", "string"], "2 types"),
        (["null"], "null"),
        (["int"], "int"),
        ([], "nothing"),
        ("null", "null alone"),
        ({"type": "array", "items": "null"}, "null alone"),
        (_decimal(77, 0, 33), "77 digits"),
        (_logical("fixed", "vector", name="v", size=8), "vector"),
        (_logical("bytes", "Variant"), "Variant"),
        ({"type": "array", "items": {"type": "record", "name": "e", "fields": []}}, "without"),
        ({"type": "record", "name": "t", "fields": [_field(["null", "t"])]}, "part of"),
    ],
)
def test_what_columns_cannot_hold_is_refused_by_name(kind, names):
    with pytest.raises(Unsupported, match=names):
        to_arrow(_record(_field(kind, "odd")), where="f.log")


@pytest.mark.parametrize(
    "schema",
    [
        "",
        "{",
        "[" * 100_000,
        "3",
        '"string"',
        _record(_field("unknown")),
        _record(_field({})),
        _record({"type": "int"}),
        _record({"name": "\ud800", "type": "int"}),
        _record(_field("int"), _field("int")),
        _record(_field(["null", ["null", "int"]])),
        _record(_field({"type": "record", "name": "r", "fields": []})),
        _record(_field({"type": "fixed", "name": "f", "size": -1})),
        _record(_field({"type": "fixed", "name": "f"})),
        _record(_field({"type": "enum", "name": "e", "symbols": []})),
        _record(_field(_decimal(5, 6, 4))),
        _record(_field(_logical("bytes", "decimal"))),
        json.dumps({"type": "record", "name": "r"}),
    ],
)
def test_broken_schemas_are_corrupt(schema):
    with pytest.raises(Corrupt) as caught:
        to_arrow(schema, where="f.log")
    assert caught.value.where == "f.log"


def test_schemas_that_grow_without_bound_are_refused():
    deep = "int"
    for _ in range(100):
        deep = {"type": "array", "items": deep}
    fields = [_field({"type": "record", "name": "n0", "fields": [_field("int", "a")]}, "b0")]
    for level in range(1, 40):
        twice = [_field(f"n{level - 1}", "a"), _field(f"n{level - 1}", "b")]
        fields.append(_field({"type": "record", "name": f"n{level}", "fields": twice}, f"b{level}"))
    huge = {"type": "fixed", "name": "f", "size": 1 << 40}
    for schema in (_record(_field(deep)), _record(*fields), _record(_field(huge))):
        with pytest.raises(LimitExceeded):
            to_arrow(schema, where="f")


@settings(deadline=None, max_examples=60)
@given(tables(depth=2))
def test_a_schema_written_back_has_the_same_arrow_schema(table):
    arrow = to_arrow(json.dumps(table[0]), where="f")
    again = to_arrow(from_arrow(arrow, table_name="any name"), where="f")
    assert again == arrow


@settings(deadline=None)
@given(st.recursive(
    st.none() | st.booleans() | st.integers() | st.sampled_from(["record", "array", "null", "int"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
        st.sampled_from(["type", "name", "fields", "items", "values", "size", "symbols",
                         "logicalType", "precision", "scale", "namespace"]), inner, max_size=5),
    max_leaves=12,
))  # fmt: skip
def test_any_json_is_a_schema_or_an_error(declared):
    try:
        to_arrow(_record(_field(declared)), where="f")
    except LakehandError:
        return


def test_hudis_form_names_records_and_decimals_by_their_path():
    arrow = pa.schema(
        [
            pa.field("d", pa.decimal128(9, 2)),
            pa.field("s", pa.struct([pa.field("d", pa.decimal128(30, 10), nullable=False)])),
            pa.field("l", pa.list_(pa.struct([pa.field("n", pa.int16())])), nullable=False),
            pa.field("m", pa.map_(pa.string(), pa.float32())),
        ]
    )
    decimal = {"type": "fixed", "name": "fixed", "logicalType": "decimal"}
    space = "hoodie.my__table.my__table_record"
    first = {**decimal, "namespace": f"{space}.d", "size": 4, "precision": 9, "scale": 2}
    second = {**decimal, "namespace": f"{space}.s.d", "size": 13, "precision": 30, "scale": 10}
    nullable_int = {"name": "n", "type": ["null", "int"], "default": None}
    item = {"type": "record", "name": "l", "namespace": space, "fields": [nullable_int]}
    assert json.loads(from_arrow(arrow, table_name="my-table")) == {
        "type": "record",
        "name": "my__table_record",
        "namespace": "hoodie.my__table",
        "fields": [
            {"name": "d", "type": ["null", first], "default": None},
            {
                "name": "s",
                "type": ["null", {"type": "record", "name": "s", "namespace": space,
                                  "fields": [{"name": "d", "type": second}]}],
                "default": None,
            },
            {"name": "l", "type": {"type": "array", "items": ["null", item]}},
            {
                "name": "m",
                "type": ["null", {"type": "map", "values": ["null", "float"]}],
                "default": None,
            },
        ],
    }  # fmt: skip


def test_a_fixed_type_is_as_small_as_its_digits_allow():
    sizes = {1: 1, 2: 1, 3: 2, 9: 4, 10: 5, 18: 8, 19: 9, 30: 13, 38: 16, 76: 32}
    assert {digits: avro_schema.fixed_size(digits) for digits in sizes} == sizes


@pytest.mark.parametrize(
    ("arrow", "error"),
    [
        (pa.uint64(), Unsupported),
        (pa.float16(), Unsupported),
        (pa.timestamp("ns"), Unsupported),
        (pa.timestamp("s", "UTC"), Unsupported),
        (pa.duration("us"), Unsupported),
        (pa.map_(pa.int32(), pa.int32()), Unsupported),
        (pa.null(), Unsupported),
    ],
)
def test_arrow_types_that_hudi_lacks_are_refused_by_name(arrow, error):
    with pytest.raises(error, match="odd"):
        from_arrow(pa.schema([("odd", arrow)]), table_name="t")


def test_columns_that_avro_cannot_name_are_refused():
    with pytest.raises(Invalid, match="no good"):
        from_arrow(pa.schema([("no good", pa.int32())]), table_name="t")


def test_table_names_are_cleaned_as_hudi_cleans_them():
    assert clean_name("a-b.c d") == "a__b__c__d"
    assert clean_name("1st") == "__st"


def test_meta_columns_come_first_and_once():
    plain = pa.schema([("a", pa.int32()), (META_COLUMNS[2], pa.int32())])
    full = avro_schema.with_meta_columns(plain)
    assert full.names == [*META_COLUMNS, "a"]
    assert avro_schema.with_meta_columns(full) == full
    assert avro_schema.without_meta_columns(full).names == ["a"]
