"""Cancellation: anybody may ask for it, and one place carries it out.

After ``request_cancel`` returned, the instant never commits, whatever its executor does: the
decision stands in the journal, where every commit looks. ``execute_cancel`` then claims the instant
(which fences the executor), removes what attempts left, and ends it in ``.aborted``. Both may be
repeated by anybody, after a crash at any step.
"""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING

from lakehand.core.instants import Instant, State
from lakehand.core.journal_entries import Abort, Cancel, Claim, Purpose
from lakehand.core.journal_moves import Standing
from lakehand.errors import (
    AlreadyCommitted,
    Conflict,
    Fenced,
    ForeignExecutor,
    Invalid,
    NotCancellable,
    PlanNotFound,
)
from lakehand.protocol import leftovers, publishing, staging, traces
from lakehand.protocol.heartbeats import Heartbeat, require_not_live
from lakehand.protocol.timeline_loader import instant_path
from lakehand.protocol.transaction import Append, Done, View, transaction

if TYPE_CHECKING:
    from lakehand.core.journal import InstantRecord
    from lakehand.protocol.workbench import Workbench

_CANCELLED = frozenset({Standing.CANCELLED, Standing.ABORTING, Standing.ABORTED})


def request_cancel(bench: Workbench, time: str, *, reason: str) -> None:
    """Decide that the plan never commits. Returns at once, also when it was decided before.

    Raises ``AlreadyCommitted``, ``NotCancellable``, ``ForeignExecutor``, ``PlanNotFound``.
    """
    with transaction(bench) as tx:
        tx.decide(lambda view: cancel_decision(view, time, reason=reason))


def cancel_decision(view: View, time: str, *, reason: str) -> Done[None] | Append[None]:
    """Decide a cancellation on a view; for transactions that have more to decide."""
    record = view.fold.record(time)
    instant = view.timeline.find(time)
    if is_over(record, instant):
        return Done(None)
    require_cancellable(view, record, instant)
    bench = view.bench
    file = staging.stage(
        bench.store, publishing.cancel_path(time), _said(bench, reason), time=time, epoch=0
    )
    return Append(Cancel(time=time, by=bench.worker, reason=reason, file=file), None)


def is_over(record: InstantRecord, instant: Instant | None) -> bool:
    """Whether the cancellation was decided before, so that there is nothing to do."""
    return record.standing in _CANCELLED or (instant is not None and instant.state is State.ABORTED)


def require_cancellable(view: View, record: InstantRecord, instant: Instant | None) -> None:
    """Raise the reason why an instant cannot be cancelled."""
    time = record.time
    if record.standing is Standing.COMMITTED or (instant is not None and instant.is_completed):
        raise AlreadyCommitted(f"{time} is committed: it cannot be cancelled any more")
    if instant is None or record.standing in (Standing.REMOVED, Standing.SUPERSEDED):
        raise PlanNotFound(f"there is no plan {time} on the timeline")
    if record.plan is None or not record.plan.cancellable:
        raise NotCancellable(
            f"{time} was not made to be cancelled; schedule plans with cancellable=True"
        )
    if record.epoch == 0 and view.has_inflight(time):
        raise ForeignExecutor(
            f"{time} is being executed by a writer that knows no journal: it may commit whatever "
            "we decide. Stop that writer first"
        )


def _said(bench: Workbench, reason: str) -> bytes:
    return json.dumps({"by": bench.worker, "reason": reason}).encode()


def execute_cancel(bench: Workbench, time: str, *, own: Heartbeat | None = None) -> None:
    """Take a cancelled plan to ``.aborted``. The executor itself hands over its heartbeat, ``own``.

    Raises ``PlanBusy`` while another attempt is live, ``Invalid`` if nobody asked for it.
    """
    with transaction(bench) as tx:
        claimed = tx.decide(lambda view: _claim(bench, view, time, own))
        view = tx.view
    if claimed is None:
        return
    heartbeat, was_foreign = claimed
    try:
        plan = _plan_of(bench, view, time)
        left = leftovers.find(bench, time, was_foreign=was_foreign)
        leftovers.remove(bench, left.below(heartbeat.epoch))
        with transaction(bench) as tx:
            tx.decide(lambda view: _abort(bench, view, time, heartbeat.epoch, plan))
    finally:
        heartbeat.remove()
    leftovers.forget(bench, time, leftovers.find(bench, time, was_foreign=False))


def _claim(
    bench: Workbench, view: View, time: str, own: Heartbeat | None
) -> Done[tuple[Heartbeat, bool] | None] | Append[tuple[Heartbeat, bool] | None]:
    record = view.fold.record(time)
    instant = view.timeline.find(time)
    if record.standing is Standing.ABORTED or (
        instant is not None and instant.state is State.ABORTED
    ):
        bench.store.delete(publishing.cancel_path(time))
        return Done(None)
    if instant is not None and instant.is_completed:
        raise AlreadyCommitted(f"{time} is committed: it cannot be cancelled any more")
    if record.standing in (Standing.SUPERSEDED, Standing.REMOVED):
        return Done(None)
    require_cancel_requested(record)
    view.require_no_restore()
    require_not_live(bench, record, now_ms=view.now_ms, own=own)
    epoch = record.epoch + 1
    heartbeat = own if own is not None else Heartbeat(bench, time, epoch)
    body = Claim(time=time, epoch=epoch, owner=bench.worker, purpose=Purpose.ABORT, beat=time)
    return Append(body, (heartbeat, record.epoch == 0), heartbeat=heartbeat, epoch=epoch)


def require_cancel_requested(record: InstantRecord) -> None:
    """Raise unless the cancellation was decided."""
    if record.standing is Standing.COMMITTED:
        raise AlreadyCommitted(f"{record.time} is committed: it cannot be cancelled any more")
    if record.standing not in (Standing.CANCELLED, Standing.ABORTING):
        raise Invalid(f"nobody requested the cancellation of {record.time}: request it first")


def _plan_of(bench: Workbench, view: View, time: str) -> bytes:
    """Return the plan, whose file goes when the instant is aborted."""
    shown = view.timeline.find(time)
    if shown is None:
        return b""
    requested = Instant(time, shown.action, State.REQUESTED)
    return traces.read_document(bench, view, requested) or b""


def _abort(
    bench: Workbench, view: View, time: str, epoch: int, plan: bytes
) -> Done[None] | Append[None]:
    record = view.fold.record(time)
    if record.standing is Standing.ABORTED or record.standing is Standing.FOREIGN:
        return Done(None)  # another finished it
    require_own_abort(record, epoch)
    shown = view.timeline.find(time)
    if shown is None:
        raise Conflict(f"{time} left the timeline; look again")
    path = instant_path(view.config, Instant(time, shown.action, State.ABORTED))
    content = _aborted(view, record, plan)
    aborted = staging.stage(bench.store, path, content, time=time, epoch=epoch)
    return Append(Abort(time=time, epoch=epoch, aborted=aborted), None)


def require_own_abort(record: InstantRecord, epoch: int) -> None:
    """Only the last claim may say that nothing is left."""
    if record.epoch != epoch or record.standing is not Standing.ABORTING:
        raise Fenced(f"{record.time}: the abort at epoch {epoch} was replaced by {record.epoch}")


def _aborted(view: View, record: InstantRecord, plan: bytes) -> bytes:
    """Return what ``.aborted`` says, for people: who cancelled, why, and the plan."""
    cancel = record.cancel
    said = {
        "by": cancel.by if cancel is not None else "",
        "reason": cancel.reason if cancel is not None else "cancelled by a commit",
        "plan": base64.b64encode(plan).decode(),
        "at": view.now_ms,
    }
    return json.dumps(said).encode()
