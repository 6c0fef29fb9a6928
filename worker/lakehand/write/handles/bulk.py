"""Bulk insert: rows of any partitions, as they come, into new file groups of theirs.

Rows of one key may come to several tasks: they all count. A bulk insert that combines them is
routed by key, and does not come here.

Every partition that a task meets gets a handle with one open file. Open files hold memory (rows
that wait for their row group, and the filter of their keys), so when all together hold too much,
the rows that wait are written first; if filters alone are too much, the largest file is closed,
and its partition goes on with a next one when more rows come. Rows that come sorted by partition
therefore make the fewest files.

File ids follow from the write's seed, the task's number and the order in which its partitions
first appear: a task that runs twice over the same rows makes the same file groups.
"""

from __future__ import annotations

import hashlib
from contextlib import ExitStack
from typing import TYPE_CHECKING

from lakehand.write.handles.combining import (
    by_partition,
    without_deletions,
    write_rule,
)
from lakehand.write.handles.create import NewFiles
from lakehand.write.handles.meta_columns import RowStamp
from lakehand.write.handles.staged_file import discarding

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from lakehand.ports import Store
    from lakehand.write.shapes import Try, WriteContext, WrittenFile


def write_partitioned(
    store: Store, context: WriteContext, seed: str, rows: Iterator[pa.RecordBatch], tried: Try
) -> list[WrittenFile]:
    """Write keyed batches of mixed partitions to new file groups.

    ``seed`` is drawn once for the write, on the driver. No two calls of a write share a
    ``tried.task``.
    """
    written: list[WrittenFile] = []
    with discarding(store, written), ExitStack() as opened:
        handles = _Handles(store, context, seed, tried, opened)
        for batch in without_deletions(rows, write_rule(context)):
            for partition, of_one in by_partition(batch):
                written.extend(handles.write(partition, of_one))
        written += handles.close()
    return written


def file_id_prefix(seed: str, task: int, number: int) -> str:
    """Return a file id prefix in the form of Hudi's, a UUID's, that follows from its arguments."""
    digest = hashlib.sha256(f"{seed}/{task}/{number}".encode()).hexdigest()
    variant = "89ab"[int(digest[16], 16) % 4]
    return f"{digest[:8]}-{digest[8:12]}-5{digest[13:16]}-{variant}{digest[17:20]}-{digest[20:32]}"


class _Handles:
    """The handles of a task, by partition path."""

    def __init__(
        self, store: Store, context: WriteContext, seed: str, tried: Try, opened: ExitStack
    ) -> None:
        self._store = store
        self._context = context
        self._seed = seed
        self._tried = tried
        self._opened = opened
        self._stamp = RowStamp(context, tried)
        self._handles: dict[str, NewFiles] = {}
        self._held = 0

    def write(self, partition: str, keyed: pa.RecordBatch) -> Iterator[WrittenFile]:
        """Append rows of one partition; yield the files that ended. To be exhausted."""
        handle = self._handle(partition)
        before = handle.held_bytes
        yield from handle.write(keyed)
        self._held += handle.held_bytes - before
        yield from self._within_memory()

    def _handle(self, partition: str) -> NewFiles:
        found = self._handles.get(partition)
        if found is None:
            prefix = file_id_prefix(self._seed, self._tried.task, len(self._handles))
            found = self._opened.enter_context(
                NewFiles(
                    self._store,
                    self._context,
                    self._tried,
                    stamp=self._stamp,
                    partition=partition,
                    prefix=prefix,
                )
            )
            self._handles[partition] = found
        return found

    def _within_memory(self) -> Iterator[WrittenFile]:
        """Give memory back until the open files hold no more than they may."""
        while self._held > self._context.settings.memory_bytes:
            fullest = max(self._handles.values(), key=_waiting)
            if fullest.waiting_bytes:
                self._held -= fullest.waiting_bytes
                fullest.flush()
                continue
            largest = max(self._handles.values(), key=_written)
            self._held -= largest.held_bytes
            yield from largest.close()

    def close(self) -> list[WrittenFile]:
        return [made for one in self._handles.values() for made in one.close()]


def _waiting(handle: NewFiles) -> int:
    return handle.waiting_bytes


def _written(handle: NewFiles) -> int:
    return handle.bytes_written
