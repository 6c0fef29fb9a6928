"""The one entry of a write into a file group: what is returned is all that counts of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from lakehand.write.handles.append import append
from lakehand.write.handles.create import create
from lakehand.write.handles.merge import extend, merge
from lakehand.write.shapes import GroupWork

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from lakehand.ports import Store
    from lakehand.write.shapes import GroupTask, Try, WriteContext, WrittenFile


def write_group(
    store: Store, context: WriteContext, task: GroupTask, rows: Iterator[pa.RecordBatch], tried: Try
) -> list[WrittenFile]:
    """Stage the files that the keyed batches ``rows`` make of a file group.

    No two calls of a write share a ``tried.task``: it is part of file names and of the rows'
    sequence numbers. A call that raises leaves nothing staged.
    """
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
