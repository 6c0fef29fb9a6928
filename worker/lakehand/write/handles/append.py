"""APPEND: a new log file on top of a slice, data blocks first and then delete blocks.

A block is encoded when its rows are together and given away before the next one is gathered.
Rows that delete become entries of a delete block and keep their ordering value, as Java writes
them; keys to delete get the integer 0, Hudi's sign of a deletion that always wins.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, assert_never

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehand.core.file_names import LogFileName, parse_log_file
from lakehand.core.file_slices import FIRST_VERSION_BY_COMPLETION
from lakehand.formats import log_records
from lakehand.formats.commit_metadata import RuntimeStats, WriteStat
from lakehand.formats.log_deletes import Deletes, Ordering, OrderingKind
from lakehand.read.columns import nulls
from lakehand.read.log_events import natural_flags
from lakehand.write.handles.combining import deletions, pieces, rows_to_write, write_rule
from lakehand.write.handles.meta_columns import RowStamp
from lakehand.write.handles.staged_file import (
    finished,
    log_marker,
    path_in,
    staged_file,
    token_of,
)
from lakehand.write.shapes import PARTITION_PATH, RECORD_KEY, LogFormat, WrittenFile

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lakehand.core.merge_rules import MergeRule
    from lakehand.ports import StagedWriter, Store
    from lakehand.read.columns import Flags
    from lakehand.write.shapes import GroupTask, Try, WriteContext


def append(
    store: Store, context: WriteContext, task: GroupTask, rows: Iterator[pa.RecordBatch], tried: Try
) -> list[WrittenFile]:
    """Write the rows to a new log file; without rows, or keys that leave, there is none."""
    incoming = rows_to_write(rows, context)
    first = next((batch for batch in incoming if batch.num_rows), None)
    if first is None and task.leaving is None:
        return []
    name = _name(context, task, tried)
    path = path_in(task.partition, name)
    with staged_file(store, context, path, log_marker(context)) as writer:
        log = _LogOutput(context, task, RowStamp(context, tried), writer)
        if first is not None:
            log.take(first)
        for batch in incoming:
            log.take(batch)
        log.end()
        staged = finished(writer)
    return [WrittenFile(staged, _stat(context, task, name, log))]


def _name(context: WriteContext, task: GroupTask, tried: Try) -> str:
    instant = context.time if _by_completion(context) else task.base_instant
    return str(LogFileName(task.file_id, instant, task.log_version, token_of(context, tried)))


def _by_completion(context: WriteContext) -> bool:
    return context.config.version >= FIRST_VERSION_BY_COMPLETION


@dataclass(slots=True)
class _LogOutput:
    """Gathers rows and deletions until a block is full."""

    context: WriteContext
    task: GroupTask
    stamp: RowStamp
    writer: StagedWriter
    rule: MergeRule = field(init=False)
    rows: list[pa.RecordBatch] = field(default_factory=list)
    rows_bytes: int = 0
    deleted: list[pa.RecordBatch] = field(default_factory=list)
    deleted_bytes: int = 0
    written: int = 0
    num_writes: int = 0
    num_deletes: int = 0

    def __post_init__(self) -> None:
        self.rule = write_rule(self.context)

    def take(self, keyed: pa.RecordBatch) -> None:
        if self.context.is_deletion:
            self._take_deleted(keyed)
            return
        deleted = deletions(keyed, self.rule)
        if deleted.any():
            self._take_deleted(keyed.filter(pa.array(deleted)))
            keyed = keyed.filter(pa.array(~deleted))
        rows = self.stamp.stamp(keyed, file_name=self.task.file_id)
        for piece in pieces(rows, self.context.settings.log_block_bytes):
            self._take_rows(piece)

    def _take_rows(self, rows: pa.RecordBatch) -> None:
        if self.rows_bytes + rows.nbytes > self.context.settings.log_block_bytes:
            self._write_rows()
        self.rows.append(rows)
        self.rows_bytes += rows.nbytes

    def _take_deleted(self, keyed: pa.RecordBatch) -> None:
        if self.deleted_bytes > self.context.settings.log_block_bytes:
            self._write_deleted()
        ordering = [name for name in self.rule.ordering_fields if name in keyed.schema.names]
        self.deleted.append(keyed.select([RECORD_KEY, PARTITION_PATH, *ordering]))
        self.deleted_bytes += self.deleted[-1].nbytes

    def end(self) -> None:
        self._write_rows()
        self._write_deleted()
        if self.task.leaving is not None:
            self._take_deleted(_keyed(self.task.leaving, self.task.partition))
            self._write_deleted()

    def _write_rows(self) -> None:
        if not self.rows:
            return
        self.num_writes += sum(batch.num_rows for batch in self.rows)
        gathered, self.rows, self.rows_bytes = self.rows, [], 0
        self._write(_data_block(self.context, gathered))

    def _write_deleted(self) -> None:
        if not self.deleted:
            return
        table = pa.Table.from_batches(self.deleted).combine_chunks()
        self.deleted, self.deleted_bytes = [], 0
        self.num_deletes += table.num_rows
        for batch in table.to_batches():
            for piece in pieces(batch, self.context.settings.log_block_bytes):
                self._write(_delete_block(self.context, piece, self.rule))

    def _write(self, block: bytes) -> None:
        self.written += self.writer.write(block)


def _data_block(context: WriteContext, rows: list[pa.RecordBatch]) -> bytes:
    match context.settings.log_format:
        case LogFormat.PARQUET:
            options = replace(context.settings.base, bloom=None)
            return log_records.encode_parquet_data(
                rows, instant=context.time, schema=context.avro_schema, options=options
            )
        case LogFormat.AVRO:
            return log_records.encode_avro_data(
                rows, instant=context.time, schema=context.avro_schema
            )
        case _:
            assert_never(context.settings.log_format)


def _delete_block(context: WriteContext, keyed: pa.RecordBatch, rule: MergeRule) -> bytes:
    fields = [name for name in rule.ordering_fields if name in keyed.schema.names]
    if context.is_deletion or not fields:
        ordering = Ordering.natural(keyed.num_rows)
    else:
        every = np.ones(keyed.num_rows, dtype=np.bool_)
        natural = natural_flags(pa.Table.from_batches([keyed]), every, rule)
        ordering = _ordering([keyed.column(name) for name in fields], natural)
    deletes = Deletes(keyed.column(RECORD_KEY), keyed.column(PARTITION_PATH), ordering)
    return log_records.encode_deletes(deletes, instant=context.time, schema=context.avro_schema)


def _keyed(keys: pa.StringArray, partition: str) -> pa.RecordBatch:
    """Return keys that leave the group as rows to delete, without an ordering value."""
    paths = pa.repeat(partition, len(keys))
    return pa.RecordBatch.from_arrays([keys, paths], names=[RECORD_KEY, PARTITION_PATH])


def _ordering(columns: list[pa.Array[Any]], natural: Flags) -> Ordering:
    """Return the rows' own ordering values, and Hudi's integer 0 where they have none."""
    own = Ordering.of(columns[0]) if len(columns) == 1 else Ordering.of_several(columns)
    if not natural.any():
        return own
    zero = pa.array(np.zeros(len(natural), dtype=np.int32))
    ints: Any = own.values.get(OrderingKind.INT, nulls(len(natural), zero.type))
    return Ordering(
        np.where(natural, np.int8(OrderingKind.INT), own.kinds),
        {**own.values, OrderingKind.INT: pc.if_else(pa.array(natural), zero, ints)},
        own.parts,
    )


def _stat(context: WriteContext, task: GroupTask, name: str, log: _LogOutput) -> WriteStat:
    """Return what a commit says of the log file.

    Up to version 7 it names the slice's other files; later versions know a log file by its own
    instant alone.
    """
    by_completion = _by_completion(context)
    base_file, others = ("", ()) if by_completion else _slice_files(task)
    return WriteStat(
        file_id=task.file_id,
        path=path_in(task.partition, name),
        partition_path=task.partition,
        prev_commit=context.time if by_completion else task.base_instant,
        num_writes=log.num_writes,
        num_update_writes=log.num_writes,
        num_deletes=log.num_deletes,
        total_write_bytes=log.written,
        file_size_in_bytes=log.written,
        log_version=task.log_version,
        log_offset=0,
        base_file=base_file,
        log_files=(*others, name),
        runtime_stats=RuntimeStats(),
    )


def _slice_files(task: GroupTask) -> tuple[str, tuple[str, ...]]:
    """Return the files of the slice that the log file joins, by its base instant."""
    part = task.part
    if part is None:
        return "", ()
    parsed = [(log.name, parse_log_file(log.name)) for log in part.log_files]
    logs = tuple(
        name for name, one in parsed if one is not None and one.instant == task.base_instant
    )
    is_joined = part.base_instant == task.base_instant and part.base_file is not None
    return part.base_file.name if is_joined and part.base_file is not None else "", logs
