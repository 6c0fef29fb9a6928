"""Commit metadata: what a completed write says of itself, and an inflight one of its plans.

Table version 6 keeps it as JSON (``HoodieCommitMetadata``, with replaced file groups
``HoodieReplaceCommitMetadata``), versions 8 and 9 as Avro documents of the same names. The names of
the fields are the same in both, so one table reads and writes either; a file says itself what it
is, because a table that was upgraded holds both. A replace commit is one whose
``partition_to_replace_file_ids`` is not None.

Java's counters are plain numbers: null reads as 0. Everything that Java may leave null stays None,
so that writing again gives what was read.
"""

from __future__ import annotations

import json
from collections.abc import Mapping  # noqa: TC003 - read at run time by RecordMapping
from dataclasses import dataclass, field
from enum import StrEnum, unique
from typing import Any

from lakehand.errors import Corrupt, LimitExceeded, Unsupported
from lakehand.formats import avro_documents
from lakehand.formats.avro_schema import META_COLUMNS
from lakehand.formats.document_values import RecordMapping

NO_PREVIOUS_COMMIT = "null"
"""What ``WriteStat.prev_commit`` says of a new file group: these four letters, not None."""

SCHEMA_KEY = "schema"
"""The key in ``CommitMetadata.extra_metadata`` that holds the table's Avro schema."""

_COMMIT, _REPLACE_COMMIT = "HoodieCommitMetadata", "HoodieReplaceCommitMetadata"


@unique
class WriteOperation(StrEnum):
    """The values of ``CommitMetadata.operation_type`` that Hudi writes."""

    INSERT = "INSERT"
    INSERT_PREPPED = "INSERT_PREPPED"
    UPSERT = "UPSERT"
    UPSERT_PREPPED = "UPSERT_PREPPED"
    BULK_INSERT = "BULK_INSERT"
    BULK_INSERT_PREPPED = "BULK_INSERT_PREPPED"
    DELETE = "DELETE"
    DELETE_PREPPED = "DELETE_PREPPED"
    INSERT_OVERWRITE = "INSERT_OVERWRITE"
    INSERT_OVERWRITE_TABLE = "INSERT_OVERWRITE_TABLE"
    DELETE_PARTITION = "DELETE_PARTITION"
    CLUSTER = "CLUSTER"
    COMPACT = "COMPACT"
    LOG_COMPACT = "LOG_COMPACT"
    INDEX = "INDEX"
    ALTER_SCHEMA = "ALTER_SCHEMA"
    BUCKET_RESCALE = "BUCKET_RESCALE"
    UNKNOWN = "UNKNOWN"


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeStats:
    """Milliseconds that the write of one file took."""

    total_scan_time: int = 0
    total_create_time: int = 0
    total_upsert_time: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteStat:
    """What was written to one file; a stat of a log file has ``log_files``.

    ``path`` is relative to the table's base. In a log file's stat ``prev_commit`` is the base
    instant of its slice in table version 6, and the write's own instant from version 8 on.
    """

    file_id: str | None = None
    path: str | None = None
    prev_commit: str | None = None
    num_writes: int = 0
    num_deletes: int = 0
    num_update_writes: int = 0
    total_write_bytes: int = 0
    total_write_errors: int = 0
    partition_path: str | None = None
    total_log_records: int = 0
    total_log_files: int | None = None
    total_updated_records_compacted: int = 0
    num_inserts: int = 0
    total_log_blocks: int = 0
    total_corrupt_log_block: int = 0
    total_rollback_blocks: int = 0
    file_size_in_bytes: int = 0
    log_version: int | None = None
    log_offset: int | None = None
    base_file: str | None = None
    log_files: tuple[str, ...] | None = None
    cdc_stats: Mapping[str, int] | None = None
    prev_base_file: str | None = None
    min_event_time: int | None = None
    max_event_time: int | None = None
    runtime_stats: RuntimeStats | None = None
    total_log_files_compacted: int = 0
    total_log_read_time_ms: int = 0
    total_log_size_compacted: int = 0
    temp_path: str | None = None
    num_updates: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitMetadata:
    """The whole document."""

    partition_to_write_stats: Mapping[str, tuple[WriteStat, ...]] = field(default_factory=dict)
    """By partition path; a table without partitions has the one partition ``""``."""
    compacted: bool = False
    """True for a compaction and for a log compaction."""
    extra_metadata: Mapping[str, str] = field(default_factory=dict)
    version: int | None = None
    """Java writes null, which is not its schema's default."""
    operation_type: str | None = None
    partition_to_replace_file_ids: Mapping[str, tuple[str, ...]] | None = None

    def schema(self, *, where: str) -> str | None:
        """Return the table's Avro schema without meta columns, or None if there is none.

        Some commits (schema changes, deleted partitions of Hudi 0.15) store the meta columns too.
        """
        text = self.extra_metadata.get(SCHEMA_KEY)
        if not text or META_COLUMNS[0] not in text:
            return text or None
        schema = _parse_json(text, where=where, what="the schema of a commit")
        fields = schema.get("fields")
        if not isinstance(fields, list):
            raise Corrupt("the schema of a commit has no fields", where=where)
        kept = [own for own in fields if not _is_meta_field(own)]
        return json.dumps(schema | {"fields": kept}, separators=(",", ":"))


_MAPPING = RecordMapping(CommitMetadata)


def decode(content: bytes, *, where: str) -> CommitMetadata:
    """Read the metadata of a completed write. An empty file is ``Corrupt``: its write broke off."""
    if content.startswith(avro_documents.MAGIC):
        return _decode_avro(content, where=where)
    if len(content) > avro_documents.SIZE_LIMIT:
        raise LimitExceeded(
            f"{where}: {len(content)} bytes; the limit is {avro_documents.SIZE_LIMIT}"
        )
    if not content:
        raise Corrupt("the file is empty, not commit metadata", where=where)
    record = _parse_json(content, where=where, what="commit metadata")
    extra = record.get("extraMetadata")
    if isinstance(extra, dict):
        # Java's maps may hold null where Avro's may not; it means as much as an absent key.
        record["extraMetadata"] = {key: own for key, own in extra.items() if own is not None}
    return _MAPPING.read(record, where=where)


def decode_pending(content: bytes, *, where: str) -> CommitMetadata:
    """Read a requested or inflight file: the workload profile, or nothing when it is empty."""
    return decode(content, where=where) if content else CommitMetadata()


def encode(metadata: CommitMetadata, *, version: int) -> bytes:
    """Return the document as table version 6 (JSON), 8 or 9 (Avro) keep it."""
    match version:
        case 6:
            return _encode_json(metadata)
        case 8 | 9:
            return _encode_avro(metadata)
        case _:
            raise Unsupported(f"commit metadata of table version {version}; use 6, 8 or 9")


def _decode_avro(content: bytes, *, where: str) -> CommitMetadata:
    name = avro_documents.record_name(content, where=where)
    if name not in (_COMMIT, _REPLACE_COMMIT):
        raise Corrupt(f"holds a {name}, not commit metadata", where=where)
    record = avro_documents.decode(content, name, where=where)
    if name == _REPLACE_COMMIT and record.get("partitionToReplaceFileIds") is None:
        record["partitionToReplaceFileIds"] = {}
    return _MAPPING.read(record, where=where)


def _encode_avro(metadata: CommitMetadata) -> bytes:
    record = _MAPPING.write(metadata)
    if metadata.partition_to_replace_file_ids is None:
        del record["partitionToReplaceFileIds"]
        return avro_documents.encode(record, _COMMIT)
    return avro_documents.encode(record, _REPLACE_COMMIT)


_JSON_STAT_KEYS = (
    "fileId", "path", "cdcStats", "prevCommit", "numWrites", "numDeletes", "numUpdateWrites",
    "numInserts", "totalWriteBytes", "totalWriteErrors", "tempPath", "partitionPath",
    "totalLogRecords", "totalLogFilesCompacted", "totalLogSizeCompacted",
    "totalUpdatedRecordsCompacted", "totalLogBlocks", "totalCorruptLogBlock",
    "totalRollbackBlocks", "fileSizeInBytes", "minEventTime", "maxEventTime", "runtimeStats",
)  # fmt: skip
"""What Hudi 0.15 writes into every stat, in its order."""
_JSON_LOG_STAT_KEYS = ("logVersion", "logOffset", "baseFile", "logFiles")
_JSON_LATER_STAT_KEYS = ("totalLogFiles", "prevBaseFile", "totalLogReadTimeMs", "numUpdates")
"""Keys of Hudi 1.x, which 0.15 passes over: written only when they say something."""
_EMPTY_STAT = RecordMapping(WriteStat).write(WriteStat())


def _encode_json(metadata: CommitMetadata) -> bytes:
    record = _MAPPING.write(metadata)
    document: dict[str, Any] = {
        "partitionToWriteStats": {
            partition: [_json_stat(stat) for stat in stats]
            for partition, stats in record["partitionToWriteStats"].items()
        },
        "compacted": record["compacted"],
        "extraMetadata": record["extraMetadata"],
        "operationType": record["operationType"],
    }
    if metadata.version is not None:
        document["version"] = metadata.version
    if metadata.partition_to_replace_file_ids is not None:
        document["partitionToReplaceFileIds"] = record["partitionToReplaceFileIds"]
    return json.dumps(document, indent=2, separators=(",", " : "), ensure_ascii=False).encode()


def _json_stat(stat: Mapping[str, Any]) -> dict[str, Any]:
    written = {key: stat[key] for key in _JSON_STAT_KEYS}
    if any(stat[key] is not None for key in _JSON_LOG_STAT_KEYS):
        written |= {key: stat[key] for key in _JSON_LOG_STAT_KEYS}
        written["recordsStats"] = {"val": None}
    later = {key: stat[key] for key in _JSON_LATER_STAT_KEYS}
    return written | {key: own for key, own in later.items() if own != _EMPTY_STAT[key]}


def _is_meta_field(own: object) -> bool:
    return isinstance(own, dict) and own.get("name") in META_COLUMNS


def _parse_json(text: bytes | str, *, where: str, what: str) -> dict[str, Any]:
    try:
        parsed = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Corrupt(
            f"{what} is no JSON: {error}", where=where, offset=getattr(error, "pos", None)
        ) from error
    if not isinstance(parsed, dict):
        raise Corrupt(f"{what} is no JSON object", where=where)
    return parsed
