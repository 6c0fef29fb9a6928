"""Broken neighbours of documents: a typed error or a value, in bounded time and memory."""

import io

import fastavro
import pytest

from fuzzing import assert_survives
from lakehand.formats import (
    avro_documents,
    commit_metadata,
    java_properties,
    partition_metadata,
    table_properties,
)
from lakehand.formats.commit_metadata import CommitMetadata, RuntimeStats, WriteStat
from lakehand.formats.plans import (
    clean,
    clustering,
    compaction,
    indexing,
    restore,
    rollback,
    savepoint,
)

PROPERTIES = java_properties.render(
    {"hoodie.table.name": "tä\t😀", " key:#": " v\\", "a": "b"}, comments=["one", "two"]
)
STATS = (
    WriteStat(file_id="f", path="p/f_1-2-3_4.parquet", prev_commit="null", num_writes=1 << 40),
    WriteStat(
        file_id="g",
        log_version=1,
        log_offset=0,
        base_file="",
        log_files=(".g.log.1",),
        cdc_stats={"a": 1},
        runtime_stats=RuntimeStats(total_create_time=3),
    ),
)
COMMIT = CommitMetadata(
    partition_to_write_stats={"p": STATS},
    extra_metadata={"schema": '{"type":"record","fields":[{"name":"_hoodie_record_key"}]}'},
    operation_type="UPSERT",
    partition_to_replace_file_ids={"p": ("f",)},
)
CLUSTERING = clustering.RequestedReplace(
    operation_type="CLUSTER",
    clustering_plan=clustering.ClusteringPlan(
        input_groups=(
            clustering.ClusteringGroup(
                slices=(clustering.ClusteringSlice(file_id="f", delta_file_paths=("a", "b")),),
                metrics={"TOTAL_IO_MB": 1.5},
            ),
        ),
        strategy=clustering.ClusteringStrategy(strategy_params={"a": "b"}),
    ),
)
INSTANT = rollback.InstantInfo(commit_time="1", action="commit")
ROLLED_BACK = rollback.RollbackMetadata(
    start_rollback_time="1",
    time_taken_in_millis=1,
    total_files_deleted=1,
    commits_rollback=("1",),
    partition_metadata={
        "p": rollback.RolledBackPartition(
            partition_path="p",
            success_delete_files=("a",),
            failed_delete_files=(),
            rollback_log_files={"l": 1},
        )
    },
    instants_rollback=(INSTANT,),
)
PLANS = [
    compaction.encode(
        compaction.CompactionPlan(
            operations=(
                compaction.CompactionOperation(
                    base_instant_time="1", file_id="f", metrics={"a": 1.0}
                ),
            )
        )
    ),
    clean.encode_plan(
        clean.CleanerPlan(
            policy="KEEP_LATEST_COMMITS",
            earliest_instant_to_retain=clean.RetainedInstant(timestamp="1", action="a", state="s"),
            file_paths_to_be_deleted_per_partition={"p": (clean.CleanFile(file_path="/f"),)},
        )
    ),
    clean.encode_metadata(
        clean.CleanMetadata(
            start_clean_time="1",
            time_taken_in_millis=1,
            total_files_deleted=1,
            earliest_commit_to_retain="1",
            partition_metadata={},
        )
    ),
    rollback.encode_plan(
        rollback.RollbackPlan(
            instant_to_rollback=INSTANT,
            rollback_requests=(rollback.RollbackRequest(partition_path="p"),),
        )
    ),
    rollback.encode_metadata(ROLLED_BACK),
    restore.encode_plan(restore.RestorePlan(instants_to_rollback=(INSTANT,))),
    restore.encode_metadata(
        restore.RestoreMetadata(
            start_restore_time="1",
            time_taken_in_millis=1,
            instants_to_rollback=("1",),
            hoodie_restore_metadata={"1": (ROLLED_BACK, None)},
        )
    ),
    savepoint.encode(
        savepoint.SavepointMetadata(
            savepointed_by="me",
            savepointed_at=1,
            comments="",
            partition_metadata={
                "p": savepoint.SavepointPartition(partition_path="p", savepoint_data_file=("a",))
            },
        )
    ),
    indexing.encode_plan(
        indexing.IndexPlan(index_partition_infos=(indexing.IndexPartition(version=1),))
    ),
    indexing.encode_metadata(indexing.IndexCommitMetadata(operation_type="INDEX")),
]


def deflated(content: bytes) -> bytes:
    """The same document, compressed and with a writer schema that needs resolving."""
    (record,) = fastavro.reader(io.BytesIO(content))
    schema = fastavro.reader(io.BytesIO(content)).writer_schema
    schema["fields"] = [*schema["fields"], {"name": "later", "type": ["null", "bytes"]}]
    target = io.BytesIO()
    rows = [record | {"later": b"x"}]
    fastavro.writer(target, schema, rows, codec="deflate", sync_marker=b"the same marker.")
    return target.getvalue()


AVRO_COMMIT = commit_metadata.encode(COMMIT, version=9)
CORPUS = {
    "properties": [PROPERTIES, b"a=one\\\n  two\\\\\r\n! c\r\\u0041 : b\n"],
    "table": [table_properties.encode({"hoodie.table.name": "t", "hoodie.table.version": "9"})],
    "partition": [
        partition_metadata.encode(
            partition_metadata.PartitionMetadata(commit_time="20251118140000123", depth=2),
            written_at_ms=0,
        )
    ],
    "name": [b"20251118140000123.commit.requested", b"20251118140000123_2.deltacommit", b"1.x"],
    "commit": [
        AVRO_COMMIT,
        commit_metadata.encode(COMMIT, version=6),
        deflated(AVRO_COMMIT),
        commit_metadata.encode(CommitMetadata(), version=8),
    ],
    "schema": [avro_documents.schema_json("HoodieRestoreMetadata").encode()],
    "clustering_plan": [clustering.encode(CLUSTERING), deflated(clustering.encode(CLUSTERING))],
    "plans": [bytes([number]) + content for number, content in enumerate(PLANS)],
}


@pytest.mark.parametrize("target", sorted(CORPUS))
def test_broken_documents_give_typed_errors(target, tmp_path):
    assert_survives(f"fuzz_targets_documents:{target}", CORPUS[target], tmp_path)
