"""Rows of a write, one per key, in bounded memory.

::

    batches ──► gather ──(fits)──► combine ──► batches
                  │
              (too large)
                  └──► deal out over spill files by key ──► the same, part by part
"""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehand.read.columns import row_numbers
from lakehand.read.log_events import deletion_flags, rule_for
from lakehand.read.spill import MAX_LEVEL, PARTITIONS, Side, SpilledParts
from lakehand.write.combine import combine
from lakehand.write.shapes import PARTITION_PATH

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lakehand.core.merge_rules import MergeRule
    from lakehand.read.columns import Flags
    from lakehand.write.shapes import FileSettings, WriteContext

_SHARE = 3
"""One part of the limit is for the rows as they come; combining copies them about twice more."""


def write_rule(context: WriteContext) -> MergeRule:
    """Return the table's merge rule as it applies to the rows of the write."""
    rule = context.config.merge_rule
    rule.require_supported()
    return rule_for(rule, context.schema)


def rows_to_write(
    rows: Iterator[pa.RecordBatch], context: WriteContext
) -> Iterator[pa.RecordBatch]:
    """Yield the rows, those of one key combined if the write does that."""
    if not context.combine:
        yield from rows
        return
    rule = write_rule(context)
    if context.is_deletion:
        rule = replace(rule, ordering_fields=())  # one deletion of a key is like another
    yield from _combined(rows, rule, context.settings, level=0)


def deletions(batch: pa.RecordBatch, rule: MergeRule) -> Flags:
    """Return which rows say of themselves that they delete their key."""
    return deletion_flags(pa.Table.from_batches([batch]), rule)


def without_deletions(rows: Iterator[pa.RecordBatch], rule: MergeRule) -> Iterator[pa.RecordBatch]:
    """Drop the rows that delete: where nothing is, they write nothing."""
    for batch in rows:
        deleted = deletions(batch, rule)
        kept = batch.filter(pa.array(~deleted)) if deleted.any() else batch
        if kept.num_rows:
            yield kept


def pieces(batch: pa.RecordBatch, most_bytes: int) -> Iterator[pa.RecordBatch]:
    """Cut a batch so that no piece is much larger than ``most_bytes``."""
    count = max(1, -(-batch.nbytes // max(1, most_bytes)))
    rows = max(1, -(-batch.num_rows // count))
    for start in range(0, batch.num_rows, rows):
        yield batch.slice(start, rows)


def by_partition(batch: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
    """Yield the rows of each partition path, in order of first appearance, rows in their order."""
    encoded: Any = pc.dictionary_encode(batch.column(PARTITION_PATH))
    partitions = encoded.dictionary.to_pylist()
    if len(partitions) == 1:
        yield partitions[0], batch
        return
    # NumPy sorts short integers by their digits: several times as fast.
    short = np.int16 if len(partitions) <= np.iinfo(np.int16).max else np.int32
    codes = encoded.indices.to_numpy(zero_copy_only=False).astype(short)
    order = np.argsort(codes, kind="stable")
    start = 0
    for partition, count in zip(partitions, np.bincount(codes).tolist(), strict=True):
        # A copy, not a slice: a few rows that wait would keep all the others in memory.
        yield partition, batch.take(row_numbers(order[start : start + count]))
        start += count


def _combined(
    rows: Iterator[pa.RecordBatch], rule: MergeRule, settings: FileSettings, *, level: int
) -> Iterator[pa.RecordBatch]:
    gathered: list[pa.RecordBatch] = []
    size = 0
    for batch in rows:
        gathered.append(batch)
        size += batch.nbytes
        if size > settings.memory_bytes // _SHARE and level < MAX_LEVEL:
            yield from _combined_by_spilling(gathered, rows, rule, settings, level=level)
            return
    if gathered:
        together = pa.Table.from_batches(gathered).combine_chunks().to_batches()
        del gathered
        for batch in together:
            for _, of_one in by_partition(batch):
                yield from combine(pa.Table.from_batches([of_one]), rule).to_batches()


def _combined_by_spilling(
    gathered: list[pa.RecordBatch],
    rest: Iterator[pa.RecordBatch],
    rule: MergeRule,
    settings: FileSettings,
    *,
    level: int,
) -> Iterator[pa.RecordBatch]:
    with (
        tempfile.TemporaryDirectory(prefix="lakehand-", dir=settings.spill_folder) as folder,
        SpilledParts(Path(folder), level=level) as parts,
    ):
        for batch in gathered:
            parts.write(Side.ROWS, batch)
        gathered.clear()
        for batch in rest:
            parts.write(Side.ROWS, batch)
        parts.finish_writing()
        for part in range(PARTITIONS):
            if not parts.is_empty(part):
                again = parts.read(Side.ROWS, part)
                yield from _combined(again, rule, settings, level=level + 1)
                parts.remove(part)
