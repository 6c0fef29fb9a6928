"""The seam between Arrow's columns and NumPy's: where the merge leaves one for the other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    import numpy.typing as npt

    Flags = npt.NDArray[np.bool_]
    Places = npt.NDArray[np.int64]
    Column = pa.Array[Any] | pa.ChunkedArray[Any]


def flags(values: Column) -> Flags:
    """Return a boolean column as NumPy booleans; null is false."""
    column: Any = values
    known = column.fill_null(False)
    if isinstance(known, pa.ChunkedArray):
        known = known.combine_chunks()
    found: Flags = known.to_numpy(zero_copy_only=False)
    return found


def row_numbers(places: Places) -> pa.Int64Array:
    """Return places as an Arrow column, for ``take``."""
    numbers: pa.Int64Array = pa.array(places, pa.int64())
    return numbers


def nulls(count: int, kind: pa.DataType) -> pa.Array[Any]:
    """Return a column of nulls."""
    kind_of_any: Any = kind
    column: pa.Array[Any] = pa.nulls(count, kind_of_any)
    return column


def joined(pieces: list[pa.ChunkedArray[Any]]) -> pa.Array[Any]:
    """Return chunked columns of one type as one array, one behind the other."""
    chunks = [chunk for piece in pieces for chunk in piece.chunks]
    if not chunks:
        return nulls(0, pieces[0].type)
    return chunks[0] if len(chunks) == 1 else pa.concat_arrays(chunks)


def order_by(columns: dict[str, Any]) -> Places:
    """Return the order of rows by the columns, first column first, all ascending."""
    sort_keys: Any = [(name, "ascending") for name in columns]
    found: Places = np.asarray(pc.sort_indices(pa.table(columns), sort_keys=sort_keys))
    return found.astype(np.int64)
