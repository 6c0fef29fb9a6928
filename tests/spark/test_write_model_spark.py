"""Random writes through PySpark: DataFrames and every other reader return what a dictionary says.

``WRITE_MODEL_SEQUENCES=50`` makes it so many sequences for each kind of table.
"""

from __future__ import annotations

import itertools
import os
import random
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from lakehand.table import Table
from write_judges import HudiRs, Ours, judge_changes, judge_past, judge_snapshot
from write_model import (
    Model,
    Operation,
    Step,
    Touch,
    differences,
    first_step,
    random_step,
    serial_outcomes,
)
from write_model_global import GlobalModel
from write_rows import SLOTS, Kind, rows_of

if TYPE_CHECKING:
    from pathlib import Path

    from write_rows import Row

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

SEQUENCES = int(os.environ.get("WRITE_MODEL_SEQUENCES", "1"))
KINDS = [
    Kind(9, "cow"),
    Kind(9, "mor"),
    Kind(9, "mor", event_time=False, hive=True),
    Kind(8, "cow", partitioned=False),
    Kind(6, "mor"),
]
MODELS = [(Model, kind) for kind in KINDS] + [
    (GlobalModel, kind) for kind in (Kind(9, "cow"), Kind(9, "mor"), Kind(6, "mor"))
]


class Frames:
    """The rows of a write in a file of their own: as a DataFrame and as a dataset in turn."""

    def __init__(self, spark, scratch: Path) -> None:
        self._spark = spark
        self._scratch = scratch
        self._numbers = itertools.count()

    def __call__(self, data: pa.Table):
        number = next(self._numbers)
        path = self._scratch / f"rows-{number}.parquet"
        pq.write_table(data, path, row_group_size=5)
        return ds.dataset(path) if number % 2 else self._spark.read.parquet(str(path))


class Spark:
    """The judge that reads DataFrames."""

    name = "Spark"

    def __init__(self, spark, place: Path) -> None:
        self._spark = spark
        self._place = place

    def snapshot(self) -> list[Row]:
        return self._rows(self._reader().snapshot())

    def as_of(self, time: str) -> list[Row]:
        return self._rows(self._reader().as_of(time))

    def changed(self, begin: str, end: str) -> list[Row]:
        return self._rows(self._reader().incremental(begin, end))

    def _reader(self):
        return Table.open(str(self._place)).read(self._spark)

    def _rows(self, frame) -> list[Row]:
        from jvm_worker import to_arrow

        return rows_of(to_arrow(frame))


@pytest.mark.parametrize(
    ("model_of", "kind"), MODELS, ids=lambda one: getattr(one, "__name__", str(one))
)
def test_what_spark_wrote_is_what_every_query_returns(model_of, kind, spark, tmp_path):
    frames = Frames(spark, tmp_path)
    rng = random.Random(str(kind))
    for sequence in range(SEQUENCES):
        place = tmp_path / f"table-{sequence}"
        kind.create(str(place))
        model = model_of(kind, row_deletions=not kind.disputes_row_deletions)
        writer = Table.open(str(place)).writer(spark, **model.options)
        by_spark, ours = Spark(spark, place), Ours(str(place))
        for step in [first_step(rng), *(random_step(rng) for _ in range(4))]:
            write = model.write_of(step)
            if write is not None:
                done = write.run(writer, frames)
                model.commit(write, done.time, done.completion_time)
                judge_snapshot(model, [ours])
        count = len(model.commits)
        judges = [by_spark, ours]
        judge_snapshot(model, [by_spark, HudiRs(place)])
        judge_past(model, judges, [1, count - 1])
        judge_changes(model, judges, [(0, count), (count - 2, count)])


@pytest.mark.parametrize("kind", [Kind(9, "cow"), Kind(9, "mor")], ids=str)
def test_two_writers_of_one_spark_session_and_one_without_go_as_if_one_by_one(
    kind, spark, tmp_path
):
    frames = Frames(spark, tmp_path)
    place = tmp_path / "table"
    kind.create(str(place))
    model = Model(kind)
    rng = random.Random(str(kind))
    fill = model.write_of(first_step(rng))
    assert fill is not None
    model.apply(fill, fill.run(Table.open(str(place)).writer()).time)
    known = [slot for slot in range(SLOTS) if kind.id_of(slot) in model.records]
    sessions = (spark, spark, None)
    for _ in range(2):
        steps = [
            Step(Operation.UPSERT, tuple(Touch(slot, rng.randrange(6)) for slot in sample))
            for sample in (rng.sample(known, 9) for _ in sessions)
        ]
        writes = [write for write in map(model.write_of, steps) if write is not None]

        def run(number: int, writes=writes) -> str:
            session = sessions[number]
            writer = Table.open(str(place)).writer(session, retries=20)
            frame = frames if session else lambda data: data
            return writes[number].run(writer, frame).time

        with ThreadPoolExecutor(len(sessions)) as pool:
            times = list(pool.map(run, range(len(sessions))))
        found = Ours(str(place)).snapshot()
        outcomes = serial_outcomes(model, list(zip(writes, times, strict=True)))
        problems = [differences(after.visible(), found) for after in outcomes]
        fitting = [
            one
            for one, found_otherwise in zip(outcomes, problems, strict=True)
            if not found_otherwise
        ]
        assert fitting, problems
        model = fitting[0]
        judge_snapshot(model, [Spark(spark, place), HudiRs(place)])
