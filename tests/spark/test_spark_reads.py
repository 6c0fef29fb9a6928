"""Queries as DataFrames: the rows are those of the same query in Arrow, for every type."""

import functools

import pyarrow as pa
import pytest
from pyspark.errors import PythonException
from pyspark.sql import types

from lakehand.core.file_slices import FileEntry, FileSlice
from lakehand.errors import Unsupported
from lakehand.read.reader import Reader
from lakehand.read.snapshot import Scan
from lakehand.read.spark_frames import SparkFrames, deal
from lakehand.read.spark_types import sent_schema, spark_schema
from lakehand.store.open import open_store
from lakehand.table import Table
from table_builder_rows import Partitioning, Shape
from table_scenarios import start

pytestmark = pytest.mark.spark

SHAPES = {
    "mor9": Shape(
        9,
        merge_on_read=True,
        partitioning=Partitioning.HIVE,
        decimal_in_struct=True,
        null_elements=True,
        local_timestamp=True,
        blocks="parquet",
    ),
    "cow8": Shape(8, merge_on_read=False, partitioning=Partitioning.TWO),
    "mor6": Shape(6, merge_on_read=True),
}


@pytest.fixture(scope="module", params=SHAPES.values(), ids=SHAPES)
def built(request, tmp_path_factory):
    return start(request.param, tmp_path_factory.mktemp("spark-reads") / "table")


def readers(spark, folder, **settings):
    table = Table.open(str(folder))
    frames = SparkFrames(spark, functools.partial(open_store, str(folder), {}), **settings)
    return (
        Reader(table.store, table.config, Scan.to_arrow),
        Reader(table.store, table.config, frames),
    )


def plain(value):
    """A value to compare: structs and maps as pairs in order, whichever side they come from."""
    if isinstance(value, types.Row):
        value = value.asDict()
    if isinstance(value, dict):
        return sorted((key, plain(own)) for key, own in value.items())
    if isinstance(value, list):
        if value and all(type(own) is tuple for own in value):
            return plain(dict(value))
        return [plain(own) for own in value]
    return bytes(value) if isinstance(value, bytearray) else value


def without_zone(schema, rows):
    """Spark's ``collect`` gives instants in the machine's zone (here UTC), but does not say so."""
    instants = [one.name for one in schema if pa.types.is_timestamp(one.type) and one.type.tz]
    for row in rows:
        for name in instants:
            row[name] = row[name] and row[name].replace(tzinfo=None)
    return rows


def same_rows(in_arrow, frame):
    expected = [{name: plain(own) for name, own in row.items()} for row in in_arrow.to_pylist()]
    found = [{name: plain(own) for name, own in row.asDict().items()} for row in frame.collect()]
    without_zone(in_arrow.schema, expected)
    assert sorted(found, key=repr) == sorted(expected, key=repr)


def test_every_query_has_the_rows_that_it_has_in_arrow(spark, built):
    in_arrow, on_spark = readers(spark, built.folder, task_bytes=1, batch_rows=3)
    first, last = built.history[0][0], built.last_write
    same_rows(in_arrow.snapshot(), on_spark.snapshot())
    same_rows(in_arrow.read_optimized(), on_spark.read_optimized())
    same_rows(in_arrow.as_of(last), on_spark.as_of(last))
    changed = in_arrow.incremental(first)
    assert 0 < changed.num_rows < len(built.model)
    same_rows(changed, on_spark.incremental(first))
    assert in_arrow.newest() == on_spark.newest()


def test_the_types_are_those_of_a_frame_that_spark_made_of_the_same_rows(spark, built):
    in_arrow, on_spark = readers(spark, built.folder)
    rows = in_arrow.snapshot()
    frame = on_spark.snapshot()
    assert frame.columns == rows.column_names
    by_name = {one.name: one.dataType for one in frame.schema}
    assert by_name["huge"] == types.DecimalType(30, 10)
    assert by_name["seen"] == types.TimestampType()
    assert by_name["attributes"] == types.MapType(types.StringType(), types.LongType())
    if built.shape.local_timestamp:
        assert by_name["local"] == types.TimestampNTZType()
    # Written by the JVM and read by Arrow: every value made the way there and back.
    target = built.folder.parent / "copy.parquet"
    frame.coalesce(1).write.mode("overwrite").parquet(str(target))
    again = spark.read.parquet(str(target))
    assert again.schema == frame.schema
    same_rows(rows, again)


def test_columns_and_filters_are_pushed_down(spark, built):
    in_arrow, on_spark = readers(spark, built.folder)
    where = [("ts", ">", 1), ("region", "IN", ["eu", "us"])]
    rows = in_arrow.snapshot(["id", "ts"], where)
    frame = on_spark.snapshot(["id", "ts"], where)
    assert frame.columns == ["id", "ts"]
    same_rows(rows, frame)
    assert frame.where("ts > 2").count() == sum(ts > 2 for ts in rows["ts"].to_pylist())
    assert on_spark.snapshot([]).count() == len(built.model)


def test_a_frame_without_files_has_no_rows(spark, built):
    _, on_spark = readers(spark, built.folder)
    assert on_spark.as_of("2020-01-01", []).count() == 0
    assert on_spark.snapshot(where=[("id", "=", "nobody")]).collect() == []


def test_nullability_is_kept_at_every_level():
    struct = pa.struct([pa.field("must", pa.int32(), nullable=False), pa.field("may", pa.int64())])
    schema = pa.schema(
        [
            pa.field("id", pa.string(), nullable=False),
            pa.field("at", pa.timestamp("ms", tz="Europe/Oslo"), nullable=False),
            pa.field("local", pa.timestamp("ms")),
            pa.field("fixed", pa.binary(4)),
            pa.field("list", pa.list_(pa.field("element", struct, nullable=False))),
            pa.field("map", pa.map_(pa.string(), pa.field("value", pa.int32(), nullable=False))),
        ]
    )
    found = spark_schema(sent_schema(schema))
    inner = types.StructType(
        [
            types.StructField("must", types.IntegerType(), nullable=False),
            types.StructField("may", types.LongType()),
        ]
    )
    expected = types.StructType(
        [
            types.StructField("id", types.StringType(), nullable=False),
            types.StructField("at", types.TimestampType(), nullable=False),
            types.StructField("local", types.TimestampNTZType()),
            types.StructField("fixed", types.BinaryType()),
            types.StructField("list", types.ArrayType(inner, containsNull=False)),
            types.StructField("map", types.MapType(types.StringType(), types.IntegerType(), False)),
        ]
    )
    assert found == expected


def test_a_time_of_day_is_refused_by_name():
    schema = pa.schema([pa.field("day", pa.struct([pa.field("at", pa.time64("us"))]))])
    with pytest.raises(Unsupported, match=r"column day\.at is a time of day"):
        sent_schema(schema)


def test_a_file_that_was_cleaned_meanwhile_is_named_and_so_is_what_to_do(spark, tmp_path):
    built = start(SHAPES["cow8"], tmp_path / "table")
    _, on_spark = readers(spark, built.folder)
    frame = on_spark.snapshot()
    group = built.live[0]
    lost = group.path(group.latest.base)
    (built.folder / lost).unlink()
    with pytest.raises(PythonException) as failed:
        frame.collect()
    text = str(failed.value)
    assert "lakehand.errors.NotFound" in text
    assert lost in text
    assert "run the query again" in text


def test_what_opens_the_store_is_shown_nowhere(spark, built):
    folder, secret = str(built.folder), "squeamish-ossifrage"
    table = Table.open(folder)

    def open_with(password):
        assert password == secret
        return open_store(folder)

    frames = SparkFrames(spark, functools.partial(open_with, secret))
    reader = Reader(table.store, table.config, frames)
    frame = reader.snapshot()
    assert frame.count() == len(built.model)
    shown = [repr(frames), repr(reader), repr(frame), frame._jdf.queryExecution().toString()]
    shown.append(frame._jdf.queryExecution().logical().toJSON())
    assert not [text for text in shown if secret in text]


def slice_of(size, number):
    return FileSlice("p", f"f{number}", "1", FileEntry(f"f{number}_1-0-1_1.parquet", size))


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        ([], []),
        ([10], [[10]]),
        ([1, 1, 1, 1], [[1, 1], [1, 1]]),
        ([100, 1, 1, 1], [[100], [1, 1, 1]]),
        ([60, 50, 40, 30, 20, 10], [[60, 10], [50, 20], [40, 30]]),
    ],
)
def test_slices_are_dealt_over_tasks_by_size(sizes, expected):
    slices = [slice_of(size, number) for number, size in enumerate(sizes)]
    loads = deal(slices, parallelism=2, task_bytes=71)
    assert sorted(sorted(one.total_size for one in load) for load in loads) == sorted(
        sorted(load) for load in expected
    )
    weights = [sum(one.total_size for one in load) for load in loads]
    assert weights == sorted(weights, reverse=True)


def test_a_column_added_later_and_milliseconds_reach_spark(spark, built, tmp_path):
    """A reader's schema wider than the files': nulls; and Spark knows microseconds only."""
    table = Table.open(str(built.folder))
    scan = table.snapshot().scan(columns=["id"])
    wider = scan.table_schema.append(pa.field("added", pa.timestamp("ms", tz="UTC")))
    scan = Scan(
        store=scan.store,
        config=scan.config,
        timeline=scan.timeline,
        slices=scan.slices,
        schema=pa.schema([wider.field("id"), wider.field("added")]),
        table_schema=wider,
        row_filter=None,
        options=scan.options,
    )
    frame = SparkFrames(spark, functools.partial(open_store, str(built.folder), {}))(scan)
    assert frame.schema["added"].dataType == types.TimestampType()
    assert {row.added for row in frame.collect()} == {None}
    assert frame.count() == len(built.model)
