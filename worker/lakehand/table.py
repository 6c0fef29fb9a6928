"""The front door: create or open a table, write it, read it, and take part in its protocol.

::

    table = Table.create("s3://lake/orders", df.schema, key=["id"], partition_by=["city"])
    table.writer(spark).upsert(df)
    table.to_arrow(columns=["id", "amount"], filter=[("city", "=", "Oslo")])
    cancelling.request_cancel(table.workbench(), "20261118172928000", reason="not needed")

Without a Spark session everything is done in this process, on Arrow data.

A ``Table`` keeps no state of the table beside its properties: each call looks at the store anew
and sees one moment of it.
"""

from __future__ import annotations

import os
import secrets
import shutil
import socket
import sys
from dataclasses import dataclass, replace
from datetime import UTC
from typing import TYPE_CHECKING, overload

import pyarrow as pa

from lakehand.core.conflict_tables import Strategy
from lakehand.core.table_config import TableConfig, TimelineZone
from lakehand.engine.inline import InlineEngine
from lakehand.formats.avro_schema import without_meta_columns
from lakehand.local_zone import LocalZone
from lakehand.locks.leases import Surroundings
from lakehand.locks.open import open_lock
from lakehand.process import SystemClock, Threads
from lakehand.protocol import table_properties
from lakehand.protocol.timeline_loader import load_timeline
from lakehand.protocol.workbench import ProtocolSettings, Workbench
from lakehand.read.reader import Reader
from lakehand.read.snapshot import Scan, Snapshot, load_snapshot, query_time
from lakehand.store.open import StoreAddress, open_store
from lakehand.write.creation import NewTable, create_table
from lakehand.write.options import WriteOptions
from lakehand.write.progress import Progress
from lakehand.write.writer import Writer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from concurrent.futures import Executor
    from typing import Any

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from lakehand.core.file_slices import FileSlice
    from lakehand.core.timeline import Timeline
    from lakehand.engine.engine import Engine
    from lakehand.ports import Clock, LockProvider, Store
    from lakehand.read.filters import Filter
    from lakehand.read.slice_reader import ReadOptions


@dataclass(frozen=True, slots=True)
class Table:
    """A Hudi table that is there."""

    store: Store
    config: TableConfig
    opened: Callable[[], Store]
    """How a task in another process opens the store."""

    @classmethod
    def create(
        cls,
        uri: str,
        schema: pa.Schema | StructType,
        *,
        key: Sequence[str],
        partition_by: Sequence[str] = (),
        ordering: Sequence[str] = (),
        table_type: str = "cow",
        version: int = 9,
        name: str | None = None,
        properties: Mapping[str, str | bool] | None = None,
        storage_options: Mapping[str, Any] | None = None,
        exist_ok: bool = False,
    ) -> Table:
        """Create a table without rows; ``schema`` is Arrow's or Spark's.

        ``table_type`` is ``cow`` or ``mor``; ``ordering`` names the fields by which the newest of
        several versions of a row is known; ``properties`` are further settings under Hudi's keys.
        Raises ``Invalid`` if something is there already, unless ``exist_ok`` and it is the same.
        """
        if not isinstance(schema, pa.Schema):
            from lakehand.engine.spark import arrow_schema

            schema = arrow_schema(schema)
        wanted = NewTable(
            key=key,
            partition_by=partition_by,
            ordering=ordering,
            table_type=table_type,
            version=version,
            name=name,
            properties=properties,
        )
        store = open_store(uri, storage_options)
        config = create_table(store, schema, wanted, exist_ok=exist_ok)
        return cls(store, config, StoreAddress.of(store.uri, storage_options))

    @classmethod
    def open(cls, uri: str, storage_options: Mapping[str, Any] | None = None) -> Table:
        """Open the table at ``uri`` (a path or a URL); ``storage_options`` are the store's.

        Raises ``NotFound`` if there is no table, and ``Unsupported``, naming the feature, if it
        is one that Lakehand would not read right.
        """
        store = open_store(uri, storage_options)
        return cls._found(store, StoreAddress.of(store.uri, storage_options))

    @classmethod
    def over(cls, store: Store) -> Table:
        """Open the table in a store that is open already, for this process alone."""
        return cls._found(store, lambda: store)

    @classmethod
    def _found(cls, store: Store, opened: Callable[[], Store]) -> Table:
        config = TableConfig.from_properties(table_properties.load(store))
        config.require_readable()
        return cls(store, config, opened)

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

    def writer(self, spark: SparkSession | None = None, **options: object) -> Writer:
        """Return a writer: of Spark DataFrames, or without ``spark`` of Arrow data.

        ``options`` are listed in docs/write-options.md, under short names and under Hudi's keys.
        Raises ``Unsupported``, naming the feature, if the table is one that a write of Lakehand
        would not keep true.
        """
        parsed = WriteOptions.parse(options)
        self.config.require_writable()
        parsed.check_against(self.config)
        lock = self.lock(parsed.lock, parsed.lock_options)
        settings = parsed.protocol
        if "foreign_writers" not in options:
            settings = replace(settings, foreign_writers=lock.excludes_foreign)
        bench = self.workbench(lock=lock, settings=settings, strategy=parsed.strategy)
        engine: Engine = InlineEngine(max(parsed.parallelism.values(), default=1))
        if spark is not None:
            from lakehand.engine.spark import SparkEngine

            engine = SparkEngine(spark, group=f"lakehand {self.config.name} {bench.worker}")
        progress = Progress(
            sys.stderr if parsed.progress else None,
            bench.clock,
            bench.background,
            what=self.config.name,
            columns=shutil.get_terminal_size().columns,
        )
        return Writer(bench, engine, self.opened, parsed, progress)

    @overload
    def read(self, spark: None = None) -> Reader[pa.Table]: ...

    @overload
    def read(self, spark: SparkSession) -> Reader[DataFrame]: ...

    def read(self, spark: SparkSession | None = None) -> Reader[pa.Table] | Reader[DataFrame]:
        """Return a reader whose queries give DataFrames, or Arrow tables without ``spark``."""
        if spark is None:
            return Reader(self.store, self.config, Scan.to_arrow)
        from lakehand.read.spark_frames import SparkFrames

        return Reader(self.store, self.config, SparkFrames(spark, self.opened))

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
