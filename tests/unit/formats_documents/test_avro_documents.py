"""Avro containers with one record: what fastavro writes we read, what we write fastavro reads."""

import io
import json
import zlib
from pathlib import Path

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lakehand.formats
from lakehand.errors import Corrupt, Invalid, InvariantBroken, LimitExceeded, Unsupported
from lakehand.formats import avro_documents

SAVEPOINT = "HoodieSavepointMetadata"
RECORD = {
    "savepointedBy": "me",
    "savepointedAt": 1_763_474_400_123,
    "comments": "",
    "partitionMetadata": {"p": {"partitionPath": "p", "savepointDataFile": ["a", "b"]}},
    "version": 1,
}
SCHEMAS = sorted(
    path.stem for path in (Path(lakehand.formats.__file__).parent / "schemas").glob("*.avsc")
)


def container(schema: object, records: list[object], codec: str = "null") -> bytes:
    target = io.BytesIO()
    fastavro.writer(target, schema, records, codec=codec)
    return target.getvalue()


def own_schema(name: str = SAVEPOINT) -> dict:
    return json.loads(avro_documents.schema_json(name))


@pytest.mark.parametrize("name", SCHEMAS)
def test_every_schema_stands_on_its_own(name):
    schema = own_schema(name)
    assert schema["name"] == name
    assert schema["namespace"] == "org.apache.hudi.avro.model"
    fastavro.parse_schema(schema)


def test_what_fastavro_writes_is_read():
    content = container(own_schema(), [RECORD])
    assert avro_documents.decode(content, SAVEPOINT, where="f") == RECORD
    assert avro_documents.record_name(content, where="f") == SAVEPOINT


def test_what_is_written_fastavro_reads_with_the_codec_null():
    content = avro_documents.encode(RECORD, SAVEPOINT)
    reader = fastavro.reader(io.BytesIO(content))
    assert (reader.codec, list(reader)) == ("null", [RECORD])
    assert avro_documents.decode(content, SAVEPOINT, where="f") == RECORD


def test_equal_records_give_equal_bytes():
    one, other = (avro_documents.encode(dict(RECORD), SAVEPOINT) for _ in range(2))
    assert one == other


def test_a_deflated_document_is_read():
    content = container(own_schema(), [RECORD], codec="deflate")
    assert avro_documents.decode(content, SAVEPOINT, where="f") == RECORD


def test_fields_unknown_to_us_are_dropped_and_missing_ones_take_our_defaults():
    schema = {
        "type": "record",
        "name": SAVEPOINT,
        "namespace": "org.apache.hudi.avro.model",
        "fields": [
            {"name": "later", "type": ["null", {"type": "map", "values": "bytes"}]},
            {"name": "comments", "type": {"type": "string", "avro.java.string": "String"}},
            {"name": "savepointedAt", "type": "int"},
            {"name": "savepointedBy", "type": "string"},
            {"name": "partitionMetadata", "type": {"type": "map", "values": {
                "type": "record", "name": "HoodieSavepointPartitionMetadata", "fields": [
                    {"name": "savepointDataFile", "type": {"type": "array", "items": "string"}},
                    {"name": "partitionPath", "type": "string"}]}}},
        ],
    }  # fmt: skip
    written = RECORD | {"later": {"x": b"y"}, "savepointedAt": 5}
    del written["version"]
    content = container(schema, [written])
    assert avro_documents.decode(content, SAVEPOINT, where="f") == RECORD | {"savepointedAt": 5}


@pytest.mark.parametrize(
    "change",
    [
        {"type": "string"},
        {"type": ["null", "string"]},
        {"type": {"type": "array", "items": "long"}},
        {"name": "savedAt"},
    ],
)
def test_a_writer_field_that_does_not_fit_ours_is_corrupt(change):
    schema = own_schema()
    schema["fields"][1] |= change
    value = {"string": "x", "array": [1]}.get(str(change.get("type")))
    if isinstance(change.get("type"), dict):
        value = [1]
    elif change.get("type") == "string":
        value = "x"
    elif "name" in change:
        value = 1
    record = {key: own for key, own in RECORD.items() if key != "savepointedAt"}
    content = container(schema, [record | {schema["fields"][1]["name"]: value}])
    with pytest.raises(Corrupt) as caught:
        avro_documents.decode(content, SAVEPOINT, where="f")
    assert caught.value.where == "f"


def test_another_document_is_corrupt_and_named():
    content = container(own_schema(), [RECORD])
    with pytest.raises(Corrupt, match="holds a HoodieSavepointMetadata, not a HoodieCleanerPlan"):
        avro_documents.decode(content, "HoodieCleanerPlan", where="f")


@pytest.mark.parametrize("records", [[], [RECORD, RECORD]])
def test_a_document_holds_one_record(records):
    with pytest.raises(Corrupt):
        avro_documents.decode(container(own_schema(), records), SAVEPOINT, where="f")


def test_every_truncation_is_corrupt():
    content = avro_documents.encode(RECORD, SAVEPOINT)
    for length in range(len(content)):
        with pytest.raises(Corrupt):
            avro_documents.decode(content[:length], SAVEPOINT, where="f")


def test_anything_after_the_record_is_corrupt():
    content = avro_documents.encode(RECORD, SAVEPOINT)
    with pytest.raises(Corrupt):
        avro_documents.decode(content + b"\0", SAVEPOINT, where="f")


def test_an_empty_file_says_so():
    with pytest.raises(Corrupt, match="the file is empty"):
        avro_documents.decode(b"", SAVEPOINT, where="f")


def framed(record: bytes, *, schema: str | None = None, codec: bytes = b"null") -> bytes:
    """A container around any bytes."""
    text = (schema or avro_documents.schema_json(SAVEPOINT)).encode()
    head = b"Obj\x01" + b"\x04"
    for part in (b"avro.schema", text, b"avro.codec", codec):
        head += zigzag(len(part)) + part
    sync = b"0123456789abcdef"
    return head + b"\0" + sync + b"\x02" + zigzag(len(record)) + record + sync


def zigzag(value: int) -> bytes:
    target = io.BytesIO()
    fastavro.schemaless_writer(target, "long", value)
    return target.getvalue()


@pytest.mark.parametrize(
    "record",
    [
        zigzag(1 << 40) + b"me",
        zigzag(-1) + b"me",
        b"\x04me" + zigzag(5) + b"\0" + zigzag(1 << 62) + b"\x02p",
        b"\x04me" + zigzag(5) + b"\0" + zigzag(-(1 << 62)) + b"\x02p",
        b"\x04me" + b"\xff" * 12,
        b"\x04\xff\xfe" + zigzag(5) + b"\0\0\0\x02",
        b"",
    ],
)
def test_lengths_and_counts_beyond_the_bytes_are_corrupt(record):
    with pytest.raises(Corrupt) as caught:
        avro_documents.decode(framed(record), SAVEPOINT, where="f")
    assert caught.value.offset is not None


def test_a_block_that_claims_more_than_the_file_is_corrupt():
    content = framed(b"x" * 10)
    at = content.rindex(b"0123456789abcdef") - 11
    assert content[at] == 20
    broken = content[:at] + zigzag(1 << 50) + content[at + 1 :]
    with pytest.raises(Corrupt, match="a length of"):
        avro_documents.decode(broken, SAVEPOINT, where="f")


def test_a_block_that_is_longer_than_its_record_is_corrupt():
    record = io.BytesIO()
    fastavro.schemaless_writer(record, fastavro.parse_schema(own_schema()), RECORD)
    assert avro_documents.decode(framed(record.getvalue()), SAVEPOINT, where="f") == RECORD
    with pytest.raises(Corrupt, match="ends before its block"):
        avro_documents.decode(framed(record.getvalue() + b"\0"), SAVEPOINT, where="f")


def test_a_block_without_the_sync_marker_is_corrupt():
    content = avro_documents.encode(RECORD, SAVEPOINT)
    with pytest.raises(Corrupt, match="sync marker"):
        avro_documents.decode(content[:-1] + bytes([content[-1] ^ 1]), SAVEPOINT, where="f")


def test_a_document_over_the_limit_is_refused_unread():
    with pytest.raises(LimitExceeded):
        avro_documents.decode(b"Obj\x01" + bytes(100), SAVEPOINT, where="f", limit=50)


def test_a_deflate_bomb_is_stopped_at_the_limit():
    bomb = zlib.compressobj(9, wbits=-15)
    content = framed(bomb.compress(bytes(50 << 20)) + bomb.flush(), codec=b"deflate")
    with pytest.raises(LimitExceeded):
        avro_documents.decode(content, SAVEPOINT, where="f", limit=1 << 20)


@pytest.mark.parametrize("data", [b"\xff\xff", b"", zlib.compress(b"x")[2:-6]])
def test_broken_deflate_data_is_corrupt(data):
    with pytest.raises(Corrupt):
        avro_documents.decode(framed(data, codec=b"deflate"), SAVEPOINT, where="f")


def test_other_codecs_are_refused_by_name():
    with pytest.raises(Unsupported, match="snappy"):
        avro_documents.decode(framed(b"", codec=b"snappy"), SAVEPOINT, where="f")


def test_a_record_that_does_not_fit_the_schema_is_not_written():
    with pytest.raises(Invalid, match=SAVEPOINT):
        avro_documents.encode(RECORD | {"savepointedAt": "late"}, SAVEPOINT)
    with pytest.raises(Invalid, match=SAVEPOINT):
        avro_documents.encode({"comments": "only"}, SAVEPOINT)


def test_an_unknown_schema_name_is_our_own_mistake():
    with pytest.raises(InvariantBroken):
        avro_documents.encode({}, "HoodieNothing")


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


@given(
    st.fixed_dictionaries(
        {
            "savepointedBy": TEXT,
            "savepointedAt": st.integers(-(1 << 63), (1 << 63) - 1),
            "comments": TEXT,
            "partitionMetadata": st.dictionaries(
                TEXT,
                st.fixed_dictionaries(
                    {"partitionPath": TEXT, "savepointDataFile": st.lists(TEXT, max_size=3)}
                ),
                max_size=3,
            ),
            "version": st.none() | st.integers(-(1 << 31), (1 << 31) - 1),
        }
    )
)
def test_any_record_survives_and_fastavro_agrees(record):
    content = avro_documents.encode(record, SAVEPOINT)
    assert avro_documents.decode(content, SAVEPOINT, where="f") == record
    assert list(fastavro.reader(io.BytesIO(content))) == [record]
