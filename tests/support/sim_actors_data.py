"""The data of the simulator's tables: names of rows in tiny files, and what names the files."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import kernel_tables
from lakehand.core.instants import Action
from lakehand.core.markers import Marker, MarkerKind, write_token
from lakehand.core.table_kinds import TableVersion
from lakehand.formats import commit_metadata
from lakehand.formats.commit_metadata import CommitMetadata, WriteOperation, WriteStat
from lakehand.formats.plans import clustering, compaction
from lakehand.protocol import leftovers, staging
from lakehand.protocol.timeline_loader import instant_path, load_timeline
from lakehand.store.memory import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lakehand.core.journal_entries import StagedFile
    from lakehand.core.table_config import TableConfig
    from lakehand.ports import Store
    from lakehand.protocol.claiming import Attempt
    from lakehand.protocol.workbench import Workbench

PARTITION = "p"


@cache
def config(version: TableVersion = TableVersion.NINE) -> TableConfig:
    """Return the configuration that every table of the simulator has."""
    return kernel_tables.create(MemoryStore(), version)


def rows_in(content: bytes) -> frozenset[str]:
    """Return the rows of a data file."""
    return frozenset(content.decode().split(","))


def stage_rows(
    bench: Workbench, attempt: Attempt, group: str, rows: frozenset[str], *, log: bool
) -> StagedFile:
    """Stage a base or log file as a task does: begin marker first, then the bytes."""
    token = write_token(0, attempt.epoch, 0)
    name = f".{group}_{attempt.time}.log.1_{token}" if log else f"{group}_{token}_{attempt.time}"
    path = f"{PARTITION}/{name}" if log else f"{PARTITION}/{name}.parquet"
    kind = MarkerKind.APPEND if log else MarkerKind.CREATE
    content = ",".join(sorted(rows)).encode()
    with bench.store.stage(path, area=staging.area(attempt.time, attempt.epoch)) as writer:
        leftovers.begin_file(bench.store, attempt.time, Marker(path, kind), writer.staged)
        writer.write(content)
        writer.close()
        return staging.as_decided(writer.staged, digest=staging.digest_of(content))


def stat_of(path: str) -> WriteStat:
    """Return the write stat of a data file, by its name."""
    name = path.rpartition("/")[2]
    group = name.lstrip(".").partition("_")[0]
    return WriteStat(file_id=group, path=path, partition_path=PARTITION)


def metadata_of(
    paths: tuple[str, ...],
    operation: WriteOperation,
    *,
    replaced: tuple[str, ...] | None = None,
    version: TableVersion = TableVersion.NINE,
) -> bytes:
    """Return the completed file of a write; ``replaced``: the groups that it replaces."""
    value = CommitMetadata(
        partition_to_write_stats={PARTITION: tuple(map(stat_of, paths))} if paths else {},
        operation_type=operation.value,
        partition_to_replace_file_ids=None if replaced is None else {PARTITION: replaced},
    )
    return commit_metadata.encode(value, version=int(version))


def current_groups(store: Store, groups: tuple[str, ...]) -> tuple[str, ...]:
    """Return where the rows of the groups are now: a clustering moves them from f1 to f1c.

    Asked after the write was requested, as an index look-up is: what completes later is news to
    the judge.
    """
    timeline = load_timeline(store, config())
    moved: set[str] = set()
    for instant in timeline.completed_replaces:
        content = store.get(instant_path(config(), instant)).content
        metadata = commit_metadata.decode(content, where=instant.time)
        moved.update((metadata.partition_to_replace_file_ids or {}).get(PARTITION, ()))
    return tuple(f"{group}c" if group in moved else group for group in groups)


def instant_of(path: str) -> str:
    """Return the instant that a data file's name bears."""
    name = path.rpartition("/")[2]
    if name.startswith("."):
        return name.partition("_")[2].partition(".")[0]
    return name.rpartition("_")[2].partition(".")[0]


def plan_document(
    action: Action, inputs: Mapping[str, tuple[str, ...]], extra: Mapping[str, str]
) -> bytes:
    """Return the requested file of a service."""
    if action is Action.CLUSTERING:
        slices = tuple(
            clustering.ClusteringSlice(
                file_id=group, partition_path=PARTITION, delta_file_paths=paths
            )
            for group, paths in inputs.items()
        )
        made = clustering.ClusteringPlan(input_groups=(clustering.ClusteringGroup(slices=slices),))
        return clustering.encode(
            clustering.RequestedReplace(
                operation_type="CLUSTER", clustering_plan=made, extra_metadata=dict(extra)
            )
        )
    operations = tuple(
        compaction.CompactionOperation(
            base_instant_time="0", file_id=group, partition_path=PARTITION, delta_file_paths=paths
        )
        for group, paths in inputs.items()
    )
    return compaction.encode(
        compaction.CompactionPlan(operations=operations, extra_metadata=dict(extra))
    )
