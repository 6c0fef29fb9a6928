"""A table's timeline, read from its store by one listing.

Layout 1 (table version 6) keeps instants directly below ``.hoodie``, layout 2 (8 and 9) below the
timeline folder. An instant that completed without saying when (layout 1, and what layout 2 took
over from it) gets the modification time of its file, as Java does it.

Archived instants are not loaded: what is older than the timeline counts as committed. The one
question that needs them, when an archived delta commit completed, is asked through
``with_archived_completions``.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC
from typing import TYPE_CHECKING

from lakehand.core.instants import Instant, State, format_instant_time
from lakehand.core.timeline import Timeline
from lakehand.formats import instant_names
from lakehand.protocol import lsm_timeline

if TYPE_CHECKING:
    from collections.abc import Collection
    from datetime import tzinfo

    from lakehand.core.table_config import TableConfig
    from lakehand.ports import Store


def instant_path(config: TableConfig, instant: Instant) -> str:
    """Return where the file of an instant lies; completion times from file dates are no names."""
    named = instant
    if config.layout == 1:
        named = replace(instant, completion_time=None)
    return f"{config.timeline_path}/{instant_names.file_name(named, config.layout)}"


def load_timeline(store: Store, config: TableConfig, *, zone: tzinfo = UTC) -> Timeline:
    """Return the active timeline; ``zone`` is the one that the table's instants are named in."""
    layout, before_name = config.layout, len(config.timeline_path) + 1
    entries = []
    for path, _, modified_ms in store.list(config.timeline_path).objects:
        instant = instant_names.parse(path[before_name:], layout)
        if instant is None:
            continue
        if instant.completion_time is None and instant.state is State.COMPLETED:
            completion_time = format_instant_time(modified_ms, zone)
            instant = Instant(instant.time, instant.action, instant.state, completion_time)
        entries.append(instant)
    return Timeline.of(entries)


def with_archived_completions(
    timeline: Timeline, store: Store, config: TableConfig, times: Collection[str]
) -> Timeline:
    """Return the timeline knowing when the archived instants of ``times`` completed."""
    if not times or config.layout == 1:
        return timeline
    history = lsm_timeline.load(store, config.history_path)
    found = dict(timeline.archived_completions)
    for entry in lsm_timeline.read(
        store, history, first=min(times), last=max(times), contents=False
    ):
        if entry.time in times and entry.completion_time is not None:
            found[entry.time] = entry.completion_time
    return replace(timeline, archived_completions=found)
