"""Table services on a table that the builder writes: scheduled and executed, or left pending.

Every plan is made from what the builder remembers, and encoded by the shipped plan formats. The
rows that a service writes come from the model as it stood when the plan was made.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import table_builder_files as files
import table_builder_timeline as timeline
from lakehand.core.instants import Action, State, parse_instant_time
from lakehand.formats.plans import clean, clustering, compaction, savepoint
from table_builder import Change, Group, Slice, Write

if TYPE_CHECKING:
    from collections.abc import Iterable

    from table_builder import TableBuilder, Winner
    from table_builder_rows import Row

CLEAN_POLICY = "KEEP_LATEST_COMMITS"
LOG_COMPACTOR_CLASS = "org.apache.hudi.table.action.compact.LogCompactionExecutionHelper"
CLUSTERING_CLASS = (
    "org.apache.hudi.client.clustering.run.strategy.SparkSortAndSizeExecutionStrategy"
)


@dataclass(slots=True)
class PlannedGroup:
    """One group of a plan, with the rows and the log winners as they stood."""

    group: Group
    base_instant: str
    base: str | None
    logs: list[str]
    rows: dict[str, Row]
    winners: dict[str, Winner]


@dataclass(slots=True)
class Planned:
    instant: str
    groups: list[PlannedGroup]


def _look(group: Group) -> PlannedGroup:
    latest = group.latest
    return PlannedGroup(
        group=group,
        base_instant=latest.instant,
        base=latest.base,
        logs=list(latest.logs),
        rows=dict(group.rows),
        winners=dict(latest.winners),
    )


def _operations(
    table: TableBuilder, planned: list[PlannedGroup]
) -> tuple[compaction.CompactionOperation, ...]:
    return tuple(
        compaction.CompactionOperation(
            base_instant_time=entry.base_instant,
            delta_file_paths=tuple(entry.logs),
            data_file_path=entry.base,
            file_id=entry.group.file_id,
            partition_path=entry.group.partition,
            metrics=_metrics(table, entry),
        )
        for entry in planned
    )


def _metrics(table: TableBuilder, entry: PlannedGroup) -> dict[str, float]:
    """Java 1.2.0 executes no plan whose operations lack the size of their log files."""
    size = float(sum(table.size(entry.group.path(log)) for log in entry.logs))
    base = 0.0 if entry.base is None else float(table.size(entry.group.path(entry.base)))
    read, written = (size + base) / (1 << 20), base / (1 << 20)
    return {
        "TOTAL_LOG_FILES": float(len(entry.logs)),
        "TOTAL_LOG_FILES_SIZE": size,
        "TOTAL_IO_READ_MB": read,
        "TOTAL_IO_WRITE_MB": written,
        "TOTAL_IO_MB": read + written,
    }


# -- compaction -------------------------------------------------------------------------------


def schedule_compaction(table: TableBuilder) -> Planned:
    """Every group with log files. From now on writers of version 6 name logs after the plan."""
    instant = table.tick()
    planned = [_look(group) for group in table.live if group.latest.logs]
    assert planned
    plan = compaction.CompactionPlan(operations=_operations(table, planned), extra_metadata={})
    content = compaction.encode(plan)
    timeline.write_state(table, instant, Action.COMPACTION, State.REQUESTED, content)
    for entry in planned:
        entry.group.slices.append(Slice(instant, None))
    return Planned(instant, planned)


def execute_compaction(table: TableBuilder, plan: Planned) -> None:
    timeline.write_state(table, plan.instant, Action.COMPACTION, State.INFLIGHT, b"")
    write = Write(plan.instant, Action.COMPACTION, "COMPACT")
    for entry in plan.groups:
        change = Change(entry.group)
        files.write_base(table, write, change, rows=list(entry.rows.values()), merges=entry.logs)
        opened = next(slice_ for slice_ in entry.group.slices if slice_.instant == plan.instant)
        opened.base = change.base
        entry.group.deleted.clear()
    timeline.write_completed(table, write, table.tick())


def compact_logs(table: TableBuilder) -> None:
    """A log compaction, planned and done: a new log file in each slice, and no new base file."""
    instant = table.tick()
    planned = [_look(group) for group in table.live if len(group.latest.logs) > 1]
    assert planned
    plan = compaction.CompactionPlan(
        operations=_operations(table, planned),
        extra_metadata={},
        strategy=compaction.CompactionStrategy(
            compactor_class_name=LOG_COMPACTOR_CLASS, strategy_params={}
        ),
        preserve_hoodie_metadata=True,
    )
    content = compaction.encode(plan)
    timeline.write_state(table, instant, Action.LOG_COMPACTION, State.REQUESTED, content)
    timeline.write_state(table, instant, Action.LOG_COMPACTION, State.INFLIGHT, b"")
    write = Write(instant, Action.LOG_COMPACTION, "LOG_COMPACT")
    for entry in planned:
        change = Change(entry.group)
        files.append_compacted_log(table, write, change, entry.winners)
        if table.shape.version != 6:
            assert change.log is not None
            entry.group.latest.logs.append(change.log)
    timeline.write_completed(table, write, table.tick())


# -- clustering -------------------------------------------------------------------------------


def _clustering_action(table: TableBuilder) -> Action:
    return Action.REPLACE_COMMIT if table.shape.version == 6 else Action.CLUSTERING


def schedule_clustering(table: TableBuilder, partitions: Iterable[str]) -> Planned:
    """In each partition all groups become one, sorted by ``id``."""
    instant = table.tick()
    wanted = sorted(set(partitions))
    planned = [_look(group) for group in table.live if group.partition in wanted]
    assert planned
    groups = tuple(
        clustering.ClusteringGroup(
            slices=tuple(
                _clustering_slice(table, entry)
                for entry in planned
                if entry.group.partition == partition
            ),
            metrics={},
            num_output_file_groups=1,
            extra_metadata={},
        )
        for partition in wanted
    )
    plan = clustering.ClusteringPlan(
        input_groups=groups,
        strategy=clustering.ClusteringStrategy(
            strategy_class_name=CLUSTERING_CLASS,
            strategy_params={"hoodie.clustering.plan.strategy.sort.columns": "id"},
        ),
        extra_metadata={},
        preserve_hoodie_metadata=True,
    )
    content = clustering.encode(
        clustering.RequestedReplace(
            operation_type="CLUSTER", clustering_plan=plan, extra_metadata={}
        )
    )
    action = _clustering_action(table)
    timeline.write_state(table, instant, action, State.REQUESTED, content)
    return Planned(instant, planned)


def _clustering_slice(table: TableBuilder, entry: PlannedGroup) -> clustering.ClusteringSlice:
    base = "" if entry.base is None else table.absolute(entry.group.path(entry.base))
    logs = reversed(entry.logs)
    return clustering.ClusteringSlice(
        data_file_path=base,
        delta_file_paths=tuple(table.absolute(entry.group.path(log)) for log in logs),
        file_id=entry.group.file_id,
        partition_path=entry.group.partition,
        bootstrap_file_path="",
    )


def execute_clustering(table: TableBuilder, plan: Planned) -> None:
    action = _clustering_action(table)
    timeline.write_state(table, plan.instant, action, State.INFLIGHT, b"")
    write = Write(plan.instant, action, "CLUSTER")
    write.replaces = [entry.group for entry in plan.groups]
    for partition in sorted({group.partition for group in write.replaces}):
        rows: dict[str, Row] = {}
        for entry in plan.groups:
            if entry.group.partition == partition:
                rows.update(entry.rows)
        change = Change(Group(partition, table.new_file_id(), rows=rows))
        files.write_base(table, write, change, rows=[rows[key] for key in sorted(rows)])
        change.group.slices.append(Slice(plan.instant, change.base))
        table.groups.append(change.group)
    for group in write.replaces:
        group.replaced_by = plan.instant
    timeline.write_completed(table, write, table.tick())


# -- savepoint and clean ----------------------------------------------------------------------


def make_savepoint(table: TableBuilder) -> str:
    """Pin the files of the latest slices, at the newest write."""
    pinned: dict[str, list[str]] = {}
    for group in table.live:
        kept = group.slices[group.slices.index(group.visible) :]
        names = [name for slice_ in kept for name in slice_.files]
        pinned.setdefault(group.partition, []).extend(names)
        table.pinned.update(group.path(name) for name in names)
    instant = table.last_write
    table.pinned_times.add(table.history[-1][0])
    metadata = savepoint.SavepointMetadata(
        savepointed_by="tests",
        savepointed_at=parse_instant_time(instant),
        comments="kept",
        partition_metadata={
            partition: savepoint.SavepointPartition(
                partition_path=partition, savepoint_data_file=tuple(names)
            )
            for partition, names in pinned.items()
        },
    )
    timeline.write_state(table, instant, Action.SAVEPOINT, State.INFLIGHT, b"")
    content = savepoint.encode(metadata)
    timeline.write_finished(table, instant, Action.SAVEPOINT, content, table.tick())
    return instant


def clean_up(table: TableBuilder) -> int:
    """Delete what no reader of now needs and no savepoint pins; return how many files."""
    instant = table.tick()
    doomed = _superseded(table)
    plan = clean.CleanerPlan(
        earliest_instant_to_retain=clean.RetainedInstant(
            timestamp=table.last_write, action=table.write_action.value, state="COMPLETED"
        ),
        last_completed_commit_timestamp=table.last_write,
        policy=CLEAN_POLICY,
        files_to_be_deleted_per_partition={},
        file_paths_to_be_deleted_per_partition={
            partition: tuple(
                clean.CleanFile(
                    file_path=table.absolute(f"{partition}/{name}" if partition else name),
                    is_bootstrap_base_file=False,
                )
                for name in names
            )
            for partition, names in doomed.items()
        },
        partitions_to_be_deleted=(),
        extra_metadata={},
    )
    content = clean.encode_plan(plan)
    timeline.write_state(table, instant, Action.CLEAN, State.REQUESTED, content)
    copy = b"" if table.shape.version == 9 else content
    timeline.write_state(table, instant, Action.CLEAN, State.INFLIGHT, copy)
    for partition, names in doomed.items():
        for name in names:
            table.store.delete(f"{partition}/{name}" if partition else name)
    table.history = [(time, model) for time, model in table.history if time in table.pinned_times]
    count = sum(len(names) for names in doomed.values())
    metadata = clean.CleanMetadata(
        start_clean_time=instant,
        time_taken_in_millis=7,
        total_files_deleted=count,
        earliest_commit_to_retain=table.last_write,
        last_completed_commit_timestamp=table.last_write,
        partition_metadata={
            partition: clean.CleanedPartition(
                partition_path=partition,
                policy=CLEAN_POLICY,
                delete_path_patterns=tuple(names),
                success_delete_files=tuple(names),
                failed_delete_files=(),
                is_partition_deleted=False,
            )
            for partition, names in doomed.items()
        },
        bootstrap_partition_metadata={},
        extra_metadata={},
    )
    content = clean.encode_metadata(metadata)
    timeline.write_finished(table, instant, Action.CLEAN, content, table.tick())
    return count


def _superseded(table: TableBuilder) -> dict[str, list[str]]:
    """Names of old files by partition; the slices that lose all of them are forgotten."""
    doomed: dict[str, list[str]] = {}
    for group in table.groups:
        end = len(group.slices) if group.replaced_by else group.slices.index(group.visible)
        for slice_ in group.slices[:end]:
            names = [name for name in slice_.files if group.path(name) not in table.pinned]
            if names:
                doomed.setdefault(group.partition, []).extend(names)
            if len(names) == len(slice_.files):
                group.slices.remove(slice_)
    return doomed
