"""Small tables for tests of the protocol: a table of no rows, whose writes stage real files.

What the protocol does never looks into data files, so they hold a few bytes that say who wrote
them. Everything else is real: properties, plans, commit metadata, markers.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lakehand.core import new_table_properties
from lakehand.core.instants import Action
from lakehand.core.markers import Marker, MarkerKind, write_token
from lakehand.core.table_config import TableConfig
from lakehand.core.table_kinds import TableType, TableVersion
from lakehand.formats import commit_metadata
from lakehand.formats.commit_metadata import CommitMetadata, WriteOperation, WriteStat
from lakehand.formats.plans import compaction
from lakehand.locks.in_process import InProcessLock
from lakehand.process import SystemClock, Threads
from lakehand.protocol import (
    claiming,
    committing,
    leftovers,
    staging,
    table_properties,
    writing,
)
from lakehand.protocol.planning import PlanRequest
from lakehand.protocol.workbench import ProtocolSettings, Workbench

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from lakehand.core.instants import Instant
    from lakehand.core.journal_entries import StagedFile
    from lakehand.ports import Background, Clock, LockProvider, Store
    from lakehand.protocol.claiming import Attempt


class NoBackground:
    """Heartbeats beat when a test says so."""

    def __init__(self) -> None:
        self.steps: dict[str, Callable[[], bool]] = {}

    def every(self, interval_s: float, step: Callable[[], bool], *, name: str):
        self.steps[name] = step
        return _Stopped(self, name)


@dataclass
class _Stopped:
    background: NoBackground
    name: str

    def stop(self) -> None:
        self.background.steps.pop(self.name, None)


def config_of(version: TableVersion = TableVersion.NINE) -> TableConfig:
    return TableConfig(name="trips", table_type=TableType.MERGE_ON_READ, version=version)


def create(store: Store, version: TableVersion = TableVersion.NINE) -> TableConfig:
    """Make an empty table."""
    rendered = new_table_properties.render(config_of(version))
    return TableConfig.from_properties(table_properties.create(store, rendered))


_lock_keys = itertools.count()


@dataclass
class Kernel:
    """A table and its workers, on one store and one lock."""

    store: Store
    version: TableVersion = TableVersion.NINE
    locks: Callable[[str], LockProvider] | None = None
    clock: Clock = field(default_factory=SystemClock)
    background: Background | None = None
    settings: Mapping[str, object] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.config = create(self.store, self.version)
        self._key = f"kernel-{next(_lock_keys)}"

    def worker(self, name: str, **settings: object) -> Workbench:
        ids = itertools.count(1)
        locks = self.locks(name) if self.locks else InProcessLock(self._key)
        return Workbench(
            store=self.store,
            locks=locks,
            clock=self.clock,
            background=self.background or NoBackground(),
            new_id=lambda: f"{name}-{next(ids)}",
            worker=name,
            config=self.config,
            settings=ProtocolSettings(
                **{"foreign_writers": locks.excludes_foreign, **self.settings, **settings}
            ),
        )


def threads() -> Background:
    return Threads()


# -- plans and writes -----------------------------------------------------------------------------


def compaction_request(
    *groups: str, action: Action = Action.COMPACTION, **options: object
) -> PlanRequest:
    """A compaction (or log compaction) plan for file groups of partition ``p``."""

    def content(extra: Mapping[str, str]) -> bytes:
        operations = tuple(
            compaction.CompactionOperation(base_instant_time="0", file_id=group, partition_path="p")
            for group in groups
        )
        return compaction.encode(
            compaction.CompactionPlan(operations=operations, extra_metadata=dict(extra))
        )

    return PlanRequest(
        action=action, content=content, groups=tuple(("p", one) for one in groups), **options
    )


def stage_data(
    bench: Workbench, attempt: Attempt, group: str, *, task: int = 0, try_number: int = 0
) -> StagedFile:
    """Stage one base file as a task does: begin marker first, then the bytes."""
    token = write_token(task, attempt.epoch, try_number)
    path = f"p/{group}_{token}_{attempt.time}.parquet"
    content = f"{bench.worker} {attempt.time} {attempt.epoch}".encode()
    with bench.store.stage(path, area=staging.area(attempt.time, attempt.epoch)) as writer:
        leftovers.begin_file(
            bench.store, attempt.time, Marker(path, MarkerKind.CREATE), writer.staged
        )
        writer.write(content)
        writer.close()
        return staging.as_decided(writer.staged, digest=staging.digest_of(content))


def metadata(
    bench: Workbench, attempt: Attempt, files: tuple[StagedFile, ...], operation: WriteOperation
) -> bytes:
    stats = tuple(
        WriteStat(
            file_id=file.final.rpartition("/")[2].partition("_")[0],
            path=file.final,
            partition_path="p",
        )
        for file in files
    )
    value = CommitMetadata(
        partition_to_write_stats={"p": stats} if stats else {},
        operation_type=operation.value,
    )
    return commit_metadata.encode(value, version=int(bench.config.version))


def write_out(
    bench: Workbench,
    attempt: Attempt,
    groups: tuple[str, ...],
    *,
    operation: WriteOperation = WriteOperation.COMPACT,
) -> Instant:
    """Stage, prepare, promote and commit one file for each group."""
    files = tuple(stage_data(bench, attempt, one, task=n) for n, one in enumerate(groups))
    manifest = committing.prepare(bench, attempt, files)
    committing.promote_outputs(bench, attempt, manifest)
    return committing.commit(
        bench, attempt, lambda _time: metadata(bench, attempt, files, operation)
    )


def execute(bench: Workbench, time: str, groups: tuple[str, ...]) -> Instant:
    """Execute a plan from claim to commit."""
    claimed = claiming.claim(bench, time)
    if isinstance(claimed, claiming.AlreadyCompleted):
        return claimed.instant
    return write_out(bench, claimed, groups)


def ingest(
    bench: Workbench, *groups: str, action: Action = Action.DELTA_COMMIT, **options: object
) -> Instant:
    """An ingestion write from request to commit."""
    begun = writing.begin_write(bench, PlanRequest(action=action, **options))
    assert isinstance(begun, claiming.Attempt)
    show_groups(bench, begun, groups)
    return write_out(bench, begun, groups, operation=WriteOperation.UPSERT)


def show_groups(bench: Workbench, attempt: Attempt, groups: tuple[str, ...]) -> None:
    """The inflight step of an ingestion write."""
    keys = tuple(("p", one) for one in groups)
    stats = tuple(WriteStat(file_id=one, partition_path="p") for one in groups)
    content = commit_metadata.encode(
        CommitMetadata(partition_to_write_stats={"p": stats}, operation_type="UPSERT"),
        version=int(bench.config.version),
    )
    writing.begin_data(bench, attempt, groups=keys, content=content)
