"""The work of a write that is done in tasks: plain data that pickles, with one call each.

A task opens its own store, by the address that it was given.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from lakehand.core.file_slices import FIRST_VERSION_BY_COMPLETION
from lakehand.engine import payloads
from lakehand.write import index
from lakehand.write.handles.bulk import write_partitioned
from lakehand.write.handles.group import write_group
from lakehand.write.shapes import PARTITION_PATH, RECORD_KEY, Try

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lakehand.core.table_config import TableConfig
    from lakehand.core.timeline import Timeline
    from lakehand.engine.engine import Batches, Turn
    from lakehand.ports import Store
    from lakehand.write.incoming import Prepare
    from lakehand.write.shapes import GroupTask, WriteContext

_TRIES = 16

_ROWS_AT_ONCE = 1 << 18
_BYTES_AT_ONCE = 32 << 20
"""Spark gives ten thousand rows at a time; dealt out to partitions these are small change."""


def keys_of(keyed: pa.RecordBatch) -> bytes:
    """Tell the driver the keys and partitions of a parcel."""
    paths: Any = pc.dictionary_encode(keyed.column(PARTITION_PATH))
    columns = [keyed.column(RECORD_KEY), paths]
    encoded = pa.RecordBatch.from_arrays(columns, names=[RECORD_KEY, PARTITION_PATH])
    return payloads.to_bytes(encoded).to_pybytes()


def partition_of(keyed: pa.RecordBatch) -> bytes:
    """Tell the driver the partition of a parcel whose rows have one."""
    return str(keyed.column(PARTITION_PATH)[0].as_py()).encode()


def received(digest: bytes) -> pa.RecordBatch:
    """Read what ``keys_of`` told."""
    return payloads.from_bytes(digest)


@dataclass(frozen=True, slots=True)
class FindKeys:
    """Look keys up in file slices."""

    opened: Callable[[], Store]
    config: TableConfig
    timeline: Timeline
    use_bloom: bool

    def __call__(self, task: index.LookupTask) -> bytes:
        """Return which keys were found where, for ``index.locate``."""
        return index.answer(
            self.opened(), self.config, self.timeline, task, use_bloom=self.use_bloom
        )


@dataclass(frozen=True, slots=True)
class WriteGroups:
    """Write the rows of one target to its file group."""

    opened: Callable[[], Store]
    context: WriteContext
    tasks: tuple[GroupTask, ...]

    def __call__(self, turn: Turn, target: int, rows: Batches) -> Iterator[bytes]:
        """Answer with the files that were staged."""
        tried = Try(target, _attempt_number(self.context, turn))
        for file in write_group(self.opened(), self.context, self.tasks[target], rows, tried):
            yield file.to_json()


@dataclass(frozen=True, slots=True)
class TakeAway:
    """Take the keys that leave it out of a file group that gets no rows."""

    write: WriteGroups

    def __call__(self, turn: Turn, target: int, rows: Batches) -> Iterator[bytes]:
        """Answer with the files that were staged; the rows are written elsewhere."""
        del rows
        return self.write(turn, target, iter(()))


def _attempt_number(context: WriteContext, turn: Turn) -> int:
    """Return the last number of a write token.

    Up to table version 7 a log file's name does not bear the instant that writes it: two writers of
    one slice choose the same number for their next log file. Theirs must not be one name, or the
    rollback of one would delete what the other committed. So the token tells the instant's time of
    day, to the millisecond, in a number that Java can hold.
    """
    if context.config.version >= FIRST_VERSION_BY_COMPLETION:
        return turn.attempt
    day = context.time[8:17]
    seconds = (int(day[:2]) * 60 + int(day[2:4])) * 60 + int(day[4:6])
    return (seconds * 1000 + int(day[6:9].ljust(3, "0"))) * _TRIES + turn.attempt % _TRIES


@dataclass(frozen=True, slots=True)
class WriteNew:
    """Prepare rows and write them to new file groups in one pass."""

    opened: Callable[[], Store]
    context: WriteContext
    prepare: Prepare
    seed: str

    def __call__(self, turn: Turn, batches: Batches) -> Iterator[bytes]:
        """Answer with the files that were staged."""
        tried = Try(turn.task, turn.attempt)
        rows = payloads.gather(
            self.prepare.batches(batches), rows=_ROWS_AT_ONCE, size=_BYTES_AT_ONCE
        )
        for file in write_partitioned(self.opened(), self.context, self.seed, rows, tried):
            yield file.to_json()
