"""Traces that an instant has ended otherwise than the journal decided.

Only foreign writers leave them: a completed file with another completion time, a rollback or
restore that names the instant, the instant in the archived history. Looked for when a decided
commit is not on the timeline, which is rare: so it may cost a few reads.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakehand.core.instants import SERVICE_ACTIONS, Action, Instant, State
from lakehand.core.journal_entries import Overtaken
from lakehand.errors import Corrupt, NotFound, Unsupported
from lakehand.formats import archived_timeline, instant_names
from lakehand.formats.plans import clustering, restore, rollback
from lakehand.protocol import lsm_timeline

if TYPE_CHECKING:
    from lakehand.core.timeline import Timeline
    from lakehand.protocol.transaction import View
    from lakehand.protocol.workbench import Workbench


DOCUMENTS_KEPT = 1000
"""How many files of the timeline a worker remembers; the oldest is forgotten first."""


def foreign_ends(bench: Workbench, view: View) -> tuple[tuple[str, Overtaken], ...]:
    """Return the open instants that a foreign writer completed or removed, and how.

    To be asked when everything decided is published: what is open then stands on the timeline.
    """
    found: list[tuple[str, Overtaken]] = []
    for record in view.fold.open:
        instant = view.timeline.find(record.time, record.plan.action if record.plan else None)
        if instant is None or not instant.is_pending:
            found.append((record.time, ended_by(bench, view, record.time, view.timeline)))
    return tuple(found)


def ended_by(bench: Workbench, view: View, time: str, now: Timeline) -> Overtaken:
    """Say how an instant ended that is not pending on the timeline any more."""
    instant = now.find(time)
    if instant is not None and instant.is_completed:
        return Overtaken.COMPLETED
    if is_rolled_back(bench, view, time, now):
        return Overtaken.ROLLED_BACK
    if _is_archived(bench, view, time):
        return Overtaken.ARCHIVED
    return Overtaken.ROLLED_BACK


def is_rolled_back(bench: Workbench, view: View, time: str, now: Timeline) -> bool:
    """Whether a rollback that is not ours, or a restore, names the instant.

    A completed rollback of a plan that is still there has only removed one of its attempts.
    """
    shown = now.find(time)
    is_plan = shown is not None and shown.is_pending and is_service_plan(bench, view, shown)
    return any(
        time in targets_of(bench, view, one)
        for one in now.of_action(Action.ROLLBACK, Action.RESTORE)
        if one.time > time
        and one.time not in view.fold.instants
        and not (is_plan and one.is_completed and one.action is Action.ROLLBACK)
    )


def pending_rollbacks(bench: Workbench, view: View, time: str) -> tuple[str, ...]:
    """Return the rollbacks under way whose target is the instant, ours and foreign ones."""
    ours = tuple(one.time for one in view.fold.rollbacks_of(time))
    foreign = (
        one.time
        for one in view.timeline.pending
        if one.action is Action.ROLLBACK
        and one.time not in view.fold.instants
        and time in targets_of(bench, view, one)
    )
    return (*ours, *foreign)


def is_service_plan(bench: Workbench, view: View, instant: Instant) -> bool:
    """Whether a pending instant is a table service's plan, whose rollback keeps it.

    Layout 1 names a pending clustering as it names an overwrite: its plan tells. One that cannot
    be read counts as a plan, which is left alone.
    """
    plan = view.fold.record(instant.time).plan
    if plan is not None:
        return not plan.is_ingestion
    if instant.action in SERVICE_ACTIONS:
        return True
    if view.config.layout == 2 or instant.action is not Action.REPLACE_COMMIT:
        return False
    requested = Instant(instant.time, instant.action, State.REQUESTED)
    content = read_document(bench, view, requested)
    if not content:
        return False
    try:
        return clustering.decode(content, where=instant.time).clustering_plan is not None
    except (Corrupt, Unsupported):
        return True


def targets_of(bench: Workbench, view: View, instant: Instant) -> tuple[str, ...]:
    """Return the instants that a rollback or restore names, from its plan."""
    requested = Instant(instant.time, instant.action, State.REQUESTED)
    content = read_document(bench, view, requested)
    if content is None:
        return ()
    if not content:
        return ()
    where = f"{bench.store.uri}/{_path(view, requested)}"
    if instant.action is Action.RESTORE:
        restored = restore.decode_plan(content, where=where)
        return tuple(one.commit_time for one in restored.instants_to_rollback or ())
    target = rollback.decode_plan(content, where=where).instant_to_rollback
    return () if target is None else (target.commit_time,)


def read_document(bench: Workbench, view: View, instant: Instant) -> bytes | None:
    """Return an instant's file; None if it is not there."""
    return read_file(bench, _path(view, instant))


def read_file(bench: Workbench, path: str) -> bytes | None:
    """Return a file of the timeline, which never changes once it is there; None if it is not."""
    if path not in bench.documents:
        try:
            content = bench.store.get(path).content
        except NotFound:
            return None
        while len(bench.documents) >= DOCUMENTS_KEPT:
            del bench.documents[next(iter(bench.documents))]
        bench.documents[path] = content
    return bench.documents[path]


def _path(view: View, instant: Instant) -> str:
    return f"{view.config.timeline_path}/{instant_names.file_name(instant, view.config.layout)}"


def _is_archived(bench: Workbench, view: View, time: str) -> bool:
    return time in _archived(bench, view, time)


def was_never_archived(bench: Workbench, view: View, time: str) -> bool:
    """Whether the history surely does not have an instant: it reaches back so far without it."""
    times = _archived(bench, view, time)
    return not times or (time not in times and min(times) < time)


def _archived(bench: Workbench, view: View, time: str) -> frozenset[str]:
    """Return archived instants: at least the oldest one, and ``time`` if it is among them."""
    if view.config.layout == 1:
        return _in_archive_logs(bench, view)
    history = lsm_timeline.load(bench.store, view.config.history_path)
    oldest = {file.name.first for file in history.manifest.files}
    found = lsm_timeline.read(bench.store, history, first=time, last=time, contents=False)
    return frozenset(oldest | {entry.time for entry in found})


def _in_archive_logs(bench: Workbench, view: View) -> frozenset[str]:
    """Read layout 1's archive; blocks torn by a crash are skipped."""
    folder = view.config.history_path
    times: set[str] = set()
    for name in bench.store.names(folder):
        if archived_timeline.parse_archive_file(name) is not None:
            with bench.store.open(f"{folder}/{name}") as file:
                entries = archived_timeline.read_entries(
                    file, where=f"{bench.store.uri}/{folder}/{name}", on_corrupt=_skip
                )
                times.update(entry.time for entry in entries)
    return frozenset(times)


def _skip(_: Corrupt) -> None:
    """Leave out a block that its writer did not finish."""
