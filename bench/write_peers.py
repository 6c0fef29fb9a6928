"""The peers of the write benchmark: what each does in each step, from the same input files.

* java   Apache Hudi in Spark, its metadata table off, zstd of level 1
* ours   Lakehand in Spark
* files  the same, but rows are a pyarrow dataset of the files and not a DataFrame of them
* handover  Spark alone: it hands a step's rows to Python, where nothing is done with them
* delta  delta-rs, which has neither a JVM nor Hudi's format
* limit  PyArrow in as many processes as there are cores: reads and writes what a step cannot do
         without, in files of the same columns, and does nothing else

A step gets its ``Work`` and finds the tables of earlier steps in its folder.
"""

from __future__ import annotations

import contextlib
import json
import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow.dataset as ds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

READ_COLUMNS = ["amount", "count", "ts", "at"]
AGGREGATES = ["sum(amount)", "sum(`count`)", "max(ts)", "max(unix_micros(at))"]
FEATURES_OFF = {
    "hoodie.metadata.enable": "false",
    "hoodie.clean.automatic": "false",
    "hoodie.archive.automatic": "false",
}
"""What ours does not do in a write either."""


@dataclass(frozen=True, slots=True)
class Work:
    """Where one peer works, and on what."""

    peer: str
    folder: Path
    rows: Path
    updates: Path
    cores: int
    memory: str

    def table(self, kind: str) -> str:
        return str(self.folder / kind)


@contextlib.contextmanager
def opened(work: Work, profile: str | None) -> Iterator[Any]:
    """Start what the peer needs; yield its steps; end it."""
    match work.peer:
        case "java":
            with _spark(work, _hudi_settings()) as spark:
                yield _java_steps(spark)
        case "ours":
            with _spark(work, _profile_settings(profile)) as spark:
                yield _our_steps(spark, profile, spark.read.parquet)
        case "files":
            with _spark(work, {}) as spark:
                yield _our_steps(spark, None, ds.dataset)
        case "handover":
            with _spark(work, {}) as spark:
                yield _handover_steps(spark)
        case "arrow":
            yield {"fingerprint": _fingerprint_by_arrow}
        case "delta":
            import write_delta

            yield write_delta.STEPS
        case "limit":
            import write_limit

            with write_limit.opened(work) as steps:
                yield steps
        case unknown:
            raise ValueError(unknown)


@contextlib.contextmanager
def _spark(work: Work, settings: Mapping[str, str]) -> Iterator[SparkSession]:
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName("lakehand-bench")
    common = {
        "spark.master": f"local[{work.cores}]",
        "spark.driver.memory": work.memory,
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraJavaOptions": "-Duser.timezone=UTC",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.files.minPartitionNum": "4",
        "spark.sql.shuffle.partitions": "4",
        # PyArrow's own level, and ours; Java's would be 3.
        "spark.hadoop.parquet.compression.codec.zstd.level": "1",
    }
    for key, value in {**common, **settings}.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    try:
        yield spark
    finally:
        spark.stop()


# Apache Hudi ------------------------------------------------------------------------------------


def _hudi_settings() -> dict[str, str]:
    from java_hudi import ARTIFACT, cache_folder, cached_jar

    bundle = "1.2.0"
    jar = cached_jar(bundle)
    where = (
        {"spark.jars": str(jar)}
        if jar.exists()
        else {
            "spark.jars.packages": f"org.apache.hudi:{ARTIFACT}:{bundle}",
            "spark.jars.ivy": str(cache_folder() / "ivy"),
        }
    )
    return {
        "spark.serializer": "org.apache.spark.serializer.KryoSerializer",
        "spark.kryo.registrator": "org.apache.spark.HoodieSparkKryoRegistrar",
        "spark.sql.extensions": "org.apache.spark.sql.hudi.HoodieSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.hudi.catalog.HoodieCatalog",
        **where,
    }


def _java_steps(spark: SparkSession) -> dict[str, Callable[[Work], Any]]:
    def write(kind: str, rows: Path, target: str, operation: str) -> None:
        options = {
            "hoodie.table.name": "bench",
            "hoodie.datasource.write.table.type": kind,
            "hoodie.datasource.write.operation": operation,
            "hoodie.datasource.write.recordkey.field": "id",
            "hoodie.datasource.write.partitionpath.field": "city",
            "hoodie.table.ordering.fields": "ts",
            "hoodie.parquet.compression.codec": "zstd",
            **FEATURES_OFF,
        }
        frame = spark.read.parquet(str(rows))
        frame.write.format("hudi").options(**options).mode("append").save(target)

    def read(path: str) -> DataFrame:
        return spark.read.format("hudi").option("hoodie.metadata.enable", "false").load(path)

    return {
        "bulk_insert": lambda work: write(
            "MERGE_ON_READ", work.rows, _new(work, "mor"), "bulk_insert"
        ),
        "insert": lambda work: write("COPY_ON_WRITE", work.rows, _new(work, "insert"), "insert"),
        "upsert_mor": lambda work: write(
            "MERGE_ON_READ", work.updates, work.table("mor"), "upsert"
        ),
        "prepare_cow": lambda work: write(
            "COPY_ON_WRITE", work.rows, _new(work, "cow"), "bulk_insert"
        ),
        "upsert_cow": lambda work: write(
            "COPY_ON_WRITE", work.updates, work.table("cow"), "upsert"
        ),
        "read": lambda work: _aggregate(read(work.table("mor"))),
        "fingerprint": lambda work: {
            path: _fingerprint_by_spark(read(path)) for path in _tables(work)
        },
    }


# Lakehand ---------------------------------------------------------------------------------------


def _our_steps(
    spark: SparkSession, profile: str | None, rows_of: Callable[[str], Any]
) -> dict[str, Callable[[Work], Any]]:
    from lakehand import Table

    def create(uri: str, kind: str, rows: Any) -> Any:
        return Table.create(
            uri,
            rows.schema,
            name="bench",
            key=("id",),
            partition_by=("city",),
            ordering=("ts",),
            table_type=kind,
        )

    def load(kind: str, target: str, place: Path, operation: str) -> None:
        rows = rows_of(str(place))
        writer = create(target, kind, rows).writer(spark)
        _profiled(profile, operation, spark, lambda: getattr(writer, operation)(rows))

    def upsert(target: str, place: Path) -> None:
        writer = Table.open(target).writer(spark)
        rows = rows_of(str(place))
        _profiled(profile, "upsert", spark, lambda: writer.upsert(rows))

    def read(work: Work) -> list[Any]:
        def aggregate() -> list[Any]:
            table = Table.open(work.table("mor"))
            return _aggregate(table.read(spark).snapshot(columns=READ_COLUMNS))

        return _profiled(profile, "read", spark, aggregate)

    return {
        "bulk_insert": lambda work: load("mor", _new(work, "mor"), work.rows, "bulk_insert"),
        "insert": lambda work: load("cow", _new(work, "insert"), work.rows, "insert"),
        "upsert_mor": lambda work: upsert(work.table("mor"), work.updates),
        "prepare_cow": lambda work: load("cow", _new(work, "cow"), work.rows, "bulk_insert"),
        "upsert_cow": lambda work: upsert(work.table("cow"), work.updates),
        "read": read,
    }


def _handover_steps(spark: SparkSession) -> dict[str, Callable[[Work], Any]]:
    """What a write from a DataFrame costs in Spark before any of it is written."""

    def hand_over(rows: Path) -> int:
        frame = spark.read.parquet(str(rows))
        (counted,) = frame.mapInArrow(_count, "rows long").selectExpr("sum(rows)").collect()
        return int(counted[0])

    writes = dict.fromkeys(("bulk_insert", "insert"), lambda work: hand_over(work.rows))
    updates = dict.fromkeys(("upsert_mor", "upsert_cow"), lambda work: hand_over(work.updates))
    return {**writes, **updates}


def _count(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    for batch in batches:
        yield pa.RecordBatch.from_pydict({"rows": [batch.num_rows]})


def _profile_settings(profile: str | None) -> dict[str, str]:
    return {} if profile is None else {"spark.python.daemon.module": "write_profile_daemon"}


def _profiled(profile: str | None, name: str, spark: SparkSession, work: Callable[[], Any]) -> Any:
    if profile is None:
        return work()
    import write_profile

    return write_profile.driver(profile, name, spark, work)


# Both -------------------------------------------------------------------------------------------


def _new(work: Work, kind: str) -> str:
    shutil.rmtree(work.folder / kind, ignore_errors=True)
    return work.table(kind)


def _aggregate(frame: DataFrame) -> list[Any]:
    return list(frame.selectExpr(*AGGREGATES).collect()[0])


def _tables(work: Work) -> list[str]:
    """Return the tables of both Hudi peers: this one's folder is the one above theirs."""
    listed = json.loads((work.folder / "tables.json").read_text())
    assert isinstance(listed, list)
    return listed


def _fingerprint_by_spark(frame: DataFrame) -> dict[str, int]:
    from write_data import FINGERPRINT_SQL

    sums = [f"{sql} as `{name}`" for name, sql in FINGERPRINT_SQL.items()]
    return frame.selectExpr(*sums).collect()[0].asDict()


def _fingerprint_by_arrow(work: Work) -> dict[str, dict[str, int]]:
    from write_data import fingerprint

    from lakehand import Table

    return {path: fingerprint(Table.open(path).scan()) for path in _tables(work)}
