"""Base files as a stream of batches in the schema that the reader asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from lakehand.formats.untrusted_parquet import open_parquet, sound_batches
from lakehand.read.alignment import align
from lakehand.read.row_groups import matching_row_groups

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lakehand.ports import Store
    from lakehand.read.filters import Predicate


def read_base(
    store: Store,
    path: str,
    *,
    schema: pa.Schema,
    skip: Sequence[Predicate] = (),
    batch_rows: int,
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a base file as ``schema``.

    Row groups whose statistics rule one of ``skip`` out are not read; rows are not filtered.
    """
    with store.open(path) as file:
        parquet = open_parquet(file, where=path)
        stored = parquet.schema_arrow
        columns = [name for name in schema.names if name in stored.names]
        groups = matching_row_groups(parquet, skip, schema)
        if not columns:
            rows = sum(parquet.metadata.row_group(group).num_rows for group in groups)
            yield from _only_nulls(schema, rows, batch_rows)
            return
        for batch in sound_batches(
            parquet,
            where=path,
            rows=batch_rows,
            columns=columns,
            row_groups=groups,
            use_threads=True,
        ):
            yield align(batch, schema, where=path)


def _only_nulls(schema: pa.Schema, rows: int, batch_rows: int) -> Iterator[pa.RecordBatch]:
    """Yield rows of a file that has none of the columns asked for."""
    for start in range(0, rows, batch_rows):
        counted = pa.RecordBatch.from_arrays(
            [pa.nulls(min(batch_rows, rows - start))], names=["a row"]
        )
        yield align(counted, schema, where="") if len(schema) else counted.select([])
