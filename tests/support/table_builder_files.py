"""Data files of a built table: base files, log files, partition metadata, and their write stats."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from lakehand.core.file_names import BaseFileName, LogFileName
from lakehand.formats import avro_schema, log_records, partition_metadata
from lakehand.formats.base_file import BaseFileOptions, BaseFileWriter
from lakehand.formats.bloom import BloomSettings
from lakehand.formats.commit_metadata import NO_PREVIOUS_COMMIT, RuntimeStats, WriteStat
from lakehand.formats.log_deletes import Deletes, Ordering
from lakehand.formats.log_file import HeaderKey
from lakehand.formats.partition_metadata import PartitionMetadata
from lakehand.ports import PromoteOutcome, PutOutcome
from table_builder_rows import (
    COMMIT_TIME,
    FILE_NAME,
    PARTITION_PATH,
    RECORD_KEY,
    SEQUENCE,
    Row,
    data_schema,
    to_table,
)

if TYPE_CHECKING:
    from table_builder import Change, Group, TableBuilder, Winner, Write

META = (COMMIT_TIME, SEQUENCE, RECORD_KEY, PARTITION_PATH)
ROLLBACK_TOKEN = "1-0-1"

# Sixty tables with Hudi's default filter of 431 kB in every file would be a gigabyte.
SMALL_BLOOM = BaseFileOptions(bloom=BloomSettings(entries=500, max_entries=2_000))


def _staging(write: Write) -> str:
    return f"{marker_folder(write)}/.staging/1"


def _mark(table: TableBuilder, write: Write, path: str, *, kind: str) -> None:
    """A direct marker, put before the file is staged: by these Java rolls back a pending write."""
    table.store.put(f"{marker_folder(write)}/{path}.marker.{kind}", b"")


def marker_folder(write: Write) -> str:
    return f".hoodie/.temp/{write.instant}"


def ensure_partition(table: TableBuilder, partition: str, instant: str) -> None:
    depth = partition.count("/") + 1 if partition else 0
    content = partition_metadata.encode(
        PartitionMetadata(commit_time=instant, depth=depth), written_at_ms=table.store.now()
    )
    name = partition_metadata.FILE_NAME
    table.store.put_new(f"{partition}/{name}" if partition else name, content)


def _batch(table: TableBuilder, rows: list[Row], file_name: str) -> pa.RecordBatch:
    """The rows with Hudi's five meta columns in front."""
    data = to_table(table.shape, rows)
    meta = [pa.array([row[name] for row in rows], pa.string()) for name in META]
    names = pa.array([file_name] * len(rows), pa.string())
    columns = [*meta, names, *(column.combine_chunks() for column in data.columns)]
    schema = avro_schema.with_meta_columns(data_schema(table.shape))
    assert schema.names == [*META, FILE_NAME, *data.column_names]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def write_base(
    table: TableBuilder, write: Write, change: Change, *, rows: list[Row],
    merges: list[str] | None = None,
) -> None:  # fmt: skip
    """A new base file of the change's group with ``rows``; ``merges`` names compacted logs."""
    group = change.group
    name = str(BaseFileName(group.file_id, table.token(), write.instant, ".parquet"))
    batch = _batch(table, rows, name)
    path = group.path(name)
    _mark(table, write, path, kind="MERGE" if group.slices else "CREATE")
    with table.store.stage(path, area=_staging(write)) as staged:
        with BaseFileWriter(staged, batch.schema, options=table.base_file_options) as writer:
            writer.write(batch)
        staged.close()
    assert table.store.promote(staged.staged) is PromoteOutcome.WRITTEN
    change.base = name
    size = table.size(path)
    before = group.visible if group.slices else None
    inserts = len(rows) if before is None else 0
    write.add_stat(
        WriteStat(
            file_id=group.file_id,
            path=path,
            prev_commit=NO_PREVIOUS_COMMIT if before is None else before.instant,
            prev_base_file=None if before is None else before.base,
            num_writes=len(rows),
            num_inserts=inserts,
            num_deletes=len(change.removes),
            num_update_writes=0 if before is None else len(change.puts),
            total_write_bytes=size,
            file_size_in_bytes=size,
            partition_path=group.partition,
            total_log_files_compacted=len(merges or ()),
            total_log_records=len(rows) if merges else 0,
            runtime_stats=RuntimeStats(total_create_time=3),
        )
    )


def append_log(table: TableBuilder, write: Write, change: Change) -> None:
    """One log file: a data block or two for the rows, then a delete block for removed keys."""
    half = len(change.puts) // 2
    blocks = _data_block(table, change.group, change.puts[:half], write.instant)
    blocks += _data_block(table, change.group, change.puts[half:], write.instant)
    removed: dict[str, Winner] = dict.fromkeys(change.removes, (None, table.event_time))
    blocks += _delete_block(table, change.group, removed, write.instant)
    _write_log(table, write, change, blocks)


def append_compacted_log(
    table: TableBuilder, write: Write, change: Change, winners: dict[str, Winner]
) -> None:
    """What stands of a slice's log records, in one file that says which blocks it replaces."""
    puts = [row for row, _ in winners.values() if row is not None]
    removed = {key: winner for key, winner in winners.items() if winner[0] is None}
    extra = {HeaderKey.COMPACTED_BLOCK_TIMES: ",".join(change.group.latest.log_times)}
    blocks = _data_block(table, change.group, puts, write.instant, extra)
    blocks += _delete_block(table, change.group, removed, write.instant, extra)
    _write_log(table, write, change, blocks)


def append_rollback_command(
    table: TableBuilder, group: Group, target: Write, instant: str
) -> tuple[str, int]:
    """Version 6: the file that takes back the target's blocks in the slice; name and size."""
    content = log_records.encode_rollback_command(instant=instant, target=target.instant)
    slice_ = group.latest
    slice_.versions += 1
    name = str(LogFileName(group.file_id, slice_.instant, slice_.versions, ROLLBACK_TOKEN))
    assert table.store.put_new(group.path(name), content) is PutOutcome.WRITTEN
    slice_.logs.append(name)
    return name, len(content)


def _writer_schema(table: TableBuilder) -> str:
    schema = avro_schema.with_meta_columns(data_schema(table.shape))
    return avro_schema.from_arrow(schema, table_name=table.name)


def _data_block(
    table: TableBuilder,
    group: Group,
    rows: list[Row],
    instant: str,
    extra: dict[HeaderKey, str] | None = None,
) -> bytes:
    if not rows:
        return b""
    encode = (
        log_records.encode_avro_data
        if table.shape.blocks == "avro"
        else log_records.encode_parquet_data
    )
    batch = _batch(table, rows, group.file_id)
    return encode([batch], instant=instant, schema=_writer_schema(table), extra=extra)


def _delete_block(
    table: TableBuilder,
    group: Group,
    removed: dict[str, Winner],
    instant: str,
    extra: dict[HeaderKey, str] | None = None,
) -> bytes:
    """With the ordering column's own type where event time rules; else what always wins."""
    if not removed:
        return b""
    values = pa.array([ordering for _, ordering in removed.values()], pa.int64())
    deletes = Deletes(
        record_keys=pa.array(list(removed), pa.string()),
        partition_paths=pa.array([group.partition] * len(removed), pa.string()),
        ordering=Ordering.of(values) if table.shape.event_time else Ordering.natural(len(removed)),
    )
    schema = _writer_schema(table)
    return log_records.encode_deletes(deletes, instant=instant, schema=schema, extra=extra)


def _write_log(table: TableBuilder, write: Write, change: Change, blocks: bytes) -> None:
    """A log file of its own for every write, as on stores that cannot append."""
    group, slice_ = change.group, change.group.latest
    if table.shape.version == 6:
        slice_.versions += 1
        name = LogFileName(group.file_id, slice_.instant, slice_.versions, table.token())
        slice_.logs.append(str(name))
        logs = tuple(slice_.logs)
    else:
        name = LogFileName(group.file_id, write.instant, 1, table.token())
        logs = (str(name),)
    path = group.path(str(name))
    _mark(table, write, path, kind="APPEND" if table.shape.version == 6 else "CREATE")
    with table.store.stage(path, area=_staging(write)) as staged:
        staged.write(blocks)
        staged.close()
    assert table.store.promote(staged.staged) is PromoteOutcome.WRITTEN
    change.log = str(name)
    is_first = table.shape.version == 6
    write.add_stat(
        WriteStat(
            file_id=group.file_id,
            path=path,
            prev_commit=slice_.instant if is_first else write.instant,
            num_writes=len(change.puts),
            num_deletes=len(change.removes),
            num_update_writes=len(change.puts),
            total_write_bytes=len(blocks),
            file_size_in_bytes=len(blocks),
            partition_path=group.partition,
            log_version=name.version,
            log_offset=0,
            base_file=(slice_.base or "") if is_first else "",
            log_files=logs,
            runtime_stats=RuntimeStats(total_upsert_time=3),
        )
    )
