"""Merge a stream of base batches with the folded log: batches in, batches out.

No row is handled by itself. Each base batch looks its keys up among the winners; rows that are
replaced or deleted leave by a mask, and the rows that replace them follow at once as a batch of
their own, so that what lay together in the base file stays together. Rows of the log whose key
the base file does not have come last.

Careless inserts make base files with several rows of one key. Java's readers then let a winner
meet the *first* of them, and the others stay as they are; its writers, which merge into a new base
file, let it meet every one (``Meeting``).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, unique
from typing import TYPE_CHECKING, Any, NamedTuple

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


@unique
class Meeting(Enum):
    """Which base rows of its key a winner of the log meets."""

    FIRST = "first"
    EVERY = "every"


@dataclass(slots=True)
class MergeCounts:
    """What a merge did to the base rows; complete when the last batch came out."""

    updates: int = 0
    """Base rows that were replaced."""
    deletes: int = 0
    """Base rows that are gone."""
    inserts: int = 0
    """Rows of keys that the base did not have."""


def merge(
    base: Iterable[pa.RecordBatch],
    winners: Winners,
    rule: MergeRule,
    *,
    meeting: Meeting,
    counts: MergeCounts,
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
            met = _meet(batch, places, winners, used, rule, meeting)
            replacing = winners.row_of[met.winner]
            counts.updates += int(np.count_nonzero(replacing >= 0))
            counts.deletes += int(np.count_nonzero(replacing < 0))
            yield from _replace(batch, met.base_rows, winners, replacing[replacing >= 0])
    fresh = winners.row_of[~used & (winners.row_of >= 0)]
    counts.inserts += len(fresh)
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


class _Met(NamedTuple):
    """Base rows of a batch, and for each the winner that it loses to."""

    base_rows: Places
    winner: Places


def _meet(
    batch: pa.RecordBatch,
    found: pa.Int32Array,
    winners: Winners,
    used: Flags,
    rule: MergeRule,
    meeting: Meeting,
) -> _Met:
    hit = found.is_valid().to_numpy(zero_copy_only=False)
    base_rows = np.flatnonzero(hit)
    winner = found.drop_null().to_numpy().astype(np.int64)
    if meeting is Meeting.FIRST:
        base_rows, winner = _first_meetings(base_rows, winner, used)
    used[winner] = True
    if winners.ordering and len(base_rows):
        rows, places = row_numbers(base_rows), row_numbers(winner)
        kept = base_row_wins(
            [batch.column(name).take(rows) for name in rule.ordering_fields],
            [values.take(places) for values in winners.ordering],
            winners.unconditional[winner],
        )
        base_rows, winner = base_rows[~kept], winner[~kept]
    return _Met(base_rows, winner)


def _replace(
    batch: pa.RecordBatch, base_rows: Places, winners: Winners, replacing: Places
) -> Iterator[pa.RecordBatch]:
    if len(base_rows) == 0:
        yield batch
        return
    stays = np.ones(batch.num_rows, dtype=np.bool_)
    stays[base_rows] = False
    yield batch.filter(pa.array(stays))
    yield from _rows(winners, replacing)


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
