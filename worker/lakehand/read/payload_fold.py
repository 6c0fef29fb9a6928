"""Fold a log as the payload classes of Hudi 0.14 and 0.15 do.

They compare ordering values among log events also where the newest is to win over the base file,
and a delete entry that stands is a clean slate: any later row takes its place. So the winner of a
key depends on the order of its rows and deletes, and is found run by run: within a run of rows
the largest ordering value stands (the later of equals), within a run of delete entries the
largest decides whether the run deletes. Runs are few; what is done per round is done for all
keys at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow.compute as pc

from lakehand.read.columns import flags, order_by, row_numbers

if TYPE_CHECKING:
    import pyarrow as pa

    from lakehand.read.columns import Flags, Places

_ALWAYS = np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True)
class _Runs:
    """Neighbouring events of one key and kind, in order of key and sequence."""

    key: Places
    deletes: Flags
    rank: Places
    event: Places
    """The event that stands for the run."""


def payload_winners(
    ids: Places,
    sequence: Places,
    *,
    deletes: Flags,
    natural: Flags,
    ordering: list[pa.Array[Any]],
) -> Places:
    """Return the winning event of each key; ``ids`` number the keys without gaps."""
    rank = np.where(natural & deletes, _ALWAYS, ranks(ordering, len(ids)))
    runs = _runs(ids, sequence, deletes, rank)
    first = np.flatnonzero(np.append(True, runs.key[1:] != runs.key[:-1]))
    length = np.diff(np.append(first, len(runs.key)))
    standing = first.copy()
    for number in range(1, int(length.max(initial=0))):
        going = np.flatnonzero(length > number)
        held, coming = standing[going], first[going] + number
        takes = runs.deletes[held] | (runs.rank[coming] >= runs.rank[held])
        standing[going[takes]] = coming[takes]
    winners = np.empty(len(first), dtype=np.int64)
    winners[runs.key[first]] = runs.event[standing]
    return winners


def _runs(ids: Places, sequence: Places, deletes: Flags, rank: Places) -> _Runs:
    order = np.lexsort((sequence, ids))
    ids, deletes, rank = ids[order], deletes[order], rank[order]
    begins = np.append(True, (ids[1:] != ids[:-1]) | (deletes[1:] != deletes[:-1]))
    starts = np.flatnonzero(begins)
    run_of = np.cumsum(begins) - 1
    largest = np.maximum.reduceat(rank, starts)
    event = np.empty(len(starts), dtype=np.int64)
    stands = rank == largest[run_of]
    # A repeated index keeps the last value assigned: the later of equals.
    event[run_of[stands]] = order[stands]
    return _Runs(ids[starts], deletes[starts], largest, event)


def ranks(ordering: list[pa.Array[Any]], count: int) -> Places:
    """Return a number per event that orders events as their ordering tuples do, nulls first."""
    columns: dict[str, Any] = {}
    for number, values in enumerate(ordering):
        columns[f"there{number}"] = values.is_valid()
        columns[f"value{number}"] = values
    if not columns or not count:
        return np.zeros(count, dtype=np.int64)
    order = order_by(columns)
    differs = np.zeros(count - 1, dtype=np.bool_)
    for values in columns.values():
        sorted_values = values.take(row_numbers(order))
        differs |= flags(pc.not_equal(sorted_values[1:], sorted_values[:-1]))
    result = np.empty(count, dtype=np.int64)
    result[order] = np.append(0, np.cumsum(differs))
    return result
