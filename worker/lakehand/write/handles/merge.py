"""MERGE and EXTEND: a new base file of a file group, from its base file and the rows of the write.

Both stream. To merge, the rows of the write are folded first, one event for each key, and spill
when they are too many (``read.merge_stream``); to extend, they come behind those of the base file,
whatever keys they have. A row of the base file that nothing touches keeps its commit time and
sequence number, but gets the new file's name, as Hudi does it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lakehand.core.markers import MarkerKind
from lakehand.errors import Invalid
from lakehand.read.base_reader import read_base
from lakehand.read.columns import nulls
from lakehand.read.data_path import data_path
from lakehand.read.log_events import DeletedKeys, WrittenRows, ordering_types
from lakehand.read.merge import Meeting, MergeCounts
from lakehand.read.merge_stream import MergeMemory, merge_slice
from lakehand.write.handles.base_output import BaseOutput, stat_of_merged
from lakehand.write.handles.combining import rows_to_write, without_deletions, write_rule
from lakehand.write.handles.meta_columns import RowStamp
from lakehand.write.shapes import RECORD_KEY

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lakehand.core.file_slices import FileSlice
    from lakehand.ports import Store
    from lakehand.read.log_events import LogEvent
    from lakehand.write.shapes import GroupTask, Try, WriteContext, WrittenFile

    _Merging = Callable[
        [Iterator[pa.RecordBatch], "_Incoming", Iterator[pa.RecordBatch], MergeCounts],
        Iterator[pa.RecordBatch],
    ]

_BATCH_ROWS = 1 << 17


def merge(
    store: Store, context: WriteContext, task: GroupTask, rows: Iterator[pa.RecordBatch], tried: Try
) -> list[WrittenFile]:
    """Write the base file with the rows merged into it, even if none is left, as Hudi does."""
    return _rewrite(store, context, task, rows, tried, merging=_merged)


def extend(
    store: Store, context: WriteContext, task: GroupTask, rows: Iterator[pa.RecordBatch], tried: Try
) -> list[WrittenFile]:
    """Write the base file with the rows behind its own."""
    return _rewrite(store, context, task, rows, tried, merging=_extended)


def _rewrite(
    store: Store,
    context: WriteContext,
    task: GroupTask,
    rows: Iterator[pa.RecordBatch],
    tried: Try,
    *,
    merging: _Merging,
) -> list[WrittenFile]:
    part, path = _mergeable(task)
    counts = MergeCounts()
    with BaseOutput(
        store,
        context,
        tried,
        partition=task.partition,
        file_id=task.file_id,
        kind=MarkerKind.MERGE,
    ) as output:
        incoming = _Incoming(context, RowStamp(context, tried), task.leaving)
        base = read_base(store, path, schema=context.schema, batch_rows=_BATCH_ROWS)
        for batch in merging(base, incoming, rows, counts):
            output.write(batch)
        return [output.finish(stat_of_merged(output, part, counts, context))]


def _mergeable(task: GroupTask) -> tuple[FileSlice, str]:
    """Return the slice and the path of its base file."""
    part = task.part
    if part is None or part.base_file is None or part.log_files:
        raise Invalid(
            f"file group {task.file_id} in {task.partition!r} has no base file, or log files on "
            "top of it: rows are appended to such a slice, not merged"
        )
    return part, data_path(part, part.base_file)


@dataclass(frozen=True, slots=True)
class _Incoming:
    """The rows of the write, as a merge takes them."""

    context: WriteContext
    stamp: RowStamp
    leaving: pa.StringArray | None

    def events(self, rows: Iterator[pa.RecordBatch]) -> Iterator[LogEvent]:
        for batch in rows:
            if self.context.is_deletion:
                yield self._deleted(batch.column(RECORD_KEY))
            else:
                yield WrittenRows(self.stamp.stamp(batch))
        if self.leaving is not None:
            yield self._deleted(self.leaving)

    def _deleted(self, keys: pa.Array[Any]) -> DeletedKeys:
        types = ordering_types(self.context.schema, write_rule(self.context))
        natural: Any = pa.repeat(True, len(keys))
        return DeletedKeys(keys, natural, tuple(nulls(len(keys), kind) for kind in types))


def _merged(
    base: Iterator[pa.RecordBatch],
    incoming: _Incoming,
    rows: Iterator[pa.RecordBatch],
    counts: MergeCounts,
) -> Iterator[pa.RecordBatch]:
    context = incoming.context
    return merge_slice(
        base,
        incoming.events(rows),
        schema=context.schema,
        rule=write_rule(context),
        memory=MergeMemory(context.settings.memory_bytes, context.settings.spill_folder),
        meeting=Meeting.EVERY,
        counts=counts,
    )


def _extended(
    base: Iterator[pa.RecordBatch],
    incoming: _Incoming,
    rows: Iterator[pa.RecordBatch],
    counts: MergeCounts,
) -> Iterator[pa.RecordBatch]:
    yield from base
    context = incoming.context
    for keyed in without_deletions(rows_to_write(rows, context), write_rule(context)):
        counts.inserts += keyed.num_rows
        yield incoming.stamp.stamp(keyed)
