"""The queries of a table, for whoever wants rows: what ``Table.read`` returns.

::

    reader = table.read()                      # Arrow tables
    reader = table.read(spark)                 # DataFrames
    reader.snapshot(columns=["id", "amount"], where=[("city", "=", "Oslo")])
    end = reader.newest()
    reader.incremental(begin, end)             # the next one begins at ``end``

Each query looks at the store anew and sees one moment of the table; a DataFrame keeps to the
moment in which it was made, however often it is used. ``answer`` turns the planned query into
what the reader's user wants.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, TypeVar

from lakehand.protocol.timeline_loader import load_timeline
from lakehand.read.incremental import incremental_scan, newest_time
from lakehand.read.snapshot import load_snapshot

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lakehand.core.table_config import TableConfig
    from lakehand.ports import Store
    from lakehand.read.filters import Filter
    from lakehand.read.slice_reader import ReadOptions
    from lakehand.read.snapshot import Scan

Frame = TypeVar("Frame")


@dataclass(frozen=True, slots=True)
class Reader(Generic[Frame]):
    """``columns`` None is all of them, meta columns first.

    ``where`` is a list of (column, operator, value) that must all hold, or an Arrow expression;
    both are applied while reading, and what they make needless is not read: columns, partitions,
    row groups.
    """

    store: Store
    config: TableConfig
    answer: Callable[[Scan], Frame] = field(repr=False)
    options: ReadOptions | None = None

    def snapshot(self, columns: Sequence[str] | None = None, where: Filter | None = None) -> Frame:
        """Return the table as it is now."""
        now = load_snapshot(self.store, self.config)
        return self.answer(now.scan(columns=columns, where=where, options=self.options))

    def read_optimized(
        self, columns: Sequence[str] | None = None, where: Filter | None = None
    ) -> Frame:
        """Return what base files alone say: quicker, and as old as the last compaction."""
        now = load_snapshot(self.store, self.config)
        scan = now.scan(columns=columns, where=where, options=self.options)
        return self.answer(scan.base_files_only())

    def as_of(
        self, time: str, columns: Sequence[str] | None = None, where: Filter | None = None
    ) -> Frame:
        """Return the table as the writes up to an instant time, or a date, made it."""
        now = load_snapshot(self.store, self.config)
        scan = now.scan(columns=columns, where=where, as_of=time, options=self.options)
        return self.answer(scan)

    def incremental(
        self,
        begin: str,
        end: str | None = None,
        columns: Sequence[str] | None = None,
        where: Filter | None = None,
    ) -> Frame:
        """Return the rows changed after ``begin`` and up to ``end`` (None: ``newest``).

        Completion times from table version 8 on, instant times before; ``begin`` may be
        ``"earliest"``. Raises ``Invalid`` if the table's state at ``end`` was cleaned.
        """
        now = load_snapshot(self.store, self.config)
        scan = incremental_scan(now, begin, end, columns=columns, where=where, options=self.options)
        return self.answer(scan)

    def newest(self) -> str | None:
        """Return the ``end`` of an incremental query of now; None while nothing completed."""
        return newest_time(self.store, self.config, load_timeline(self.store, self.config))
