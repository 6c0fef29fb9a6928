"""What ``table.writer()`` returns: Hudi's write operations, each one instant of the protocol."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lakehand.errors import Invalid
from lakehand.formats.commit_metadata import WriteOperation
from lakehand.write import operations
from lakehand.write.job import Job

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from lakehand.engine.engine import Engine
    from lakehand.ports import Store
    from lakehand.protocol.workbench import Workbench
    from lakehand.write.job import WriteResult
    from lakehand.write.options import WriteOptions
    from lakehand.write.progress import Progress


@dataclass(frozen=True, slots=True)
class Writer:
    """Writes rows to one table; one write at a time. Several writers may write at once.

    Rows are a Spark DataFrame, or Arrow data for a writer without Spark. Either takes a pyarrow
    dataset of files too, which tasks read themselves.
    """

    bench: Workbench
    engine: Engine
    opened: Callable[[], Store]
    options: WriteOptions
    progress: Progress

    def upsert(self, rows: Any) -> WriteResult:  # noqa: ANN401
        """Insert new keys and update those that are there; delete rows that say so."""
        return self._write(WriteOperation.UPSERT, rows)

    def insert(self, rows: Any) -> WriteResult:  # noqa: ANN401
        """Add rows without looking whether their keys are there; small files are filled."""
        return self._write(WriteOperation.INSERT, rows)

    def bulk_insert(self, rows: Any) -> WriteResult:  # noqa: ANN401
        """Add many rows to new files, in one pass."""
        return self._write(WriteOperation.BULK_INSERT, rows)

    def delete(self, keys: Any) -> WriteResult:  # noqa: ANN401
        """Delete by key: rows with the key and partition columns (others do not matter)."""
        return self._write(WriteOperation.DELETE, keys)

    def insert_overwrite(self, rows: Any) -> WriteResult:  # noqa: ANN401
        """Replace every partition that the rows touch by them."""
        return self._write(WriteOperation.INSERT_OVERWRITE, rows)

    def insert_overwrite_table(self, rows: Any) -> WriteResult:  # noqa: ANN401
        """Replace the whole table by the rows."""
        return self._write(WriteOperation.INSERT_OVERWRITE_TABLE, rows)

    def delete_partition(self, partitions: Sequence[str]) -> WriteResult:
        """Delete whole partitions, named by their paths (``city=Oslo``)."""
        if isinstance(partitions, str):
            raise Invalid(f"partitions is a list of paths: say [{partitions!r}]")
        with self._job(WriteOperation.DELETE_PARTITION) as job:
            return operations.delete_partitions(job, tuple(dict.fromkeys(partitions)))

    def _write(self, operation: WriteOperation, rows: Any) -> WriteResult:  # noqa: ANN401
        with self._job(operation) as job:
            return operations.write_rows(job, rows)

    @contextmanager
    def _job(self, operation: WriteOperation) -> Iterator[Job]:
        try:
            yield Job(self.bench, self.engine, self.opened, self.options, operation, self.progress)
        finally:
            self.progress.end()
