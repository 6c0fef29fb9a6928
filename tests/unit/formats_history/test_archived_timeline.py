"""The archived timeline of layout 1, written and read back."""

import struct
from io import BytesIO
from json import loads

import fastavro
import pytest

from lakehand.core.instants import Action, State
from lakehand.errors import Corrupt, Invalid, LakehandError, Unsupported
from lakehand.formats import archived_timeline, avro_documents, log_file
from lakehand.formats.archived_timeline import (
    ArchivedInstant,
    Document,
    archive_file_name,
    decode_block,
    encode_block,
    parse_archive_file,
    read_entries,
)

TIME = "20240101000000000"
COMMIT = {
    "partitionToWriteStats": {},
    "compacted": None,
    "extraMetadata": {"schema": "é"},
    "version": 1,
    "operationType": "UPSERT",
}
PLAN = {
    "operationType": None,
    "clusteringPlan": None,
    "extraMetadata": None,
    "version": 1,
}
SAMPLES = [
    ArchivedInstant(TIME, Action.COMMIT, State.REQUESTED, None, Document.COMMIT, COMMIT),
    ArchivedInstant(TIME, Action.COMMIT, State.COMPLETED, "20240101000001000"),
    ArchivedInstant(TIME, Action.COMPACTION, State.INFLIGHT, TIME),
    ArchivedInstant(
        TIME, Action.REPLACE_COMMIT, State.REQUESTED, TIME, Document.REPLACE_REQUESTED, PLAN
    ),
    ArchivedInstant(
        TIME, Action.REPLACE_COMMIT, State.INFLIGHT, TIME, Document.REPLACE_INFLIGHT, COMMIT
    ),
]
SCHEMA = avro_documents.schema_json("HoodieArchivedMetaEntry")


def test_entries_come_back_as_they_were_written_over_several_blocks():
    content = encode_block(SAMPLES[:2]) + encode_block(SAMPLES[2:])
    assert list(read_entries(content, where="a")) == SAMPLES


def test_only_a_completed_state_has_a_completion_time():
    assert [sample.completion_time for sample in SAMPLES[:3]] == [None, "20240101000001000", None]


@pytest.mark.parametrize("document", Document)
def test_every_kind_of_document_has_its_field(document):
    fields = {field["name"] for field in archived_timeline._own_schema()["fields"]}
    assert document.value in fields


def test_content_of_the_wrong_shape_is_refused():
    wrong = ArchivedInstant(TIME, Action.CLEAN, State.COMPLETED, None, Document.CLEAN, {"x": 1})
    with pytest.raises(Invalid, match="CLEAN"):
        encode_block([wrong])
    with pytest.raises(Invalid, match="content"):
        encode_block([ArchivedInstant(TIME, Action.CLEAN, State.COMPLETED, None, Document.CLEAN)])


def block_of(records, count=None, version=3):
    body = struct.pack(">ii", version, len(records) if count is None else count)
    for record in records:
        body += struct.pack(">i", len(record)) + record
    return body


def record(**fields):
    entry = {"commitTime": TIME, "actionType": "commit", "actionState": "COMPLETED", **fields}
    body = BytesIO()
    fastavro.schemaless_writer(body, fastavro.parse_schema(loads(SCHEMA)), entry)
    return body.getvalue()


def test_a_state_that_was_not_written_means_completed():
    (entry,) = decode_block(block_of([record(actionState=None)]), SCHEMA, where="a")
    assert entry.state is State.COMPLETED


@pytest.mark.parametrize(
    ("content", "error"),
    [
        (b"\0\0", Corrupt),
        (block_of([], version=2), Unsupported),
        (block_of([], count=1), Corrupt),
        (block_of([], count=-1), Corrupt),
        (block_of([], count=0x7FFFFFFF), Corrupt),
        (block_of([]) + b"x", Corrupt),
        (block_of([b""]), Corrupt),
        (block_of([record() + b"\0"]), Corrupt),
        (block_of([record()[:-2]]), Corrupt),
        (struct.pack(">iii", 3, 1, 0x7FFFFFFF), Corrupt),
        (block_of([record(commitTime="soon")]), Corrupt),
        (block_of([record(actionType="explode")]), Unsupported),
        (block_of([record(actionState="HALFWAY")]), Unsupported),
        (
            block_of([record(hoodieCommitMetadata=COMMIT, HoodieInflightReplaceMetadata=COMMIT)]),
            Corrupt,
        ),
    ],
)
def test_content_that_breaks_the_rules_is_a_typed_error(content, error):
    with pytest.raises(error, match="archive_1"):
        decode_block(content, SCHEMA, where="archive_1")


@pytest.mark.parametrize(
    "schema",
    ["", "{}", '"string"', '{"type":"record","name":"Other","fields":[]}', "[" * 9_000],
)
def test_a_writer_schema_of_something_else_is_corrupt(schema):
    with pytest.raises(Corrupt, match="schema"):
        decode_block(block_of([record()]), schema, where="a")


def test_a_torn_block_is_an_error_unless_the_caller_takes_note_of_it():
    whole = encode_block(SAMPLES)
    content = whole[: len(whole) - 20] + whole
    with pytest.raises(Corrupt, match="broken"):
        list(read_entries(content, where="a"))
    seen = []
    assert list(read_entries(content, where="a", on_corrupt=seen.append)) == SAMPLES
    assert len(seen) == 1


def test_a_block_of_another_type_has_no_place_there():
    content = log_file.encode_block(log_file.BlockType.DELETE, {}, b"x" * 9)
    with pytest.raises(Corrupt, match="DELETE"):
        list(read_entries(content, where="a"))


def test_every_truncation_is_a_typed_error():
    content = encode_block(SAMPLES)
    for length in range(1, len(content)):
        with pytest.raises(LakehandError):
            list(read_entries(content[:length], where="a"))


def test_names_of_archive_files_are_told_apart():
    assert parse_archive_file(archive_file_name(7)) == 7
    for other in (".commits_.archive.7_1-0-1.crc", "commits_.archive.7", "mergeArchivePlan"):
        assert parse_archive_file(other) is None
