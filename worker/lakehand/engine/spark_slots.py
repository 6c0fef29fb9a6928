"""Which whole numbers Spark's hash partitioning sends to which partition.

Spark has no way to say "this row to partition 7": it hashes a column. So the column gets a number
whose hash leads to the wanted partition.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from lakehand.errors import InvariantBroken

_SEED = np.uint32(42)
_TRIES = 64


def partition_of(numbers: npt.NDArray[np.int32], partitions: int) -> npt.NDArray[np.int64]:
    """Return the partition that Spark sends rows with each of these integers to."""
    with np.errstate(over="ignore"):
        mixed = _rotate(numbers.astype(np.uint32) * np.uint32(0xCC9E2D51), 15)
        hashed = _rotate(_SEED ^ (mixed * np.uint32(0x1B873593)), 13)
        hashed = hashed * np.uint32(5) + np.uint32(0xE6546B64)
        hashed ^= np.uint32(4)  # the length of an integer
        hashed = (hashed ^ (hashed >> np.uint32(16))) * np.uint32(0x85EBCA6B)
        hashed = (hashed ^ (hashed >> np.uint32(13))) * np.uint32(0xC2B2AE35)
        hashed ^= hashed >> np.uint32(16)
    return np.mod(hashed.view(np.int32).astype(np.int64), partitions)


def numbers_for(partitions: int) -> npt.NDArray[np.int32]:
    """Return, for each partition, the smallest number that Spark sends there."""
    tried = np.arange(_TRIES * partitions, dtype=np.int32)
    found, first = np.unique(partition_of(tried, partitions), return_index=True)
    if len(found) != partitions:
        raise InvariantBroken(f"no number leads to some of {partitions} partitions")
    return tried[first]


def _rotate(values: npt.NDArray[np.uint32], bits: int) -> npt.NDArray[np.uint32]:
    return (values << np.uint32(bits)) | (values >> np.uint32(32 - bits))
