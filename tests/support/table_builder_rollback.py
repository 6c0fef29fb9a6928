"""Rolling back a pending write that the builder made.

Version 6 leaves the log files where they are and appends a command block in a file of its own;
from version 8 on the log files of the failed write are deleted like its base files.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import table_builder_files as files
import table_builder_timeline as timeline
from lakehand.core.instants import Action, State
from lakehand.formats.plans import rollback

if TYPE_CHECKING:
    from table_builder import Change, TableBuilder, Write


def roll_back(table: TableBuilder, target: Write) -> None:
    instant = table.tick()
    info = rollback.InstantInfo(commit_time=target.instant, action=target.action.value)
    plan = rollback.RollbackPlan(
        instant_to_rollback=info,
        rollback_requests=tuple(_request(table, target, change) for change in target.changes),
    )
    content = rollback.encode_plan(plan)
    timeline.write_state(table, instant, Action.ROLLBACK, State.REQUESTED, content)
    timeline.write_state(table, instant, Action.ROLLBACK, State.INFLIGHT, b"")
    partitions: dict[str, rollback.RolledBackPartition] = {}
    for partition in sorted({change.group.partition for change in target.changes}):
        changes = [change for change in target.changes if change.group.partition == partition]
        partitions[partition] = _undo(table, target, changes, instant)
    timeline.remove_pending(table, target)
    metadata = rollback.RollbackMetadata(
        start_rollback_time=instant,
        time_taken_in_millis=12,
        total_files_deleted=sum(len(done.success_delete_files) for done in partitions.values()),
        commits_rollback=(target.instant,),
        partition_metadata=partitions,
        instants_rollback=(info,),
    )
    content = rollback.encode_metadata(metadata)
    timeline.write_finished(table, instant, Action.ROLLBACK, content, table.tick())


def _request(table: TableBuilder, target: Write, change: Change) -> rollback.RollbackRequest:
    group = change.group
    if change.log is not None and table.shape.version == 6:
        return rollback.RollbackRequest(
            partition_path=group.partition,
            file_id=group.file_id,
            latest_base_instant=group.latest.instant,
            log_blocks_to_be_deleted={change.log: 1},
        )
    return rollback.RollbackRequest(
        partition_path=group.partition,
        file_id=group.file_id,
        latest_base_instant=target.instant,
        files_to_be_deleted=(table.absolute(group.path(change.file)),),
        log_blocks_to_be_deleted={},
    )


def _undo(
    table: TableBuilder, target: Write, changes: list[Change], instant: str
) -> rollback.RolledBackPartition:
    deleted: list[str] = []
    commands: dict[str, int] = {}
    poisoned: dict[str, int] = {}
    for change in changes:
        if change.log is not None and table.shape.version == 6:
            name, size = files.append_rollback_command(table, change.group, target, instant)
            commands[f"file:{table.absolute(change.group.path(name))}"] = size
            poisoned[change.log] = 1
        else:
            table.store.delete(change.group.path(change.file))
            deleted.append(table.absolute(change.group.path(change.file)))
    return rollback.RolledBackPartition(
        partition_path=changes[0].group.partition,
        success_delete_files=tuple(deleted),
        failed_delete_files=(),
        rollback_log_files=commands,
        log_files_from_failed_commit=poisoned,
    )
