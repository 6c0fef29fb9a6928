"""Combine before writing: of several incoming rows with one key, the one that counts.

The rows meet as if each had been written after the one before it (``core.merge_rules``): by event
time the largest ordering value stands, the later of equals, a null below all; by commit time the
last that arrived, as Hudi 1.x does (0.x goes by the ordering value then too). A row that is marked
as deleted takes part like any other, and if it stands it is kept: it has yet to delete what the
table holds. Without an ordering value it clears away, except in 0.x, everything before it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehand.core.merge_rules import Dialect
from lakehand.read.columns import joined, row_numbers
from lakehand.read.log_events import deletion_flags, natural_flags, rule_for
from lakehand.read.payload_fold import ranks
from lakehand.write.shapes import RECORD_KEY

if TYPE_CHECKING:
    from lakehand.core.merge_rules import MergeRule
    from lakehand.read.columns import Places

_CLEARED, _NATURAL = -2, -1


def combine(rows: pa.Table, rule: MergeRule) -> pa.Table:
    """Return one row per record key, in order of arrival; the rows are of one partition."""
    rule.require_supported()
    encoded: Any = pc.dictionary_encode(joined([rows.column(RECORD_KEY)]))
    if len(encoded.dictionary) == rows.num_rows:
        return rows
    ids = encoded.indices.to_numpy().astype(np.int64)
    occurrences = np.bincount(ids)
    contested = np.flatnonzero(occurrences[ids] > 1)
    rank = _ranks(rows, contested, ids[contested], rule_for(rule, rows.schema))
    winner = np.empty(len(occurrences), dtype=np.int64)
    winner[ids] = np.arange(len(ids))
    order = np.lexsort((rank, ids[contested]))
    # A repeated index keeps the last value assigned: the highest rank, the later of equals.
    winner[ids[contested[order]]] = contested[order]
    stands = np.zeros(len(ids), dtype=np.bool_)
    stands[winner] = True
    return rows.filter(pa.array(stands))


def _ranks(rows: pa.Table, contested: Places, ids: Places, rule: MergeRule) -> Places:
    """Return a number per contested row: of a key's the highest stands, the later of equals."""
    taken = row_numbers(contested)
    ordering = [joined([rows.column(name)]).take(taken) for name in rule.ordering_fields]
    rank = ranks(ordering, len(ids))
    if not ordering or rule.dialect is Dialect.PAYLOADS:
        return rank
    natural = natural_flags(rows, deletion_flags(rows, rule), rule)[contested]
    if natural.any():
        place = np.arange(len(ids))
        last_natural = np.full(int(ids.max()) + 1, -1, dtype=np.int64)
        last_natural[ids[natural]] = place[natural]
        rank[natural] = _NATURAL
        rank[place < last_natural[ids]] = _CLEARED
    return rank
