"""The files of a rollback instant: its plan, and what it says when it is done."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakehand.core import file_names
from lakehand.core.instants import Action, Instant, State
from lakehand.core.journal_entries import RollbackEnd, RolledBack
from lakehand.formats.plans import rollback
from lakehand.protocol import staging
from lakehand.protocol.timeline_loader import instant_path

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lakehand.core.journal import InstantRecord
    from lakehand.protocol.leftovers import Leftover
    from lakehand.protocol.transaction import View


def plan(uri: str, target: Instant, left: tuple[Leftover, ...]) -> bytes:
    """Return the plan of a rollback, in Hudi's words, so that Java could execute it too."""
    info = rollback.InstantInfo(commit_time=target.time, action=target.action.value)
    requests = tuple(_request(uri, target.time, one) for one in left)
    return rollback.encode_plan(
        rollback.RollbackPlan(instant_to_rollback=info, rollback_requests=requests)
    )


def _request(uri: str, time: str, left: Leftover) -> rollback.RollbackRequest:
    partition, _, name = left.path.rpartition("/")
    base, log = file_names.parse_base_file(name), file_names.parse_log_file(name)
    file_id = base.file_id if base is not None else (log.file_id if log is not None else None)
    if left.is_shared and log is not None:
        return rollback.RollbackRequest(
            partition_path=partition,
            file_id=file_id,
            latest_base_instant=log.instant,
            log_blocks_to_be_deleted={name: 1},
        )
    return rollback.RollbackRequest(
        partition_path=partition,
        file_id=file_id,
        latest_base_instant=time,
        files_to_be_deleted=(f"{uri}/{left.path}",),
        log_blocks_to_be_deleted={},
    )


def completed(
    view: View,
    target: InstantRecord,
    time: str,
    *,
    end: RollbackEnd,
    removed: tuple[str, ...] = (),
    commands: Mapping[str, int] | None = None,
) -> RolledBack:
    """Stage the completed file of rollback ``time`` and return the decision that names it."""
    completion = view.draw_time()
    instant = Instant(time, Action.ROLLBACK, State.COMPLETED, completion)
    shown = view.timeline.find(target.time)
    action = shown.action if shown is not None else (target.plan.action if target.plan else None)
    content = _metadata(view, time, target.time, action, removed, commands or {})
    staged = staging.stage(
        view.bench.store,
        instant_path(view.config, instant),
        content,
        time=time,
        epoch=target.epoch,
    )
    return RolledBack(
        time=target.time,
        epoch=target.epoch,
        end=end,
        rollback=time,
        completion_time=completion,
        completed=staged,
    )


def _metadata(
    view: View,
    time: str,
    target: str,
    action: Action | None,
    removed: tuple[str, ...],
    commands: Mapping[str, int],
) -> bytes:
    uri = view.bench.store.uri
    partitions: dict[str, rollback.RolledBackPartition] = {}
    for partition in sorted({path.rpartition("/")[0] for path in (*removed, *commands)}):
        partitions[partition] = rollback.RolledBackPartition(
            partition_path=partition,
            success_delete_files=tuple(
                f"{uri}/{path}" for path in removed if path.rpartition("/")[0] == partition
            ),
            failed_delete_files=(),
            rollback_log_files={
                f"{uri}/{path}": size
                for path, size in commands.items()
                if path.rpartition("/")[0] == partition
            },
            log_files_from_failed_commit={},
        )
    info = rollback.InstantInfo(commit_time=target, action=(action or Action.COMMIT).value)
    return rollback.encode_metadata(
        rollback.RollbackMetadata(
            start_rollback_time=time,
            time_taken_in_millis=0,
            total_files_deleted=len(removed),
            commits_rollback=(target,),
            partition_metadata=partitions,
            instants_rollback=(info,),
        )
    )
