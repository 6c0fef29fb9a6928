"""Claiming: one worker begins an attempt, and every earlier attempt is fenced by its epoch.

::

    completed, aborted, not there        say so
    cancelled                            the caller finishes the cancellation
    live heartbeat of another            PlanBusy                        guard (RFC-79)
    removable and tried before           MustRollBack                    guard (RFC-79)
    a foreign attempt                    ForeignExecutor, unless a person allows the takeover
    else                                 claim(epoch + 1); heartbeat; inflight

After the lock, before any work, ``take_over`` removes what lower epochs left.
"""

from __future__ import annotations

from dataclasses import dataclass, field
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
from lakehand.core.journal_entries import (
    Claim,
    GroupKey,
    Overtaken,
    Plan,
    Purpose,
    RollbackEnd,
    StagedFile,
    Void,
)
from lakehand.core.journal_moves import WITHOUT_FILES, Standing
from lakehand.errors import (
    Conflict,
    ForeignExecutor,
    MustRollBack,
    PlanAborted,
    PlanCancelled,
    PlanNotFound,
)
from lakehand.protocol import leftovers, rollback_files, staging, traces
from lakehand.protocol.heartbeats import Heartbeat, require_not_live
from lakehand.protocol.timeline_loader import instant_path
from lakehand.protocol.transaction import Append, Done, View, transaction

if TYPE_CHECKING:
    from lakehand.core.journal import InstantRecord
    from lakehand.protocol.workbench import Workbench


@dataclass(slots=True)
class Attempt:
    """One try at an instant: its epoch, its heartbeat, and the view that it began on."""

    time: str
    action: Action
    epoch: int
    heartbeat: Heartbeat
    is_ingestion: bool
    cancellable: bool
    made_on: str
    """What the plan knew of: all that completed up to here."""
    seen: tuple[str, ...]
    """The completed writes that it was made on."""
    pending_at_start: frozenset[str] | None
    claimed_on: str
    was_tried: bool = False
    was_foreign: bool = False
    requested: StagedFile | None = None
    """The plan's file as it was decided; None: a foreign plan."""
    groups: tuple[GroupKey, ...] = ()
    schema: str | None = None
    schema_at_start: str | None = None
    rollbacks: tuple[str, ...] = field(default=())
    """Pending rollbacks of earlier attempts, adopted by this one."""

    @property
    def changes_data(self) -> bool:
        """Whether it can conflict with other writes."""
        return completed_action(self.action) in WRITE_ACTIONS

    @property
    def writes_files(self) -> bool:
        """Whether its commit names files that a manifest must have named before."""
        return self.action not in WITHOUT_FILES

    @classmethod
    def begun(cls, view: View, plan: Plan, heartbeat: Heartbeat) -> Attempt:
        """Return the attempt of an ingestion write that is about to be requested."""
        return cls(
            time=plan.time,
            action=plan.action,
            epoch=heartbeat.epoch,
            heartbeat=heartbeat,
            is_ingestion=True,
            cancellable=False,
            made_on=view.known_until,
            seen=plan.seen,
            pending_at_start=frozenset(plan.pending) if plan.pending is not None else None,
            claimed_on=view.known_until,
        )


@dataclass(frozen=True, slots=True)
class AlreadyCompleted:
    """The instant is committed; this is its completed file."""

    instant: Instant


def claim(bench: Workbench, time: str) -> Attempt | AlreadyCompleted:
    """Begin the next attempt at a plan, and clear away what earlier ones left.

    Raises ``PlanNotFound``, ``PlanAborted``, ``PlanCancelled`` (finish it: ``execute_cancel``),
    ``PlanBusy``, ``MustRollBack``, ``ForeignExecutor``, ``RestoreOpen``; nothing is changed then.
    """
    with transaction(bench) as tx:
        claimed: Attempt | AlreadyCompleted = tx.decide(lambda view: _claim(bench, view, time))
    if isinstance(claimed, Attempt):
        try:
            require_own_plan(bench, claimed)
            take_over(bench, claimed)
        except BaseException:
            claimed.heartbeat.remove()
            raise
    return claimed


def _claim(
    bench: Workbench, view: View, time: str
) -> Done[Attempt | AlreadyCompleted] | Append[Attempt | AlreadyCompleted]:
    instant = view.timeline.find(time)
    if instant is not None and instant.is_completed:
        return Done(AlreadyCompleted(instant))
    record = view.fold.record(time)
    require_claimable(instant, record, time)
    view.require_no_restore(but=time)
    attempt = _attempt(bench, view, record)
    if bench.settings.guard_enabled:
        require_free(bench, view, record, attempt.heartbeat)
    require_no_foreign_attempt(bench, view, record)
    body = Claim(
        time=time,
        epoch=attempt.epoch,
        owner=bench.worker,
        purpose=Purpose.EXECUTE,
        beat=time,
        inflight=stage_inflight(bench, view, time, attempt.action, attempt.epoch),
    )
    return Append(body, attempt, heartbeat=attempt.heartbeat, epoch=attempt.epoch)


def require_free(bench: Workbench, view: View, record: InstantRecord, heartbeat: Heartbeat) -> None:
    """Pass RFC-79's guard: nobody is live, and a removable plan was never tried."""
    found = require_not_live(bench, record, now_ms=view.now_ms)
    require_not_tried(bench, view, record)
    if record.beat == record.time:
        heartbeat.expect(found)


def require_claimable(instant: Instant | None, record: InstantRecord, time: str) -> None:
    """Raise the reason why there is nothing to execute."""
    if instant is not None and instant.state is State.ABORTED:
        raise PlanAborted(f"{time} was cancelled and aborted: it never runs again; plan anew")
    match record.standing:
        case Standing.CANCELLED | Standing.ABORTING:
            raise PlanCancelled(f"{time} is cancelled; its abort has to be finished")
        case Standing.ABORTED:
            raise PlanAborted(f"{time} was cancelled and aborted: it never runs again; plan anew")
        case Standing.VOIDED:
            raise MustRollBack(f"{time} was overtaken by a foreign commit; clean rolls it back")
        case Standing.SUPERSEDED | Standing.REMOVED | Standing.COMMITTED:
            raise PlanNotFound(f"{time} has ended: {record.standing.value}")
        case _:
            pass
    if instant is None:
        raise PlanNotFound(f"there is no plan {time} on the timeline")
    if record.plan is not None and record.plan.is_ingestion:
        raise MustRollBack(f"{time} is an ingestion write: only its writer can go on with it")


def require_not_tried(bench: Workbench, view: View, record: InstantRecord) -> None:
    """Refuse to try a removable plan again: its first attempt's rollback may be on its way."""
    if not record.removable:
        return
    if record.epoch > 0 or traces.pending_rollbacks(bench, view, record.time):
        raise MustRollBack(
            f"{record.time} is removable and was tried before, or is being rolled back; "
            "clean removes it, then plan anew"
        )


def require_no_foreign_attempt(bench: Workbench, view: View, record: InstantRecord) -> None:
    """Never take over an attempt that no claim of ours explains, unless a person allows it."""
    if record.epoch > 0 or not view.has_inflight(record.time):
        return
    if bench.journal.refresh().tail != view.fold.tail:
        raise Conflict(f"somebody decided about {record.time} meanwhile; try again")
    after_s = bench.settings.foreign_takeover_after_s
    age_s = (view.now_ms - parse_instant_time(record.time, bench.zone)) / 1000
    if after_s is None or age_s < after_s:
        raise ForeignExecutor(
            f"{record.time} is inflight without a claim: another writer executes it, or died. If "
            "it is dead, set foreign_takeover_after_s; inline compaction of Apache Hudi must be "
            "off on a table whose compaction is Lakehand's"
        )


def _attempt(bench: Workbench, view: View, record: InstantRecord) -> Attempt:
    instant = view.timeline.find(record.time)
    if instant is None:
        raise PlanNotFound(f"there is no plan {record.time} on the timeline")
    plan = record.plan
    pending = None if plan is None else plan.pending
    return Attempt(
        time=record.time,
        action=instant.action if plan is None else plan.action,
        epoch=record.epoch + 1,
        heartbeat=Heartbeat(bench, record.time, record.epoch + 1),
        is_ingestion=False,
        cancellable=plan is not None and plan.cancellable,
        made_on=(plan.made_on if plan is not None else None) or record.time,
        seen=plan.seen if plan is not None else (),
        pending_at_start=None if pending is None else frozenset(pending),
        claimed_on=view.known_until,
        was_tried=record.epoch > 0 or view.has_inflight(record.time),
        was_foreign=record.epoch == 0 and view.has_inflight(record.time),
        requested=plan.requested if plan is not None else None,
        groups=record.groups or (),
        rollbacks=traces.pending_rollbacks(bench, view, record.time),
    )


def stage_inflight(
    bench: Workbench, view: View, time: str, action: Action, epoch: int, content: bytes = b""
) -> StagedFile | None:
    """Stage the inflight file; None if an earlier attempt's stands, which stays."""
    if view.has_inflight(time):
        return None
    path = instant_path(view.config, Instant(time, action, State.INFLIGHT))
    return staging.stage(bench.store, path, content, time=time, epoch=epoch)


def require_own_plan(bench: Workbench, attempt: Attempt) -> None:
    """Look whether the requested file is the plan that was decided, before it is executed.

    While two held the lock a foreign writer may have taken the name, and the publisher died.
    """
    requested = attempt.requested
    if requested is None:
        return
    content = traces.read_file(bench, requested.final)
    if content is not None and staging.digest_of(content) == requested.digest:
        return
    staging.discard(bench.store, requested)
    void = Void(attempt.time, Overtaken.NAME_TAKEN)
    with transaction(bench) as tx:
        tx.decide(lambda view: Append(void, None) if view.fold.allows(void) else Done(None))
    raise Conflict(f"{requested.final} is a foreign writer's file: plan anew")


def take_over(bench: Workbench, attempt: Attempt) -> None:
    """Remove what attempts before this one left, and complete the rollbacks that were to do it."""
    if not (attempt.was_tried or attempt.rollbacks):
        return
    left = leftovers.find(bench, attempt.time, was_foreign=attempt.was_foreign)
    removed = leftovers.remove(bench, left.below(attempt.epoch))
    for rollback in attempt.rollbacks:
        with transaction(bench) as tx:
            tx.decide(partial(_adopt, bench, attempt, rollback, removed))


def _adopt(
    bench: Workbench, attempt: Attempt, rollback: str, removed: tuple[str, ...], view: View
) -> Done[None] | Append[None]:
    """Complete a rollback whose work this attempt has done."""
    record = view.fold.record(attempt.time)
    if record.epoch != attempt.epoch or rollback not in traces.pending_rollbacks(
        bench, view, attempt.time
    ):
        return Done(None)
    body = rollback_files.completed(
        view, record, rollback, end=RollbackEnd.NOTHING, removed=removed
    )
    return Append(body, None)
