"""Whether the table's state at an earlier time can still be read, or a clean took files of it.

A reader of the past that does not find a file cannot tell that it is missing: it would show fewer
rows, or older ones. So the files that cleans removed since then are put back into the listing, by
name: if a slice of the past state has one of them, that state is gone. Cleans that were archived
cannot be asked any more; if there may be such a one, the state counts as gone.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NoReturn

from lakehand.core.file_slices import (
    FileEntry,
    build_file_groups,
    latest_slices,
    replaced_groups,
)
from lakehand.core.instants import Action, State
from lakehand.errors import Invalid, NotFound
from lakehand.formats import archived_timeline
from lakehand.formats.plans import clean
from lakehand.protocol import lsm_timeline
from lakehand.protocol.timeline_loader import instant_path, load_timeline

if TYPE_CHECKING:
    from lakehand.core.instants import Instant
    from lakehand.core.table_config import TableConfig
    from lakehand.ports import Store
    from lakehand.read.table_view import TableView


def require_not_cleaned(store: Store, past: TableView, until: str) -> None:
    """Raise ``Invalid`` if the state ``past``, as of ``until``, has lost files to a clean."""
    config = past.config
    # Loaded after the files were listed: a clean that was not there yet has not missed them.
    timeline = load_timeline(store, config)
    cleans = timeline.of_action(Action.CLEAN)
    first = cleans[0].time if cleans else None
    if _may_miss_cleans(store, config, until, first=first, start=timeline.start):
        _refuse(until, "cleans since then are archived and cannot be asked", kept_since=first)
    removed: dict[str, set[str]] = {}
    kept_since = ""
    for instant in cleans:
        if instant.completion_time is not None and instant.completion_time <= until:
            continue
        plan = _plan(store, config, instant, until)
        if plan is None:
            continue
        if plan.earliest_instant_to_retain is not None:
            kept_since = max(kept_since, plan.earliest_instant_to_retain.timestamp)
        for partition, names in _planned(plan).items():
            removed.setdefault(partition, set()).update(names)
    for partition, names in removed.items():
        needed = _needed(past, partition, names)
        if needed is not None:
            path = f"{partition}/{needed}" if partition else needed
            _refuse(until, f"{path} was cleaned", kept_since=kept_since or None)


def _needed(past: TableView, partition: str, names: set[str]) -> str | None:
    """Return one of the removed files that the past state of a partition needs, or None."""
    present = past.partitions.get(partition, ())
    missing = names.difference(entry.name for entry in present)
    if not missing:
        return None
    listing = [*present, *(FileEntry(name, 0) for name in sorted(missing))]
    groups = build_file_groups(partition, listing, past.timeline, past.config.version)
    replaced = replaced_groups(past.timeline, past.replacements)
    for part in latest_slices(groups, replaced):
        own = (*part.log_files, part.base_file) if part.base_file else part.log_files
        found = next((entry.name for entry in own if entry.name in missing), None)
        if found is not None:
            return found
    return None


def _planned(plan: clean.CleanerPlan) -> dict[str, set[str]]:
    """Return the names of the files that a clean removes, by partition."""
    found = {
        partition: {(file.file_path or "").rpartition("/")[2] for file in files}
        for partition, files in (plan.file_paths_to_be_deleted_per_partition or {}).items()
    }
    for partition, paths in (plan.files_to_be_deleted_per_partition or {}).items():
        found.setdefault(partition, set()).update(path.rpartition("/")[2] for path in paths)
    return found


def _plan(
    store: Store, config: TableConfig, instant: Instant, until: str
) -> clean.CleanerPlan | None:
    requested = replace(instant, state=State.REQUESTED, completion_time=None)
    path = instant_path(config, requested)
    try:
        content = store.get(path).content
    except NotFound:
        _refuse(until, f"the clean {instant.time} since then cannot be asked", kept_since=None)
    return clean.decode_plan(content, where=path) if content else None


def _may_miss_cleans(
    store: Store, config: TableConfig, until: str, *, first: str | None, start: str | None
) -> bool:
    """Whether cleans since ``until`` may have left the timeline, whose first clean is ``first``.

    Cleans are archived oldest first and never all: before the first one that is there, others
    were. Layout 1's archive is not searched for them.
    """
    if first is not None and first <= until:
        return False
    if config.layout == 1:
        is_older = first is not None or start is None or until < start
        names = store.names(config.history_path) if is_older else ()
        return any(archived_timeline.parse_archive_file(name) for name in names)
    history = lsm_timeline.load(store, config.history_path)
    entries = lsm_timeline.read(store, history, contents=False)
    return any(
        entry.action is Action.CLEAN and (entry.completion_time or entry.time) > until
        for entry in entries
    )


def _refuse(until: str, why: str, *, kept_since: str | None) -> NoReturn:
    hint = f"history is whole from {kept_since} on: give an end after it, or " if kept_since else ""
    raise Invalid(
        f"the table as it was at {until} is gone ({why}); {hint}"
        "leave the end out, or read a snapshot"
    )
