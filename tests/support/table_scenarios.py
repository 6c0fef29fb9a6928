"""What happens to a table of the matrix after its first writes: one short story for each state."""

from __future__ import annotations

from typing import TYPE_CHECKING

import table_builder_services as services
import table_builder_timeline as timeline
from table_builder import TableBuilder
from table_builder_files import SMALL_BLOOM
from table_builder_rollback import roll_back
from table_builder_rows import paths
from table_matrix import Cell, TableState

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from lakehand.formats.base_file import BaseFileOptions
    from table_builder_rows import Shape


def build(cell: Cell, folder: Path) -> TableBuilder:
    table = start(cell.shape, folder)
    _STORIES[cell.state](table)
    return table


def start(
    shape: Shape,
    folder: Path,
    *,
    log_only_groups: bool = True,
    base_file_options: BaseFileOptions = SMALL_BLOOM,
) -> TableBuilder:
    """Two inserts, an upsert with new keys, and late rows that must lose where event time rules."""
    table = TableBuilder(folder, shape, base_file_options=base_file_options)
    table.insert(range(18))
    table.insert(range(18, 24), to_logs=shape.merge_on_read and log_only_groups)
    table.upsert([*range(0, 24, 3), 30, 31, 35])
    table.upsert(range(1, 20, 4), late=True)
    return table


def _plain(table: TableBuilder) -> None:
    table.upsert(range(6, 12))


def _deletes(table: TableBuilder) -> None:
    """Some rows, a whole group's rows, and one that comes back."""
    table.delete([0, 1, 5, 30])
    table.delete(range(18, 24))
    table.upsert([1, 19, 2])
    table.delete([2])


def _pending_write(table: TableBuilder) -> None:
    """Two of them, one overtaken by a write that completed."""
    table.begin_upsert(table.make_rows([*range(12), 40, 41]))
    table.insert(range(50, 56))
    table.begin_delete(range(3))


def _rolled_back(table: TableBuilder) -> None:
    """In version 6 the rolled-back instants are then older than the active timeline: from there
    on only the command blocks say that their blocks do not count."""
    roll_back(table, table.begin_upsert(table.make_rows([*range(9), 42, 43])))
    table.upsert(range(3, 6))
    roll_back(table, table.begin_delete(range(4)))
    table.upsert([6])
    if table.shape.version == 6:
        timeline.forget(table, {one.time for one in timeline.instants(table)} - {table.last_write})
        del table.history[:-1]


def _replaced(table: TableBuilder) -> None:
    partition = paths(table.shape)[-1]
    table.insert_overwrite(partition, range(100, 112))
    table.upsert([2, 5, 101, 102])


def _clustered(table: TableBuilder) -> None:
    """One clustering done, another one pending."""
    partitions = paths(table.shape)
    done = services.schedule_clustering(table, partitions[:2])
    services.execute_clustering(table, done)
    table.upsert(range(0, 12, 2))
    services.schedule_clustering(table, partitions[-1:])


def _compaction_pending(table: TableBuilder) -> None:
    services.schedule_compaction(table)
    table.upsert([*range(0, 12, 2), 36])
    table.delete([3, 4])


def _compacted(table: TableBuilder) -> None:
    """Delta commits before, between plan and execution, and after; from version 8 on one of them
    began before the plan and completed after it."""
    straddling = None
    if table.shape.version != 6:
        straddling = table.begin_upsert(table.make_rows(range(5)))
    plan = services.schedule_compaction(table)
    if straddling is not None:
        table.complete(straddling)
    table.upsert(range(4, 9))
    services.execute_compaction(table, plan)
    table.upsert(range(8, 12))
    table.delete([9, 10])


def _log_compacted(table: TableBuilder) -> None:
    table.upsert(range(10))
    table.delete([4])
    services.compact_logs(table)
    table.upsert(range(8, 13))


def _cleaned(table: TableBuilder) -> None:
    table.upsert(range(4))
    services.make_savepoint(table)
    table.upsert(range(2, 8))
    if table.shape.merge_on_read:
        services.execute_compaction(table, services.schedule_compaction(table))
    table.upsert(range(6, 16))
    if table.shape.merge_on_read:
        services.execute_compaction(table, services.schedule_compaction(table))
    assert services.clean_up(table)
    table.upsert([1, 2])


_STORIES: dict[TableState, Callable[[TableBuilder], None]] = {
    TableState.PLAIN: _plain,
    TableState.DELETES: _deletes,
    TableState.PENDING_WRITE: _pending_write,
    TableState.ROLLED_BACK: _rolled_back,
    TableState.REPLACED: _replaced,
    TableState.CLUSTERED: _clustered,
    TableState.COMPACTION_PENDING: _compaction_pending,
    TableState.COMPACTED: _compacted,
    TableState.LOG_COMPACTED: _log_compacted,
    TableState.CLEANED: _cleaned,
}
