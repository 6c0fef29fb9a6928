"""Rollback: plan, execute, and last of all remove the target's files from the timeline.

A rollback's plan names the last epoch that it is for. Its executor claims the target with a higher
one, so that what it deletes is fenced, and beats on the rollback. If the target was claimed for
execution meanwhile, that attempt has adopted the work; if it committed, there is none: either way
the rollback completes empty. Every step may be repeated by anybody.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakehand.core import file_names
from lakehand.core.instants import Action, Instant, State
from lakehand.core.journal import InstantRecord
from lakehand.core.journal_entries import Claim, Purpose, RollbackEnd, RollbackTarget
from lakehand.core.journal_moves import ENDED, Standing
from lakehand.core.markers import Marker, MarkerKind, write_token
from lakehand.errors import AlreadyCommitted, Conflict, PlanNotFound
from lakehand.formats import log_records
from lakehand.ports import PutOutcome
from lakehand.protocol import leftovers, planning, rollback_files, staging, traces
from lakehand.protocol.claiming import stage_inflight
from lakehand.protocol.heartbeats import Heartbeat, require_not_live
from lakehand.protocol.transaction import Append, Done, View, transaction

if TYPE_CHECKING:
    from lakehand.core.journal_entries import Body
    from lakehand.protocol.leftovers import Leftover
    from lakehand.protocol.transaction import Transaction
    from lakehand.protocol.workbench import Workbench

_OVER = frozenset({Standing.CANCELLED, Standing.ABORTING, Standing.ABORTED})


@dataclass(frozen=True, slots=True)
class _Claimed:
    """The executor's right to roll back."""

    target: str
    epoch: int
    keeps_plan: bool
    was_foreign: bool
    heartbeat: Heartbeat


def schedule_rollback(bench: Workbench, time: str) -> str:
    """Plan the rollback of a failed instant, or return the one that is planned already."""
    left = leftovers.find(bench, time, was_foreign=bench.journal.refresh().record(time).epoch == 0)
    with transaction(bench) as tx:
        return plan_rollback(bench, tx, time, left.files)


def plan_rollback(
    bench: Workbench,
    tx: Transaction,
    time: str,
    left: tuple[Leftover, ...],
    *,
    despite_live: bool = False,
) -> str:
    """Plan a rollback inside a transaction; a pending one for the same target is reused.

    ``despite_live``: a single writer knows that whoever beats there is its own predecessor.
    """
    known = traces.pending_rollbacks(bench, tx.view, time)
    if known:
        return known[0]
    tx.view.require_no_restore()
    record = tx.view.fold.record(time)
    instant = require_pending(tx.view, record, time)
    if not despite_live:
        require_not_live(bench, record, now_ms=tx.view.now_ms)
    target = RollbackTarget(time, last_epoch(record), keeps_plan(bench, tx.view, instant))
    return planning.request_rollback(
        tx, target, rollback_files.plan(bench.store.uri, instant, left)
    )


def last_epoch(record: InstantRecord) -> int:
    """Return the epoch of the last attempt, which is what a rollback is planned for.

    A write's attempt is its first from the request on, though it claims only with its data.
    """
    is_write = record.plan is not None and record.plan.is_ingestion
    return max(record.epoch, 1) if is_write else record.epoch


def require_pending(view: View, record: InstantRecord, time: str) -> Instant:
    """Return the target's instant, or say why it cannot be rolled back."""
    instant = view.timeline.find(time)
    if instant is None:
        raise PlanNotFound(f"there is no instant {time} on the timeline")
    if instant.is_completed or record.standing is Standing.COMMITTED:
        raise AlreadyCommitted(f"{time} is committed: only a restore takes it back")
    if record.standing in _OVER:
        raise Conflict(f"{time} is cancelled: its abort removes its files")
    return instant


def keeps_plan(bench: Workbench, view: View, instant: Instant) -> bool:
    """Whether a rollback removes only the attempt: so for every plan that is not removable."""
    is_removable = view.fold.record(instant.time).removable
    return traces.is_service_plan(bench, view, instant) and not is_removable


def execute_rollback(bench: Workbench, rollback: str, *, despite_live: bool = False) -> RollbackEnd:
    """Take a planned rollback to its end. Raises ``PlanBusy`` while another does."""
    with transaction(bench) as tx:
        claimed = tx.decide(lambda view: _claim(bench, view, rollback, despite_live=despite_live))
    if isinstance(claimed, RollbackEnd):
        return claimed
    try:
        left = leftovers.find(bench, claimed.target, was_foreign=claimed.was_foreign)
        lower = left.below(claimed.epoch)
        removed = leftovers.remove(bench, lower)
        commands = _append_commands(bench, rollback, claimed.target, lower)
        with transaction(bench) as tx:
            end = tx.decide(lambda view: _complete(view, rollback, claimed, removed, commands))
    finally:
        claimed.heartbeat.remove()
    bench.store.discard_area(staging.all_areas(rollback))
    if end is RollbackEnd.REMOVED:
        left = leftovers.find(bench, claimed.target, was_foreign=False)
        leftovers.forget(bench, claimed.target, left)
    return end


def _claim(
    bench: Workbench, view: View, rollback: str, *, despite_live: bool
) -> Done[_Claimed | RollbackEnd] | Append[_Claimed | RollbackEnd]:
    target = target_of(bench, view, rollback)
    record = view.fold.record(target.time)
    if _is_done(view, rollback):
        return Done(RollbackEnd.NOTHING)
    if has_gone_on(view, record, target):
        done = rollback_files.completed(view, record, rollback, end=RollbackEnd.NOTHING)
        return Append(done, RollbackEnd.NOTHING)
    view.require_no_restore()
    if not despite_live:
        require_not_live(bench, record, now_ms=view.now_ms)
        beat_of_rollback = InstantRecord(rollback, Standing.REQUESTED, since=0)
        require_not_live(bench, beat_of_rollback, now_ms=view.now_ms)
    epoch = record.epoch + 1
    heartbeat = Heartbeat(bench, rollback, epoch, claimed=target.time)
    body: Body = Claim(
        time=target.time,
        epoch=epoch,
        owner=bench.worker,
        purpose=Purpose.ROLL_BACK,
        beat=rollback,
        inflight=stage_inflight(bench, view, rollback, Action.ROLLBACK, epoch),
    )
    claimed = _Claimed(target.time, epoch, target.keeps_plan, record.epoch == 0, heartbeat)
    return Append(body, claimed, heartbeat=heartbeat, epoch=epoch)


def target_of(bench: Workbench, view: View, rollback: str) -> RollbackTarget:
    """Return what a planned rollback is for, from the journal or from a foreign plan."""
    plan = view.fold.record(rollback).plan
    if plan is not None and plan.target is not None:
        return plan.target
    instant = view.timeline.find(rollback, Action.ROLLBACK)
    if instant is None:
        raise PlanNotFound(f"there is no rollback {rollback} on the timeline")
    times = traces.targets_of(bench, view, Instant(rollback, Action.ROLLBACK, State.REQUESTED))
    if not times:
        raise PlanNotFound(f"the rollback {rollback} names no target")
    shown = view.timeline.find(times[0])
    keeps = shown is not None and keeps_plan(bench, view, shown)
    return RollbackTarget(times[0], up_to_epoch=0, keeps_plan=keeps)


def _is_done(view: View, rollback: str) -> bool:
    instant = view.timeline.find(rollback, Action.ROLLBACK)
    return instant is not None and instant.is_completed


def has_gone_on(view: View, record: InstantRecord, target: RollbackTarget) -> bool:
    """Whether the target ended, or was claimed for execution, since the rollback was planned."""
    if record.standing in ENDED or record.standing in _OVER:
        return True
    instant = view.timeline.find(target.time)
    if instant is None or not instant.is_pending:
        return True
    executing = record.claim is not None and record.claim.purpose is Purpose.EXECUTE
    return record.epoch > target.up_to_epoch and executing


def _complete(
    view: View,
    rollback: str,
    claimed: _Claimed,
    removed: tuple[str, ...],
    commands: dict[str, int],
) -> Done[RollbackEnd] | Append[RollbackEnd]:
    record = view.fold.record(claimed.target)
    if record.epoch != claimed.epoch or record.standing is not Standing.ROLLING_BACK:
        return Done(RollbackEnd.NOTHING)  # a newer attempt took the work over
    end = RollbackEnd.PLAN_KEPT if claimed.keeps_plan else RollbackEnd.REMOVED
    body = rollback_files.completed(
        view, record, rollback, end=end, removed=removed, commands=commands
    )
    return Append(body, end)


def _append_commands(
    bench: Workbench, rollback: str, target: str, left: tuple[Leftover, ...]
) -> dict[str, int]:
    """Take back blocks in log files that others share (table version 6), by command blocks.

    Each goes into a log file of its own, the next of its slice, announced by a marker of the
    rollback. A repetition adds another, which says the same.
    """
    written: dict[str, int] = {}
    for path in sorted({one.path for one in left if one.is_shared}):
        folder, _, name = path.rpartition("/")
        log = file_names.parse_log_file(name)
        if log is None:
            continue
        block = log_records.encode_rollback_command(instant=rollback, target=target)
        versions = [
            other.version
            for other in map(file_names.parse_log_file, bench.store.names(folder))
            if other is not None and (other.file_id, other.instant) == (log.file_id, log.instant)
        ]
        command = file_names.LogFileName(
            log.file_id, log.instant, max(versions, default=0) + 1, write_token(0, 1, 0)
        )
        command_path = f"{folder}/{command}" if folder else str(command)
        marker = Marker(command_path, MarkerKind.APPEND)
        bench.store.put(leftovers.marker_path(rollback, marker), b"")
        if bench.store.put_new(command_path, block) is not PutOutcome.WRITTEN:
            raise Conflict(f"{command_path} appeared meanwhile; execute the rollback again")
        written[command_path] = len(block)
    return written
