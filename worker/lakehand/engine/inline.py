"""The engine without a cluster: this process, on Arrow data, with threads if asked for."""

from __future__ import annotations

import itertools
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds

from lakehand.engine import payloads, shares
from lakehand.engine.engine import Apart, Batches, Parcel, T, Targets, Turn
from lakehand.errors import Invalid

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from types import TracebackType
    from typing import Self

PARCEL_ROWS = 1 << 17
PARCEL_BYTES = 32 << 20
HELD_BACK_BYTES = 128 << 20


@dataclass(slots=True)
class HeldBatches:
    """Prepared rows in memory."""

    batches: list[pa.RecordBatch]
    parcels: list[Parcel]
    engine: InlineEngine

    def scatter(
        self,
        routes: Sequence[Targets],
        work: Callable[[Turn, int, Batches], Iterator[bytes]],
        *,
        tasks: int | None = None,
    ) -> list[bytes]:
        """Do the work of every target that gets rows, in ``tasks`` threads."""
        present = [np.unique(route[route >= 0]) for route in routes]
        targets = np.unique(np.concatenate(present)).tolist() if present else []

        def rows_of(target: int) -> Batches:
            for batch, route, there in zip(self.batches, routes, present, strict=True):
                if target in there:
                    taken = pa.array(np.flatnonzero(route == target))
                    yield batch.take(cast("pa.Int64Array", taken))

        def task(numbered: tuple[int, int]) -> list[bytes]:
            number, target = numbered
            rows = self.engine.counted(rows_of(target))
            return list(work(self.engine.turn(number), target, rows))

        return _flat(self.engine.all(task, list(enumerate(targets)), threads=tasks))

    def __enter__(self) -> Self:
        """Enter."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Let the rows go."""
        self.batches.clear()


@dataclass(slots=True)
class InlineEngine:
    """Takes Arrow tables, batches, streams and datasets of files. Rows are held in memory."""

    parallelism: int = 1
    _attempts: Iterator[int] = field(default_factory=itertools.count)
    _taken: list[int] = field(default_factory=list)

    def schema_of(self, data: Any) -> pa.Schema:  # noqa: ANN401
        """Return the schema of Arrow data."""
        if isinstance(data, ds.Dataset):
            shares.require_readable(data)
        elif not isinstance(data, pa.Table | pa.RecordBatch | pa.RecordBatchReader):
            raise Invalid(
                f"rows of type {type(data).__name__}: without Spark a write takes a pyarrow Table, "
                "RecordBatch, RecordBatchReader or dataset of files; for a DataFrame, say "
                "table.writer(spark)"
            )
        schema: pa.Schema = data.schema
        return schema

    def can_read_again(self, data: Any) -> bool:  # noqa: ANN401
        """Return whether it is no stream."""
        return not isinstance(data, pa.RecordBatchReader)

    def say(self, step: str) -> None:
        """Nobody watches."""

    def rows_taken(self) -> int:
        """Return how many rows tasks took so far."""
        return sum(self._taken)

    def counted(self, batches: Iterable[pa.RecordBatch]) -> Batches:
        """Count rows as they are taken."""
        for batch in batches:
            self._taken.append(batch.num_rows)
            yield batch

    def ordered(
        self,
        data: Any,  # noqa: ANN401
        columns: Sequence[str],
        *,
        within_tasks: bool,
    ) -> pa.Table:
        """Return the rows sorted by some columns, as a table."""
        if isinstance(data, pa.Table):
            table = data
        else:
            batches = (batch for share in self._shares(data) for batch in share)
            table = pa.Table.from_batches(batches, data.schema)
        return table.sort_by([(name, "ascending") for name in columns])

    def each(self, tasks: Sequence[T], work: Callable[[T], bytes]) -> list[bytes]:
        """Do the work of every task."""
        return self.all(work, tasks)

    def consume(
        self,
        data: Any,  # noqa: ANN401
        work: Callable[[Turn, Batches], Iterator[bytes]],
    ) -> list[bytes]:
        """Deal a table out to the threads; a stream is one task's."""

        def task(share: tuple[int, Batches]) -> list[bytes]:
            number, batches = share
            return list(work(self.turn(number), batches))

        return _flat(self.all(task, list(enumerate(self._shares(data)))))

    def hold(
        self,
        data: Any,  # noqa: ANN401
        prepare: Callable[[Batches], Batches],
        digest: Callable[[pa.RecordBatch], bytes],
        apart: Apart | None = None,
    ) -> HeldBatches:
        """Prepare the rows and keep them in memory."""

        def task(batches: Batches) -> list[pa.RecordBatch]:
            rows = prepare(batches)
            return list(
                payloads.gather(rows, rows=PARCEL_ROWS, size=PARCEL_BYTES)
                if apart is None
                else payloads.gather_apart(
                    rows, apart, rows=PARCEL_ROWS, size=PARCEL_BYTES, held_back=HELD_BACK_BYTES
                )
            )

        batches = _flat(self.all(task, self._shares(data)))
        parcels = [Parcel(one.num_rows, digest(one)) for one in batches]
        return HeldBatches(batches, parcels, self)

    def _shares(self, data: Any) -> list[Batches]:  # noqa: ANN401
        if isinstance(data, pa.RecordBatch):
            return [self.counted([data])]
        if isinstance(data, ds.Dataset):
            dealt = shares.deal(data, self.parallelism)
            return [self.counted(share.batches(PARCEL_ROWS)) for share in dealt]
        if not isinstance(data, pa.Table):
            return [self.counted(data)]
        size = max(1, -(-data.num_rows // self.parallelism))
        starts = range(0, max(1, data.num_rows), size)
        return [self.counted(data.slice(at, size).to_batches(PARCEL_ROWS)) for at in starts]

    def turn(self, task: int) -> Turn:
        """Return the turn of a task that begins now."""
        return Turn(task, next(self._attempts))

    def all(
        self, work: Callable[[Any], Any], tasks: Sequence[Any], *, threads: int | None = None
    ) -> list[Any]:
        """Do the work of every task, on threads if there are several of both."""
        threads = threads or self.parallelism
        if threads == 1 or len(tasks) < 2:
            return [work(task) for task in tasks]
        with ThreadPoolExecutor(threads, thread_name_prefix="lakehand-task") as pool:
            return list(pool.map(work, tasks))


def _flat(lists: Iterable[list[Any]]) -> list[Any]:
    return [one for each in lists for one in each]
