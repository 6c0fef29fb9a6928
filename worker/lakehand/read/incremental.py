"""Incremental queries: the rows that writes changed within a range of time.

::

    the table as it was at ``end`` ─► slices that can hold a changed row ─► changed rows

From table version 8 on a write counts by its *completion* time, before that by its instant time, as
in Hudi. Every row says which write changed it last (``_hoodie_commit_time``: table services keep
it), so of the table's state at ``end`` the changed rows are those

* whose instant is later than ``begin``: it cannot have completed before it was requested;
* or that began before ``begin`` and completed after it: these writes are known by name.

Deleted rows do not show, and of several changes of a row only the last one does (Hudi's
``latest_state``). What was changed before ``begin`` is never needed, so ``begin`` may be as old as
one likes; but the state at ``end`` must still be there (``read.cleaned_files``).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lakehand.core.file_names import split_base_name, split_log_name
from lakehand.core.file_slices import FIRST_VERSION_BY_COMPLETION
from lakehand.core.instants import WRITE_ACTIONS, Action, State
from lakehand.errors import Invalid, NotFound, Unsupported
from lakehand.formats import commit_metadata
from lakehand.formats.plans import clustering
from lakehand.protocol import lsm_timeline
from lakehand.protocol.timeline_loader import instant_path
from lakehand.read.cleaned_files import require_not_cleaned
from lakehand.read.filters import Operator, Predicate, RowFilter
from lakehand.read.log_events import rule_for
from lakehand.read.snapshot import query_time

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from lakehand.core.file_slices import FileSlice
    from lakehand.core.instants import Instant
    from lakehand.core.table_config import TableConfig
    from lakehand.core.timeline import Timeline
    from lakehand.ports import Store
    from lakehand.read.filters import Filter
    from lakehand.read.slice_reader import ReadOptions
    from lakehand.read.snapshot import Scan, Snapshot
    from lakehand.read.table_view import TableView

COMMIT_TIME = "_hoodie_commit_time"
EARLIEST = "earliest"


@dataclass(frozen=True, slots=True)
class _Changed:
    """Which commit times the rows changed since ``begin`` have."""

    begin: str
    straddling: tuple[str, ...]
    """The writes from before ``begin`` that completed after it, oldest first."""

    @property
    def first(self) -> str:
        """No file of an earlier instant holds a changed row."""
        return self.straddling[0] if self.straddling else self.begin

    def filter(self, schema: pa.Schema) -> RowFilter:
        """Return the filter on merged rows, with the comparison that also skips row groups."""
        later = Predicate(COMMIT_TIME, Operator.GREATER, self.begin)
        columns = frozenset({COMMIT_TIME})
        if not self.straddling:
            return RowFilter(later.expression(schema), columns, (later,))
        named = Predicate(COMMIT_TIME, Operator.IN, self.straddling)
        bound = Predicate(COMMIT_TIME, Operator.GREATER_OR_EQUAL, self.first)
        return RowFilter(later.expression(schema) | named.expression(schema), columns, (bound,))

    def may_be(self, instant: str) -> bool:
        """Whether a file of this instant can hold changed rows."""
        return instant >= self.first if self.straddling else instant > self.begin


def incremental_scan(
    snapshot: Snapshot,
    begin: str,
    end: str | None = None,
    *,
    columns: Sequence[str] | None = None,
    where: Filter | None = None,
    options: ReadOptions | None = None,
) -> Scan:
    """Return the query for the rows changed after ``begin`` and up to ``end``.

    Both are instant or completion times, or dates; ``begin`` may be ``"earliest"`` (or zeros),
    ``end`` None is ``newest_time``. Raises ``Invalid`` if files of the table's state at ``end``
    were cleaned.
    """
    if not snapshot.config.populate_meta_fields:
        raise Unsupported(
            "an incremental query needs the meta columns, which this table does not keep "
            "(hoodie.populate.meta.fields=false): read snapshots"
        )
    since = _begin_time(begin)
    if end is None:
        newest = newest_time(snapshot.store, snapshot.config, snapshot.view.timeline)
        # Up to version 7 a write that is pending since before ``begin`` holds everything back.
        until = newest if since is None else max(newest or since, since)
    else:
        until = query_time(end)
        if since is not None and since > until:
            raise Invalid(f"an incremental query from {since} to {until}: begin is after end")
    view = _with_completions(snapshot, since, until if end is not None else None)
    past = view if until is None else _as_it_was(view, until)
    scan = snapshot.scan_of_past(past, columns=columns, where=where, options=options)
    if end is not None or past.timeline.committed_times != view.timeline.committed_times:
        require_not_cleaned(snapshot.store, past, until or "")
    if since is None:
        return scan
    changed = _Changed(since, _straddling(past.timeline, since))
    wanted = changed.filter(scan.table_schema)
    return replace(
        scan,
        slices=_changed_slices(scan, changed),
        row_filter=wanted if scan.row_filter is None else _both(scan.row_filter, wanted),
    )


def newest_time(store: Store, config: TableConfig, timeline: Timeline) -> str | None:
    """Return the time up to which history is settled: an ``end`` whose answer never changes.

    From version 8 on the newest completion time. Before, a write that is pending now would join
    the past of writes that completed already: so it is the time of the last write before it. None
    if nothing is settled. The next incremental query begins where this one ended.
    """
    if config.version >= FIRST_VERSION_BY_COMPLETION:
        done = timeline.completed_writes
        return max((one.completion_time or one.time for one in done), default=None)
    pending = timeline.pending_writes
    hole = next((one for one in pending if _adds_rows(store, config, one)), None)
    settled = [
        one.time for one in timeline.completed_writes if hole is None or one.time < hole.time
    ]
    return settled[-1] if settled else None


def _begin_time(text: str) -> str | None:
    """Return the time after which changes count, or None for all."""
    if text.lower() == EARLIEST or (text and not text.strip("0")):
        return None
    return query_time(text)


def _adds_rows(store: Store, config: TableConfig, pending: Instant) -> bool:
    """Whether a pending write of layout 1 will add rows of its own instant."""
    if pending.action is not Action.REPLACE_COMMIT:
        return pending.action in WRITE_ACTIONS
    path = instant_path(config, replace(pending, state=State.REQUESTED))
    try:
        content = store.get(path).content
    except NotFound:
        return True
    return not content or clustering.decode(content, where=path).clustering_plan is None


def _with_completions(snapshot: Snapshot, since: str | None, until: str | None) -> TableView:
    """Return the view knowing the archived writes that completed after what is asked for.

    They are few, but only the history can tell. Writes requested after the last of the two times
    need not be looked up: they completed later still.
    """
    view = snapshot.view
    asked = [time for time in (since, until) if time is not None]
    if view.config.version < FIRST_VERSION_BY_COMPLETION or not asked:
        return view
    history = lsm_timeline.load(snapshot.store, view.config.history_path)
    entries = lsm_timeline.read(snapshot.store, history, last=max(asked), contents=False)
    active = view.timeline.committed_times
    found = dict(view.timeline.archived_completions)
    for entry in entries:
        done = entry.completion_time or entry.time
        if entry.action in WRITE_ACTIONS and entry.time not in active and done > min(asked):
            found[entry.time] = done
    return replace(view, timeline=replace(view.timeline, archived_completions=found))


def _as_it_was(view: TableView, until: str) -> TableView:
    if view.config.version >= FIRST_VERSION_BY_COMPLETION:
        return replace(view, timeline=view.timeline.completed_by(until))
    return replace(view, timeline=view.timeline.as_of(until))


def _straddling(timeline: Timeline, since: str) -> tuple[str, ...]:
    """Return the writes requested up to ``since`` that completed after it; ``timeline`` ends late.

    Where completion times are unknown (layout 1) there is none.
    """
    known = {**timeline.archived_completions}
    for one in timeline.completed_writes:
        if one.completion_time is not None:
            known[one.time] = one.completion_time
    return tuple(sorted(time for time, done in known.items() if time <= since < done))


def _both(one: RowFilter, other: RowFilter) -> RowFilter:
    return RowFilter(
        one.expression & other.expression,
        one.columns | other.columns,
        one.predicates + other.predicates,
    )


def _changed_slices(scan: Scan, changed: _Changed) -> tuple[FileSlice, ...]:
    """Return the slices that can hold changed rows, without what their merge does not need.

    A base file holds no rows of later instants than its own. So if its own is too old, changed
    rows can only come from the log; and where the log wins anyhow, the base file is not read.
    """
    config = scan.config
    names_tell = min(config.version, config.initial_version or config.version) >= (
        FIRST_VERSION_BY_COMPLETION
    )
    touched = None if names_tell else _touched_groups(scan, changed)
    kept = []
    for part in scan.slices:
        base = None if part.base_file is None else split_base_name(part.base_file.name)
        if base is not None and changed.may_be(base[2]):
            kept.append(part)
            continue
        if names_tell:
            logs = (split_log_name(log.name) for log in part.log_files)
            is_changed = any(log is None or changed.may_be(log[1]) for log in logs)
        else:
            is_changed = touched is None or (part.partition, part.file_id) in touched
        if is_changed and part.log_files:
            log_wins = not rule_for(config.merge_rule, scan.table_schema).uses_ordering
            kept.append(part._replace(base_file=None) if log_wins else part)
    return tuple(kept)


def _touched_groups(scan: Scan, changed: _Changed) -> frozenset[tuple[str, str]] | None:
    """Return the file groups that the changes and the table services since then wrote to.

    For log files whose names do not tell their writes. None: not to be known, or not worth it,
    because there are more commits to read than slices.
    """
    timeline = scan.timeline
    writes = [one for one in timeline.completed_writes if changed.may_be(one.time)]
    if changed.first < (timeline.start or "") or len(writes) > len(scan.slices):
        return None
    found: set[tuple[str, str]] = set()
    for instant in writes:
        path = instant_path(scan.config, instant)
        try:
            metadata = commit_metadata.decode(scan.store.get(path).content, where=path)
        except NotFound:
            return None
        for partition, stats in metadata.partition_to_write_stats.items():
            found.update((partition, stat.file_id or "") for stat in stats)
    return frozenset(found)
