"""Plans and reports of table services: whatever a value says survives, in Hudi's own names."""

import json
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from types import NoneType
from typing import Any, get_args, get_origin, get_type_hints

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehand.errors import Corrupt
from lakehand.formats import avro_documents
from lakehand.formats.plans import (
    clean,
    clustering,
    compaction,
    indexing,
    restore,
    rollback,
    savepoint,
)

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
SCALARS = {
    str: TEXT,
    bool: st.booleans(),
    int: st.integers(-(1 << 31), (1 << 31) - 1),
    float: st.floats(allow_nan=False),
}


def values(kind: Any) -> st.SearchStrategy[Any]:
    """Any value of an annotation of ours."""
    origin, arguments = get_origin(kind), get_args(kind)
    if kind in SCALARS:
        return SCALARS[kind]
    if origin is tuple:
        return st.lists(values(arguments[0]), max_size=2).map(tuple)
    if origin is Mapping:
        return st.dictionaries(TEXT, values(arguments[1]), max_size=2)
    if is_dataclass(kind):
        hints = get_type_hints(kind)
        return st.builds(kind, **{own.name: values(hints[own.name]) for own in fields(kind)})
    return st.none() | st.one_of(*(values(own) for own in arguments if own is not NoneType))


DOCUMENTS: list[tuple[type, str, Callable[..., Any], Callable[..., bytes]]] = [
    (compaction.CompactionPlan, "HoodieCompactionPlan", compaction.decode, compaction.encode),
    (clustering.RequestedReplace, "HoodieRequestedReplaceMetadata", clustering.decode,
     clustering.encode),
    (clean.CleanerPlan, "HoodieCleanerPlan", clean.decode_plan, clean.encode_plan),
    (clean.CleanMetadata, "HoodieCleanMetadata", clean.decode_metadata, clean.encode_metadata),
    (rollback.RollbackPlan, "HoodieRollbackPlan", rollback.decode_plan, rollback.encode_plan),
    (rollback.RollbackMetadata, "HoodieRollbackMetadata", rollback.decode_metadata,
     rollback.encode_metadata),
    (restore.RestorePlan, "HoodieRestorePlan", restore.decode_plan, restore.encode_plan),
    (restore.RestoreMetadata, "HoodieRestoreMetadata", restore.decode_metadata,
     restore.encode_metadata),
    (savepoint.SavepointMetadata, "HoodieSavepointMetadata", savepoint.decode, savepoint.encode),
    (indexing.IndexPlan, "HoodieIndexPlan", indexing.decode_plan, indexing.encode_plan),
    (indexing.IndexCommitMetadata, "HoodieIndexCommitMetadata", indexing.decode_metadata,
     indexing.encode_metadata),
]  # fmt: skip
EACH = pytest.mark.parametrize(
    ("kind", "schema", "decode", "encode"), DOCUMENTS, ids=[row[1] for row in DOCUMENTS]
)


@EACH
@settings(max_examples=25)
@given(data=st.data())
def test_whatever_a_document_says_survives(kind, schema, decode, encode, data):
    value = data.draw(values(kind))
    content = encode(value)
    assert decode(content, where="f") == value
    assert avro_documents.record_name(content, where="f") == schema


def schema_fields(schema: Any) -> dict[str, list[dict[str, Any]]]:
    """All records of a schema, by name."""
    found: dict[str, list[dict[str, Any]]] = {}
    match schema:
        case {"type": "record", "name": str() as name, "fields": list(members)}:
            found[name] = members
            for member in members:
                found |= schema_fields(member["type"])
        case dict():
            for inner in schema.values():
                found |= schema_fields(inner)
        case list():
            for inner in schema:
                found |= schema_fields(inner)
    return found


def record_classes(kind: Any) -> list[type]:
    if is_dataclass(kind):
        hints = get_type_hints(kind)
        return [kind, *(one for own in fields(kind) for one in record_classes(hints[own.name]))]
    return [one for own in get_args(kind) for one in record_classes(own)]


@EACH
def test_the_classes_have_every_field_of_the_schema_in_its_order(kind, schema, decode, encode):

    records = schema_fields(json.loads(avro_documents.schema_json(schema)))
    rows = {tuple(member["name"] for member in members) for members in records.values()}
    classes = {
        tuple(own.metadata.get("hudi_name") or camel(own.name) for own in fields(one))
        for one in record_classes(kind)
    }
    assert classes == rows


@EACH
def test_the_classes_need_exactly_what_the_schema_gives_no_default(kind, schema, decode, encode):

    records = schema_fields(json.loads(avro_documents.schema_json(schema)))
    by_fields = {
        tuple(member["name"] for member in members): members for members in records.values()
    }
    for one in record_classes(kind):
        own = fields(one)
        members = by_fields[
            tuple(field.metadata.get("hudi_name") or camel(field.name) for field in own)
        ]
        needed = [field.default is MISSING and field.default_factory is MISSING for field in own]
        assert needed == ["default" not in member for member in members]


def camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


@EACH
def test_an_empty_file_is_corrupt_and_named(kind, schema, decode, encode):
    with pytest.raises(Corrupt, match="empty") as caught:
        decode(b"", where="t/x.requested")
    assert caught.value.where == "t/x.requested"


def test_what_lakehand_writes_carries_the_versions_that_java_writes():
    assert compaction.CompactionPlan().version == 2
    assert clean.CleanerPlan(policy="KEEP_LATEST_COMMITS").version == 2
    assert restore.RestorePlan().version == 2
    assert rollback.RollbackPlan().version == 1
