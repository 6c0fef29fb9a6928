"""One moment of a table, and the queries on it.

``load_snapshot`` looks at the store once: timeline, files, schema. A ``Scan`` is one query on
that moment: which slices, which columns, which rows. Incremental queries refine one
(``read.incremental``), and a ``Reader`` turns them into what its user wants.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa

from lakehand.core.instants import require_instant_time
from lakehand.errors import Invalid, NotFound
from lakehand.protocol.timeline_loader import load_timeline
from lakehand.read.filters import parse_filter, require_columns
from lakehand.read.pruning import partition_test
from lakehand.read.slice_reader import ReadOptions, read_slice
from lakehand.read.table_schema import resolve_schema
from lakehand.read.table_view import TableView, load_view

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from concurrent.futures import Executor

    from lakehand.core.file_slices import FileSlice
    from lakehand.core.table_config import TableConfig
    from lakehand.core.timeline import Timeline
    from lakehand.ports import Store
    from lakehand.read.filters import Filter, RowFilter

_DATE = re.compile(r"(\d{4})-(\d\d)-(\d\d)(?:[ T](\d\d):(\d\d):(\d\d)(?:\.(\d{3}))?)?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Scan:
    """One snapshot query: ``slices`` can be read in any order, each by ``read``."""

    store: Store
    config: TableConfig
    timeline: Timeline
    slices: tuple[FileSlice, ...]
    schema: pa.Schema
    """What comes out; ``table_schema`` is what the files are read as."""

    table_schema: pa.Schema
    row_filter: RowFilter | None
    options: ReadOptions

    def read(self, part: FileSlice) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one of the slices."""
        batches = read_slice(
            self.store,
            self.config,
            self.timeline,
            part,
            schema=self.table_schema,
            columns=self.schema.names,
            row_filter=self.row_filter,
            options=self.options,
        )
        try:
            yield from batches
        except NotFound as error:
            raise NotFound(
                f"{error}: it was there when the query was planned, so it was cleaned since then; "
                "run the query again, and let clean keep files for longer than queries take"
            ) from error

    def stream(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows of all slices, one after the other."""
        for part in self.slices:
            yield from self.read(part)

    def to_arrow(self, executor: Executor | None = None) -> pa.Table:
        """Return all rows; with an ``executor`` (of threads) slices are read side by side."""
        if executor is None:
            return pa.Table.from_batches(self.stream(), schema=self.schema)
        parts = executor.map(lambda part: list(self.read(part)), self.slices)
        batches = [batch for part in parts for batch in part]
        return pa.Table.from_batches(batches, schema=self.schema)

    def base_files_only(self) -> Scan:
        """Return the read-optimized query: what log files say is left out."""
        parts = (part._replace(log_files=()) for part in self.slices if part.base_file is not None)
        return replace(self, slices=tuple(parts))


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A table's view, for any number of queries."""

    store: Store
    config: TableConfig
    view: TableView

    def schema(self, as_of: str | None = None) -> pa.Schema:
        """Return the table's schema now or then, with the meta columns if the table keeps them."""
        time = None if as_of is None else query_time(as_of)
        return self._schema(time, self.view.slices(time))

    def _schema(self, time: str | None, slices: list[FileSlice]) -> pa.Schema:
        timeline = self.view.timeline_as_of(time)
        return resolve_schema(self.store, self.config, timeline, slices)

    def scan(
        self,
        *,
        columns: Sequence[str] | None = None,
        where: Filter | None = None,
        as_of: str | None = None,
        options: ReadOptions | None = None,
    ) -> Scan:
        """Return the query for these columns and rows, now or as of a time."""
        time = None if as_of is None else query_time(as_of)
        slices = self.view.slices(time)
        return self._scan(
            self.view.timeline_as_of(time),
            slices,
            self._schema(time, slices),
            columns=columns,
            where=where,
            options=options,
        )

    def scan_of_past(
        self,
        past: TableView,
        *,
        columns: Sequence[str] | None = None,
        where: Filter | None = None,
        options: ReadOptions | None = None,
    ) -> Scan:
        """Return the query of a past state, in the table's present schema."""
        slices = past.slices()
        schema = self._schema(None, slices)
        return self._scan(
            past.timeline, slices, schema, columns=columns, where=where, options=options
        )

    def _scan(
        self,
        timeline: Timeline,
        slices: list[FileSlice],
        schema: pa.Schema,
        *,
        columns: Sequence[str] | None,
        where: Filter | None,
        options: ReadOptions | None,
    ) -> Scan:
        names = schema.names if columns is None else list(columns)
        require_columns(names, schema)
        row_filter = parse_filter(where, schema)
        may_hold = partition_test(row_filter, self.config.partitioning, schema)
        return Scan(
            store=self.store,
            config=self.config,
            timeline=timeline,
            slices=tuple(part for part in slices if may_hold(part.partition)),
            schema=pa.schema([schema.field(name) for name in names]),
            table_schema=schema,
            row_filter=row_filter,
            options=options or ReadOptions(),
        )


def load_snapshot(store: Store, config: TableConfig) -> Snapshot:
    """Look at the table now."""
    view = load_view(store, config, load_timeline(store, config))
    return Snapshot(store, config, view)


def query_time(text: str) -> str:
    """Return the instant time that a user's ``as_of`` means: an instant time or a date."""
    found = _DATE.fullmatch(text)
    if found is None:
        return require_instant_time(text)
    year, month, day, hour, minute, second, millis = found.groups(default="")
    if not 1 <= int(month) <= 12 or not 1 <= int(day) <= 31:
        raise Invalid(f"{text!r} is no date")
    clock = f"{hour or '00'}{minute or '00'}{second or '00'}{millis or '000'}"
    return f"{year}{month}{day}{clock}"
