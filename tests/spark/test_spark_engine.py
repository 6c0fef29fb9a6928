"""The engine on Spark keeps the same laws: rows reach their targets whole, in order, once."""

from __future__ import annotations

import json
from itertools import chain

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from pyspark.rdd import PipelinedRDD
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's users call it

from lakehand.engine import spark_slots
from lakehand.engine.spark import HeldFrame, SparkEngine
from lakehand.engine.spark_tasks import PARCEL_ROWS
from lakehand.errors import Fenced, Invalid, Unavailable, Unsupported

pytestmark = pytest.mark.spark

BATCH_SETTING = "spark.sql.execution.arrow.maxRecordsPerBatch"


@pytest.fixture
def engine(spark):
    return SparkEngine(spark, group="test")


def as_they_are(batches):
    yield from batches


def no_digest(_batch):
    return b""


def rows_as_json(turn, target, batches):
    rows = [value for batch in batches for value in batch.column(0).to_pylist()]
    yield json.dumps([target, turn.task, turn.attempt, rows]).encode()


@pytest.mark.parametrize("partitions", [1, 2, 7, 200])
def test_spark_sends_a_number_where_we_think_it_does(spark, partitions):
    tried = np.arange(-50, 500, 7, dtype=np.int32)
    frame = spark.createDataFrame([(int(one),) for one in tried], "n int")
    rows = frame.select(F.expr(f"pmod(hash(n), {partitions})").alias("p")).collect()
    assert [row.p for row in rows] == spark_slots.partition_of(tried, partitions).tolist()
    numbers = spark_slots.numbers_for(partitions)
    assert spark_slots.partition_of(numbers, partitions).tolist() == list(range(partitions))


def test_every_row_reaches_its_target_in_order_and_no_other(spark, engine):
    frame = spark.range(0, 1000, 1, 3)
    before = spark.conf.get(BATCH_SETTING)
    with engine.hold(frame, as_they_are, no_digest) as held:
        rows = [parcel.rows for parcel in held.parcels]
        wanted = np.arange(1000, dtype=np.int32) % 11 - 1
        routes = np.split(wanted, np.cumsum(rows)[:-1])
        answers = [json.loads(one) for one in held.scatter(routes, rows_as_json)]
    assert spark.conf.get(BATCH_SETTING) == before
    got = {target: rows for target, _, _, rows in answers}
    assert got == {
        target: [row for row in range(1000) if row % 11 - 1 == target] for target in range(10)
    }


def test_rows_that_stay_together_reach_their_targets_as_whole_parcels(spark, engine, monkeypatch):
    monkeypatch.setattr(HeldFrame, "_dealt", None)  # parcels are not opened on their way
    frame = spark.range(0, 1000, 1, 3)
    with engine.hold(frame, as_they_are, no_digest) as held:
        wanted = np.arange(1000, dtype=np.int32) // 90 - 1
        routes = np.split(wanted, np.cumsum([parcel.rows for parcel in held.parcels])[:-1])
        answers = [json.loads(one) for one in held.scatter(routes, rows_as_json)]
    got = {target: rows for target, _, _, rows in answers}
    assert got == {
        target: [row for row in range(1000) if row // 90 - 1 == target] for target in range(11)
    }


def test_rows_of_two_kinds_are_in_two_parcels(spark, engine):
    def odd_and_even(batch):
        odd = np.asarray(batch.column(0)) % 2 == 1
        yield "odd", batch.filter(pa.array(odd))
        yield "even", batch.filter(pa.array(~odd))

    def parities(batch):
        return json.dumps(sorted({value % 2 for value in batch.column(0).to_pylist()})).encode()

    frame = spark.range(0, 100, 1, 2)
    with engine.hold(frame, as_they_are, parities, odd_and_even) as held:
        assert sorted((one.rows, one.digest) for one in held.parcels) == [
            (25, b"[0]"), (25, b"[0]"), (25, b"[1]"), (25, b"[1]"),
        ]  # fmt: skip


def test_what_is_held_does_not_change_when_the_source_does(spark, engine):
    frame = spark.range(0, 100, 1, 2).select(F.rand().alias("r"))
    with engine.hold(
        frame, as_they_are, lambda batch: batch.column(0).to_numpy().tobytes()
    ) as held:
        shown = np.concatenate([np.frombuffer(one.digest) for one in held.parcels])
        routes = [np.zeros(parcel.rows, dtype=np.int32) for parcel in held.parcels]
        (answer,) = held.scatter(routes, rows_as_json)
    assert json.loads(answer)[3] == shown.tolist()


@pytest.mark.parametrize("targets", [1, 60], ids=["whole parcels", "rows dealt out"])
def test_rows_of_another_try_than_the_one_that_told_of_them_are_refused(spark, engine, targets):
    rows = 2 * PARCEL_ROWS if targets > 1 else 100
    frame = spark.range(0, rows, 1, 2).select(F.rand().alias("r"))
    with engine.hold(frame, as_they_are, no_digest) as held:
        routes = [np.arange(parcel.rows, dtype=np.int32) % targets for parcel in held.parcels]
        at_hand = held.places[0]
        held.places[0] = (*at_hand[:2], at_hand[2] ^ 1)
        with pytest.raises(Fenced, match="another try of a task"):
            held.scatter(routes, rows_as_json)


def test_rows_that_spark_lost_are_not_made_anew(spark, engine):
    frame = spark.range(0, 100, 1, 2).select(F.rand().alias("r"))
    with engine.hold(frame, as_they_are, no_digest) as held:
        routes = [np.zeros(parcel.rows, dtype=np.int32) for parcel in held.parcels]
        held.frame._jdf.queryExecution().logical().rdd().unpersist(True)
        with pytest.raises(Unavailable, match="lost rows that this write held"):
            held.scatter(routes, rows_as_json)


def test_what_was_held_is_let_go(spark, engine):
    persistent = spark.sparkContext._jsc.getPersistentRDDs
    before = len(persistent())
    with engine.hold(spark.range(0, 10, 1, 1), as_they_are, no_digest):
        assert len(persistent()) == before + 1
    assert len(persistent()) == before


def test_a_typed_error_of_a_task_reaches_the_driver_as_it_is(spark, engine):
    def refuse(batches):
        for batch in batches:
            raise Invalid(f"{batch.num_rows} rows without a key")
            yield batch

    with pytest.raises(Invalid, match="10 rows without a key"):
        engine.hold(spark.range(0, 10, 1, 1), refuse, no_digest)
    with pytest.raises(Invalid, match="no"):
        engine.each([1], _refuse)


def _refuse(_task):
    raise Invalid("no")


def test_any_other_failure_is_put_in_words(spark, engine):
    def fail(_turn, _batches):
        raise ZeroDivisionError("unheard of")
        yield b""

    with pytest.raises(Unavailable, match="ZeroDivisionError: unheard of"):
        engine.consume(spark.range(0, 1, 1, 1), fail)


def test_a_failure_of_the_jvm_keeps_its_cause(spark, engine):
    frame = spark.range(0, 1, 1, 1).selectExpr("raise_error('no such row') as x")
    with pytest.raises(Unavailable, match="no such row"):
        engine.consume(frame, _no_answers)


def _no_answers(_turn, batches):
    for _ in batches:
        yield b""


def test_tasks_answer_in_the_order_in_which_they_were_given(engine):
    assert engine.each([3, 1, 2], _doubled) == [b"6", b"2", b"4"]
    assert engine.each([], _doubled) == []


def test_no_python_function_of_an_rdd_is_used(spark, engine, monkeypatch):
    def refuse(*_given, **_named):
        raise AssertionError("Spark starts other Python workers for it than for DataFrames")

    monkeypatch.setattr(PipelinedRDD, "__init__", refuse)
    assert engine.each([3, 1, 2], _doubled) == [b"6", b"2", b"4"]
    with engine.hold(spark.range(0, 10, 1, 2), as_they_are, no_digest) as held:
        routes = [np.zeros(parcel.rows, np.int32) for parcel in held.parcels]
        assert len(held.scatter(routes, rows_as_json)) == 1


def _doubled(task):
    return str(task * 2).encode()


def test_what_is_no_dataframe_is_refused(engine):
    with pytest.raises(Invalid, match="this writer takes Spark DataFrames and pyarrow datasets"):
        engine.schema_of([1])
    with pytest.raises(Invalid, match="InMemoryDataset"):
        engine.schema_of(ds.dataset(pa.table({"id": [1]})))


def test_rows_of_a_dataset_are_read_in_tasks_and_kept(engine, tmp_path):
    pq.write_table(pa.table({"id": range(1000)}), tmp_path / "rows.parquet", row_group_size=50)
    dataset = ds.dataset(tmp_path)
    assert engine.schema_of(dataset).names == ["id"]
    counted = sorted(json.loads(one) for one in engine.consume(dataset, _ids))
    assert list(chain.from_iterable(counted)) == list(range(1000))
    assert len(counted) == 2 * engine.parallelism
    with engine.hold(dataset, as_they_are, no_digest) as held:
        (tmp_path / "rows.parquet").unlink()
        routes = [np.zeros(parcel.rows, np.int32) for parcel in held.parcels]
        (answer,) = held.scatter(routes, rows_as_json)
    assert json.loads(answer)[-1] == list(range(1000))
    with pytest.raises(Unsupported, match="sorted rows of a dataset"):
        engine.ordered(dataset, ["id"], within_tasks=True)


def _ids(_turn, batches):
    yield json.dumps([value for batch in batches for value in batch["id"].to_pylist()]).encode()


def test_a_type_that_hudi_does_not_have_is_refused(spark, engine):
    frame = spark.sql("select make_interval(1) as i")
    with pytest.raises(Unsupported, match="no type in Hudi"):
        engine.schema_of(frame)


def test_frames_are_sorted_as_a_whole_or_task_by_task(spark, engine):
    frame = spark.range(0, 10, 1, 2).select((10 - F.col("id")).alias("n"))
    whole = engine.ordered(frame, ["n"], within_tasks=False)
    assert [row.n for row in whole.collect()] == list(range(1, 11))
    parts = engine.ordered(frame, ["n"], within_tasks=True)
    assert [row.n for row in parts.collect()] == [6, 7, 8, 9, 10, 1, 2, 3, 4, 5]
