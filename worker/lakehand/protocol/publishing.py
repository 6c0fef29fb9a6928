"""Publishing: carrying out on the timeline what the journal decided.

The only place that promotes or removes files of the timeline. It runs under the lock, inside the
transaction that decided, or inside the next one, which rolls forward what a crash left: so every
step may be repeated, by several workers at once, and promotes what can appear only once.

==============  =====================================================================
decision        steps, in this order
==============  =====================================================================
plan            requested
claim           inflight, unless an earlier attempt's is there
commit          list; completed; the ``.cancel`` files of the plans that it cancels
cancel          ``.cancel``
abort           ``.aborted``; remove inflight, requested, then ``.cancel``
rolled back     the rollback's completed; the target's inflight and requested removed last
==============  =====================================================================

A decision can be overtaken by a foreign writer, who knows no journal: ``publish`` then says so, and
has made sure, by discarding the stage first, that the decision can never appear any more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakehand.core.journal_entries import (
    SEEN,
    Abort,
    Blank,
    Body,
    Cancel,
    Checkpoint,
    Claim,
    Commit,
    Overtaken,
    Plan,
    Prepare,
    RollbackEnd,
    RolledBack,
    StagedFile,
    Void,
)
from lakehand.core.timeline import Timeline
from lakehand.formats import instant_names
from lakehand.ports import PromoteOutcome
from lakehand.protocol import traces
from lakehand.protocol.staging import discard, is_ours, promote

if TYPE_CHECKING:
    from lakehand.protocol.transaction import View
    from lakehand.protocol.workbench import Workbench

CANCEL_FOLDER = ".hoodie/.cancel"


def cancel_path(time: str) -> str:
    """Return the file that tells everybody that an instant is cancelled."""
    return f"{CANCEL_FOLDER}/{time}"


def subject(body: Body) -> str:
    """Return the instant that a decision is about."""
    return "" if isinstance(body, Checkpoint | Blank) else body.time


def is_visible(body: Body, view: View) -> bool:
    """Whether the listing alone shows that a decision is published, and its stage consumed.

    Of a plan it shows only that a file has its name. Whoever published it looked into the file;
    whoever executes it does so again (``claiming.require_own_plan``).
    """
    match body:
        case Plan():
            return _name(body.requested) in view.names or _has_gone_on(view, body.time)
        case Claim():
            return body.inflight is None or _name(body.inflight) in view.names
        case Commit():
            return not body.cancels and _name(body.completed) in view.names
        case RolledBack():
            left = _pending_names(view, body.time) if body.end is RollbackEnd.REMOVED else ()
            return _name(body.completed) in view.names and not left
        case Cancel() | Abort():
            return False  # the listing does not show ``.cancel`` files
        case Prepare() | Void() | Checkpoint() | Blank():
            return True


def publish(bench: Workbench, view: View, body: Body) -> Overtaken | None:
    """Publish a decision; say what overtook it, if something did."""
    match body:
        case Plan():
            return _publish_plan(bench, view, body)
        case Claim():
            if body.inflight is not None:
                promote(bench.store, body.inflight)
        case Commit():
            return _publish_commit(bench, view, body)
        case Cancel():
            promote(bench.store, body.file)
        case Abort():
            return _publish_abort(bench, view, body)
        case RolledBack():
            _publish_rolled_back(bench, view, body)
        case Prepare() | Void() | Checkpoint() | Blank():
            pass
    return None


def _publish_plan(bench: Workbench, view: View, body: Plan) -> Overtaken | None:
    store, requested = bench.store, body.requested
    if _name(requested) not in view.names and promote(store, requested) is PromoteOutcome.WRITTEN:
        return None
    match is_ours(store, requested):
        case True:
            return None
        case False:
            discard(store, requested)
            return Overtaken.NAME_TAKEN
        case None:
            discard(store, requested)
            return Overtaken.ROLLED_BACK


def _publish_commit(bench: Workbench, view: View, body: Commit) -> Overtaken | None:
    """List first: towards foreign writers the lock may have been held by two."""
    now = list_timeline(bench, view)
    if not _is_published(body, now):
        overtaken = what_overtook(bench, view, body, now)
        if overtaken is not None:
            return _give_up(bench, view, body, overtaken)
        outcome = promote(bench.store, body.completed)
        if outcome is not PromoteOutcome.WRITTEN:
            now = list_timeline(bench, view)
            if not _is_published(body, now):
                return _give_up(bench, view, body, Overtaken.STAGING_LOST)
    for cancelled in body.cancels:
        promote(bench.store, cancelled.file)
    return None


def what_overtook(bench: Workbench, view: View, body: Commit, now: Timeline) -> Overtaken | None:
    """Look for any trace that the instant, or its right to commit, has ended otherwise."""
    if not is_still_pending(body, now):
        return traces.ended_by(bench, view, body.time, now)
    if traces.is_rolled_back(bench, view, body.time, now):
        return Overtaken.ROLLED_BACK
    return Overtaken.FOREIGN_COMMIT if unknown_completions(body, now) else None


def is_still_pending(body: Commit, now: Timeline) -> bool:
    """Whether nobody ended the instant or took it away."""
    instant = now.find(body.time)
    return instant is not None and instant.is_pending


def unknown_completions(body: Commit, now: Timeline) -> tuple[str, ...]:
    """Return the completed writes that the commit's judge did not know of."""
    return tuple(
        one.time
        for one in now.completed_writes
        if one.time != body.time and not is_known(one.time, body.seen)
    )


def is_known(time: str, seen: tuple[str, ...]) -> bool:
    """Whether a completed write is among those seen, or older than all that were named."""
    return time in seen or (len(seen) >= SEEN and time < min(seen))


def _give_up(bench: Workbench, view: View, body: Commit, overtaken: Overtaken) -> Overtaken | None:
    """Make sure that the commit cannot appear; None if it had appeared before."""
    discard(bench.store, body.completed)
    return None if _is_published(body, list_timeline(bench, view)) else overtaken


def _is_published(body: Commit, now: Timeline) -> bool:
    instant = now.find(body.time)
    if instant is None or not instant.is_completed:
        return False
    return instant.completion_time in (None, body.completion_time)


def _publish_abort(bench: Workbench, view: View, body: Abort) -> Overtaken | None:
    instant = view.timeline.find(body.time)
    if instant is not None and instant.is_completed:
        discard(bench.store, body.aborted)
        return Overtaken.COMPLETED
    promote(bench.store, body.aborted)
    _remove_pending(bench, view, body.time)
    bench.store.delete(cancel_path(body.time))
    return None


def _publish_rolled_back(bench: Workbench, view: View, body: RolledBack) -> None:
    promote(bench.store, body.completed)
    if body.end is RollbackEnd.REMOVED:
        _remove_pending(bench, view, body.time)


def _remove_pending(bench: Workbench, view: View, time: str) -> None:
    """Remove an instant's pending files, the plan last: without it nothing of it is left."""
    for name in sorted(_pending_names(view, time), key=lambda name: name.endswith(".requested")):
        bench.store.delete(f"{view.config.timeline_path}/{name}")


def _pending_names(view: View, time: str) -> tuple[str, ...]:
    endings = (".requested", ".inflight")
    return tuple(
        name for name in view.names if name.startswith(f"{time}.") and name.endswith(endings)
    )


def _has_gone_on(view: View, time: str) -> bool:
    """Whether an instant came further than its plan, which somebody had to read for that."""
    instant = view.timeline.find(time)
    return view.has_inflight(time) or (instant is not None and instant.is_completed)


def list_timeline(bench: Workbench, view: View) -> Timeline:
    """Return the timeline as it is now."""
    names = bench.store.names(view.config.timeline_path)
    parsed = (instant_names.parse(name, view.config.layout) for name in names)
    return Timeline.of(one for one in parsed if one is not None)


def _name(file: StagedFile) -> str:
    return file.final.rpartition("/")[2]
