"""The decoder of documents: fastavro judges what it reads, the format's rules what it refuses."""

import io
from itertools import count

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehand.errors import InvariantBroken
from lakehand.formats import avro_values
from lakehand.formats.avro_values import BadValue, reader_for
from lakehand.formats.writer_schemas import BadSchema

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
VALUES = {
    "boolean": st.booleans(),
    "int": st.integers(-(1 << 31), (1 << 31) - 1),
    "long": st.integers(-(1 << 63), (1 << 63) - 1),
    "float": st.floats(width=32, allow_nan=False),
    "double": st.floats(allow_nan=False),
    "bytes": st.binary(max_size=6),
    "string": TEXT,
}
NO_DEFAULTS: dict = {}


def leaves(name: str) -> list[tuple]:
    plain = list(VALUES.items())
    enum = {"type": "enum", "name": name, "symbols": ["A", "B"]}
    fixed = {"type": "fixed", "name": name, "size": 3}
    return [*plain, (enum, st.sampled_from("AB")), (fixed, st.binary(min_size=3, max_size=3))]


@st.composite
def schemas_with_values(draw, depth=3, names=None):
    """Any schema of the kind that documents have, and a strategy for its values."""
    names = count() if names is None else names
    name = f"n.T{next(names)}"
    if not depth or draw(st.booleans()):
        return draw(st.sampled_from(leaves(name)))
    inner = schemas_with_values(depth - 1, names)
    schema, values = draw(inner)
    match draw(st.sampled_from(["array", "map", "record", "union"])):
        case "array":
            return {"type": "array", "items": schema}, st.lists(values, max_size=3)
        case "map":
            return {"type": "map", "values": schema}, st.dictionaries(TEXT, values, max_size=3)
        case "record":
            members = [(schema, values), *draw(st.lists(inner, max_size=3))]
            fields = [{"name": f"f{at}", "type": one} for at, (one, _) in enumerate(members)]
            made = {"type": "record", "name": name, "fields": fields}
            drawn = {f"f{at}": own for at, (_, own) in enumerate(members)}
            return made, st.fixed_dictionaries(drawn)
        case _:
            union = schema if isinstance(schema, list) else ["null", schema]
            return draw(st.permutations(union)), st.none() | values


def written(schema, value) -> bytes:
    target = io.BytesIO()
    fastavro.schemaless_writer(target, fastavro.parse_schema(schema), value)
    return target.getvalue()


@given(st.data(), st.binary(max_size=3))
def test_what_fastavro_writes_is_read_to_its_end_and_no_further(data, after):
    schema, values = data.draw(schemas_with_values())
    value = data.draw(values)
    content = written(schema, value)
    assert reader_for(schema, schema, NO_DEFAULTS)(content + after, 0) == (value, len(content))


@given(st.data())
def test_dropped_values_are_passed_over(data):
    schema, values = data.draw(schemas_with_values())
    writer = {"type": "record", "name": "R", "fields": [
        {"name": "gone", "type": schema}, {"name": "kept", "type": "int"}]}  # fmt: skip
    own = {"type": "record", "name": "R", "fields": [{"name": "kept", "type": "int"}]}
    content = written(writer, {"gone": data.draw(values), "kept": 7})
    assert reader_for(writer, own, NO_DEFAULTS)(content, 0) == ({"kept": 7}, len(content))


@given(st.data())
def test_no_truncation_is_taken_for_a_value(data):
    schema, values = data.draw(schemas_with_values())
    content = written(schema, data.draw(values))
    read = reader_for(schema, schema, NO_DEFAULTS)
    for length in range(len(content)):
        with pytest.raises((BadValue, *avro_values.TOO_SHORT)):
            read(content[:length], 0)


def both_ways(*fields: dict) -> dict:
    return {"type": "record", "name": "R", "fields": list(fields)}


@pytest.mark.parametrize(
    ("writer", "own", "value", "expected"),
    [
        ("int", "long", 5, 5),
        ("int", "double", 5, 5.0),
        ("long", "float", 5, 5.0),
        ("float", "double", 0.5, 0.5),
        ("int", ["null", "long"], 5, 5),
        (["null", "int"], ["long", "null"], None, None),
        (["int", "null"], ["null", "long"], 5, 5),
        (["null", "string"], "string", "x", "x"),
        (["int", "string", "null"], ["null", "string"], "x", "x"),
    ],
)
def test_values_are_resolved_as_avro_allows(writer, own, value, expected):
    content = written(writer, value)
    found, end = reader_for(writer, own, NO_DEFAULTS)(content, 0)
    assert (found, end, type(found)) == (expected, len(content), type(expected))


@pytest.mark.parametrize(
    ("writer", "own"),
    [
        ("string", "long"),
        ("long", "int"),
        ("double", "long"),
        ("bytes", "string"),
        ({"type": "array", "items": "int"}, "int"),
        ("int", {"type": "array", "items": "int"}),
        ({"type": "array", "items": "string"}, {"type": "array", "items": "long"}),
        ({"type": "map", "values": "int"}, {"type": "array", "items": "int"}),
        ({"type": "fixed", "name": "A", "size": 1}, {"type": "fixed", "name": "B", "size": 1}),
        (both_ways({"name": "a", "type": "int"}), both_ways({"name": "b", "type": "int"})),
    ],
)
def test_schemas_that_do_not_fit_are_refused(writer, own):
    with pytest.raises(BadSchema):
        reader_for(writer, own, NO_DEFAULTS)


def test_a_branch_that_does_not_fit_matters_only_when_it_is_taken():
    read = reader_for(["null", "string", "int"], ["null", "long"], NO_DEFAULTS)
    assert read(b"\x00", 0) == (None, 1)
    assert read(b"\x04\x0a", 0) == (5, 2)
    with pytest.raises(BadValue, match="string where long"):
        read(b"\x02\x02x", 0)
    with pytest.raises(BadValue, match="null"):
        reader_for(["null", "long"], "long", NO_DEFAULTS)(b"\x00", 0)


def test_fields_that_only_we_have_take_our_defaults():
    writer = both_ways({"name": "a", "type": "int"})
    own = both_ways({"name": "a", "type": "int"}, {"name": "b", "type": ["null", "int"]})
    assert reader_for(writer, own, {"R": {"b": None}})(b"\x02", 0) == ({"a": 1, "b": None}, 1)


@pytest.mark.parametrize(
    ("schema", "content"),
    [
        ("boolean", b"\x02"),
        ("boolean", b"\xff"),
        ("int", b"\x80\x80\x80\x80\x20"),
        ("long", b"\xff" * 9 + b"\x02"),
        ("long", b"\xff" * 10 + b"\x01"),
        ("string", b"\x01"),
        ("string", b"\x06ab"),
        ("string", b"\x04\xff\xfe"),
        (["null", "long"], b"\x04"),
        (["null", "long"], b"\x01"),
        (["null", "string"], b"\x03"),
        (["null", "string"], b"\x04"),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, b"\x01"),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, b"\x02"),
        ({"type": "fixed", "name": "F", "size": 3}, b"ab"),
        ({"type": "array", "items": "int"}, b"\xfe\xff\xff\xff\xff\xff\xff\xff\x7f\x00"),
        ({"type": "array", "items": "int"}, b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x02\x00"),
        ({"type": "map", "values": "int"}, b"\x08\x02a\x02"),
    ],
)
def test_bytes_that_cannot_be_a_value_are_refused(schema, content):
    with pytest.raises(BadValue):
        reader_for(schema, schema, NO_DEFAULTS)(content, 0)


def test_blocks_that_say_their_size_are_read():
    schema = {"type": "array", "items": "int"}
    assert reader_for(schema, schema, NO_DEFAULTS)(b"\x03\x04\x02\x04\x02\x06\x00", 0)[0] == [
        1,
        2,
        3,
    ]


def test_names_that_refer_to_names_do_not_multiply_the_work():
    """Each record holds the one before twice: two to the sixtieth, if every use were compiled."""
    fields: list[dict] = [{"name": "f0", "type": {"type": "record", "name": "R0", "fields": [
        {"name": "a", "type": "int"}]}}]  # fmt: skip
    for level in range(1, 60):
        inner = [{"name": name, "type": ["null", f"R{level - 1}"]} for name in ("a", "b")]
        kind = {"type": "record", "name": f"R{level}", "fields": inner}
        fields.append({"name": f"f{level}", "type": ["null", kind]})
    schema = {"type": "record", "name": "Top", "fields": fields}
    content = b"\x02" + bytes(59)
    record, end = reader_for(schema, schema, NO_DEFAULTS)(content, 0)
    assert (record["f0"], record["f59"], end) == ({"a": 1}, None, 60)


def test_our_own_schemas_are_simple():
    with pytest.raises(InvariantBroken):
        reader_for("int", ["null", "int", "string"], NO_DEFAULTS)
