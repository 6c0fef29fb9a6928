"""delta-rs in the write benchmark, for honesty: no JVM, and a format of its own.

It keeps no record keys or bloom filters and has no log files; an upsert is a merge that rewrites.
``pip install deltalake`` beside the environment, or name its folder in ``PYTHONPATH``.
"""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from write_peers import Work


def _batches(folder: Path) -> Iterator[pa.RecordBatch]:
    for path in sorted(folder.glob("*.parquet")):
        yield from pq.ParquetFile(path).iter_batches(1 << 16)


def _reader(folder: Path) -> pa.RecordBatchReader:
    schema = pq.read_schema(next(folder.glob("*.parquet")))
    return pa.RecordBatchReader.from_batches(schema, _batches(folder))


def _write(work: Work) -> None:
    shutil.rmtree(work.folder / "delta", ignore_errors=True)
    deltalake.write_deltalake(
        work.table("delta"),
        _reader(work.rows),
        partition_by=["city"],
        writer_properties=deltalake.WriterProperties(compression="ZSTD"),
    )


def _merge(work: Work) -> None:
    merge = deltalake.DeltaTable(work.table("delta")).merge(
        _reader(work.updates),
        predicate="t.city = s.city and t.id = s.id",
        source_alias="s",
        target_alias="t",
        writer_properties=deltalake.WriterProperties(compression="ZSTD"),
    )
    merge.when_matched_update_all("s.ts >= t.ts").when_not_matched_insert_all().execute()


def _read(work: Work) -> list[Any]:
    rows = _query(
        work, "select sum(amount) a, sum(count) c, max(ts) t, max(cast(at as bigint)) m from t"
    )
    return list(rows.to_pylist()[0].values())


def _query(work: Work, sql: str) -> pa.Table:
    builder = deltalake.QueryBuilder().register("t", deltalake.DeltaTable(work.table("delta")))
    return pa.table(builder.execute(sql).read_all())


def _fingerprint(work: Work) -> dict[str, int]:
    from write_data import SCHEMA, fingerprint

    rows = _query(work, "select * from t").select(SCHEMA.names).cast(SCHEMA)
    return fingerprint(rows.to_batches())


STEPS = {
    "bulk_insert": _write,
    "upsert_cow": _merge,
    "read": _read,
    "fingerprint": _fingerprint,
}
