"""Writes of the model done by Apache Hudi, beside ours or after them, without a metadata table."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq

from lakehand.table import Table
from write_model import Operation

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from java_hudi import JavaHudi
    from write_model import Model, Write
    from write_rows import Kind

BUNDLE_OF = {9: "1.2.0", 8: "1.2.0", 6: "0.15.0"}
"""Who writes on: 1.2.0 keeps a table of version 8 as it is, but leaves marks in one of 6."""

LOCK_MINUTES = 1

_SEVERAL_WRITERS = {
    "hoodie.write.concurrency.mode": "optimistic_concurrency_control",
    "hoodie.clean.failed.writes.policy": "LAZY",
    "hoodie.cleaner.policy.failed.writes": "LAZY",
    "hoodie.write.lock.wait_time_ms": "100",
    "hoodie.write.lock.num_retries": "1000",
    "hoodie.write.lock.client.wait_time_ms_between_retry": "100",
    "hoodie.write.lock.client.num_retries": "600",
}

LOCKED = _SEVERAL_WRITERS | {
    "hoodie.write.lock.provider": (
        "org.apache.hudi.client.transaction.lock.FileSystemBasedLockProvider"
    ),
    "hoodie.write.lock.filesystem.expire": str(LOCK_MINUTES),
}
"""Several writers, by the file lock: Java's own on a local disk."""

STORAGE_LOCKED = _SEVERAL_WRITERS | {
    "hoodie.write.lock.provider": (
        "org.apache.hudi.client.transaction.lock.StorageBasedLockProvider"
    ),
    "hoodie.write.lock.storage.validity.timeout.secs": str(60 * LOCK_MINUTES),
    "hoodie.write.lock.storage.renew.interval.secs": str(6 * LOCK_MINUTES),
}
"""Several writers, by the storage lock: Java's own on an object store."""


def java_options(kind: Kind) -> dict[str, str]:
    generator = "Simple" if kind.partitioned else "Nonpartitioned"
    options = {
        "hoodie.table.name": "modelled",
        "hoodie.datasource.write.table.type": (
            "MERGE_ON_READ" if kind.merge_on_read else "COPY_ON_WRITE"
        ),
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.partitionpath.field": "city" if kind.partitioned else "",
        "hoodie.datasource.write.keygenerator.class": (
            f"org.apache.hudi.keygen.{generator}KeyGenerator"
        ),
        "hoodie.datasource.write.hive_style_partitioning": str(kind.hive).lower(),
        "hoodie.write.table.version": str(kind.version),
        "hoodie.write.auto.upgrade": "false",
        "hoodie.metadata.enable": "false",
        # Nothing but the write: its history is asked for, and its plans are not ours to execute.
        "hoodie.compact.inline": "false",
        "hoodie.datasource.compaction.async.enable": "true",
        "hoodie.clean.automatic": "false",
        "hoodie.archive.automatic": "false",
        "hoodie.upsert.shuffle.parallelism": "2",
        "hoodie.insert.shuffle.parallelism": "2",
        "hoodie.bulkinsert.shuffle.parallelism": "2",
        "hoodie.delete.shuffle.parallelism": "2",
        "hoodie.embed.timeline.server": "false",
    }
    if kind.event_time:
        options["hoodie.datasource.write.precombine.field"] = "ts"
    return options


def java_sizes(model: Model) -> dict[str, str]:
    """Whether small files are filled, as ``Model.options`` says it for us."""
    fills = model.options["small_file_mb"] > 0
    return {} if fills else {"hoodie.parquet.small.file.limit": "0"}


@dataclass(slots=True)
class JavaWriter:
    """A writer of Apache Hudi at one table."""

    java: JavaHudi
    kind: Kind
    place: Path | str
    scratch: Path
    options: dict[str, str] = field(default_factory=dict)
    storage_options: Mapping[str, Any] | None = None
    """With which we open the same place."""
    _numbers: itertools.count[int] = field(default_factory=itertools.count)

    def run(self, write: Write) -> str:
        """Do the write; return what went wrong, or an empty text."""
        rows = self.scratch / f"{PurePath(self.place).name}-by-java-{next(self._numbers)}.parquet"
        pq.write_table(write.data(), rows)
        job = {
            "path": str(self.place),
            "rows": str(rows),
            "options": java_options(self.kind) | self.options,
            "operation": self._operation(write).value,
        }
        problems = self.java.run("jvm_interop:write_many", jobs=[job])
        return "\n".join(problems)

    def _operation(self, write: Write) -> Operation:
        """Say how: 0.15 loses lists when it updates what its own bulk insert wrote."""
        if write.operation is Operation.BULK_INSERT and self.java.bundle == "0.15.0":
            return Operation.INSERT
        return write.operation

    def _without_late_rows(self, model: Model, write: Write) -> Write:
        """Leave out rows that lose to older ones: 0.15 rewrites those under its own commit time."""
        if self.java.bundle != "0.15.0" or self.kind.merge_on_read or not self.kind.event_time:
            return write
        visible = model.visible()
        kept = [
            number
            for number, (one, row) in enumerate(zip(write.ids, write.rows, strict=True))
            if one not in visible or row["ts"] >= visible[one]["ts"]
        ]
        return write._replace(
            rows=tuple(write.rows[number] for number in kept),
            ids=tuple(write.ids[number] for number in kept),
        )

    def commit(self, model: Model, write: Write) -> None:
        """Do the write, alone, and tell the model of it."""
        write = self._without_late_rows(model, write)
        if not write.rows:
            return
        before = completed(self.place, self.storage_options)
        problem = self.run(write)
        assert not problem, problem
        ((time, completion),) = completed(self.place, self.storage_options).items() - before.items()
        model.commit(write, time, completion)


def completed(
    place: Path | str, storage_options: Mapping[str, Any] | None = None
) -> dict[str, str | None]:
    """The completed writes: time, and completion time."""
    writes = Table.open(str(place), storage_options).timeline().completed_writes
    return {one.time: one.completion_time for one in writes}


def can_do(write: Write) -> bool:
    """Whether Java's data source does it from a data frame as we do it from a table."""
    return write.operation is not Operation.DELETE_PARTITION
