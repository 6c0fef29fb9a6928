"""The log files of a slice as events, in the order in which they count.

Headers of all blocks are read first; ``core.log_validity`` then says which blocks count and in
which order; only those are decoded. What is passed over (corrupt stretches, CDC blocks, blocks of
uncommitted or rolled back instants) is in the scan's selection, for whoever counts it.
"""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, assert_never

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from lakehand.core.log_validity import BlockHeader, BlockKind, BlockSelection, select_blocks
from lakehand.errors import Corrupt, Unsupported
from lakehand.formats import log_records
from lakehand.formats.log_deletes import Deletes, Ordering, OrderingKind
from lakehand.formats.log_file import BlockType, LogBlock, LogLimits, read_blocks
from lakehand.read.alignment import align
from lakehand.read.columns import nulls
from lakehand.read.data_path import data_path
from lakehand.read.log_events import RECORD_KEY, DeletedKeys, LogEvent, WrittenRows, ordering_types

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from lakehand.core.file_slices import FileSlice
    from lakehand.core.merge_rules import MergeRule
    from lakehand.core.timeline import Timeline
    from lakehand.ports import Store

_KIND_OF = {
    BlockType.COMMAND: BlockKind.ROLLBACK,
    BlockType.DELETE: BlockKind.DELETE,
    BlockType.CORRUPT: BlockKind.CORRUPT,
    BlockType.AVRO_DATA: BlockKind.DATA,
    BlockType.HFILE_DATA: BlockKind.DATA,
    BlockType.PARQUET_DATA: BlockKind.DATA,
    BlockType.CDC_DATA: BlockKind.CDC,
}


@dataclass(frozen=True, slots=True)
class LogScan:
    """The blocks of a slice's log files and which of them count."""

    blocks: tuple[LogBlock, ...]
    selection: BlockSelection

    def counting(self) -> Iterator[LogBlock]:
        """Yield the blocks that count, oldest first."""
        for index in self.selection.read:
            yield self.blocks[index]


@contextmanager
def scan_log(
    store: Store,
    timeline: Timeline,
    version: int,
    part: FileSlice,
    *,
    limits: LogLimits | None = None,
) -> Iterator[LogScan]:
    """Read the headers of a slice's log files; the blocks can be read within the ``with`` block."""
    with ExitStack() as files:
        blocks: list[LogBlock] = []
        for entry in part.log_files:
            path = data_path(part, entry)
            file = files.enter_context(store.open(path))
            blocks += read_blocks(file, where=path, limits=limits)
        selection = select_blocks([_header(block) for block in blocks], timeline, version)
        yield LogScan(tuple(blocks), selection)


def _header(block: LogBlock) -> BlockHeader:
    kind = _KIND_OF[block.type]
    instant = block.instant_time
    if instant is None:
        if kind in {BlockKind.DATA, BlockKind.DELETE}:
            raise Corrupt("a block without an instant", where=block.where, offset=block.offset)
        instant = ""
    return BlockHeader(
        kind=kind,
        instant=instant,
        target=block.target_instant_time if kind is BlockKind.ROLLBACK else None,
        compacted_times=block.compacted_block_times,
    )


def read_log(
    store: Store,
    timeline: Timeline,
    version: int,
    part: FileSlice,
    *,
    schema: pa.Schema,
    rule: MergeRule,
    batch_rows: int,
    limits: LogLimits | None = None,
) -> Iterator[LogEvent]:
    """Yield what the log says, with rows as ``schema``; ``rule`` names the ordering fields."""
    types = ordering_types(schema, rule)
    with scan_log(store, timeline, version, part, limits=limits) as scan:
        for block in scan.counting():
            yield from _events(block, schema, types, batch_rows)


def _events(
    block: LogBlock, schema: pa.Schema, types: list[pa.DataType], batch_rows: int
) -> Iterator[LogEvent]:
    where = f"{block.where}, byte {block.offset}"
    if block.is_partial:
        raise Unsupported(
            f"{where}: a block of partial updates is not supported: "
            "compact the table with Hudi first"
        )
    match block.type:
        case BlockType.AVRO_DATA | BlockType.PARQUET_DATA:
            for batch in log_records.read_data(block, columns=schema.names, batch_rows=batch_rows):
                rows = align(batch, schema, where=where)
                _require_keys(rows.column(RECORD_KEY), block)
                yield WrittenRows(rows)
        case BlockType.DELETE:
            deletes = log_records.read_deletes(block)
            _require_keys(deletes.record_keys, block)
            yield deleted_keys(deletes, types)
        case BlockType.HFILE_DATA:
            raise Unsupported(
                f"{where}: HFILE data blocks are not supported outside of the metadata table"
            )
        case BlockType.COMMAND | BlockType.CORRUPT | BlockType.CDC_DATA:
            return
        case _:
            assert_never(block.type)


def _require_keys(keys: pa.Array[Any], block: LogBlock) -> None:
    if keys.null_count:
        raise block.corrupt(f"{keys.null_count} records without a record key")


def deleted_keys(deletes: Deletes, types: list[pa.DataType]) -> DeletedKeys:
    """Return delete entries with their ordering values in the ordering columns' types.

    An ordering value of a type that cannot be compared with the column's deletes whatever the
    row says, as in Hudi.
    """
    natural = np.asarray(deletes.ordering.always_wins())
    columns = []
    for number, kind in enumerate(types):
        part = _field(deletes.ordering, number, len(types))
        values, lost = _as_column(part, kind, len(deletes))
        natural = natural | lost
        columns.append(values)
    return DeletedKeys(deletes.record_keys, pa.array(natural), tuple(columns))


def _field(ordering: Ordering, number: int, fields: int) -> Ordering:
    """Return the values of one ordering field; single values stand for the first of one field."""
    if ordering.parts:
        if number < len(ordering.parts):
            return ordering.parts[number]
        return Ordering(np.zeros_like(ordering.kinds))
    return ordering if fields == 1 else Ordering(np.zeros_like(ordering.kinds))


def _as_column(
    ordering: Ordering, target: pa.DataType, count: int
) -> tuple[pa.Array[Any], npt.NDArray[np.bool_]]:
    """Return the values as ``target`` and where a value is there but cannot become that."""
    result: Any = nulls(count, target)
    lost = np.zeros(count, dtype=np.bool_)
    for kind, values in ordering.values.items():
        converted = _converted(kind, values, target)
        if converted is None:
            lost |= np.asarray(ordering.kinds == kind)
        else:
            result = pc.coalesce(result, converted)
    return result, lost


def _converted(
    kind: OrderingKind, values: pa.Array[Any], target: pa.DataType
) -> pa.Array[Any] | None:
    try:
        if pt.is_timestamp(target) and pt.is_int64(values.type):
            # Java writes a timestamp's number in the unit of the column.
            return values.view(pa.timestamp(target.unit)).cast(target)
        if pt.is_date32(target) and kind is OrderingKind.INT:
            return values.view(pa.date32())
        return values.cast(target)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None
