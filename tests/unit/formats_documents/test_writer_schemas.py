"""A writer schema comes out of a file: only harmless ones reach the decoder."""

import json

import pytest

from lakehand.formats import writer_schemas
from lakehand.formats.writer_schemas import BadSchema, canonical


def record(name: str, *types: object, **attributes: object) -> dict:
    fields = [{"name": f"f{number}", "type": kind} for number, kind in enumerate(types)]
    return {"type": "record", "name": name, "fields": fields, **attributes}


def judge(schema: object) -> object:
    return canonical(json.dumps(schema))


def test_what_does_not_matter_is_dropped_and_names_are_made_full():
    inner = record("Inner", {"type": "string", "avro.java.string": "String"}, doc="d")
    schema = record(
        "Outer",
        ["null", inner],
        {"type": "array", "items": "Inner", "default": []},
        {"type": {"type": "map", "values": {"type": "long", "logicalType": "timestamp-millis"}}},
        {"type": "fixed", "name": "other.F", "size": 4, "logicalType": "decimal"},
        {"type": "enum", "name": "E", "symbols": ["A", "B"], "default": "A"},
        namespace="n.s",
        aliases=["Old"],
    )
    assert judge(schema) == {
        "type": "record",
        "name": "n.s.Outer",
        "fields": [
            {"name": "f0", "type": ["null", {"type": "record", "name": "n.s.Inner", "fields": [
                {"name": "f0", "type": "string"}]}]},
            {"name": "f1", "type": {"type": "array", "items": "n.s.Inner"}},
            {"name": "f2", "type": {"type": "map", "values": "long"}},
            {"name": "f3", "type": {"type": "fixed", "name": "other.F", "size": 4}},
            {"name": "f4", "type": {"type": "enum", "name": "n.s.E", "symbols": ["A", "B"]}},
        ],
    }  # fmt: skip


def chain(length: int) -> dict:
    """Records that nest only through names: shallow as JSON, deep for a decoder."""
    fields: list[object] = [record("R0", "int")]
    fields += [record(f"R{number}", f"R{number - 1}") for number in range(1, length)]
    return record("Top", *fields)


def test_nesting_by_names_counts_as_nesting():
    judge(chain(writer_schemas.DEPTH_LIMIT - 2))
    with pytest.raises(BadSchema, match="deeper"):
        judge(chain(writer_schemas.DEPTH_LIMIT + 1))


def nested_arrays(levels: int) -> object:
    schema: object = "int"
    for _ in range(levels):
        schema = {"type": "array", "items": schema}
    return record("R", schema)


@pytest.mark.parametrize(
    ("schema", "problem"),
    [
        (record("R", ["null", "R"]), "holds itself"),
        (record("R", {"type": "array", "items": record("S", ["null", "R"])}), "holds itself"),
        (record("R", "null"), "takes no bytes"),
        (record("R", {"type": "null"}), "takes no bytes"),
        (record("R", {"type": "array", "items": "null"}), "takes no bytes"),
        (record("R", {"type": "array", "items": record("Empty")}), "no fields"),
        (record("R", {"type": "fixed", "name": "F", "size": 0}), "incomplete"),
        (record("R", {"type": "fixed", "name": "F", "size": "4"}), "incomplete"),
        (record("R", {"type": "enum", "name": "E", "symbols": []}), "incomplete"),
        (record("R", {"type": "enum", "name": "E", "symbols": [1]}), "incomplete"),
        (record("R", []), "union of 0"),
        (record("R", ["null"] * 17), "union of 17"),
        (record("R", ["null", ["null", "int"]]), "union within a union"),
        (record("R", "Unknown"), "not defined before"),
        (record("R", record("R", "int")), "twice"),
        (record("R", record("S", "int"), record("S", "int")), "twice"),
        (record("", "int"), "without a name"),
        (record("R", 5), "no type"),
        (record("R", {"type": "array"}), "no type"),
        (record("R", {"items": "int"}), "no type"),
        (record("R", *["int"] * 1001), "too many"),
        ({"type": "record", "name": "R"}, "no fields"),
        ({"type": "record", "name": "R", "fields": [{"type": "int"}]}, "has the field"),
        ({"type": "record", "name": "R", "fields": [{"name": "a"}]}, "has the field"),
        ({"type": "record", "name": "R", "fields": [7]}, "has the field"),
        ({"type": "record", "name": "R", "namespace": 1, "fields": []}, "without a name"),
        (None, "no type"),
        (nested_arrays(100), "deeper"),
        (nested_arrays(900), "deeper"),
    ],
)
def test_harmful_and_broken_schemas_are_refused(schema, problem):
    with pytest.raises(BadSchema, match=problem):
        judge(schema)


def test_two_fields_of_one_name_are_refused():
    schema = record("R", "int", "int")
    schema["fields"][1]["name"] = "f0"
    with pytest.raises(BadSchema, match="has the field"):
        judge(schema)


@pytest.mark.parametrize("text", [b"", b"{", b"\xff", b"[" * 100_000, b"1" * 5000])
def test_what_is_no_json_is_refused(text):
    with pytest.raises(BadSchema):
        canonical(text)


def test_an_endless_schema_is_refused_unread():
    with pytest.raises(BadSchema, match="limit"):
        canonical(b" " * (writer_schemas.SIZE_LIMIT + 1))
