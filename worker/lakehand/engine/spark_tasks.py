"""What runs in Spark's Python workers: batches in from the JVM, work, parcels or answers out.

Importable without Spark's driver, and without any of Lakehand's adapters: the work that is given
brings them. A typed error is an answer like any other: trying again would not mend it, and its
words reach the driver whole. Anything else fails the task, and Spark tries again.
"""

from __future__ import annotations

import pickle
import sys
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast
from zipimport import zipimporter

import numpy as np
import pyarrow as pa

from lakehand.engine import payloads
from lakehand.engine.engine import Apart, Batches, Targets, Turn
from lakehand.errors import Fenced, InvariantBroken, LakehandError, Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from pyspark.accumulators import Accumulator

ROWS_A_BATCH: Final = 1 << 15
"""Incoming rows that a task gets at once: fewer, and the calls for each batch cost more than it."""
PARCEL_ROWS: Final = 1 << 16
PARCEL_BYTES: Final = 8 << 20
"""A parcel is one value of a row in the JVM: large enough to be cheap, small enough to move."""
HELD_BACK_BYTES: Final = 64 << 20
"""What a task keeps back so that the parcels of each kind, or for each target, become larger."""

ANSWERS: Final = "failure string, answer binary"
PARCELS: Final = (
    "failure string, part int, number int, attempt long, rows int, digest binary, payload binary"
)
ROUTED: Final = (
    "failure string, slot int, target int, part int, number int, start int, rows int, "
    "payload binary"
)
CUTS: Final = "part int, number int, told long, slot int, target int, start int, rows int"
TASKS: Final = "task binary"

ANOTHER_TRY: Final = (
    "Spark holds rows of another try of a task than the one that told this write of its rows, "
    "perhaps other rows. Do the whole write again; with speculation off it does not happen"
)

_INT, _LONG, _TEXT, _BYTES = pa.int32(), pa.int64(), pa.string(), pa.binary()
_TYPES: Final[dict[str, pa.DataType]] = {
    "failure": _TEXT, "answer": _BYTES, "part": _INT, "number": _INT, "rows": _INT, "slot": _INT,
    "target": _INT, "start": _INT, "digest": _BYTES, "attempt": _LONG, "payload": _BYTES,
}  # fmt: skip


def _schema(declared: str) -> pa.Schema:
    names = [column.split()[0] for column in declared.split(",")]
    return pa.schema([pa.field(name, _TYPES[name]) for name in names])


_ANSWER, _PARCEL, _ROUTED = _schema(ANSWERS), _schema(PARCELS), _schema(ROUTED)


def turn() -> Turn:
    """Return which task this is; Spark's number of the try is unique in the application."""
    from pyspark import TaskContext

    context = TaskContext.get()
    if context is None:
        raise InvariantBroken("this runs in a Spark task only")
    return Turn(context.partitionId(), context.taskAttemptId())


def _row(schema: pa.Schema, *values: object) -> pa.RecordBatch:
    arrays = [pa.array([own], field.type) for own, field in zip(values, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _counted(batches: Iterable[pa.RecordBatch], rows: Accumulator[int]) -> Batches:
    for batch in batches:
        rows.add(batch.num_rows)
        yield batch


def _forget_archives() -> None:
    """Spare the next task the time to read PySpark's archive again.

    Before each task Spark asks Python to look for new modules. Up to Python 3.12 that reads the
    directory of an archive once for every package that came out of it: 30 ms and more.
    """
    for path, finder in list(sys.path_importer_cache.items()):
        if isinstance(finder, zipimporter):
            del sys.path_importer_cache[path]


def _with_failures(schema: pa.Schema, rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Give the rows, and in the end, instead of a typed error, a row that tells it."""
    _forget_archives()
    try:
        yield from rows
    except Unavailable:
        raise  # the next try may be luckier
    except LakehandError as error:
        yield _row(schema, payloads.failure_text(error), *[None] * (len(schema) - 1))


Source: TypeAlias = "Callable[[Batches], Batches]"
"""What a task makes of the batches that Spark gives it: the rows of the data."""


def out_of_the_frame(batches: Batches) -> Batches:
    """Take rows that come with the batches."""
    return batches


def out_of_files(batches: Batches) -> Batches:
    """Read rows that lie in the files that the batches name."""
    for batch in batches:
        for share in batch.column(0):
            yield from pickle.loads(share.as_buffer()).batches(ROWS_A_BATCH)  # noqa: S301 - the driver's


@dataclass(frozen=True, slots=True)
class Consume:
    """Each task's share of the rows is given to the work."""

    source: Source
    work: Callable[[Turn, Batches], Iterator[bytes]]
    rows: Accumulator[int]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Batches:
        """Answer for one task."""
        return _with_failures(_ANSWER, self._answers(iter(batches)))

    def _answers(self, batches: Batches) -> Batches:
        for answer in self.work(turn(), _counted(self.source(batches), self.rows)):
            yield _row(_ANSWER, None, answer)


@dataclass(frozen=True, slots=True)
class Keep:
    """Rows are prepared and put into parcels, each of one kind."""

    source: Source
    prepare: Callable[[Batches], Batches]
    digest: Callable[[pa.RecordBatch], bytes]
    apart: Apart | None
    rows: Accumulator[int]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Batches:
        """Return the parcels of one task."""
        return _with_failures(_PARCEL, self._parcels(iter(batches)))

    def _parcels(self, batches: Batches) -> Batches:
        part, attempt = turn()
        prepared = self.prepare(_counted(self.source(batches), self.rows))
        for number, parcel in enumerate(self._gathered(prepared)):
            payload = payloads.to_bytes(parcel).to_pybytes()
            digest = self.digest(parcel)
            yield _row(_PARCEL, None, part, number, attempt, parcel.num_rows, digest, payload)

    def _gathered(self, prepared: Batches) -> Batches:
        most = {"rows": PARCEL_ROWS, "size": PARCEL_BYTES}
        if self.apart is None:
            return payloads.gather(prepared, **most)
        return payloads.gather_apart(prepared, self.apart, **most, held_back=HELD_BACK_BYTES)


@dataclass(frozen=True, slots=True)
class Route:
    """The rows of parcels are dealt out to their targets."""

    routes: Any
    """Spark's broadcast of the targets of each parcel's rows, by part and number."""
    slots: tuple[int, ...]
    """The number that leads to each target's partition."""

    def __call__(self, rows: Iterable[pa.RecordBatch]) -> Batches:
        """Return, for each target, its rows of many parcels."""
        return _with_failures(_ROUTED, self._routed(rows))

    def _routed(self, rows: Iterable[pa.RecordBatch]) -> Batches:
        routes: Mapping[tuple[int, int], tuple[int, Targets]] = self.routes.value
        waiting: dict[int, list[pa.RecordBatch]] = {}
        size = 0
        part = number = 0
        for part, number, attempt, payload in _payloads_of(rows):
            told, route = routes[part, number]
            if attempt != told:
                raise Fenced(ANOTHER_TRY)
            parcel = payloads.from_bytes(payload)
            for target, taken in _split(parcel, route):
                waiting.setdefault(target, []).append(taken)
                size += taken.nbytes
            if size >= HELD_BACK_BYTES:
                yield from self._sent(waiting, part, number)
                waiting, size = {}, 0
        yield from self._sent(waiting, part, number)

    def _sent(self, waiting: dict[int, list[pa.RecordBatch]], part: int, number: int) -> Batches:
        for target, batches in waiting.items():
            for batch in payloads.gather(batches, rows=PARCEL_ROWS, size=PARCEL_BYTES):
                place = (self.slots[target], target, part, number, 0, batch.num_rows)
                yield _row(_ROUTED, None, *place, payloads.to_bytes(batch).to_pybytes())


def _payloads_of(rows: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, int, int, pa.Buffer]]:
    for batch in rows:
        payload_column: Any = batch.column("payload")
        places: list[list[Any]] = [
            batch.column(name).to_pylist() for name in ("part", "number", "attempt")
        ]
        for at, (part, number, attempt) in enumerate(zip(*places, strict=True)):
            yield part, number, attempt, payload_column[at].as_buffer()


def _split(parcel: pa.RecordBatch, route: Targets) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield the rows of each target, in their order."""
    order = np.argsort(route, kind="stable")
    targets, starts = np.unique(route[order], return_index=True)
    ends = np.append(starts[1:], len(order))
    sorted_rows = parcel.take(cast("pa.Int64Array", pa.array(order)))
    for target, start, end in zip(targets.tolist(), starts, ends, strict=True):
        if target >= 0:
            yield target, sorted_rows.slice(start, end - start)


@dataclass(frozen=True, slots=True)
class Deliver:
    """Each target's rows, which come one target after the other, are given to the work."""

    work: Callable[[Turn, int, Batches], Iterator[bytes]]
    rows: Accumulator[int]

    def __call__(self, rows: Iterable[pa.RecordBatch]) -> Batches:
        """Answer for the targets of one task."""
        return _with_failures(_ANSWER, self._answers(rows))

    def _answers(self, rows: Iterable[pa.RecordBatch]) -> Batches:
        mine = turn()
        for target, own in groupby(_delivered(rows), key=lambda pair: pair[0]):
            batches = _counted((batch for _, batch in own), self.rows)
            for answer in self.work(mine, target, batches):
                yield _row(_ANSWER, None, answer)


def _delivered(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, pa.RecordBatch]]:
    for batch in batches:
        failures: list[Any] = batch.column("failure").to_pylist()
        payload_column: Any = batch.column("payload")
        places: list[list[Any]] = [
            batch.column(name).to_pylist() for name in ("target", "start", "rows")
        ]
        for at, (failure, target, start, rows) in enumerate(zip(failures, *places, strict=True)):
            if failure is not None:
                raise payloads.failure_from(failure)
            yield target, payloads.from_bytes(payload_column[at].as_buffer()).slice(start, rows)


@dataclass(frozen=True, slots=True)
class Each:
    """Each row is a task of its own."""

    work: Callable[[Any], bytes]

    def __call__(self, rows: Iterable[pa.RecordBatch]) -> Batches:
        """Answer for the tasks that came here."""
        return _with_failures(_ANSWER, self._answers(rows))

    def _answers(self, rows: Iterable[pa.RecordBatch]) -> Batches:
        for batch in rows:
            for task in batch.column(0):
                yield _row(_ANSWER, None, self.work(pickle.loads(task.as_buffer())))  # noqa: S301 - the driver's
