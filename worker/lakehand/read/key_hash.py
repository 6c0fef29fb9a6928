"""A hash of record keys, computed for a whole column at once.

It only has to spread keys over spill files, the same way on the base side and the log side of a
merge; it is never stored. NumPy does the work: a polynomial over each key's bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt
    import pyarrow as pa

_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
_FINAL_MULTIPLIER = np.uint64(0xFF51AFD7ED558CCD)


def hash_keys(column: pa.Array[Any]) -> npt.NDArray[np.uint64]:
    """Return one 64-bit hash per key of a string column without nulls."""
    keys: Any = column
    if len(keys) == 0:
        return np.zeros(0, dtype=np.uint64)
    offsets = np.frombuffer(keys.buffers()[1], dtype=np.int32)
    offsets = offsets[keys.offset : keys.offset + len(keys) + 1].astype(np.int64)
    first, last = int(offsets[0]), int(offsets[-1])
    lengths = np.diff(offsets)
    sums = np.zeros(len(keys), dtype=np.uint64)
    if last > first:
        content = np.frombuffer(keys.buffers()[2], dtype=np.uint8)[first:last]
        place = np.arange(last - first) - np.repeat(offsets[:-1] - first, lengths)
        powers = np.cumprod(np.full(int(lengths.max()), _MULTIPLIER))
        terms = (content.astype(np.uint64) + np.uint64(1)) * powers[place]
        filled = lengths > 0
        sums[filled] = np.add.reduceat(terms, (offsets[:-1] - first)[filled])
    sums ^= sums >> np.uint64(33)
    sums *= _FINAL_MULTIPLIER
    return sums ^ (sums >> np.uint64(33))
