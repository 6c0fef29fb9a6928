"""Opens and reads Parquet files whose bytes nobody vouches for.

What is added to PyArrow are limits that hold before it allocates, a look at the values that it
decoded without one, and one kind of error for everything that it may raise.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from lakehand.errors import Corrupt, LimitExceeded

if TYPE_CHECKING:
    from collections.abc import Iterator

_MAGIC = b"PAR1"
_MOST_FOOTER = 256 << 20
_MOST_STRING = 128 << 20
_MOST_ITEMS = 1 << 20

BROKEN_PARQUET = (pa.ArrowException, OSError, ValueError, MemoryError, OverflowError)
"""What PyArrow raises for a Parquet file whose bytes make no sense."""


def open_parquet(file: pa.NativeFile, *, where: str, buffer_size: int = 0) -> pq.ParquetFile:
    """Open a Parquet file whose bytes nobody vouches for; its Arrow schema is sound.

    ``buffer_size`` > 0 reads pages as a stream through a buffer of that size instead of loading
    whole column chunks.
    """
    _require_footer(file, where=where)
    try:
        parquet = pq.ParquetFile(
            file,
            buffer_size=buffer_size,
            pre_buffer=False,
            thrift_string_size_limit=_MOST_STRING,
            thrift_container_size_limit=_MOST_ITEMS,
        )
        _ = parquet.schema_arrow
    except BROKEN_PARQUET as error:
        raise Corrupt(f"not a sound Parquet file: {error}", where=where) from error
    return parquet


def sound_batches(
    parquet: pq.ParquetFile,
    *,
    where: str,
    rows: int,
    columns: list[str],
    row_groups: list[int] | None = None,
    use_threads: bool = False,
) -> Iterator[pa.RecordBatch]:
    """Yield the columns of the row groups (all of them by default), ``rows`` rows at a time."""
    try:
        for batch in parquet.iter_batches(
            rows, row_groups=row_groups, columns=columns, use_threads=use_threads
        ):
            # Text that is not UTF-8 would fail much later, and far from its file.
            batch.validate(full=True)
            yield batch
    except BROKEN_PARQUET as error:
        raise Corrupt(f"broken Parquet data: {error}", where=where) from error


def _require_footer(file: pa.NativeFile, *, where: str) -> None:
    """Check the file's end, and the footer's length against limits, before it is read whole."""
    size = file.size()
    if size < 12:
        raise Corrupt(f"{size} bytes are too few for a Parquet file", where=where, offset=0)
    file.seek(size - 8)
    tail = file.read(8)
    if tail[4:] != _MAGIC:
        raise Corrupt("the file does not end as a Parquet file does", where=where, offset=size - 4)
    length = int.from_bytes(tail[:4], "little")
    if length > size - 12:
        raise Corrupt(f"a footer of {length} bytes does not fit", where=where, offset=size - 8)
    if length > _MOST_FOOTER:
        raise LimitExceeded(f"{where}: a footer of {length} bytes (limit {_MOST_FOOTER})")
