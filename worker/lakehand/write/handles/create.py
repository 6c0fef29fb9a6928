"""CREATE: new base files of new file groups, one after the other as each is full."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakehand.core.markers import MarkerKind
from lakehand.write.handles.base_output import BaseOutput, stat_of_new
from lakehand.write.handles.combining import pieces, rows_to_write, without_deletions, write_rule
from lakehand.write.handles.meta_columns import RowStamp
from lakehand.write.handles.staged_file import discarding, ensure_partition

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType
    from typing import Self

    import pyarrow as pa

    from lakehand.ports import Store
    from lakehand.write.shapes import GroupTask, Try, WriteContext, WrittenFile

_PIECES_PER_FILE = 8
"""How often it is asked whether a file is full: a file ends within an eighth of its limit."""


def create(
    store: Store, context: WriteContext, task: GroupTask, rows: Iterator[pa.RecordBatch], tried: Try
) -> list[WrittenFile]:
    """Write the rows to new file groups; without rows there are none."""
    if context.is_deletion:
        return []
    stamp = RowStamp(context, tried)
    written: list[WrittenFile] = []
    with (
        discarding(store, written),
        NewFiles(
            store, context, tried, stamp=stamp, partition=task.partition, prefix=task.file_id
        ) as files,
    ):
        for batch in without_deletions(rows_to_write(rows, context), write_rule(context)):
            for made in files.write(batch):
                written.append(made)
        written += files.close()
    return written


class NewFiles:
    """The new files of one partition: at most one is open, and ends when it is full."""

    def __init__(
        self,
        store: Store,
        context: WriteContext,
        tried: Try,
        *,
        stamp: RowStamp,
        partition: str,
        prefix: str,
    ) -> None:
        """Begin without a file. Several handles of a task share one ``stamp``."""
        self._store = store
        self._context = context
        self._tried = tried
        self._stamp = stamp
        self._partition = partition
        self._prefix = prefix
        self._begun = 0
        self._open: BaseOutput | None = None

    @property
    def held_bytes(self) -> int:
        """The memory that the open file takes."""
        return 0 if self._open is None else self._open.parquet.held_bytes

    @property
    def waiting_bytes(self) -> int:
        """As much of it as ``flush`` gives back."""
        return 0 if self._open is None else self._open.parquet.waiting_bytes

    @property
    def bytes_written(self) -> int:
        """How large the open file is."""
        return 0 if self._open is None else self._open.parquet.bytes_written

    def write(self, keyed: pa.RecordBatch) -> Iterator[WrittenFile]:
        """Append rows; yield the files that they filled. To be exhausted."""
        most = self._context.settings.max_file_bytes
        for piece in pieces(keyed, most // _PIECES_PER_FILE):
            output = self._open or self._next()
            output.write(self._stamp.stamp(piece))
            if output.parquet.estimated_bytes >= most:
                output.parquet.flush()
            if output.parquet.bytes_written >= most:
                yield from self.close()

    def flush(self) -> None:
        """Give back the memory that rows take until their row group is full."""
        if self._open is not None:
            self._open.parquet.flush()

    def close(self) -> list[WrittenFile]:
        """Finish the open file, if there is one. Rows that follow begin the next."""
        if self._open is None:
            return []
        made = self._open.finish(stat_of_new(self._open))
        self._open = None
        return [made]

    def _next(self) -> BaseOutput:
        if not self._begun:
            ensure_partition(self._store, self._context, self._partition)
        file_id = f"{self._prefix}-{self._begun}"
        self._begun += 1
        self._open = BaseOutput(
            self._store,
            self._context,
            self._tried,
            partition=self._partition,
            file_id=file_id,
            kind=MarkerKind.CREATE,
        )
        return self._open

    def __enter__(self) -> Self:
        """Enter."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Discard the open file, if the block failed."""
        if self._open is not None:
            self._open.__exit__(kind, error, trace)
            self._open = None
