"""What every clean does first: failed writes, cancellation policies, aborts, and the sweep.

Failed writes go in two phases, so that the lock is held for decisions only::

    before the lock   candidates are listed, and what their attempts left
    one transaction   reload; walk all pending instants; schedule every missing rollback
    outside           execute all pending rollbacks, old and new
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, unique
from functools import partial
from typing import TYPE_CHECKING

from lakehand.core.instants import (
    WRITE_ACTIONS,
    Action,
    Instant,
    State,
    completed_action,
    parse_instant_time,
)
from lakehand.core.journal_moves import ENDED, Standing
from lakehand.errors import Conflict, Corrupt, Fenced, Invalid
from lakehand.protocol import (
    cancelling,
    footprint_reader,
    heartbeats,
    leftovers,
    publishing,
    rolling_back,
    traces,
)
from lakehand.protocol.staging import TEMP
from lakehand.protocol.transaction import load_view, transaction

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lakehand.core.journal import InstantRecord
    from lakehand.core.journal_entries import RollbackEnd
    from lakehand.protocol.leftovers import Leftover
    from lakehand.protocol.transaction import Transaction, View
    from lakehand.protocol.workbench import Workbench


@unique
class FailedWritesPolicy(Enum):
    """Hudi's policies for writes that did not complete."""

    EAGER = "EAGER"
    """A single writer: every pending write is a failed one."""
    LAZY = "LAZY"
    """Several writers: a pending write has failed when its heartbeat expired."""
    NEVER = "NEVER"


@dataclass(frozen=True, slots=True)
class CleanUp:
    """What was done, and what could not be done now."""

    rolled_back: Mapping[str, RollbackEnd]
    aborted: tuple[str, ...]
    left: Mapping[str, str]
    """Instants that are to be tried again by the next clean, and why."""


def clean_up(bench: Workbench, *, policy: FailedWritesPolicy = FailedWritesPolicy.LAZY) -> CleanUp:
    """Do all that every clean does, also when nothing is to be cleaned."""
    left: dict[str, str] = {}
    rolled_back = roll_back_failed_writes(bench, policy=policy, left=left)
    cancel_overdue(bench)
    aborted = abort_cancelled(bench, left=left)
    sweep(bench)
    return CleanUp(rolled_back, aborted, left)


# -- failed writes --------------------------------------------------------------------------------


def roll_back_failed_writes(
    bench: Workbench, *, policy: FailedWritesPolicy, left: dict[str, str]
) -> dict[str, RollbackEnd]:
    """Roll back what failed; what another works on, or fails here, is noted in ``left``."""
    if policy is FailedWritesPolicy.NEVER:
        return {}
    view = load_view(bench)
    found = {
        instant.time: leftovers.find(
            bench, instant.time, was_foreign=view.fold.record(instant.time).epoch == 0
        ).files
        for instant in view.timeline.pending
        if is_failed(bench, view, instant, policy=policy)
    }
    with transaction(bench) as tx:
        rollbacks = set(pending_rollbacks(bench, tx.view))
        for time, files in found.items():
            try:
                rollbacks |= _schedule_again(bench, tx, time, files, policy)
            except _LEFT_TO_LATER as why:
                left[time] = str(why)
    done: dict[str, RollbackEnd] = {}
    for rollback in sorted(rollbacks):
        try:
            done[rollback] = rolling_back.execute_rollback(
                bench, rollback, despite_live=policy is FailedWritesPolicy.EAGER
            )
        except _LEFT_TO_LATER as why:
            left[rollback] = str(why)
    return done


def _schedule_again(
    bench: Workbench,
    tx: Transaction,
    time: str,
    files: tuple[Leftover, ...],
    policy: FailedWritesPolicy,
) -> set[str]:
    """Look again, now under the lock, whether the candidate has failed; then plan its rollback."""
    instant = tx.view.timeline.find(time)
    if instant is None or not is_failed(bench, tx.view, instant, policy=policy):
        return set()
    eager = policy is FailedWritesPolicy.EAGER
    rollback = rolling_back.plan_rollback(bench, tx, time, files, despite_live=eager)
    # A foreign one that is young is left to its writer; ``pending_rollbacks`` knows the others.
    return {rollback} if rollback in tx.view.fold.instants else set()


def is_failed(
    bench: Workbench, view: View, instant: Instant, *, policy: FailedWritesPolicy
) -> bool:
    """Whether clean has to roll an instant back."""
    record = view.fold.record(instant.time)
    if not instant.is_pending or record.standing in ENDED or _is_cancelled(record):
        return False
    if record.standing is Standing.VOIDED:
        return True
    if instant.action not in _WRITES:
        return False
    if traces.is_service_plan(bench, view, instant):
        return (
            record.removable
            and is_past_delay(bench, view, record)
            and not is_live(bench, view, record)
        )
    return policy is FailedWritesPolicy.EAGER or not is_live(bench, view, record)


def _is_cancelled(record: InstantRecord) -> bool:
    return record.standing in (Standing.CANCELLED, Standing.ABORTING)


def is_past_delay(bench: Workbench, view: View, record: InstantRecord) -> bool:
    """Whether a removable plan waited ``table_service_rollback_delay`` for its execution."""
    age_ms = view.now_ms - record.planned_at_ms
    return age_ms >= bench.settings.rollback_delay_minutes * 60_000


def is_live(bench: Workbench, view: View, record: InstantRecord) -> bool:
    """Whether an attempt at the instant is live."""
    return heartbeats.live_beat(bench, record, now_ms=view.now_ms) is not None


def pending_rollbacks(bench: Workbench, view: View) -> tuple[str, ...]:
    """Return every rollback under way that may be executed, ours and foreign ones.

    Apache Hudi keeps no heartbeat on its rollbacks, so a foreign one is left alone until it is as
    old as an expired heartbeat would be.
    """
    young_ms = bench.settings.heartbeat_tolerance_ms
    return tuple(
        one.time
        for one in view.timeline.pending
        if one.action is Action.ROLLBACK
        and (
            one.time in view.fold.instants
            or view.now_ms - parse_instant_time(one.time, bench.zone) > young_ms
        )
    )


_WRITES = frozenset(action for action in Action if completed_action(action) in WRITE_ACTIONS)

_LEFT_TO_LATER = (Conflict, Fenced, Invalid, Corrupt)
"""What keeps one instant from being cleaned up now, but not the others."""

_OVERDUE = "past its cancellation policy"

# -- cancellation ---------------------------------------------------------------------------------


def cancel_overdue(bench: Workbench) -> tuple[str, ...]:
    """Request the cancellation of every incomplete plan that is past its policy."""
    view = load_view(bench)
    overdue = tuple(one.time for one in view.fold.open if is_overdue(view, one))
    if overdue:
        with transaction(bench) as tx:
            for time in overdue:
                if is_overdue(tx.view, tx.view.fold.record(time)):
                    tx.decide(partial(cancelling.cancel_decision, time=time, reason=_OVERDUE))
    return overdue


def is_overdue(view: View, record: InstantRecord) -> bool:
    """Whether an incomplete plan waited as long as its policy allows."""
    plan = record.plan
    if plan is None or not plan.cancellable or plan.policy is None or _is_cancelled(record):
        return False
    if record.standing in ENDED or record.standing is Standing.FOREIGN:
        return False
    if record.epoch == 0 and view.has_inflight(record.time):
        return False  # a foreign writer executes it: nothing could be promised
    policy = plan.policy
    age_ms = view.now_ms - record.planned_at_ms
    done = (one.completion_time or one.time for one in view.timeline.completed_writes)
    writes = sum(1 for completed in done if completed > record.time)
    return (policy.hours is not None and age_ms >= policy.hours * 3_600_000) or (
        policy.completed_writes is not None and writes >= policy.completed_writes
    )


def abort_cancelled(bench: Workbench, *, left: dict[str, str]) -> tuple[str, ...]:
    """Take everything that the journal says is cancelled to its end, skipping the live."""
    fold = bench.journal.refresh()
    now_ms = bench.store.now()
    aborted = []
    for record in fold.open:
        if not _is_cancelled(record) or _is_young(bench, record, now_ms):
            continue
        try:
            cancelling.execute_cancel(bench, record.time)
            aborted.append(record.time)
        except _LEFT_TO_LATER as why:
            left[record.time] = str(why)
    return tuple(aborted)


def _is_young(bench: Workbench, record: InstantRecord, now_ms: int) -> bool:
    """Whether a cancelled plan is still left to its own worker to abort."""
    delay_ms = bench.settings.cancel_clean_delay_s * 1000
    return delay_ms > 0 and now_ms - record.since_ms < delay_ms


# -- sweep ----------------------------------------------------------------------------------------


def sweep(bench: Workbench) -> tuple[str, ...]:
    """Clear away markers, stages, heartbeats and the like of instants that have ended.

    The folders are listed before the timeline: whatever has one and is not pending then has ended,
    or is about to begin. That one is not in the journal either, and its time is of just now.
    """
    store = bench.store
    folders = [
        folder
        for above in (TEMP, leftovers.MANIFESTS, leftovers.MARKS)
        for folder in store.list(above).folders
    ]
    beats = {one.path.rpartition("/")[2]: one for one in store.list(heartbeats.FOLDER).objects}
    cancelled = store.names(publishing.CANCEL_FOLDER)
    times = {path.rpartition("/")[2] for path in folders} | set(beats) | set(cancelled)
    view = load_view(bench)
    young = view.now_ms - bench.settings.heartbeat_tolerance_ms
    live = {time for time, beat in beats.items() if beat.modified_ms >= young}
    swept = tuple(
        time
        for time in sorted(times - live)
        if has_ended(bench, view, time)
        and (time in beats or not may_begin(bench, view, time, since_ms=young))
    )
    for time in swept:
        left = leftovers.find(bench, time, was_foreign=False)
        leftovers.remove(bench, strays(bench, view, time, left.files))
        leftovers.forget(bench, time, left)
        bench.store.delete(heartbeats.path_of(time))
        bench.store.delete(publishing.cancel_path(time))
    return swept


def strays(
    bench: Workbench, view: View, time: str, files: tuple[Leftover, ...]
) -> tuple[Leftover, ...]:
    """Return files of our attempts that an instant which has ended does not name.

    They are left when a foreign writer ended the instant under a worker that was still promoting.
    An instant that was archived is committed: what it names cannot be read here, so none is.
    """
    ours = tuple(one for one in files if one.epoch > 0)
    instant = view.timeline.find(time)
    if instant is None or not instant.is_completed:
        is_gone = not view.timeline.is_committed(time) or (
            bool(ours) and instant is None and traces.was_never_archived(bench, view, time)
        )
        return ours if is_gone else ()
    named = footprint_reader.files_of(bench, view, instant)
    if named is None:
        return ()
    return tuple(one for one in ours if one.path not in named)


def may_begin(bench: Workbench, view: View, time: str, *, since_ms: int) -> bool:
    """Whether an instant that nobody knows was drawn so lately that its decision may follow.

    Its plan is staged, under the lock, before the decision and before its heartbeat.
    """
    if time in view.fold.instants or view.timeline.find(time) is not None:
        return False
    try:
        return parse_instant_time(time, bench.zone) >= since_ms
    except Invalid:
        return False  # digits, but no time: nobody ever draws it


def has_ended(bench: Workbench, view: View, time: str) -> bool:
    """Whether an instant is over, published, and nobody will go on with it."""
    record = view.fold.instants.get(time)
    is_published = record is None or (
        record.standing in ENDED and record.since <= bench.journal.published
    )
    if not is_published or not time.isdecimal():
        return False
    return all(
        one.state in (State.COMPLETED, State.ABORTED)
        for one in view.timeline.instants
        if one.time == time
    )
