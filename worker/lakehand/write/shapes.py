"""The values that a write passes between its steps, and to the tasks that do its work.

All are plain data that pickles: a task gets its ``WriteContext`` and its ``GroupTask``, opens its
own store, and answers with ``WrittenFile`` values as JSON. Rows travel as *keyed batches*: the
record key and the partition path in front, then the columns of the table's schema without meta
columns (of a deletion by key: the ordering fields alone).
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from enum import Enum, unique
from typing import TYPE_CHECKING, Final, NamedTuple

from lakehand.core.journal_entries import StagedFile
from lakehand.formats.base_file import BaseFileOptions
from lakehand.formats.commit_metadata import WriteStat
from lakehand.formats.document_values import RecordMapping

if TYPE_CHECKING:
    import pyarrow as pa

    from lakehand.core.file_slices import FileSlice
    from lakehand.core.table_config import TableConfig

RECORD_KEY: Final = "_hoodie_record_key"
PARTITION_PATH: Final = "_hoodie_partition_path"
KEY_COLUMNS: Final = (RECORD_KEY, PARTITION_PATH)


@unique
class LogFormat(Enum):
    """How rows are kept in log files; the values are Hudi's words."""

    PARQUET = "parquet"
    AVRO = "avro"


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSettings:
    """How data files are written, and how much memory that may take."""

    base: BaseFileOptions = field(default_factory=BaseFileOptions)
    max_file_bytes: int = 120 << 20
    """A new base file ends about here, and the next one of its handle begins."""
    log_format: LogFormat = LogFormat.PARQUET
    log_block_bytes: int = 128 << 20
    """A log block ends about here (Arrow's bytes, before encoding)."""
    memory_bytes: int = 512 << 20
    """What one task holds at once, in bytes of Arrow data; more goes to ``spill_folder``."""
    spill_folder: str | None = None


@unique
class GroupWork(Enum):
    """What is done to a file group."""

    CREATE = "create"
    """New base files, of a file group that is new."""
    MERGE = "merge"
    """A new base file from the slice's base file and the rows."""
    EXTEND = "extend"
    """As MERGE, but rows are added whatever their keys are: a plain insert into a small file."""
    APPEND = "append"
    """A new log file on top of the slice."""


class GroupTask(NamedTuple):
    """One file group, and what a write does to it."""

    work: GroupWork
    partition: str
    file_id: str
    """Of CREATE the prefix: its files are ``<prefix>-0``, ``<prefix>-1`` ..., as many as needed."""
    part: FileSlice | None = None
    """What is there; None of CREATE."""
    base_instant: str = ""
    """APPEND: the base instant of the slice that the log file joins (a pending compaction's, too);
    it is part of the name of log files up to table version 7."""
    log_version: int = 1
    """APPEND: the number of the new log file."""
    leaving: pa.StringArray | None = None
    """APPEND, MERGE: keys whose rows have moved to another group, and are none of the rows'."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteContext:
    """What all tasks of a write have in common."""

    config: TableConfig
    time: str
    epoch: int
    schema: pa.Schema
    """The table's schema, meta columns in front: what files are written with."""
    avro_schema: str
    """The same as Avro JSON."""
    settings: FileSettings
    combine: bool
    """Whether of several rows with one key one counts, by the table's merge rule."""
    is_deletion: bool = False
    """Whether the rows are keys to delete."""
    looks_everywhere: bool = False
    """Whether rows may be written to another partition than they name (a global index)."""


class Try(NamedTuple):
    """Which task of the engine this is, and which try of it: names no two tries have alike."""

    task: int
    attempt: int


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """A data file as its task staged it, and what the commit will say of it."""

    staged: StagedFile
    stat: WriteStat

    def to_json(self) -> bytes:
        """Return it as JSON, to travel from the task to the driver."""
        return json.dumps(
            {"staged": asdict(self.staged), "stat": _STAT.write(self.stat)}, separators=(",", ":")
        ).encode()

    @classmethod
    def from_json(cls, text: bytes) -> WrittenFile:
        """Read it back."""
        found = json.loads(text)
        staged = found["staged"]
        return cls(
            StagedFile(**{**staged, "parts": tuple(staged["parts"])}),
            _STAT.read(found["stat"], where="a task's answer"),
        )


_STAT = RecordMapping(WriteStat)
