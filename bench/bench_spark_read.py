"""A snapshot read through Spark: Lakehand's reader beside Apache Hudi's, on the same table.

    python bench/bench_spark_read.py [--rows 3000000] [--slices 16] [--updates 0.1] [--runs 3]

Makes a merge-on-read table of version 9 (8 columns and 5 meta columns, 4 partitions, zstd, event
time decides, one log file with Parquet blocks per slice, no metadata table) and aggregates four of
its columns in one Spark session with Hudi's bundle, ``local[2]``, the readers in turns:

* lakehand      ``SparkFrames``: slices are merged in Python workers, rows reach the JVM as Arrow
* hudi          Apache Hudi's own data source
* no Spark      our ``to_arrow`` of the same columns with two threads, and the same sums
* parquet only  PyArrow reads the same columns of all files and merges nothing: the limit

Before anything is timed, the sums of all but the last are compared. Needs a JVM and, once, the
bundle (``tests/support/java_hudi.py`` says where both come from).
"""

from __future__ import annotations

import argparse
import functools
import os
import statistics
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from bench_read import Shape, SliceFiles, make_table

sys.path.append(str(Path(__file__).resolve().parent.parent / "tests" / "support"))
from java_hudi import ARTIFACT, cache_folder, cached_jar, java_home
from jvm_worker import start
from lakehand.formats.log_file import read_blocks
from lakehand.formats.log_records import read_data
from lakehand.read.reader import Reader
from lakehand.read.snapshot import Scan
from lakehand.read.spark_frames import BATCH_ROWS, SparkFrames
from lakehand.store.open import open_store
from lakehand.table import Table

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession

BUNDLE = "1.2.0"
COLUMNS = ["city", "amount", "count", "note"]
Answer = dict[str, tuple[float, int, int, int]]


def aggregate(frame: DataFrame) -> Answer:
    """Four columns: a group, two sums, and the length of a text."""
    from pyspark.sql import functions as f

    sums = frame.groupBy("city").agg(
        f.sum("amount"), f.sum("count"), f.sum(f.length("note")), f.count("*")
    )
    return {row[0]: (round(row[1], 3), row[2], row[3], row[4]) for row in sums.collect()}


def aggregate_arrow(rows: pa.Table) -> Answer:
    """Return the same from Arrow."""
    rows = rows.append_column("length", pc.utf8_length(rows.column("note")))
    sums = rows.group_by("city").aggregate(
        [("amount", "sum"), ("count", "sum"), ("length", "sum"), ([], "count_all")]
    )
    columns = [sums.column(name).to_pylist() for name in sums.column_names]
    found = dict(zip(sums.column_names, columns, strict=True))
    return {
        city: (round(amount, 3), count, length, rows)
        for city, amount, count, length, rows in zip(
            found["city"],
            found["amount_sum"],
            found["count_sum"],
            found["length_sum"],
            found["count_all"],
            strict=True,
        )
    }


def session(scratch: Path, memory: str) -> SparkSession:
    """Return a session with Hudi's bundle, at its normal speed."""
    home = java_home()
    os.environ.update(
        JAVA_HOME=str(home),
        PYSPARK_PYTHON=sys.executable,
        PYSPARK_DRIVER_PYTHON=sys.executable,
        SPARK_LOCAL_IP="127.0.0.1",
        TZ="UTC",
    )
    setup = {
        "bundle": BUNDLE,
        "jar": str(cached_jar(BUNDLE)),
        "ivy": str(cache_folder() / "ivy"),
        "coordinate": f"org.apache.hudi:{ARTIFACT}:{BUNDLE}",
        "memory": memory,
        "cores": 2,
        "scratch": str(scratch),
        "settings": {
            # The test session is tuned for tables of a few rows: take that back.
            "spark.driver.extraJavaOptions": (
                f"-Duser.timezone=UTC -Dlog4j2.configurationFile={scratch}/log4j2.properties "
                f"-Dderby.system.home={scratch} -Xss4m"
            ),
            "spark.sql.codegen.wholeStage": "true",
            "spark.sql.codegen.factoryMode": "FALLBACK",
            "spark.sql.adaptive.enabled": "true",
        },
    }
    return start(setup).spark


def read_hudi(spark: SparkSession, folder: Path) -> DataFrame:
    options = {"hoodie.metadata.enable": "false"}
    return spark.read.format("hudi").options(**options).load(str(folder)).select(*COLUMNS)


def read_parquet_only(folder: Path, files: list[SliceFiles]) -> int:
    """Read the same bytes: of base files the columns, of log files the blocks."""
    needed = ["_hoodie_record_key", "ts", *COLUMNS]

    def rows_of(part: SliceFiles) -> int:
        rows = pq.read_table(folder / part.base, columns=needed, partitioning=None).num_rows
        for name in part.logs:
            with pa.OSFile(str(folder / name)) as file:
                for block in read_blocks(file, where=name):
                    batches = read_data(block, columns=needed, batch_rows=1 << 17)
                    rows += sum(batch.num_rows for batch in batches)
        return rows

    with ThreadPoolExecutor(2) as executor:
        return sum(executor.map(rows_of, files))


def measure(readers: dict[str, Callable[[], object]], runs: int) -> None:
    times: dict[str, list[float]] = {name: [] for name in readers}
    for _ in range(runs):
        for name, reader in readers.items():
            begin = time.perf_counter()
            reader()
            times[name].append(time.perf_counter() - begin)
    ours = statistics.median(times["lakehand"])
    for name, own in times.items():
        median = statistics.median(own)
        print(
            f"  {name:14} {median:6.2f} s  ({min(own):.2f}-{max(own):.2f})  "
            f"{median / ours:5.2f} x lakehand"
        )


def main() -> None:
    arguments = argparse.ArgumentParser(description="snapshot reads on Spark, beside Hudi's")
    arguments.add_argument("--rows", type=int, default=3_000_000)
    arguments.add_argument("--slices", type=int, default=16)
    arguments.add_argument("--updates", type=float, default=0.1)
    arguments.add_argument("--runs", type=int, default=3)
    arguments.add_argument("--memory", default="4g", help="of the JVM")
    arguments.add_argument("--batch-rows", type=int, default=BATCH_ROWS)
    given = arguments.parse_args()
    with tempfile.TemporaryDirectory() as place:
        folder, scratch = Path(place) / "table", Path(place) / "scratch"
        folder.mkdir()
        scratch.mkdir()
        shape = Shape(given.rows, given.slices, given.updates, parquet_blocks=True)
        files = make_table(folder, shape)
        spark = session(scratch, given.memory)
        table = Table.open(str(folder))
        frames = SparkFrames(
            spark, functools.partial(open_store, str(folder), {}), batch_rows=given.batch_rows
        )
        on_spark = Reader(table.store, table.config, frames)
        with ThreadPoolExecutor(2) as threads:
            in_arrow = Reader(
                table.store, table.config, functools.partial(Scan.to_arrow, executor=threads)
            )
            readers: dict[str, Callable[[], object]] = {
                "lakehand": lambda: aggregate(on_spark.snapshot(COLUMNS)),
                "hudi": lambda: aggregate(read_hudi(spark, folder)),
                "no Spark": lambda: aggregate_arrow(in_arrow.snapshot(COLUMNS)),
                "parquet only": lambda: read_parquet_only(folder, files),
            }
            answers = [readers[name]() for name in ("lakehand", "hudi", "no Spark")]
            assert answers[0] == answers[1] == answers[2], answers
            print(f"{given.rows} rows, {given.updates:.0%} of them updated in logs, sums equal:")
            measure(readers, given.runs)
        spark.stop()


if __name__ == "__main__":
    main()
