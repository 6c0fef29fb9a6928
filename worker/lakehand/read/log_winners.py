"""Fold the log of a slice: of all events of a key, the one that stands against the base file.

The rules (format reference 3.4), for whole columns at once:

* commit time: the last event of a key wins;
* event time: the largest ordering value wins, the later of equals; a null is the smallest.
  A natural delete beats everything before it, and any later row beats it; an ordered delete
  entry that follows a natural delete changes nothing while the key is deleted.

Against the base row the winner loses only if the base row's ordering value is strictly larger,
never under commit time and never if it is a natural delete.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehand.core.merge_rules import Dialect
from lakehand.read.columns import flags, joined, order_by, row_numbers
from lakehand.read.log_events import (
    NATURAL,
    RECORD_KEY,
    SEQUENCE,
    delete_ordering,
    deletion_flags,
    natural_flags,
)
from lakehand.read.payload_fold import payload_winners

if TYPE_CHECKING:
    from lakehand.core.merge_rules import MergeRule
    from lakehand.read.columns import Flags, Places


@dataclass(frozen=True, slots=True)
class Winners:
    """One event per key of the log.

    ``rows`` holds the rows; ``row_of`` says which of them belongs to a key (-1: the key is
    deleted). ``unconditional`` marks deletes that the base row cannot survive. ``ordering`` is
    empty where the log always wins over the base.
    """

    keys: pa.Array[Any]
    rows: pa.Table
    row_of: Places
    unconditional: Flags
    ordering: tuple[pa.Array[Any], ...]

    def __len__(self) -> int:
        """Return the number of keys in the log."""
        return len(self.keys)


@dataclass(frozen=True, slots=True)
class _Events:
    """All events side by side: the written rows first, then the delete entries."""

    keys: pa.Array[Any]
    sequence: Places
    deleted: Flags
    natural: Flags
    ordering: list[pa.Array[Any]]
    written: int

    @property
    def is_entry(self) -> Flags:
        """Which events are entries of delete blocks."""
        return np.arange(len(self.sequence)) >= self.written


def fold(rows: pa.Table, deletes: pa.Table, rule: MergeRule) -> Winners:
    """Return the winning event of each key; ``rows`` and ``deletes`` carry ``SEQUENCE``."""
    events = _gather(rows, deletes, rule)
    encoded: Any = pc.dictionary_encode(events.keys)
    ids = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    count = len(encoded.dictionary)
    if count == len(ids):
        winner = np.arange(count, dtype=np.int64)
    elif rule.dialect is Dialect.PAYLOADS:
        winner = payload_winners(
            ids,
            events.sequence,
            deletes=events.is_entry,
            natural=events.natural,
            ordering=events.ordering,
        )
    else:
        winner = np.empty(count, dtype=np.int64)
        order = _fold_order(events, ids, count)
        # A repeated index keeps the last value assigned: the last in order wins.
        winner[ids[order]] = order
    taken = row_numbers(winner)
    return Winners(
        keys=events.keys.take(taken),
        rows=rows.drop_columns([SEQUENCE]).combine_chunks(),
        row_of=np.where(events.deleted[winner], -1, winner),
        unconditional=_unconditional(events, rule)[winner],
        ordering=tuple(values.take(taken) for values in events.ordering)
        if rule.uses_ordering
        else (),
    )


def _unconditional(events: _Events, rule: MergeRule) -> Flags:
    """Return which events, if they win in the log, delete the base row whatever it says."""
    return events.is_entry if rule.dialect is Dialect.PAYLOADS else events.natural


def _gather(rows: pa.Table, deletes: pa.Table, rule: MergeRule) -> _Events:
    marked = deletion_flags(rows, rule)
    ordering = []
    if rule.orders_log:
        of_deletes = delete_ordering(deletes)
        for name, values in zip(rule.ordering_fields, of_deletes, strict=True):
            ordering.append(joined([rows.column(name), values]))
    return _Events(
        keys=joined([rows.column(RECORD_KEY), deletes.column(RECORD_KEY)]),
        sequence=np.concatenate([each.column(SEQUENCE).to_numpy() for each in (rows, deletes)]),
        deleted=np.concatenate([marked, np.ones(deletes.num_rows, dtype=np.bool_)]),
        natural=np.concatenate([natural_flags(rows, marked, rule), flags(deletes.column(NATURAL))]),
        ordering=ordering,
        written=rows.num_rows,
    )


def _fold_order(events: _Events, ids: Places, count: int) -> Places:
    """Return the eligible events so that each key's winner comes last."""
    in_log_order = np.argsort(events.sequence, kind="stable")
    if not events.ordering:
        return in_log_order
    eligible = _eligible(events, ids, count, in_log_order)
    occurrences = np.bincount(ids, minlength=count)
    alone = occurrences[ids] == 1
    contested = np.flatnonzero(eligible & ~alone)
    columns: dict[str, Any] = {"natural": pa.array(~events.natural[contested])}
    for number, values in enumerate(events.ordering):
        competing = values.take(row_numbers(contested))
        columns[f"is_there{number}"] = competing.is_valid()
        columns[f"ordering{number}"] = competing
    columns["sequence"] = pa.array(events.sequence[contested])
    return np.concatenate([np.flatnonzero(alone), contested[order_by(columns)]])


def _eligible(events: _Events, ids: Places, count: int, in_log_order: Places) -> Flags:
    """Return which events still matter after the natural deletes had their say."""
    eligible = np.ones(len(ids), dtype=np.bool_)
    if not events.natural.any():
        return eligible
    nothing = np.int64(-1)
    last_natural = np.full(count, nothing)
    naturals = in_log_order[events.natural[in_log_order]]
    last_natural[ids[naturals]] = events.sequence[naturals]
    since = last_natural[ids]
    eligible = events.sequence >= since
    # While a key is naturally deleted, Java drops ordered delete entries unseen: such an entry
    # counts only after the first row that brings the key back.
    first_return = np.full(count, np.iinfo(np.int64).max)
    is_row = ~events.is_entry
    backwards = in_log_order[::-1]
    returns = backwards[(is_row & (events.sequence > since) & (since >= 0))[backwards]]
    first_return[ids[returns]] = events.sequence[returns]
    unseen = ~is_row & ~events.natural & (since >= 0) & (events.sequence < first_return[ids])
    return eligible & ~unseen


def base_row_wins(
    base: list[pa.Array[Any]], log: list[pa.Array[Any]], unconditional: Flags
) -> Flags:
    """Return where the base row's ordering tuple is strictly larger than the log winner's."""
    larger = np.zeros(len(unconditional), dtype=np.bool_)
    undecided = ~unconditional
    for base_values, log_values in zip(base, log, strict=True):
        base_there, log_there = flags(base_values.is_valid()), flags(log_values.is_valid())
        above = flags(pc.greater(base_values, log_values))
        below = flags(pc.less(base_values, log_values))
        above |= base_there & ~log_there
        below |= ~base_there & log_there
        larger |= undecided & above
        undecided &= ~(above | below)
    return larger
