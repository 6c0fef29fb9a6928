"""One moment of a table, and the queries on it.

``load_snapshot`` looks at the store once: timeline, files, schema. A ``Scan`` is one query on
that moment: which slices, which columns, which rows.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from lakehand.core.instants import require_instant_time
from lakehand.errors import Invalid
from lakehand.protocol.timeline_loader import load_timeline
from lakehand.read.filters import parse_filter, require_columns
from lakehand.read.pruning import partition_test
from lakehand.read.slice_reader import ReadOptions, read_slice
from lakehand.read.table_schema import resolve_schema
from lakehand.read.table_view import TableView, load_view

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

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
        return read_slice(
            self.store,
            self.config,
            self.timeline,
            part,
            schema=self.table_schema,
            columns=self.schema.names,
            row_filter=self.row_filter,
            options=self.options,
        )

    def stream(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows of all slices, one after the other."""
        for part in self.slices:
            yield from self.read(part)


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
        schema = self._schema(time, slices)
        names = schema.names if columns is None else list(columns)
        require_columns(names, schema)
        row_filter = parse_filter(where, schema)
        may_hold = partition_test(row_filter, self.config.partitioning, schema)
        return Scan(
            store=self.store,
            config=self.config,
            timeline=self.view.timeline_as_of(time),
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
