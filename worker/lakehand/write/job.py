"""The values of one write: where it is done, what its tasks have to do, and what it did."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lakehand.core.instants import Action
from lakehand.core.table_kinds import TableType
from lakehand.errors import Conflict
from lakehand.formats.commit_metadata import WriteOperation

if TYPE_CHECKING:
    from collections.abc import Callable

    from lakehand.engine.engine import Engine
    from lakehand.ports import Store
    from lakehand.protocol.workbench import Workbench
    from lakehand.write.options import WriteOptions
    from lakehand.write.progress import Progress
    from lakehand.write.routing import Routing
    from lakehand.write.shapes import WriteContext, WrittenFile

REPLACING = frozenset(
    {
        WriteOperation.INSERT_OVERWRITE,
        WriteOperation.INSERT_OVERWRITE_TABLE,
        WriteOperation.DELETE_PARTITION,
    }
)


class SchemaMoved(Conflict):
    """The schema that the rows were prepared for is not the table's any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteResult:
    """What a write did."""

    time: str
    """Its instant."""
    completion_time: str | None
    inserts: int = 0
    updates: int = 0
    deletes: int = 0
    files: int = 0
    bytes: int = 0
    was_written_before: bool = False
    """The batch of this application had been written by that instant: nothing was done now."""


@dataclass(frozen=True, slots=True)
class Job:
    """One write and where it is done."""

    bench: Workbench
    engine: Engine
    opened: Callable[[], Store]
    options: WriteOptions
    operation: WriteOperation
    progress: Progress

    def say(self, step: str) -> None:
        """Tell people who watch what is done from here on."""
        self.engine.say(step)
        self.progress.step(step, self.engine.rows_taken)

    @property
    def action(self) -> Action:
        """What the write is on the timeline."""
        if self.operation in REPLACING:
            return Action.REPLACE_COMMIT
        is_merge_on_read = self.bench.config.table_type is TableType.MERGE_ON_READ
        return Action.DELTA_COMMIT if is_merge_on_read else Action.COMMIT

    @property
    def looks_keys_up(self) -> bool:
        """Whether rows go to where their keys are."""
        return self.operation in (WriteOperation.UPSERT, WriteOperation.DELETE)

    @property
    def combines(self) -> bool:
        """Whether of several incoming rows with one key one is written."""
        return self.options.combines(self.operation)

    @property
    def tasks(self) -> int | None:
        """Into how many tasks to divide the work; None: as the engine sees fit."""
        return self.options.parallelism.get(self.operation)

    @property
    def version(self) -> int:
        """The table's version."""
        return int(self.bench.config.version)


@dataclass(slots=True)
class Work:
    """What the tasks of one try are to do, and in the end what they did."""

    context: WriteContext
    schema_text: str
    """The schema without meta columns that it writes with, as its commit declares it."""
    changes_schema: bool
    routing: Routing | None = None
    """None: it writes new file groups only."""
    replaced: dict[str, tuple[str, ...]] | None = None
    """The file groups that it replaces, by partition; None: it is no replace commit."""
    files: list[WrittenFile] = field(default_factory=list)
