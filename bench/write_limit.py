"""The machine's own limit: what each step cannot do without, by PyArrow in one process per core.

The processes stand ready before a step is timed. Base files get the columns of a Hudi table (the
five meta columns in front), zstd of level 1 and dictionaries: as ours, without keys, bloom filters,
statistics of keys, markers, timeline, or a merge.

* bulk insert, insert   read the input, split it by partition, write base files
* upsert, MOR           read the updates and the keys of all base files, write the updates
* upsert, COW           read the updates and all base files, write all base files
* read                  read the columns, the key and the order of base files, and the updates
"""

from __future__ import annotations

import contextlib
import shutil
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from multiprocessing import get_context
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from write_peers import Work

INSTANT = "20260101000000000"
ROW_GROUP = 1 << 17
READ = ["_hoodie_record_key", "amount", "count", "ts", "at"]


@cache
def _pool(cores: int) -> ProcessPoolExecutor:
    pool = ProcessPoolExecutor(cores, mp_context=get_context("forkserver"))
    list(pool.map(_import_all, range(cores)))
    return pool


def _import_all(_: int) -> None:
    pa.array([0])


def _each(work: Work, task: Callable[..., int], items: Iterable[Any]) -> int:
    return sum(_pool(work.cores).map(task, items))


@contextlib.contextmanager
def opened(work: Work) -> Iterator[dict[str, Callable[[Work], Any]]]:
    """Start the processes."""
    pool = _pool(work.cores)
    try:
        yield STEPS
    finally:
        pool.shutdown()


def _insert(work: Work) -> int:
    folder = work.folder / "limit"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return _each(work, _insert_file, ((path, folder) for path in sorted(work.rows.iterdir())))


def _insert_file(of: tuple[Path, Path]) -> int:
    path, folder = of
    with contextlib.ExitStack() as stack:
        writers: dict[str, pq.ParquetWriter] = {}
        waiting: dict[str, list[pa.RecordBatch]] = {}
        for batch in pq.ParquetFile(path).iter_batches(1 << 16):
            for city, part in _split(batch):
                waiting.setdefault(city, []).append(part)
        for city, parts in waiting.items():
            name = f"{city}-{path.stem}.parquet"
            table = _with_meta(pa.Table.from_batches(parts), city, name)
            writer = pq.ParquetWriter(
                folder / name, table.schema, compression="zstd", compression_level=1
            )
            writers[city] = stack.enter_context(writer)
            writers[city].write_table(table, row_group_size=ROW_GROUP)
    return sum(len(part) for parts in waiting.values() for part in parts)


def _split(batch: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
    cities = pc.dictionary_encode(batch["city"])
    for number, city in enumerate(cities.dictionary.to_pylist()):
        yield city, batch.filter(pc.equal(cities.indices, number))


def _with_meta(table: pa.Table, city: str, name: str) -> pa.Table:
    count = table.num_rows
    sequence = pa.array(np.arange(count)).cast(pa.string())
    meta = {
        "_hoodie_commit_time": pa.repeat(INSTANT, count),
        "_hoodie_commit_seqno": pc.binary_join_element_wise(f"{INSTANT}_0", sequence, "_"),
        "_hoodie_record_key": table["id"],
        "_hoodie_partition_path": pa.repeat(city, count),
        "_hoodie_file_name": pa.repeat(name, count),
    }
    return pa.table({**meta, **{field: table[field] for field in table.column_names}})


def _upsert_mor(work: Work) -> int:
    bases = sorted((work.folder / "limit").glob("*.parquet"))
    keys = _each(work, _read_columns, ((path, ["_hoodie_record_key"]) for path in bases))
    logs = work.folder / "limit" / "logs"
    logs.mkdir(exist_ok=True)
    return keys + _each(
        work, _insert_file, ((path, logs) for path in sorted(work.updates.iterdir()))
    )


def _read_columns(of: tuple[Path, list[str] | None]) -> int:
    path, columns = of
    return sum(map(len, pq.ParquetFile(path).iter_batches(1 << 16, columns=columns)))


def _upsert_cow(work: Work) -> int:
    bases = sorted((work.folder / "limit").glob("*.parquet"))
    updates = _each(work, _read_columns, ((path, None) for path in work.updates.iterdir()))
    return updates + _each(work, _rewrite, bases)


def _rewrite(path: Path) -> int:
    source = pq.ParquetFile(path)
    rows = 0
    target = path.with_suffix(".new")
    with pq.ParquetWriter(
        target, source.schema_arrow, compression="zstd", compression_level=1
    ) as writer:
        for batch in source.iter_batches(ROW_GROUP):
            writer.write_batch(batch)
            rows += len(batch)
    target.unlink()
    return rows


def _read(work: Work) -> int:
    folder = work.folder / "limit"
    files = [*folder.glob("*.parquet"), *(folder / "logs").glob("*.parquet")]
    return _each(work, _read_columns, ((path, READ) for path in files))


STEPS = {
    "bulk_insert": _insert,
    "insert": _insert,
    "upsert_mor": _upsert_mor,
    "upsert_cow": _upsert_cow,
    "read": _read,
}
