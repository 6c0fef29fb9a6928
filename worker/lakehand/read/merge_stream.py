"""One slice's merge, from log events and base batches to merged batches, in bounded memory.

::

    log events ──► gather ──(fits)──► fold ──► merge with the base stream ──► batches
                     │
                 (too large)
                     └──► deal log and base out over spill files ──► the same, part by part

The log is read first, because the base can stream past it and not the other way round.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, assert_never

import numpy as np
import pyarrow as pa

from lakehand.read.log_events import (
    SEQUENCE,
    DeletedKeys,
    LogEvent,
    WrittenRows,
    deletes_batch,
    deletes_schema,
    ordering_types,
)
from lakehand.read.log_winners import fold
from lakehand.read.merge import Meeting, MergeCounts, merge
from lakehand.read.spill import MAX_LEVEL, PARTITIONS, Side, SpilledParts

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from lakehand.core.merge_rules import MergeRule

_LOG_SHARE = 3
"""One part of the limit is for the log as read; folding and merging copy it about twice more."""


@dataclass(frozen=True, slots=True)
class MergeMemory:
    """How much memory one merge may take and where it goes when that is not enough."""

    limit_bytes: int = 1 << 30
    """Bound for what the merge holds at once, in bytes of Arrow data, not a bound for Python."""

    spill_folder: str | None = None
    """Folder for spill files; None is the system's folder for temporary files."""


@dataclass(slots=True)
class _Gathered:
    """The log as far as it was read into memory."""

    rows: list[pa.RecordBatch] = field(default_factory=list)
    deletes: list[pa.RecordBatch] = field(default_factory=list)
    size: int = 0

    def add(self, side: Side, batch: pa.RecordBatch) -> None:
        (self.rows if side is Side.ROWS else self.deletes).append(batch)
        self.size += batch.nbytes


@dataclass(frozen=True, slots=True)
class _Merge:
    """What stays the same on every level of one merge."""

    schema: pa.Schema
    deletes: pa.Schema
    rule: MergeRule
    memory: MergeMemory
    meeting: Meeting
    counts: MergeCounts

    @property
    def rows(self) -> pa.Schema:
        return self.schema.append(pa.field(SEQUENCE, pa.int64()))


def merge_slice(
    base: Iterable[pa.RecordBatch],
    log: Iterable[LogEvent],
    *,
    schema: pa.Schema,
    rule: MergeRule,
    memory: MergeMemory,
    meeting: Meeting = Meeting.FIRST,
    counts: MergeCounts | None = None,
) -> Iterator[pa.RecordBatch]:
    """Yield the merged rows of one slice; all batches, in and out, are of ``schema``.

    ``base`` is not touched before the log was read whole. ``counts`` is counted up.
    """
    deletes = deletes_schema(ordering_types(schema, rule))
    what = _Merge(
        schema=schema,
        deletes=deletes,
        rule=rule,
        memory=memory,
        meeting=meeting,
        counts=counts or MergeCounts(),
    )
    yield from _merge_level(base, _sequenced(log, what), what, level=0)


def _sequenced(log: Iterable[LogEvent], what: _Merge) -> Iterator[tuple[Side, pa.RecordBatch]]:
    """Give the events of the log their sequence numbers."""
    schema = what.rows
    sequence = 0
    for event in log:
        match event:
            case WrittenRows(rows):
                numbers = pa.array(np.arange(sequence, sequence + rows.num_rows))
                yield Side.ROWS, pa.RecordBatch.from_arrays([*rows.columns, numbers], schema=schema)
                sequence += rows.num_rows
            case DeletedKeys():
                yield (
                    Side.DELETES,
                    deletes_batch(event, schema=what.deletes, first_sequence=sequence),
                )
                sequence += len(event.keys)
            case _:
                assert_never(event)


def _merge_level(
    base: Iterable[pa.RecordBatch],
    log: Iterator[tuple[Side, pa.RecordBatch]],
    what: _Merge,
    *,
    level: int,
) -> Iterator[pa.RecordBatch]:
    gathered = _Gathered()
    for side, batch in log:
        gathered.add(side, batch)
        if gathered.size > what.memory.limit_bytes // _LOG_SHARE and level < MAX_LEVEL:
            yield from _merge_spilled(base, gathered, log, what, level=level)
            return
    winners = fold(
        pa.Table.from_batches(gathered.rows, schema=what.rows),
        pa.Table.from_batches(gathered.deletes, schema=what.deletes),
        what.rule,
    )
    del gathered
    yield from merge(base, winners, what.rule, meeting=what.meeting, counts=what.counts)


def _merge_spilled(
    base: Iterable[pa.RecordBatch],
    gathered: _Gathered,
    log: Iterator[tuple[Side, pa.RecordBatch]],
    what: _Merge,
    *,
    level: int,
) -> Iterator[pa.RecordBatch]:
    with (
        tempfile.TemporaryDirectory(prefix="lakehand-", dir=what.memory.spill_folder) as folder,
        SpilledParts(Path(folder), level=level) as parts,
    ):
        for batch in gathered.rows:
            parts.write(Side.ROWS, batch)
        for batch in gathered.deletes:
            parts.write(Side.DELETES, batch)
        gathered.rows.clear()
        gathered.deletes.clear()
        for side, batch in log:
            parts.write(side, batch)
        for batch in base:
            parts.write(Side.BASE, batch)
        parts.finish_writing()
        for part in range(PARTITIONS):
            if parts.is_empty(part):
                continue
            yield from _merge_level(
                parts.read(Side.BASE, part), _log_of(parts, part), what, level=level + 1
            )
            parts.remove(part)


def _log_of(parts: SpilledParts, part: int) -> Iterator[tuple[Side, pa.RecordBatch]]:
    for side in (Side.ROWS, Side.DELETES):
        for batch in parts.read(side, part):
            yield side, batch
