"""An ingestion write up to its data: requested, then inflight with the file groups it will touch.

Its heartbeat is there before its requested file, so that nobody ever sees it without one. The
inflight file shows everybody, before data is written, which groups are meant; conflicts are looked
for once there, and again in the commit transaction (``committing``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakehand.core.journal_entries import Claim, GroupKey, Purpose
from lakehand.core.journal_moves import Standing
from lakehand.errors import Fenced
from lakehand.protocol.claiming import Attempt, stage_inflight
from lakehand.protocol.conflict_check import require_no_conflict
from lakehand.protocol.heartbeats import Heartbeat
from lakehand.protocol.planning import PlanRequest, draw_plan, inline
from lakehand.protocol.transaction import Append, Done, View, transaction

if TYPE_CHECKING:
    from lakehand.core.journal import InstantRecord
    from lakehand.protocol.workbench import Workbench


@dataclass(frozen=True, slots=True)
class AlreadyWritten:
    """The batch of an application was written, or is being written, by this instant."""

    time: str


def begin_write(bench: Workbench, request: PlanRequest) -> Attempt | AlreadyWritten:
    """Request an ingestion write. Its heartbeat beats from before anybody can see it."""
    with transaction(bench) as tx:
        return tx.decide(lambda view: _begin_write(bench, view, request))


def _begin_write(
    bench: Workbench, view: View, request: PlanRequest
) -> Done[Attempt | AlreadyWritten] | Append[Attempt | AlreadyWritten]:
    view.require_no_restore()
    known = None if request.run is None else view.fold.run_time(request.run)
    if known is not None:
        return Done(AlreadyWritten(known))
    plan = draw_plan(view, request, is_ingestion=True)
    heartbeat = Heartbeat(bench, plan.time, epoch=1)
    attempt = Attempt.begun(view, plan, heartbeat)
    return Append(plan, attempt, heartbeat=heartbeat, epoch=heartbeat.epoch)


def begin_data(
    bench: Workbench, attempt: Attempt, *, groups: tuple[GroupKey, ...], content: bytes
) -> None:
    """Show which file groups the write will touch; ``content`` is the inflight file that does.

    Raises ``WriteConflict`` if it could not commit as things are, ``Fenced`` if it was replaced.
    """
    attempt.groups = groups
    with transaction(bench) as tx:
        tx.decide(lambda view: _begin_data(bench, view, attempt, content))


def _begin_data(bench: Workbench, view: View, attempt: Attempt, content: bytes) -> Append[None]:
    require_still_requested(view.fold.record(attempt.time), attempt)
    view.require_no_restore()
    attempt.heartbeat.require_alive(now_ms=view.now_ms)
    require_no_conflict(bench, view, attempt)
    body = Claim(
        time=attempt.time,
        epoch=attempt.epoch,
        owner=bench.worker,
        purpose=Purpose.EXECUTE,
        beat=attempt.time,
        inflight=stage_inflight(bench, view, attempt.time, attempt.action, attempt.epoch, content),
        groups=inline(attempt.groups),
    )
    return Append(body, None)


def require_still_requested(record: InstantRecord, attempt: Attempt) -> None:
    """Refuse to go on with a write that somebody thought dead and rolled back."""
    if record.standing is not Standing.REQUESTED or record.epoch >= attempt.epoch:
        raise Fenced(
            f"{attempt.time} is {record.standing.value} (epoch {record.epoch}): it was rolled "
            "back by another worker; do the whole write again"
        )
