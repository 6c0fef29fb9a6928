"""Gathering what ``core.conflicts`` judges: my attempt, and every other instant as it stands.

Used three times: by an ingestion write before it writes data, by a worker between units of work,
and in the commit transaction, which alone carries out what the judgement says.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakehand.core import conflicts
from lakehand.core.footprints import FileGroupKey, Footprint, Mine, Other, Standing
from lakehand.core.instants import WRITE_ACTIONS, Action, Instant, State
from lakehand.core.journal_moves import Standing as Decided
from lakehand.errors import WriteConflict
from lakehand.protocol import footprint_reader, heartbeats, traces
from lakehand.protocol.publishing import is_known

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from lakehand.core.conflicts import Judgement
    from lakehand.core.journal import InstantRecord
    from lakehand.protocol.claiming import Attempt
    from lakehand.protocol.transaction import View
    from lakehand.protocol.workbench import Workbench

_NEVER_COMMITS = {
    Decided.CANCELLED: Standing.CANCELLED,
    Decided.ABORTING: Standing.CANCELLED,
    Decided.ABORTED: Standing.CANCELLED,
    Decided.ROLLING_BACK: Standing.ROLLED_BACK,
    Decided.REMOVED: Standing.ROLLED_BACK,
    Decided.VOIDED: Standing.ROLLED_BACK,
    Decided.SUPERSEDED: Standing.ROLLED_BACK,
}


def require_no_conflict(bench: Workbench, view: View, attempt: Attempt) -> tuple[str, ...]:
    """Return the plans that my commit cancels; raise ``WriteConflict`` if it may not be."""
    judgement = look(bench, view, attempt)
    if judgement.may_commit:
        return judgement.cancels
    raise WriteConflict(explain(attempt, judgement))


def explain(attempt: Attempt, judgement: Judgement) -> str:
    """Say what stands against the commit."""
    first = judgement.refusals[0]
    groups = ", ".join(f"{key.partition}/{key.file_id}" for key in sorted(first.groups)[:3])
    return (
        f"{attempt.time} conflicts with {first.other.action.value} {first.other.time} "
        f"({first.reason}{': ' + groups if groups else ''}); do the whole write again"
    )


def look(bench: Workbench, view: View, attempt: Attempt) -> Judgement:
    """Judge the attempt against everything else on the view."""
    if not attempt.changes_data:
        return conflicts.Judgement((), ())
    mine = _mine(view, attempt)
    return conflicts.judge(mine, _others(bench, view, attempt), bench.strategy)


def pending_plans(bench: Workbench, view: View) -> tuple[Other, ...]:
    """Return every table service's plan that may still commit."""
    others = (_pending(bench, view, one, lambda _: True) for one in view.timeline.pending_writes)
    return tuple(one for one in others if one.is_pending_service)


def _mine(view: View, attempt: Attempt) -> Mine:
    return Mine(
        time=attempt.time,
        action=attempt.action,
        table_version=int(view.config.version),
        footprint=Footprint(
            frozenset(FileGroupKey(*group) for group in attempt.groups), schema=attempt.schema
        ),
        is_table_service=not attempt.is_ingestion,
        cancellable=attempt.cancellable,
        started_on=attempt.made_on,
        known=frozenset(attempt.seen) if attempt.seen or attempt.is_ingestion else None,
        pending_at_start=attempt.pending_at_start,
        schema_at_start=attempt.schema_at_start,
        epoch=attempt.epoch,
        claimed_on=attempt.claimed_on,
    )


def _others(bench: Workbench, view: View, attempt: Attempt) -> Iterator[Other]:
    beats = _Beats(bench, view)
    for instant in view.timeline.instants:
        if instant.time == attempt.time:
            continue
        if instant.action in (Action.ROLLBACK, Action.RESTORE):
            # What was pending at the claim rolls earlier attempts back; this one has adopted it.
            if instant.time > attempt.time and instant.time not in attempt.rollbacks:
                yield from _rollbacks(bench, view, instant)
        elif instant.is_completed:
            if instant.action in WRITE_ACTIONS and _may_be_news(instant, attempt):
                yield _completed(bench, view, instant)
        elif instant.is_pending and instant in view.timeline.pending_writes:
            yield _pending(bench, view, instant, beats.is_live)


def _may_be_news(instant: Instant, attempt: Attempt) -> bool:
    """Whether a completed write is to be read at all: what my view knew of is not."""
    if attempt.seen or attempt.is_ingestion:
        return not is_known(instant.time, attempt.seen)
    return (instant.completion_time or instant.time) > attempt.made_on


def _completed(bench: Workbench, view: View, instant: Instant) -> Other:
    footprint, is_service = footprint_reader.of_completed(bench, view, instant)
    return Other(
        time=instant.time,
        action=instant.action,
        standing=Standing.COMMITTED,
        footprint=footprint,
        completion_time=instant.completion_time,
        is_table_service=is_service,
        cancellable=is_service and footprint_reader.flags_of_plan(bench, view, instant).cancellable,
    )


def _pending(
    bench: Workbench, view: View, instant: Instant, is_live: Callable[[str], bool]
) -> Other:
    record = view.fold.record(instant.time)
    is_foreign = record.epoch == 0 and instant.state is State.INFLIGHT
    is_service = traces.is_service_plan(bench, view, instant)
    if record.plan is None:
        cancellable = (
            is_service and footprint_reader.flags_of_plan(bench, view, instant).cancellable
        )
    else:
        cancellable = record.plan.cancellable
    return Other(
        time=instant.time,
        action=instant.action,
        standing=_standing(instant, record, is_live),
        footprint=footprint_reader.of_pending(bench, view, instant, record, is_service=is_service),
        is_table_service=is_service,
        cancellable=cancellable,
        is_foreign=is_foreign,
    )


def _standing(instant: Instant, record: InstantRecord, is_live: Callable[[str], bool]) -> Standing:
    if record.standing in _NEVER_COMMITS:
        return _NEVER_COMMITS[record.standing]
    if instant.state is State.REQUESTED:
        return Standing.REQUESTED
    return Standing.INFLIGHT_LIVE if is_live(record.beat) else Standing.INFLIGHT_EXPIRED


def _rollbacks(bench: Workbench, view: View, instant: Instant) -> Iterator[Other]:
    """Yield a rollback or restore, once for each instant that it undoes."""
    target = view.fold.record(instant.time).plan
    known = target.target if target is not None else None
    times = (known.time,) if known else traces.targets_of(bench, view, instant)
    for time in times:
        yield Other(
            time=instant.time,
            action=instant.action,
            standing=Standing.COMMITTED if instant.is_completed else Standing.INFLIGHT_LIVE,
            completion_time=instant.completion_time,
            rolls_back=time,
            rolls_back_epoch=known.up_to_epoch if known else None,
        )


class _Beats:
    """Which instants have a fresh heartbeat: one listing, made when somebody asks."""

    def __init__(self, bench: Workbench, view: View) -> None:
        self._bench = bench
        self._now_ms = view.now_ms
        self._modified: Mapping[str, int] | None = None

    def is_live(self, time: str) -> bool:
        if self._modified is None:
            listing = self._bench.store.list(heartbeats.FOLDER)
            self._modified = {
                one.path.rpartition("/")[2]: one.modified_ms for one in listing.objects
            }
        modified = self._modified.get(time)
        tolerance = self._bench.settings.heartbeat_tolerance_ms
        return modified is not None and self._now_ms - modified <= tolerance
