"""A query as a Spark DataFrame, whose rows stay in Arrow until the JVM has them.

::

    driver   Scan ─► slices dealt over tasks by size ─► spark.range(tasks).mapInArrow(read)
    task     opens its own store ─► reads and merges its slices with PyArrow ─► batches
    JVM      takes the batches as columns

What is pushed down is what ``columns=`` and ``where=`` say. Spark 3.5 does not look into
``mapInArrow``, and offers Python no other source of columns: ``df.select("a")`` or
``df.filter("city = 'Oslo'")`` give the right answer, but all that the query asked for is read
first.

The files are those of the moment in which the frame was made: if it is used so late that clean has
removed some, the task says which one. Secrets in storage options travel only in the pickled
function of the tasks, which no plan, no description and no log shows.
"""

from __future__ import annotations

import heapq
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa

from lakehand.core.file_slices import FileEntry, FileSlice
from lakehand.read.snapshot import Scan
from lakehand.read.spark_types import sent_schema, spark_schema

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from lakehand.core.table_config import TableConfig
    from lakehand.core.timeline import Timeline
    from lakehand.ports import Store
    from lakehand.read.filters import RowFilter
    from lakehand.read.slice_reader import ReadOptions

BATCH_ROWS = 1 << 15
"""Rows of a batch that goes to the JVM."""
_ROWS_ONLY = pa.schema([pa.field("row", pa.bool_())])


@dataclass(frozen=True, slots=True)
class SparkFrames:
    """Turns queries into DataFrames: the ``answer`` of a ``Reader``."""

    spark: SparkSession
    open_store: Callable[[], Store] = field(repr=False)
    """Opens the table's store in a task. Must pickle, and may hold secrets."""

    task_bytes: int = 64 << 20
    """Files of about this size make a task; a slice is never divided."""

    batch_rows: int = BATCH_ROWS

    def __call__(self, scan: Scan) -> DataFrame:
        """Return the DataFrame of a query. Reads nothing yet."""
        # Rows without columns would be lost on the way: a column of nulls stands for them.
        sent = sent_schema(scan.schema if len(scan.schema) else _ROWS_ONLY)
        loads = deal(
            scan.slices,
            parallelism=self.spark.sparkContext.defaultParallelism,
            task_bytes=self.task_bytes,
        )
        job = _ReadJob(
            open_store=self.open_store,
            config=scan.config,
            timeline=scan.timeline,
            schema=scan.schema,
            table_schema=scan.table_schema,
            row_filter=scan.row_filter,
            options=scan.options,
            sent=sent,
            batch_rows=self.batch_rows,
            loads=tuple(_encode(load) for load in loads),
        )

        def lakehand_read(numbers: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in numbers:
                for number in batch.column(0):
                    yield from job.run(number.as_py())

        tasks = max(len(loads), 1)
        numbers = self.spark.range(0, tasks, 1, tasks)
        frame = numbers.mapInArrow(lakehand_read, spark_schema(sent))
        return frame if len(scan.schema) else frame.select()


@dataclass(frozen=True, slots=True)
class _ReadJob:
    """What tasks need to read: the query without its store, and the slices of each task."""

    open_store: Callable[[], Store]
    config: TableConfig
    timeline: Timeline
    schema: pa.Schema
    table_schema: pa.Schema
    row_filter: RowFilter | None
    options: ReadOptions
    sent: pa.Schema
    batch_rows: int
    loads: tuple[str, ...]
    """JSON, so that a task unpacks no other task's slices."""

    def run(self, number: int) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one task's slices."""
        if number >= len(self.loads):
            return
        scan = Scan(
            store=self.open_store(),
            config=self.config,
            timeline=self.timeline,
            slices=_decode(self.loads[number]),
            schema=self.schema,
            table_schema=self.table_schema,
            row_filter=self.row_filter,
            options=self.options,
        )
        for batch in scan.stream():
            whole = self._as_sent(batch)
            for start in range(0, whole.num_rows, self.batch_rows):
                yield whole.slice(start, self.batch_rows)

    def _as_sent(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        if not batch.num_columns:
            nothing = pa.nulls(batch.num_rows, pa.bool_())
            return pa.RecordBatch.from_arrays([nothing], schema=self.sent)
        return batch if batch.schema.equals(self.sent) else batch.cast(self.sent)


def deal(
    slices: Sequence[FileSlice], *, parallelism: int, task_bytes: int
) -> list[list[FileSlice]]:
    """Return the slices of each task, the heaviest task first.

    There are enough tasks for all cores and for ``task_bytes`` each; every slice, largest first,
    goes to the task that has least.
    """
    total = sum(part.total_size for part in slices)
    wanted = max(parallelism, -(-total // task_bytes))
    loads: list[list[FileSlice]] = [[] for _ in range(min(wanted, len(slices)))]
    weights = [(0, number) for number in range(len(loads))]
    for part in sorted(slices, key=lambda part: part.total_size, reverse=True):
        weight, number = weights[0]
        loads[number].append(part)
        heapq.heapreplace(weights, (weight + part.total_size, number))
    return sorted(loads, key=lambda load: sum(one.total_size for one in load), reverse=True)


def _encode(load: list[FileSlice]) -> str:
    return json.dumps(load, separators=(",", ":"))


def _decode(load: str) -> tuple[FileSlice, ...]:
    return tuple(
        FileSlice(
            partition,
            file_id,
            instant,
            None if base is None else FileEntry(*base),
            tuple(FileEntry(*log) for log in logs),
        )
        for partition, file_id, instant, base, logs in json.loads(load)
    )
