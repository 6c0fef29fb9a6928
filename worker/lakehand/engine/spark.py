"""The engine on Spark: rows stay in Arrow between its tasks.

Rows of a DataFrame become Arrow batches once. From there on they travel as *parcels*: a parcel is
one binary value of a row in the JVM, so a shuffle of three million rows is one of a few hundred
values. What a target's task gets is in a fixed order (the order of the parcels), whatever order
the shuffle delivered it in.
"""

from __future__ import annotations

import contextlib
import pickle
import threading
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass
from inspect import signature
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow.dataset as ds

from lakehand.engine import payloads, shares, spark_slots, spark_tasks
from lakehand.engine.engine import Apart, Batches, Parcel, T, Targets, Turn
from lakehand.engine.spark_rows import frame_of
from lakehand.engine.spark_tasks import PARCEL_ROWS, ROWS_A_BATCH
from lakehand.errors import Fenced, Invalid, Unavailable, Unsupported

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from contextlib import ExitStack
    from types import TracebackType
    from typing import Self

    import pyarrow as pa
    from pyspark.accumulators import Accumulator
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

_BATCH_SETTING = "spark.sql.execution.arrow.maxRecordsPerBatch"
_SPARKS_OWN = "10000"
_LOST = "Checkpoint block"
_TASKS_PER_CORE = 2
_MOST_SENT = 2
"""How often rows may be sent on average, as part of whole parcels, before dealing is cheaper."""
_MOST_LINES = 8


@dataclass(slots=True)
class HeldFrame:
    """Parcels that Spark keeps, in memory or on its disks; it never makes them again."""

    frame: DataFrame
    places: list[tuple[int, int, int]]
    """Which task made each parcel, the how-many-th of it, and in which try."""
    parcels: list[Parcel]
    engine: SparkEngine

    def scatter(
        self,
        routes: Sequence[Targets],
        work: Callable[[Turn, int, Batches], Iterator[bytes]],
        *,
        tasks: int | None = None,
    ) -> list[bytes]:
        """Shuffle parcels to their targets, several targets to a task if there are many."""
        rows = _rows_by_target(routes)
        if not rows:
            return []
        partitions = min(len(rows), tasks or _TASKS_PER_CORE * self.engine.parallelism)
        slots = _slots(rows, partitions)
        cuts = cut(routes)
        with contextlib.ExitStack() as until_done:
            until_done.enter_context(_lost_rows_in_words())
            routed = (
                self._dealt(routes, slots, until_done) if cuts is None else self._cut(cuts, slots)
            )
            delivered = routed.repartition(partitions, "slot").sortWithinPartitions(
                "target", "part", "number", "start"
            )
            answers = delivered.mapInArrow(
                spark_tasks.Deliver(work, self.engine.rows), spark_tasks.ANSWERS
            )
            until_done.enter_context(_batches_of(self.frame.sparkSession, 1))
            return self.engine.answers(answers)

    def _cut(self, cuts: Sequence[Cut], slots: Sequence[int]) -> DataFrame:
        """Send parcels as they are: the JVM need not show them to Python."""
        from pyspark.sql import functions

        rows = []
        for parcel, target, start, count in cuts:
            part, number, told = self.places[parcel]
            rows.append((part, number, told, slots[target], target, start, count))
        known = frame_of(self.engine.spark, rows, spark_tasks.CUTS, partitions=1)
        another_try = payloads.failure_text(Fenced(spark_tasks.ANOTHER_TRY))
        failure = functions.when(
            functions.col("attempt") != functions.col("told"), functions.lit(another_try)
        )
        parcels = self.frame.select("part", "number", "attempt", "payload")
        joined = parcels.join(functions.broadcast(known), ["part", "number"])
        names = ("slot", "target", "part", "number", "start", "rows", "payload")
        return joined.select(failure.alias("failure"), *names)

    def _dealt(
        self, routes: Sequence[Targets], slots: tuple[int, ...], until_done: ExitStack
    ) -> DataFrame:
        """Let tasks deal the rows of each parcel out."""
        by_place = {
            (part, number): (attempt, route)
            for (part, number, attempt), route in zip(self.places, routes, strict=True)
        }
        shared = self.engine.spark.sparkContext.broadcast(by_place)
        until_done.callback(shared.destroy)
        return self.frame.mapInArrow(spark_tasks.Route(shared, slots), spark_tasks.ROUTED)

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
        _forget(self.frame)


class SparkEngine:
    """Takes DataFrames of one Spark session."""

    def __init__(self, spark: SparkSession, *, group: str) -> None:
        """``group`` names the Spark jobs of this engine, to watch and to cancel them."""
        self.spark = spark
        self.rows: Accumulator[int] = spark.sparkContext.accumulator(0)
        self._group = group

    @property
    def parallelism(self) -> int:
        """How many tasks Spark runs at once."""
        return int(self.spark.sparkContext.defaultParallelism)

    def schema_of(self, data: Any) -> pa.Schema:  # noqa: ANN401
        """Return the Arrow schema of a DataFrame, or of a dataset of files."""
        from pyspark.sql import DataFrame

        if isinstance(data, ds.Dataset):
            shares.require_readable(data)
            return data.schema
        if not isinstance(data, DataFrame):
            raise Invalid(
                f"rows of type {type(data).__name__}: this writer takes Spark DataFrames and "
                "pyarrow datasets of files"
            )
        with _types_in_words():
            return arrow_schema(data.schema)

    def can_read_again(self, data: DataFrame | ds.Dataset) -> bool:
        """Return True: either says how its rows are made."""
        return True

    def say(self, step: str) -> None:
        """Describe the Spark jobs that follow."""
        context = self.spark.sparkContext
        context.setJobGroup(self._group, f"{self._group}: {step}", interruptOnCancel=True)

    def rows_taken(self) -> int:
        """Return how many rows tasks took that have ended."""
        return self.rows.value

    def ordered(
        self, data: DataFrame | ds.Dataset, columns: Sequence[str], *, within_tasks: bool
    ) -> DataFrame:
        """Sort the rows of each of Spark's partitions, or all of them."""
        if isinstance(data, ds.Dataset):
            raise Unsupported(
                "sorted rows of a dataset: give a DataFrame of its files, which Spark sorts"
            )
        return data.sortWithinPartitions(*columns) if within_tasks else data.sort(*columns)

    def each(self, tasks: Sequence[T], work: Callable[[T], bytes]) -> list[bytes]:
        """Run one Spark task for every task."""
        if not tasks:
            return []
        rows = [(pickle.dumps(task),) for task in tasks]
        frame = frame_of(self.spark, rows, spark_tasks.TASKS, partitions=len(tasks))
        with _batches_of(self.spark, 1):
            return self.answers(frame.mapInArrow(spark_tasks.Each(work), spark_tasks.ANSWERS))

    def consume(
        self,
        data: DataFrame | ds.Dataset,
        work: Callable[[Turn, Batches], Iterator[bytes]],
    ) -> list[bytes]:
        """Pass over the rows once, without a shuffle."""
        frame, source = self._source(data)
        consume = spark_tasks.Consume(source, work, self.rows)
        answers = frame.mapInArrow(consume, spark_tasks.ANSWERS)
        with _batches_of(self.spark, ROWS_A_BATCH):
            return self.answers(answers)

    def hold(
        self,
        data: DataFrame | ds.Dataset,
        prepare: Callable[[Batches], Batches],
        digest: Callable[[pa.RecordBatch], bytes],
        apart: Apart | None = None,
    ) -> HeldFrame:
        """Prepare the rows and let Spark keep them.

        A local checkpoint cuts their origin off: what Spark loses it cannot make anew, perhaps
        with other rows, and says so. It keeps rows as they are; a cache would encode each column.
        """
        frame, source = self._source(data)
        keep = spark_tasks.Keep(source, prepare, digest, apart, self.rows)
        prepared = frame.mapInArrow(keep, spark_tasks.PARCELS)
        kept = prepared.localCheckpoint(eager=False)
        try:
            with self._cancelled_on_failure(), _batches_of(self.spark, ROWS_A_BATCH):
                rows = kept.drop("payload").collect()
            for row in rows:
                _require_none(row.failure)
        except BaseException:
            _forget(kept)
            raise
        rows.sort(key=lambda row: (row.part, row.number))
        places = [(row.part, row.number, row.attempt) for row in rows]
        parcels = [Parcel(row.rows, bytes(row.digest)) for row in rows]
        return HeldFrame(kept, places, parcels, self)

    def _source(self, data: DataFrame | ds.Dataset) -> tuple[DataFrame, spark_tasks.Source]:
        """Return what Spark deals out to its tasks, and how they come by rows from it."""
        if not isinstance(data, ds.Dataset):
            return data, spark_tasks.out_of_the_frame
        dealt = shares.deal(data, _TASKS_PER_CORE * self.parallelism)
        rows = [(pickle.dumps(share),) for share in dealt]
        frame = frame_of(self.spark, rows, spark_tasks.TASKS, partitions=max(1, len(rows)))
        return frame, spark_tasks.out_of_files

    def answers(self, frame: DataFrame) -> list[bytes]:
        """Run a DataFrame of answers and return them."""
        with self._cancelled_on_failure():
            rows = frame.collect()
        for row in rows:
            _require_none(row.failure)
        return [bytes(row.answer) for row in rows]

    @contextmanager
    def _cancelled_on_failure(self) -> Iterator[None]:
        """Leave no Spark job running behind an error or Ctrl-C; put Spark's errors in words."""
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException

        try:
            yield
        except (PySparkException, Py4JError) as error:
            raise Unavailable(f"Spark could not do the work: {_in_words(error)}") from error
        except BaseException:
            self.spark.sparkContext.cancelJobGroup(self._group)
            raise


def arrow_schema(struct: StructType) -> pa.Schema:
    """Return the Arrow schema of Spark's."""
    from pyspark.sql.pandas.types import to_arrow_schema

    takes_zone = "timezone" in signature(to_arrow_schema).parameters
    zone = {"timezone": "UTC"} if takes_zone else {}  # PySpark 3.5 says UTC by itself
    with _types_in_words():
        return to_arrow_schema(struct, **zone)


@contextmanager
def _lost_rows_in_words() -> Iterator[None]:
    try:
        yield
    except Unavailable as failure:
        if _LOST not in str(failure):
            raise
        raise Unavailable(
            "Spark lost rows that this write held, with an executor or its disk: nothing of the "
            "write counts; do the whole write again"
        ) from failure


@contextmanager
def _types_in_words() -> Iterator[None]:
    from pyspark.errors import PySparkException

    try:
        yield
    except PySparkException as error:
        raise Unsupported(f"a column of the DataFrame has no type in Hudi: {error}") from error


def _require_none(failure: str | None) -> None:
    if failure is not None:
        raise payloads.failure_from(failure)


def _in_words(error: BaseException) -> str:
    """Return what went wrong without the frames of the JVM, which hide it."""
    lines = [line.rstrip() for line in str(error).splitlines()]
    told = [line for line in lines if line and not line.startswith(("\tat ", "\t..."))]
    return "\n".join(told if len(told) <= _MOST_LINES else [told[0], "...", *told[-_MOST_LINES:]])


class Cut(NamedTuple):
    """Rows of a parcel that follow each other and have one target."""

    parcel: int
    target: int
    start: int
    rows: int


def cut(routes: Sequence[Targets]) -> list[Cut] | None:
    """Return the cuts of parcels whose rows stay together; None if that would send too much.

    A parcel travels whole to the target of each of its cuts.
    """
    cuts = []
    rows = sent = 0
    for parcel, route in enumerate(routes):
        starts = [0, *(np.flatnonzero(np.diff(route)) + 1).tolist()]
        rows += len(route)
        sent += len(starts) * len(route)
        if sent > _MOST_SENT * (rows + PARCEL_ROWS):
            return None
        for start, end in pairwise((*starts, len(route))):
            if route[start] >= 0:
                cuts.append(Cut(parcel, int(route[start]), start, end - start))
    return cuts


def _rows_by_target(routes: Sequence[Targets]) -> Counter[int]:
    rows: Counter[int] = Counter()
    for route in routes:
        targets, counts = np.unique(route[route >= 0], return_counts=True)
        rows.update(dict(zip(targets.tolist(), counts.tolist(), strict=True)))
    return rows


def _slots(rows: Counter[int], partitions: int) -> tuple[int, ...]:
    """Deal targets out to partitions, the largest first to the emptiest; return their numbers."""
    numbers = spark_slots.numbers_for(partitions).tolist()
    load = [0] * partitions
    slots = [0] * (max(rows) + 1)
    for target, count in sorted(rows.items(), key=lambda item: (-item[1], item[0])):
        partition = min(range(partitions), key=load.__getitem__)
        load[partition] += count
        slots[target] = numbers[partition]
    return tuple(slots)


def _forget(checkpointed: DataFrame) -> None:
    """Let Spark drop what a local checkpoint keeps, now and not when Java collects its garbage."""
    plan: Any = checkpointed._jdf.queryExecution().logical()
    plan.rdd().unpersist(False)


_wanted: dict[int, list[int]] = {}
_before: dict[int, str] = {}
_guard = threading.Lock()


@contextmanager
def _batches_of(spark: SparkSession, rows: int) -> Iterator[None]:
    """Let Spark hand over so many rows at a time: by its own measure it counts rows, not bytes.

    More than Spark's own number only where nobody chose one. The setting is the session's: of
    several writers that want it otherwise at one time the most careful one has its way.
    """
    key = id(spark._jsparkSession)
    with _guard:
        wanted = _wanted.setdefault(key, [])
        if not wanted:
            _before[key] = spark.conf.get(_BATCH_SETTING) or _SPARKS_OWN
        wanted.append(rows)
        spark.conf.set(_BATCH_SETTING, _setting(wanted, _before[key]))
    try:
        yield
    finally:
        with _guard:
            wanted.remove(rows)
            spark.conf.set(_BATCH_SETTING, _setting(wanted, _before[key]))
            if not wanted:
                del _wanted[key], _before[key]


def _setting(wanted: Sequence[int], before: str) -> str:
    least = min(wanted, default=0)
    if not least or (before != _SPARKS_OWN and least > 1):
        return before
    return str(least)
