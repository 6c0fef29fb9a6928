"""The one entry of a write into a file group: what is returned is all that counts of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

import pyarrow as pa

from lakehand.write.handles.append import append
from lakehand.write.handles.create import create
from lakehand.write.handles.merge import extend, merge
from lakehand.write.shapes import PARTITION_PATH, GroupWork

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lakehand.ports import Store
    from lakehand.write.shapes import GroupTask, Try, WriteContext, WrittenFile


def write_group(
    store: Store, context: WriteContext, task: GroupTask, rows: Iterator[pa.RecordBatch], tried: Try
) -> list[WrittenFile]:
    """Stage the files that the keyed batches ``rows`` make of a file group.

    No two calls of a write share a ``tried.task``: it is part of file names and of the rows'
    sequence numbers. A call that raises leaves nothing staged.
    """
    if context.looks_everywhere:
        rows = _here(rows, task.partition)
    match task.work:
        case GroupWork.CREATE:
            return create(store, context, task, rows, tried)
        case GroupWork.MERGE:
            return merge(store, context, task, rows, tried)
        case GroupWork.EXTEND:
            return extend(store, context, task, rows, tried)
        case GroupWork.APPEND:
            return append(store, context, task, rows, tried)
        case _:
            assert_never(task.work)


def _here(rows: Iterator[pa.RecordBatch], partition: str) -> Iterator[pa.RecordBatch]:
    """Yield the rows as those of the group's partition, whichever they name."""
    for batch in rows:
        at = batch.schema.get_field_index(PARTITION_PATH)
        path = pa.repeat(partition, batch.num_rows)
        yield batch.set_column(at, batch.schema.field(at), path)
