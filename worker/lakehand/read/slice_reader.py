"""Read one file slice: the seam between a table's view and whoever needs its rows.

::

    no log files     base file ─► row groups that may match ─► filter ─► columns asked for
    with log files   base file + folded log ─► merge ─► filter ─► columns asked for

A comparison may skip row groups of the base file only when no log can change a row's fate, or
when it is about the record key, which no merge changes. Everything else is decided after the
merge: an updated row must be judged by its new values.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa

from lakehand.core.merge_rules import IS_DELETED_COLUMN, OPERATION_COLUMN
from lakehand.read.base_reader import read_base
from lakehand.read.data_path import data_path
from lakehand.read.log_events import RECORD_KEY, rule_for
from lakehand.read.log_reader import read_log
from lakehand.read.merge_stream import MergeMemory, merge_slice

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lakehand.core.file_slices import FileSlice
    from lakehand.core.merge_rules import MergeRule
    from lakehand.core.table_config import TableConfig
    from lakehand.core.timeline import Timeline
    from lakehand.ports import Store
    from lakehand.read.filters import Predicate, RowFilter


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """How much is held at once."""

    batch_rows: int = 1 << 17
    """Rows of a base file per batch. Larger batches merge faster and hold more memory."""

    memory: MergeMemory = field(default_factory=MergeMemory)
    """Bounds for the merge of one slice."""


def read_slice(
    store: Store,
    config: TableConfig,
    timeline: Timeline,
    part: FileSlice,
    *,
    schema: pa.Schema,
    columns: Sequence[str] | None = None,
    row_filter: RowFilter | None = None,
    options: ReadOptions | None = None,
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a slice, with ``columns`` of ``schema`` (None: all of it).

    ``schema`` is the table's with meta columns; ``timeline`` is what the query sees: for time
    travel the one as of that time, from which the slice must have been taken.
    """
    options = options or ReadOptions()
    names = list(schema.names if columns is None else columns)
    needed = set(names) | (row_filter.columns if row_filter else set())
    predicates = row_filter.predicates if row_filter else ()
    if part.log_files:
        config.merge_rule.require_supported()
        rule = rule_for(config.merge_rule, schema)
        wanted = _subset(schema, needed | _merge_columns(schema, rule))
        by_key = tuple(one for one in predicates if one.column == RECORD_KEY)
        log = read_log(
            store,
            timeline,
            config.version,
            part,
            schema=wanted,
            rule=rule,
            batch_rows=options.batch_rows,
        )
        base = _base(store, part, wanted, by_key, options)
        batches = merge_slice(base, log, schema=wanted, rule=rule, memory=options.memory)
    else:
        batches = _base(store, part, _subset(schema, needed), predicates, options)
    for batch in batches:
        kept = batch if row_filter is None else row_filter.apply(batch)
        if kept.num_rows:
            yield kept.select(names)


def _base(
    store: Store,
    part: FileSlice,
    schema: pa.Schema,
    skip: tuple[Predicate, ...],
    options: ReadOptions,
) -> Iterator[pa.RecordBatch]:
    if part.base_file is None:
        return iter(())
    path = data_path(part, part.base_file)
    return read_base(store, path, schema=schema, skip=skip, batch_rows=options.batch_rows)


def _merge_columns(schema: pa.Schema, rule: MergeRule) -> set[str]:
    """Return the columns that the merge looks at, whether asked for or not."""
    wanted = {RECORD_KEY, IS_DELETED_COLUMN, OPERATION_COLUMN, *rule.ordering_fields}
    if rule.delete_field is not None:
        wanted.add(rule.delete_field)
    return wanted.intersection(schema.names)


def _subset(schema: pa.Schema, names: set[str]) -> pa.Schema:
    return pa.schema([column for column in schema if column.name in names])
