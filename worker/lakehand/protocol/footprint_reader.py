"""What other instants touch: from the journal where it says so, else from their own files.

A file of the timeline never changes, so what was read of it once is remembered; a worker that read
ahead of the lock finds everything there that is not brand new.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakehand.core.footprints import NO_FOOTPRINT, UNKNOWN_FOOTPRINT, FileGroupKey, Footprint
from lakehand.core.instants import WRITE_ACTIONS, Action, Instant, State, completed_action
from lakehand.core.plan_flags import PlanFlags, from_extra_metadata
from lakehand.errors import Corrupt, Unsupported
from lakehand.formats import commit_metadata
from lakehand.formats.commit_metadata import SCHEMA_KEY, WriteOperation
from lakehand.formats.plans import clustering, compaction
from lakehand.protocol.traces import read_document

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lakehand.core.journal import InstantRecord
    from lakehand.formats.commit_metadata import CommitMetadata
    from lakehand.protocol.transaction import View
    from lakehand.protocol.workbench import Workbench

_SERVICES = frozenset(
    {WriteOperation.CLUSTER.value, WriteOperation.COMPACT.value, WriteOperation.LOG_COMPACT.value}
)


def of_completed(bench: Workbench, view: View, instant: Instant) -> tuple[Footprint, bool]:
    """Return what a completed write touched, and whether a table service made it."""
    metadata = _commit_metadata(bench, view, instant)
    if metadata is None:
        return UNKNOWN_FOOTPRINT, False
    return of_metadata(metadata), metadata.operation_type in _SERVICES


def files_of(bench: Workbench, view: View, instant: Instant) -> frozenset[str] | None:
    """Return the files that a completed write names, log files included; None: not to be known."""
    if instant.action not in WRITE_ACTIONS:
        return None
    metadata = _commit_metadata(bench, view, instant)
    if metadata is None:
        return None
    named: set[str] = set()
    for partition, stats in metadata.partition_to_write_stats.items():
        below = f"{partition}/" if partition else ""
        for stat in stats:
            named.add(stat.path or "")
            named.update(below + name for name in stat.log_files or ())
    return frozenset(named)


def of_metadata(metadata: CommitMetadata) -> Footprint:
    """Return the groups that commit metadata names as written or replaced."""
    groups = {
        FileGroupKey(partition, stat.file_id or "")
        for partition, stats in metadata.partition_to_write_stats.items()
        for stat in stats
    }
    for partition, replaced in (metadata.partition_to_replace_file_ids or {}).items():
        groups.update(FileGroupKey(partition, file_id) for file_id in replaced)
    return Footprint(frozenset(groups), schema=(metadata.extra_metadata or {}).get(SCHEMA_KEY))


def of_pending(
    bench: Workbench, view: View, instant: Instant, record: InstantRecord, *, is_service: bool
) -> Footprint:
    """Return what a pending instant shows that it will touch."""
    groups = record.groups
    if groups:
        return Footprint(frozenset(FileGroupKey(*group) for group in groups))
    try:
        if is_service:
            return _of_plan(bench, view, instant)
        if instant.state is State.REQUESTED:
            return NO_FOOTPRINT
        metadata = _commit_metadata(bench, view, instant)
    except (Corrupt, Unsupported):
        return UNKNOWN_FOOTPRINT
    return UNKNOWN_FOOTPRINT if metadata is None else of_metadata(metadata)


def _of_plan(bench: Workbench, view: View, instant: Instant) -> Footprint:
    requested = Instant(instant.time, instant.action, State.REQUESTED)
    content = read_document(bench, view, requested)
    if not content:
        return UNKNOWN_FOOTPRINT
    if completed_action(instant.action) is Action.REPLACE_COMMIT:
        replace = clustering.decode(content, where=instant.time)
        groups = replace.clustering_plan.input_groups if replace.clustering_plan else None
        slices = (one for group in groups or () for one in group.slices or ())
        return _keys((one.partition_path, one.file_id) for one in slices)
    plan = compaction.decode(content, where=instant.time)
    return _keys((one.partition_path, one.file_id) for one in plan.operations or ())


def _keys(pairs: Iterable[tuple[str | None, str | None]]) -> Footprint:
    return Footprint(frozenset(FileGroupKey(one or "", other or "") for one, other in pairs))


def flags_of_plan(bench: Workbench, view: View, instant: Instant) -> PlanFlags:
    """Return what a plan says of itself; for plans that the journal knows nothing of (any more)."""
    action = _plan_action(instant.action)
    requested = Instant(instant.time, action, State.REQUESTED)
    content = read_document(bench, view, requested)
    if not content:
        return PlanFlags()
    try:
        if action is Action.CLUSTERING:
            replace = clustering.decode(content, where=instant.time)
            plan = replace.clustering_plan
            return from_extra_metadata(
                {**(replace.extra_metadata or {}), **((plan and plan.extra_metadata) or {})}
            )
        return from_extra_metadata(compaction.decode(content, where=instant.time).extra_metadata)
    except (Corrupt, Unsupported):
        return PlanFlags()


def _plan_action(action: Action) -> Action:
    pending = {
        Action.COMMIT: Action.COMPACTION,
        Action.DELTA_COMMIT: Action.LOG_COMPACTION,
        Action.REPLACE_COMMIT: Action.CLUSTERING,
    }
    return pending.get(action, action)


def _commit_metadata(bench: Workbench, view: View, instant: Instant) -> CommitMetadata | None:
    content = read_document(bench, view, instant)
    if content is None:
        return None
    return commit_metadata.decode(content, where=f"{bench.store.uri}: {instant.time}")
