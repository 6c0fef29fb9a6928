import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehand.errors import Corrupt, LimitExceeded, Unsupported
from lakehand.formats import avro_documents, commit_metadata
from lakehand.formats.commit_metadata import (
    CommitMetadata,
    RuntimeStats,
    WriteOperation,
    WriteStat,
)

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
LONG = st.integers(-(1 << 63), (1 << 63) - 1)
INT = st.integers(-(1 << 31), (1 << 31) - 1)
STATS = st.builds(
    WriteStat,
    file_id=st.none() | TEXT,
    path=st.none() | TEXT,
    prev_commit=st.sampled_from([None, "null", "20251118140000123"]),
    num_writes=LONG,
    total_log_files=st.none() | LONG,
    log_version=st.none() | INT,
    log_offset=st.none() | LONG,
    base_file=st.none() | TEXT,
    log_files=st.none() | st.lists(TEXT, max_size=3).map(tuple),
    cdc_stats=st.none() | st.dictionaries(TEXT, LONG, max_size=2),
    prev_base_file=st.none() | TEXT,
    max_event_time=st.none() | LONG,
    runtime_stats=st.none() | st.builds(RuntimeStats, total_create_time=LONG),
    num_updates=LONG,
)
METADATA = st.builds(
    CommitMetadata,
    partition_to_write_stats=st.dictionaries(
        TEXT, st.lists(STATS, max_size=2).map(tuple), max_size=2
    ),
    compacted=st.booleans(),
    extra_metadata=st.dictionaries(TEXT, TEXT, max_size=3),
    version=st.none() | INT,
    operation_type=st.none() | st.sampled_from(list(WriteOperation)).map(str),
    partition_to_replace_file_ids=st.none()
    | st.dictionaries(TEXT, st.lists(TEXT, max_size=2).map(tuple), max_size=2),
)

JAVA_V6 = """{
  "partitionToWriteStats" : {
    "2025/01" : [ {
      "fileId" : "f-0", "path" : "2025/01/.f-0_1.log.2_0-1-2", "cdcStats" : null,
      "prevCommit" : "20251118140000123", "numWrites" : 1, "numDeletes" : 0,
      "numUpdateWrites" : 1, "numInserts" : 0, "totalWriteBytes" : 843, "totalWriteErrors" : 0,
      "tempPath" : null, "partitionPath" : "2025/01", "totalLogRecords" : 0,
      "totalLogFilesCompacted" : 0, "totalLogSizeCompacted" : 0,
      "totalUpdatedRecordsCompacted" : 0, "totalLogBlocks" : 0, "totalCorruptLogBlock" : 0,
      "totalRollbackBlocks" : 0, "fileSizeInBytes" : 843, "minEventTime" : null,
      "maxEventTime" : null,
      "runtimeStats" : { "totalScanTime" : 0, "totalUpsertTime" : 148, "totalCreateTime" : 0 },
      "logVersion" : 2, "logOffset" : 0, "baseFile" : "f-0_0-1-2_1.parquet",
      "logFiles" : [ ".f-0_1.log.1_0-1-2", ".f-0_1.log.2_0-1-2" ],
      "recordsStats" : { "val" : null }
    } ]
  },
  "compacted" : false,
  "extraMetadata" : { "schema" : "{\\"type\\":\\"record\\"}", "_hoodie.x" : null },
  "operationType" : "UPSERT"
}"""


def test_java_json_of_a_log_write_is_read():
    found = commit_metadata.decode(JAVA_V6.encode(), where="f")
    (stat,) = found.partition_to_write_stats["2025/01"]
    assert stat.log_files == (".f-0_1.log.1_0-1-2", ".f-0_1.log.2_0-1-2")
    assert (stat.prev_commit, stat.log_version) == ("20251118140000123", 2)
    assert stat.runtime_stats == RuntimeStats(total_upsert_time=148)
    assert found.operation_type == WriteOperation.UPSERT
    assert found.partition_to_replace_file_ids is None
    assert found.schema(where="f") == '{"type":"record"}'


def test_json_is_written_with_the_keys_and_the_order_of_java():
    found = commit_metadata.decode(JAVA_V6.encode(), where="f")
    written = json.loads(commit_metadata.encode(found, version=6))
    expected = json.loads(JAVA_V6)
    del expected["extraMetadata"]["_hoodie.x"]  # null: as good as absent
    assert written == expected
    stat, expected_stat = (
        document["partitionToWriteStats"]["2025/01"][0] for document in (written, expected)
    )
    assert list(stat) == list(expected_stat)


def test_a_base_file_stat_has_no_keys_of_log_files():
    metadata = CommitMetadata(partition_to_write_stats={"": (WriteStat(file_id="f"),)})
    (stat,) = json.loads(commit_metadata.encode(metadata, version=6))["partitionToWriteStats"][""]
    assert stat.keys().isdisjoint({"logVersion", "logFiles", "recordsStats", "numUpdates"})
    assert stat["prevCommit"] is None


@pytest.mark.parametrize("version", [6, 8, 9])
@given(metadata=METADATA)
def test_any_metadata_survives_in_every_version(metadata, version):
    content = commit_metadata.encode(metadata, version=version)
    assert commit_metadata.decode(content, where="f") == metadata


@given(metadata=METADATA)
def test_replaced_file_groups_make_it_a_replace_commit(metadata):
    content = commit_metadata.encode(metadata, version=9)
    is_replace = metadata.partition_to_replace_file_ids is not None
    name = "HoodieReplaceCommitMetadata" if is_replace else "HoodieCommitMetadata"
    assert avro_documents.record_name(content, where="f") == name


def test_avro_leaves_null_what_java_leaves_null():
    stat = WriteStat(file_id="f", log_files=(".l",), log_version=1, log_offset=0, base_file="")
    metadata = CommitMetadata(partition_to_write_stats={"p": (stat,)})
    content = commit_metadata.encode(metadata, version=9)
    record = avro_documents.decode(content, "HoodieCommitMetadata", where="f")
    written = record["partitionToWriteStats"]["p"][0]
    assert record["version"] is None
    assert [written[key] for key in ("totalLogFiles", "minEventTime", "cdcStats", "tempPath")] == [
        None
    ] * 4
    assert [written[key] for key in ("numUpdates", "totalLogReadTimeMs", "numDeletes")] == [0] * 3


def test_null_counters_of_a_reduced_writer_read_as_zero():
    record = {"partitionToWriteStats": {"p": [{"fileId": "f", "path": "p/f"}]}, "version": None}
    content = avro_documents.encode(record, "HoodieCommitMetadata")
    (stat,) = commit_metadata.decode(content, where="f").partition_to_write_stats["p"]
    assert stat == WriteStat(file_id="f", path="p/f")


def test_an_empty_file_is_an_empty_profile_but_never_a_completed_commit():
    assert commit_metadata.decode_pending(b"", where="f") == CommitMetadata()
    with pytest.raises(Corrupt, match="empty"):
        commit_metadata.decode(b"", where="f")


def test_a_workload_profile_is_read():
    profile = {
        "partitionToWriteStats": {
            "p": [{"fileId": "", "path": None, "prevCommit": "null", "numInserts": 3}]
        },
        "extraMetadata": {},
    }
    found = commit_metadata.decode_pending(json.dumps(profile).encode(), where="f")
    (stat,) = found.partition_to_write_stats["p"]
    assert (stat.file_id, stat.path, stat.num_inserts) == ("", None, 3)
    assert stat.prev_commit == commit_metadata.NO_PREVIOUS_COMMIT


def schema_with(*names: str) -> str:
    fields = [{"name": name, "type": "string"} for name in names]
    return json.dumps({"type": "record", "name": "r", "fields": fields})


@pytest.mark.parametrize(
    ("stored", "expected"),
    [
        (None, None),
        ("", None),
        (schema_with("a"), schema_with("a")),
        (
            schema_with("_hoodie_commit_time", "a", "_hoodie_file_name", "_hoodie_is_deleted"),
            schema_with("a", "_hoodie_is_deleted"),
        ),
        (schema_with("_hoodie_is_deleted"), schema_with("_hoodie_is_deleted")),
    ],
)
def test_the_schema_is_given_without_meta_columns(stored, expected):
    extra = {} if stored is None else {"schema": stored}
    found = CommitMetadata(extra_metadata=extra).schema(where="f")
    assert (found and json.loads(found)) == (expected and json.loads(expected))


@pytest.mark.parametrize(
    "text",
    [
        text.replace("@", "_hoodie_commit_time")
        for text in ("@", "[@", '"@"', '{"fields":"@"}', '{"@":1}')
    ],
)
def test_a_broken_schema_is_corrupt(text):
    with pytest.raises(Corrupt):
        CommitMetadata(extra_metadata={"schema": text}).schema(where="f")


@pytest.mark.parametrize(
    "content",
    [
        b"x",
        b"[]",
        b"null",
        b"{",
        b'{"compacted": 1}',
        b'{"partitionToWriteStats": {"p": {}}}',
        b'{"partitionToWriteStats": {"p": [{"numWrites": 1.5}]}}',
        b'{"partitionToWriteStats": {"p": [{"numWrites": 1e400}]}}',
        b'{"partitionToWriteStats": {"p": [{"numWrites": 9223372036854775808}]}}',
        b'{"extraMetadata": {"a": 1}}',
        b'{"extraMetadata": []}',
        b'{"operationType": NaN}',
        b'{"a": ' + b"9" * 5000 + b"}",
        b'{"a": ' + b"[" * 200_000,
        b'{"operationType": "\xff"}',
        JAVA_V6.encode()[:-200],
        avro_documents.encode({"version": 1}, "HoodieIndexPlan"),
    ],
)
def test_what_is_no_commit_metadata_is_corrupt(content):
    with pytest.raises(Corrupt) as caught:
        commit_metadata.decode(content, where="x.commit")
    assert caught.value.where == "x.commit"


def test_too_much_is_refused_unread(monkeypatch):
    monkeypatch.setattr(avro_documents, "SIZE_LIMIT", 10)
    with pytest.raises(LimitExceeded):
        commit_metadata.decode(b'{"compacted":true}', where="f")


def test_other_table_versions_are_refused_by_name():
    with pytest.raises(Unsupported, match="version 7"):
        commit_metadata.encode(CommitMetadata(), version=7)
