"""Between numpy's memory and Arrow's, without copying."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Column: TypeAlias = Any
"""An Arrow array. PyArrow's stubs have a class per type of value; here that is known when run."""

ArrowType: TypeAlias = Any
"""An Arrow type, for the same reason."""


def buffer_of(values: npt.NDArray[Any]) -> pa.Buffer:
    """Return the array's memory, which must lie in row order, as an Arrow buffer."""
    if not values.flags.c_contiguous:
        raise ValueError("the array's memory is not in row order")
    owner: Any = values
    return pa.py_buffer(owner)


def array_over(buffer: pa.Buffer | None, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """Return an Arrow buffer's memory, read-only."""
    return np.frombuffer(b"" if buffer is None else memoryview(buffer), dtype=dtype)


def places(values: npt.NDArray[Any], missing: npt.NDArray[np.bool_] | None = None) -> Column:
    """Return indices for Arrow's ``take``, null where they are ``missing``."""
    return pa.array(values, mask=missing)


def numbers(column: Column) -> npt.NDArray[Any]:
    """Return a column without nulls as numpy's."""
    return np.asarray(column.to_numpy(zero_copy_only=False))


def nulls(count: int, arrow: pa.DataType) -> Column:
    """Return a column of nulls (none, for a type that has no nulls)."""
    kind: Any = arrow
    return pa.nulls(count, kind)
