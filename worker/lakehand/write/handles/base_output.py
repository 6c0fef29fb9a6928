"""A base file on its way into the stage: the Parquet writer and the staged file as one thing."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING

from lakehand.core.file_names import BaseFileName
from lakehand.core.file_slices import FIRST_VERSION_BY_COMPLETION
from lakehand.formats.base_file import BaseFileWriter
from lakehand.formats.commit_metadata import NO_PREVIOUS_COMMIT, RuntimeStats, WriteStat
from lakehand.write.handles.meta_columns import base_file_schema, in_base_file
from lakehand.write.handles.staged_file import finished, path_in, staged_file, token_of
from lakehand.write.shapes import WrittenFile

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

    import pyarrow as pa

    from lakehand.core.file_slices import FileSlice
    from lakehand.core.markers import MarkerKind
    from lakehand.formats.base_file import BaseFileOptions
    from lakehand.ports import Store
    from lakehand.read.merge import MergeCounts
    from lakehand.write.shapes import Try, WriteContext

_EXTENSION = ".parquet"


class BaseOutput:
    """An open base file. Leave its ``with`` block by an exception, and nothing is left of it."""

    def __init__(
        self,
        store: Store,
        context: WriteContext,
        tried: Try,
        *,
        partition: str,
        file_id: str,
        kind: MarkerKind,
    ) -> None:
        """Stage the file and announce it."""
        self.file_id = file_id
        self.partition = partition
        name = BaseFileName(file_id, token_of(context, tried), context.time, _EXTENSION)
        self.name = str(name)
        self.path = path_in(partition, self.name)
        with ExitStack() as opening:
            self._staged = opening.enter_context(staged_file(store, context, self.path, kind))
            self.parquet = opening.enter_context(
                BaseFileWriter(
                    self._staged,
                    base_file_schema(context.schema),
                    options=_options(context),
                )
            )
            self._open = opening.pop_all()

    def write(self, rows: pa.RecordBatch) -> None:
        """Append rows with their meta columns; they get the file's name."""
        self.parquet.write(in_base_file(rows, self.name))

    def finish(self, stat: WriteStat) -> WrittenFile:
        """Close the file; ``stat`` is completed by what is known only now, its sizes."""
        self.parquet.close()
        staged = finished(self._staged)
        self._open.close()
        size = self.parquet.bytes_written
        sized = replace(
            stat,
            num_writes=self.parquet.rows,
            total_write_bytes=size,
            file_size_in_bytes=size,
        )
        return WrittenFile(staged, sized)

    def __enter__(self) -> Self:
        """Enter."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Discard what is staged, if the block failed."""
        self._open.__exit__(kind, error, trace)


def _options(context: WriteContext) -> BaseFileOptions:
    """Return the options as the table and the task's memory have them.

    A file has one value in each partition column, so a dictionary suits these even if only some
    columns get one; and row groups leave room for what else a task holds.
    """
    base = context.settings.base
    chosen = base.dictionary_columns
    most = max(1, context.settings.memory_bytes // 2)
    return replace(
        base,
        row_group_bytes=min(base.row_group_bytes, most),
        dictionary_columns=None if chosen is None else (*chosen, *context.config.partition_fields),
    )


def stat_of_new(output: BaseOutput) -> WriteStat:
    """Return what a commit says of the first file of a file group."""
    return WriteStat(
        file_id=output.file_id,
        path=output.path,
        partition_path=output.partition,
        prev_commit=NO_PREVIOUS_COMMIT,
        num_inserts=output.parquet.rows,
        runtime_stats=RuntimeStats(),
    )


def stat_of_merged(
    output: BaseOutput, part: FileSlice, counts: MergeCounts, context: WriteContext
) -> WriteStat:
    """Return what a commit says of a file that was merged from the slice's base file and rows."""
    names_previous = context.config.version >= FIRST_VERSION_BY_COMPLETION
    base = part.base_file
    return WriteStat(
        file_id=output.file_id,
        path=output.path,
        partition_path=output.partition,
        prev_commit=part.base_instant,
        prev_base_file=base.name if names_previous and base is not None else None,
        num_inserts=counts.inserts,
        num_update_writes=counts.updates,
        num_deletes=counts.deletes,
        runtime_stats=RuntimeStats(),
    )
