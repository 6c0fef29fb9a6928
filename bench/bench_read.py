"""Reading slices with updates in their logs: ours, hudi-rs, and Parquet alone, side by side.

    python bench/bench_read.py [--rows 1000000] [--slices 16] [--updates 0.1] [--runs 5]

Makes a version 9 table with our own formats (8 columns and 5 meta columns, event-time order, one
log file per slice; once with Avro and once with Parquet blocks) and reads it slice by slice:

* ours      ``Table.scan``
* hudi-rs   its file-group reader over the same files
* base      PyArrow reads the base files and merges nothing: the machine's own rate

The three alternate; printed are medians, spread, and processor time (a reader may use threads).
Before anything is timed, the rows of ours and of hudi-rs are compared.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import tempfile
import time
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from hudi import HudiTableBuilder

from lakehand.core.table_config import TableConfig
from lakehand.formats import avro_schema, partition_metadata, table_properties
from lakehand.formats.base_file import BaseFileOptions, BaseFileWriter
from lakehand.formats.commit_metadata import CommitMetadata, WriteStat, encode
from lakehand.formats.log_records import encode_avro_data, encode_parquet_data
from lakehand.table import Table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

NAME = "bench"
FIRST, SECOND = "20260101000000000", "20260101010000000"
CITIES = ["oslo", "lima", "cairo", "hanoi"]
DATA = pa.schema(
    [
        ("id", pa.string()),
        ("ts", pa.int64()),
        ("city", pa.string()),
        ("amount", pa.float64()),
        ("count", pa.int32()),
        ("note", pa.string()),
        ("day", pa.date32()),
        ("at", pa.timestamp("us", tz="UTC")),
    ]
)
PROPERTIES = {
    "hoodie.table.name": NAME,
    "hoodie.table.type": "MERGE_ON_READ",
    "hoodie.table.version": "9",
    "hoodie.table.initial.version": "9",
    "hoodie.timeline.layout.version": "2",
    "hoodie.timeline.path": "timeline",
    "hoodie.timeline.history.path": "history",
    "hoodie.archivelog.folder": "history",
    "hoodie.table.recordkey.fields": "id",
    "hoodie.table.partition.fields": "city",
    "hoodie.table.keygenerator.type": "SIMPLE",
    "hoodie.table.format": "native",
    "hoodie.table.base.file.format": "PARQUET",
    "hoodie.record.merge.mode": "EVENT_TIME_ORDERING",
    "hoodie.table.ordering.fields": "ts",
    "hoodie.datasource.write.drop.partition.columns": "false",
    "hoodie.datasource.write.hive_style_partitioning": "false",
    "hoodie.datasource.write.partitionpath.urlencode": "false",
    "hoodie.table.timeline.timezone": "UTC",
}


@dataclass(frozen=True)
class Shape:
    rows: int
    slices: int
    updates: float
    parquet_blocks: bool


@dataclass(frozen=True)
class SliceFiles:
    base: str
    logs: list[str]


def make_table(folder: Path, shape: Shape) -> list[SliceFiles]:
    """Write the table and return its files."""
    TableConfig.from_properties(PROPERTIES)
    timeline = folder / ".hoodie" / "timeline"
    (timeline / "history").mkdir(parents=True)
    (folder / ".hoodie" / "hoodie.properties").write_bytes(table_properties.encode(PROPERTIES))
    avro = avro_schema.from_arrow(avro_schema.with_meta_columns(DATA), table_name=NAME)
    stats: dict[str, dict[str, list[WriteStat]]] = {FIRST: {}, SECOND: {}}
    files = []
    per_slice = shape.rows // shape.slices
    for number in range(shape.slices):
        city = CITIES[number % len(CITIES)]
        partition = folder / city
        if not partition.exists():
            partition.mkdir()
            metadata = partition_metadata.PartitionMetadata(commit_time=FIRST, depth=1)
            content = partition_metadata.encode(metadata, written_at_ms=0)
            (partition / ".hoodie_partition_metadata").write_bytes(content)
        file_id = f"{uuid.UUID(int=number + 1)}-0"
        base = f"{file_id}_{number}-0-0_{FIRST}.parquet"
        log = f".{file_id}_{SECOND}.log.1_{number}-1-1"
        rows = make_rows(number, np.arange(per_slice), city, FIRST, base, ts=100)
        with (partition / base).open("wb") as sink:
            options = BaseFileOptions(row_group_rows=1 << 18)
            with BaseFileWriter(sink, rows.schema, options=options) as writer:
                writer.write(rows)
        write_log(
            partition / log, number, per_slice, city=city, file_id=file_id, avro=avro, shape=shape
        )
        files.append(SliceFiles(f"{city}/{base}", [f"{city}/{log}"]))
        for instant, name in ((FIRST, base), (SECOND, log)):
            stat = WriteStat(file_id=file_id, path=f"{city}/{name}", partition_path=city)
            stats[instant].setdefault(city, []).append(stat)
    schema = avro_schema.from_arrow(DATA, table_name=NAME)
    for instant, by_partition in stats.items():
        commit = CommitMetadata(
            partition_to_write_stats={city: tuple(own) for city, own in by_partition.items()},
            extra_metadata={"schema": schema},
            operation_type="UPSERT",
        )
        for state in ("deltacommit.requested", "deltacommit.inflight"):
            (timeline / f"{instant}.{state}").write_bytes(b"")
        done = timeline / f"{instant}_{int(instant) + 1000}.deltacommit"
        done.write_bytes(encode(commit, version=9))
    return files


def write_log(
    path: Path, number: int, rows: int, *, city: str, file_id: str, avro: str, shape: Shape
) -> None:
    """Update a random share of the slice, a fifth of it too late to win, and add a few keys."""
    chosen = np.random.default_rng(number).choice(rows, int(rows * shape.updates), replace=False)
    added = np.arange(rows, rows + rows // 1000)
    changed = make_rows(number, np.concatenate([chosen, added]), city, SECOND, file_id, ts=99)
    late = pa.array(np.arange(changed.num_rows) % 5, pa.int64())
    changed = changed.set_column(
        changed.schema.get_field_index("ts"), "ts", pc.add(changed.column("ts"), late)
    )
    write = encode_parquet_data if shape.parquet_blocks else encode_avro_data
    path.write_bytes(write([changed], instant=SECOND, schema=avro))


def make_rows(
    number: int, ids: np.ndarray, city: str, instant: str, file: str, *, ts: int
) -> pa.RecordBatch:
    count = len(ids)
    random = np.random.default_rng(number * 2 + (instant == SECOND))
    keys = pa.array([f"key-{number:03d}-{one:09d}" for one in ids.tolist()])
    words = pa.array(["plain", "a longer note about the order", "zwölf ☂", None, ""])
    return pa.RecordBatch.from_arrays(
        [
            pa.array([instant] * count),
            pa.array([f"{instant}_{number}_{one}" for one in range(count)]),
            keys,
            pa.array([city] * count),
            pa.array([file] * count),
            keys,
            pa.array(np.full(count, ts)),
            pa.array([city] * count),
            pa.array(random.random(count) * 1000),
            pa.array(random.integers(0, 1000, count, dtype=np.int32)),
            words.take(pa.array(random.integers(0, 5, count))),
            pa.array(random.integers(0, 20000, count, dtype=np.int32)).cast(pa.date32()),
            pa.array(random.integers(0, 10**15, count)).cast(pa.timestamp("us", tz="UTC")),
        ],
        schema=avro_schema.with_meta_columns(DATA),
    )


def read_ours(folder: Path) -> Iterator[pa.RecordBatch]:
    yield from Table.open(str(folder)).scan()


def read_hudi_rs(folder: Path, files: list[SliceFiles]) -> Iterator[pa.RecordBatch]:
    reader = HudiTableBuilder.from_base_uri(str(folder)).build()
    reader = reader.create_file_group_reader_with_options()
    for part in files:
        yield from reader.read_file_slice_from_paths_stream(part.base, part.logs)


def read_base_only(folder: Path, files: list[SliceFiles]) -> Iterator[pa.RecordBatch]:
    for part in files:
        yield from pq.ParquetFile(folder / part.base).iter_batches(1 << 16)


def drain(batches: Iterator[pa.RecordBatch]) -> int:
    return sum(batch.num_rows for batch in batches)


def as_sorted(batches: Iterator[pa.RecordBatch]) -> pa.Table:
    tables = [pa.Table.from_batches([one]).replace_schema_metadata(None) for one in batches]
    whole = pa.concat_tables(tables, promote_options="permissive")
    return whole.select(sorted(whole.column_names)).sort_by("_hoodie_record_key").combine_chunks()


def require_equal(folder: Path, files: list[SliceFiles]) -> int:
    ours, theirs = as_sorted(read_ours(folder)), as_sorted(read_hudi_rs(folder, files))
    theirs = theirs.cast(ours.schema)
    for name in ours.column_names:
        assert ours[name].equals(theirs[name]), f"column {name} differs"
    return ours.num_rows


def measure(readers: dict[str, Callable[[], Iterator[pa.RecordBatch]]], runs: int) -> None:
    wall: dict[str, list[float]] = {name: [] for name in readers}
    cpu: dict[str, list[float]] = {name: [] for name in readers}
    for _ in range(runs):
        for name, reader in readers.items():
            gc.collect()
            begin, begin_cpu = time.perf_counter(), time.process_time()
            drain(reader())
            wall[name].append(time.perf_counter() - begin)
            cpu[name].append(time.process_time() - begin_cpu)
    for name, times in wall.items():
        print(
            f"  {name:8} {statistics.median(times):6.2f} s"
            f"  ({min(times):.2f}-{max(times):.2f})  cpu {statistics.median(cpu[name]):6.2f} s"
        )


def main() -> None:
    arguments = argparse.ArgumentParser(description="slice reading, ours beside hudi-rs")
    arguments.add_argument("--rows", type=int, default=1_000_000)
    arguments.add_argument("--slices", type=int, default=16)
    arguments.add_argument("--updates", type=float, default=0.1)
    arguments.add_argument("--runs", type=int, default=5)
    given = arguments.parse_args()
    for parquet_blocks in (False, True):
        shape = Shape(given.rows, given.slices, given.updates, parquet_blocks)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder)
            files = make_table(path, shape)
            rows = require_equal(path, files)
            kind = "Parquet" if parquet_blocks else "Avro"
            print(f"{kind} blocks, {rows} rows in {given.slices} slices, rows equal:")
            readers = {
                "ours": lambda path=path: read_ours(path),
                "hudi-rs": lambda path=path, files=files: read_hudi_rs(path, files),
                "base": lambda path=path, files=files: read_base_only(path, files),
            }
            measure(readers, given.runs)


if __name__ == "__main__":
    main()
