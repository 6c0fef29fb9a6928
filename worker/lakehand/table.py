"""The front door: open a table, read it, and take part in its protocol, without a JVM.

::

    table = Table.open("s3://lake/orders")
    table.to_arrow(columns=["id", "amount"], filter=[("city", "=", "Oslo")])
    cancelling.request_cancel(table.workbench(), "20261118172928000", reason="not needed")

A ``Table`` keeps no state of the table beside its properties: each call looks at the store anew
and sees one moment of it.
"""

from __future__ import annotations

import os
import secrets
import socket
from dataclasses import dataclass
from datetime import UTC
from typing import TYPE_CHECKING

import pyarrow as pa

from lakehand.core.conflict_tables import Strategy
from lakehand.core.table_config import TableConfig, TimelineZone
from lakehand.formats.avro_schema import without_meta_columns
from lakehand.local_zone import LocalZone
from lakehand.locks.leases import Surroundings
from lakehand.locks.open import open_lock
from lakehand.process import SystemClock, Threads
from lakehand.protocol import table_properties
from lakehand.protocol.timeline_loader import load_timeline
from lakehand.protocol.workbench import ProtocolSettings, Workbench
from lakehand.read.snapshot import Snapshot, load_snapshot, query_time
from lakehand.store.open import open_store

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from concurrent.futures import Executor
    from typing import Any

    from lakehand.core.file_slices import FileSlice
    from lakehand.core.timeline import Timeline
    from lakehand.ports import Clock, LockProvider, Store
    from lakehand.read.filters import Filter
    from lakehand.read.slice_reader import ReadOptions


@dataclass(frozen=True, slots=True)
class Table:
    """A Hudi table that is there."""

    store: Store
    config: TableConfig

    @classmethod
    def open(cls, uri: str, storage_options: Mapping[str, Any] | None = None) -> Table:
        """Open the table at ``uri`` (a path or a URL); ``storage_options`` are the store's.

        Raises ``NotFound`` if there is no table, and ``Unsupported``, naming the feature, if it
        is one that Lakehand would not read right.
        """
        return cls.over(open_store(uri, storage_options))

    @classmethod
    def over(cls, store: Store) -> Table:
        """Open the table in a store that is open already."""
        config = TableConfig.from_properties(table_properties.load(store))
        config.require_readable()
        return cls(store, config)

    def timeline(self) -> Timeline:
        """Return the active timeline as it is now."""
        return load_timeline(self.store, self.config)

    def snapshot(self) -> Snapshot:
        """Return this moment of the table, for several queries on the same state."""
        return load_snapshot(self.store, self.config)

    def slices(self, as_of: str | None = None) -> list[FileSlice]:
        """Return the file slices that a snapshot query reads, now or as of a time."""
        time = None if as_of is None else query_time(as_of)
        return self.snapshot().view.slices(time)

    def schema(self) -> pa.Schema:
        """Return the table's schema in Arrow's types, with the meta columns that it keeps."""
        return self.snapshot().schema()

    def data_schema(self) -> pa.Schema:
        """Return the table's schema without meta columns."""
        return without_meta_columns(self.schema())

    def scan(
        self,
        columns: Sequence[str] | None = None,
        filter: Filter | None = None,  # noqa: A002 - the name that Arrow's readers give it
        as_of: str | None = None,
        *,
        options: ReadOptions | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a snapshot query as a stream of batches, slice by slice.

        ``columns`` None is every column, meta columns first. ``filter`` is an Arrow expression or
        a list of (column, operator, value) that must all hold. ``as_of`` is an instant time or a
        date (``yyyy-MM-dd[ HH:mm:ss[.SSS]]``).
        """
        scan = self.snapshot().scan(columns=columns, where=filter, as_of=as_of, options=options)
        return scan.stream()

    def to_arrow(
        self,
        columns: Sequence[str] | None = None,
        filter: Filter | None = None,  # noqa: A002 - the name that Arrow's readers give it
        as_of: str | None = None,
        *,
        options: ReadOptions | None = None,
        executor: Executor | None = None,
    ) -> pa.Table:
        """Return the rows of a snapshot query; see ``scan``.

        With an ``executor`` (of threads), slices are read side by side.
        """
        scan = self.snapshot().scan(columns=columns, where=filter, as_of=as_of, options=options)
        if executor is None:
            return pa.Table.from_batches(scan.stream(), schema=scan.schema)
        parts = executor.map(lambda part: list(scan.read(part)), scan.slices)
        batches = [batch for part in parts for batch in part]
        return pa.Table.from_batches(batches, schema=scan.schema)

    def workbench(
        self,
        worker: str | None = None,
        *,
        lock: LockProvider | str = "storage",
        lock_options: Mapping[str, str] | None = None,
        settings: ProtocolSettings | None = None,
        strategy: Strategy = Strategy.PREFER_INGESTION,
        clock: Clock | None = None,
    ) -> Workbench:
        """Return what every recipe of ``lakehand.protocol`` takes first: one worker's place here.

        ``worker`` names it in the journal, heartbeats and the lock; give no two workers one name.
        ``lock`` is a provider, or a kind with its options (docs/cli.md). Raises ``Invalid`` if the
        lock does not keep the table's other writers out.
        """
        clock = clock or SystemClock()
        locks = self.lock(lock, lock_options, clock=clock) if isinstance(lock, str) else lock
        is_local = self.config.timezone is TimelineZone.LOCAL
        return Workbench(
            store=self.store,
            locks=locks,
            clock=clock,
            background=Threads(),
            new_id=_new_id,
            worker=worker or f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(3)}",
            config=self.config,
            settings=settings or ProtocolSettings(),
            strategy=strategy,
            zone=LocalZone() if is_local else UTC,
        )

    def lock(
        self,
        kind: str = "storage",
        options: Mapping[str, str] | None = None,
        *,
        clock: Clock | None = None,
    ) -> LockProvider:
        """Return the table's lock of one kind, for ``workbench`` or to look at its holder."""
        around = Surroundings(clock=clock or SystemClock())
        return open_lock(kind, self.store, options=options, surroundings=around)


def _new_id() -> str:
    return secrets.token_hex(16)
