"""What tasks tell of keys that a global index is in doubt about: which rows stand, which come.

A key found in a file need not be there any more: on a merge-on-read table a log may have deleted
it, as it does where a row has moved away. And whether an incoming row may move the one that stands
is said by both rows' ordering values. So of these keys alone the slices are read, as a query would
read them, and the incoming rows are combined.
"""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehand.core.merge_rules import IS_DELETED_COLUMN, OPERATION_COLUMN
from lakehand.read.columns import row_numbers
from lakehand.read.filters import RowFilter
from lakehand.read.log_events import deletion_flags
from lakehand.read.merge_stream import MergeMemory
from lakehand.read.slice_reader import ReadOptions, read_slice
from lakehand.write.combine import combine
from lakehand.write.handles.combining import write_rule
from lakehand.write.lookup import key_predicates
from lakehand.write.shapes import PARTITION_PATH, RECORD_KEY

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lakehand.core.file_slices import FileSlice
    from lakehand.core.timeline import Timeline
    from lakehand.engine.engine import Batches, Turn
    from lakehand.ports import Store
    from lakehand.write.shapes import WriteContext

PLACE: Final = "place"
DELETES: Final = "deletes"


class StandingTask(NamedTuple):
    """A slice, and the keys that were found in it."""

    part: FileSlice
    keys: pa.StringArray


def deciding_fields(context: WriteContext) -> tuple[str, ...]:
    """Return the fields by which a row that stands can win against an incoming one."""
    rule = write_rule(context)
    return rule.ordering_fields if rule.uses_ordering else ()


@dataclass(frozen=True, slots=True)
class FindStanding:
    """Tell which keys of a slice have a row that stands, and its ordering values."""

    opened: Callable[[], Store]
    context: WriteContext
    timeline: Timeline

    def __call__(self, task: StandingTask) -> bytes:
        """Answer with the places of those keys (``PLACE``) and their ``deciding_fields``."""
        names = deciding_fields(self.context)
        if not task.part.log_files and not names:
            everything: Any = row_numbers(np.arange(len(task.keys)))
            return _sent(pa.table({PLACE: everything}))
        rows = self._rows(task, names)
        places: Any = pc.index_in(rows.column(RECORD_KEY), value_set=task.keys)
        return _sent(rows.select(list(names)).append_column(PLACE, places.cast(pa.int64())))

    def _rows(self, task: StandingTask, names: tuple[str, ...]) -> pa.Table:
        context = self.context
        columns = [RECORD_KEY, *names]
        is_asked: Any = pc.field(RECORD_KEY)
        asked = RowFilter(
            is_asked.isin(task.keys), frozenset({RECORD_KEY}), tuple(key_predicates(task.keys))
        )
        memory = MergeMemory(context.settings.memory_bytes, context.settings.spill_folder)
        batches = read_slice(
            self.opened(),
            context.config,
            self.timeline,
            task.part,
            schema=context.schema,
            columns=columns,
            row_filter=asked,
            options=ReadOptions(memory=memory),
        )
        schema = pa.schema([context.schema.field(name) for name in columns])
        return pa.Table.from_batches(batches, schema=schema)


@dataclass(frozen=True, slots=True)
class BestOfKeys:
    """Tell which of the incoming rows of a key counts, whatever partitions they name."""

    context: WriteContext

    def __call__(self, turn: Turn, target: int, rows: Batches) -> Iterator[bytes]:
        """Answer with its key, partition and ``deciding_fields``, and whether it ``DELETES``."""
        del turn, target
        rule = write_rule(self.context)
        told = {IS_DELETED_COLUMN, OPERATION_COLUMN, rule.delete_field, *rule.ordering_fields}
        names = [name for name in self.context.schema.names if name in told]
        columns = [RECORD_KEY, PARTITION_PATH, *names]
        best = combine(pa.Table.from_batches([batch.select(columns) for batch in rows]), rule)
        answer = best.select([RECORD_KEY, PARTITION_PATH, *deciding_fields(self.context)])
        deletes: Any = pa.array(deletion_flags(best, rule))
        yield _sent(answer.append_column(DELETES, deletes))


def _sent(table: pa.Table) -> bytes:
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


def received(answer: bytes) -> pa.Table:
    """Read what either of them told."""
    with pa.ipc.open_stream(answer) as reader:
        return reader.read_all()
