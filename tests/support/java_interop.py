"""Java on tables that we wrote: batched reads and writes, and the options that a writer needs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from table_builder_rows import (
    COMMIT_TIME,
    HIVE_STYLE,
    PARTITION_PATH,
    RECORD_KEY,
    SEQUENCE,
    Partitioning,
    Row,
    Shape,
    key_of,
    path_of,
    to_table,
)

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from java_hudi import JavaHudi
    from table_builder import TableBuilder

Answer = pa.Table | str
"""What Java read, or a sentence about why it could not."""


def read_all(
    java: JavaHudi, folders: Iterable[Path], scratch: Path, *, as_of: str | None = None
) -> list[Answer]:
    folders = list(folders)
    jobs = [
        {"path": str(folder), "target": str(scratch / f"read-{number}.parquet"), "as_of": as_of}
        for number, folder in enumerate(folders)
    ]
    problems = java.run("jvm_interop:read_many", jobs=jobs)
    return [
        problem or pq.read_table(job["target"]) for job, problem in zip(jobs, problems, strict=True)
    ]


@dataclass(slots=True)
class JavaWrites:
    """A batch of writes by Java, and what each does to its table's model."""

    java: JavaHudi
    scratch: Path
    options: dict[str, str] = field(default_factory=dict)
    _jobs: list[dict[str, object]] = field(default_factory=list)

    def upsert(self, table: TableBuilder, model: dict[str, Row], numbers: Iterable[int]) -> None:
        rows = table.make_rows(numbers)
        self._add(table.shape, table.folder, rows, "upsert")
        model.update({key_of(table.shape, row): row_by_java(table.shape, row) for row in rows})

    def delete(self, table: TableBuilder, model: dict[str, Row], numbers: Iterable[int]) -> None:
        rows = table.make_rows(numbers)
        self._add(table.shape, table.folder, rows, "delete")
        for row in rows:
            model.pop(key_of(table.shape, row), None)

    def _add(self, shape: Shape, folder: Path, rows: list[Row], operation: str) -> None:
        target = self.scratch / f"{folder.name}-{len(self._jobs)}-{operation}.parquet"
        pq.write_table(to_table(shape, rows), target)
        self._jobs.append(
            {
                "path": str(folder),
                "rows": str(target),
                "options": write_options(shape) | self.options,
                "operation": operation,
            }
        )

    def run(self) -> None:
        """All of them, in order; fails with every table's problem."""
        jobs, self._jobs = self._jobs, []
        problems = self.java.run("jvm_interop:write_many", jobs=jobs)
        assert not problems, "\n".join(problems)


def row_by_java(shape: Shape, row: Row) -> Row:
    """A row that Java wrote: its times are not ours to know."""
    return row | {
        COMMIT_TIME: ...,
        SEQUENCE: ...,
        RECORD_KEY: key_of(shape, row),
        PARTITION_PATH: path_of(shape, row),
    }


def write_options(shape: Shape) -> dict[str, str]:
    options = {
        "hoodie.table.name": "built",
        "hoodie.datasource.write.table.type": "MERGE_ON_READ"
        if shape.merge_on_read
        else "COPY_ON_WRITE",
        "hoodie.datasource.write.recordkey.field": ",".join(shape.key_fields),
        "hoodie.datasource.write.partitionpath.field": ",".join(shape.partition_fields),
        "hoodie.datasource.write.keygenerator.class": key_generator_class(shape),
        "hoodie.datasource.write.hive_style_partitioning": _flag(shape.partitioning in HIVE_STYLE),
        "hoodie.datasource.write.partitionpath.urlencode": _flag(
            shape.partitioning is Partitioning.ENCODED
        ),
        "hoodie.write.table.version": str(shape.version),
        "hoodie.write.auto.upgrade": "false",
        "hoodie.upsert.shuffle.parallelism": "2",
        "hoodie.delete.shuffle.parallelism": "2",
        "hoodie.embed.timeline.server": "false",
    }
    if shape.event_time:
        options["hoodie.datasource.write.precombine.field"] = "ts"
    return options


def key_generator_class(shape: Shape) -> str:
    names = {Partitioning.NONE: "Nonpartitioned", Partitioning.TWO: "Complex"}
    return f"org.apache.hudi.keygen.{names.get(shape.partitioning, 'Simple')}KeyGenerator"


def _flag(value: bool) -> str:
    return str(value).lower()
