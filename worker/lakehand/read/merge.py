"""Merge a stream of base batches with the folded log: batches in, batches out.

No row is handled by itself. Each base batch looks its keys up among the winners; rows that are
replaced or deleted leave by a mask, and the rows that replace them follow at once as a batch of
their own, so that what lay together in the base file stays together. Rows of the log whose key
the base file does not have come last. As in Java's reader, a winner meets the *first* base row
of its key; further rows with that key, which only careless inserts make, stay as they are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehand.read.columns import row_numbers
from lakehand.read.log_events import RECORD_KEY
from lakehand.read.log_winners import Winners, base_row_wins

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from lakehand.core.merge_rules import MergeRule
    from lakehand.read.columns import Flags, Places

OUTPUT_ROWS = 1 << 17
"""Rows of the log that are put into one batch at the end."""


def merge(
    base: Iterable[pa.RecordBatch], winners: Winners, rule: MergeRule
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of ``base`` as the winners of the log leave them, then the new rows."""
    used = np.zeros(len(winners), dtype=np.bool_)
    for group in _groups(base, at_least=len(winners) // 2):
        keys = pa.chunked_array([batch.column(RECORD_KEY) for batch in group])
        found: Any = pc.index_in(keys, value_set=winners.keys)
        found = found.combine_chunks()
        start = 0
        for batch in group:
            places = found.slice(start, batch.num_rows)
            start += batch.num_rows
            yield from _merge_batch(batch, places, winners, used, rule)
    fresh = winners.row_of[~used & (winners.row_of >= 0)]
    for start in range(0, len(fresh), OUTPUT_ROWS):
        yield from _rows(winners, fresh[start : start + OUTPUT_ROWS])


def _groups(base: Iterable[pa.RecordBatch], *, at_least: int) -> Iterator[list[pa.RecordBatch]]:
    """Gather batches, because each look-up builds a hash table of all winners anew."""
    group: list[pa.RecordBatch] = []
    rows = 0
    for batch in base:
        if batch.num_rows == 0:
            continue
        group.append(batch)
        rows += batch.num_rows
        if rows >= at_least:
            yield group
            group, rows = [], 0
    if group:
        yield group


def _merge_batch(
    batch: pa.RecordBatch, found: pa.Int32Array, winners: Winners, used: Flags, rule: MergeRule
) -> Iterator[pa.RecordBatch]:
    if found.null_count == len(found):
        yield batch
        return
    hit = found.is_valid().to_numpy(zero_copy_only=False)
    base_rows = np.flatnonzero(hit)
    winner = found.drop_null().to_numpy().astype(np.int64)
    base_rows, winner = _first_meetings(base_rows, winner, used)
    used[winner] = True
    if winners.ordering:
        rows, places = row_numbers(base_rows), row_numbers(winner)
        kept = base_row_wins(
            [batch.column(name).take(rows) for name in rule.ordering_fields],
            [values.take(places) for values in winners.ordering],
            winners.unconditional[winner],
        )
        base_rows, winner = base_rows[~kept], winner[~kept]
    if len(base_rows) == 0:
        yield batch
        return
    stays = np.ones(batch.num_rows, dtype=np.bool_)
    stays[base_rows] = False
    yield batch.filter(pa.array(stays))
    replacing = winners.row_of[winner]
    yield from _rows(winners, replacing[replacing >= 0])


def _first_meetings(base_rows: Places, winner: Places, used: Flags) -> tuple[Places, Places]:
    """Drop hits of winners that met a base row of their key already."""
    fresh = ~used[winner]
    if not fresh.all():
        base_rows, winner = base_rows[fresh], winner[fresh]
    _, first = np.unique(winner, return_index=True)
    if len(first) < len(winner):
        first.sort()
        base_rows, winner = base_rows[first], winner[first]
    return base_rows, winner


def _rows(winners: Winners, places: Places) -> Iterator[pa.RecordBatch]:
    if len(places):
        yield from winners.rows.take(row_numbers(places)).combine_chunks().to_batches()
