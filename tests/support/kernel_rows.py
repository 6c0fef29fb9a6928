"""Rows through the kernel: writes of a ``TableBuilder`` whose files and instants the recipes make.

The builder still makes the bytes and keeps the model. What it would stage and promote by itself
goes through an attempt's begin markers, manifest and commit instead.
"""

from __future__ import annotations

import itertools
import os
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import table_builder_files as files
import table_builder_services as services
import table_builder_timeline as timeline
from kernel_tables import NoBackground
from lakehand.core.instants import Action
from lakehand.core.markers import Marker, MarkerKind, write_token
from lakehand.core.table_config import TableConfig
from lakehand.formats import commit_metadata
from lakehand.formats.commit_metadata import SCHEMA_KEY, CommitMetadata
from lakehand.formats.plans import compaction
from lakehand.locks.in_process import InProcessLock
from lakehand.ports import ObjectInfo, PromoteOutcome
from lakehand.process import SystemClock
from lakehand.protocol import (
    claiming,
    committing,
    leftovers,
    planning,
    staging,
    table_properties,
    writing,
)
from lakehand.protocol.planning import PlanRequest
from lakehand.protocol.workbench import ProtocolSettings, Workbench
from lakehand.store.local import LocalStore
from table_builder import Change, Write

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from lakehand.core.instants import Instant
    from lakehand.core.journal_entries import StagedFile
    from lakehand.protocol.claiming import Attempt
    from table_builder import TableBuilder

_ids = itertools.count()


def worker(folder: Path, **settings: object) -> Workbench:
    """A worker at a table on disk. Java takes turns with it: no lock is shared."""
    store = LocalStore(str(folder))
    number = next(_ids)
    ids = itertools.count()
    given = {"foreign_writers": False, "checkpoint_every": 6}
    return Workbench(
        store=store,
        locks=InProcessLock(str(folder)),
        clock=SystemClock(),
        background=NoBackground(),
        new_id=lambda: f"w{number}-{next(ids)}",
        worker=f"w{number}",
        config=TableConfig.from_properties(table_properties.load(store)),
        settings=ProtocolSettings(**{**given, **settings}),
    )


def age_heartbeats(folder: Path) -> None:
    """Every worker died long ago."""
    for beat in (folder / ".hoodie" / ".heartbeat").glob("*"):
        before = beat.stat().st_mtime - 1000
        os.utime(beat, (before, before))


@dataclass
class _Pen:
    """The store as a builder sees it while an attempt writes: it stages, and promotes nothing."""

    bench: Workbench
    attempt: Attempt
    folder: Path
    kinds: dict[str, MarkerKind] = field(default_factory=dict)
    staged: list[StagedFile] = field(default_factory=list)

    def put(self, path: str, content: bytes) -> None:
        """A marker: it is announced again, with its stage, when the file is staged."""
        assert content == b""
        name, _, kind = path.rpartition(".marker.")
        self.kinds[name.rpartition(f"{self.attempt.time}/")[2]] = MarkerKind[kind]

    def stage(self, path: str, *, area: str) -> Any:
        assert area
        own_area = staging.area(self.attempt.time, self.attempt.epoch)
        writer = self.bench.store.stage(path, area=own_area)
        marker = Marker(path, self.kinds[path])
        leftovers.begin_file(self.bench.store, self.attempt.time, marker, writer.staged)
        return writer

    def promote(self, staged: Any) -> PromoteOutcome:
        self.staged.append(staging.as_decided(staged, digest=""))
        return PromoteOutcome.WRITTEN

    def head(self, path: str) -> ObjectInfo | None:
        for one in self.staged:
            if one.final == path:
                return ObjectInfo(path, (self.folder / one.place).stat().st_size, 0)
        return self.bench.store.head(path)


@contextmanager
def _writing(bench: Workbench, attempt: Attempt, table: TableBuilder) -> Iterator[_Pen]:
    pen = _Pen(bench, attempt, table.folder)
    tasks = itertools.count()
    before = table.store
    table.store = pen  # type: ignore[assignment]
    table.token = lambda: write_token(next(tasks), attempt.epoch, 0)  # type: ignore[method-assign]
    try:
        yield pen
    finally:
        table.store = before
        del table.token  # type: ignore[method-assign]


@dataclass
class RowWrite:
    """A write of rows that has only its commit before it."""

    bench: Workbench
    table: TableBuilder
    attempt: Attempt
    write: Write
    is_compaction: bool = False

    def commit(self) -> Instant:
        done = committing.commit(self.bench, self.attempt, lambda _time: self._metadata())
        if not self.is_compaction:
            for change in self.write.changes:
                self.table._apply(self.write, change)
        return done

    def _metadata(self) -> bytes:
        stats = {name: tuple(found) for name, found in self.write.stats.items()}
        metadata = CommitMetadata(
            partition_to_write_stats=stats,
            compacted=self.is_compaction,
            extra_metadata={SCHEMA_KEY: timeline.table_schema_json(self.table)},
            operation_type=self.write.operation,
        )
        return commit_metadata.encode(metadata, version=self.table.shape.version)


def begin_upsert(bench: Workbench, table: TableBuilder, numbers: Iterable[int]) -> RowWrite:
    """New values for keys that are there, up to the commit."""
    begun = writing.begin_write(bench, PlanRequest(action=table.write_action))
    assert isinstance(begun, claiming.Attempt)
    write = Write(begun.time, table.write_action, "UPSERT")
    rows = table._stamp(table.make_rows(numbers), write.instant)
    for group in table.live:
        puts = [row for row in rows if row["_hoodie_record_key"] in group.rows]
        if puts:
            write.changes.append(Change(group, puts=puts))
    assert write.changes
    groups = tuple((one.group.partition, one.group.file_id) for one in write.changes)
    writing.begin_data(bench, begun, groups=groups, content=timeline.workload(table, write))
    changes, write.changes = write.changes, []
    with _writing(bench, begun, table) as pen:
        for change in changes:
            table._update(write, change)
    _promote(bench, begun, pen)
    return RowWrite(bench, table, begun, write)


def _promote(bench: Workbench, attempt: Attempt, pen: _Pen) -> None:
    manifest = committing.prepare(bench, attempt, tuple(pen.staged))
    committing.promote_outputs(bench, attempt, manifest)


def schedule_compaction(bench: Workbench, table: TableBuilder) -> services.Planned:
    """A plan for every group with logs: of compaction, or, in version 6, of log compaction."""
    planned = [services._look(group) for group in table.live if group.latest.logs]
    strategy = None
    if table.shape.version == 6:
        strategy = compaction.CompactionStrategy(
            compactor_class_name=services.LOG_COMPACTOR_CLASS, strategy_params={}
        )

    def content(extra: Mapping[str, str]) -> bytes:
        return compaction.encode(
            compaction.CompactionPlan(
                operations=services._operations(table, planned),
                extra_metadata=dict(extra),
                strategy=strategy,
                preserve_hoodie_metadata=None if strategy is None else True,
            )
        )

    request = PlanRequest(
        action=Action.COMPACTION if table.shape.version != 6 else Action.LOG_COMPACTION,
        content=content,
        groups=tuple((one.group.partition, one.group.file_id) for one in planned),
        cancellable=True,
    )
    return services.Planned(planning.schedule(bench, request), planned)


def begin_compaction(bench: Workbench, table: TableBuilder, plan: services.Planned) -> RowWrite:
    """An attempt at the plan, up to its commit. In version 6 its files are nobody's."""
    claimed = claiming.claim(bench, plan.instant)
    assert isinstance(claimed, claiming.Attempt)
    write = Write(plan.instant, claimed.action, "COMPACT")
    with _writing(bench, claimed, table) as pen:
        for entry in plan.groups:
            change = Change(entry.group)
            rows = list(entry.rows.values())
            files.write_base(table, write, change, rows=rows, merges=entry.logs)
    _promote(bench, claimed, pen)
    return RowWrite(bench, table, claimed, write, is_compaction=True)
