"""A table's timeline, read from its store by one listing.

Layout 1 (table version 6) keeps instants directly below ``.hoodie``, layout 2 (8 and 9) below the
timeline folder. Only names are asked for: an instant that completed without saying when (layout 1,
and what layout 2 took over from it) has no completion time, and nothing that reads needs one.

Archived instants are not loaded: what is older than the timeline counts as committed. The one
question that needs them, when an archived delta commit completed, is asked through
``with_archived_completions``.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from lakehand.core.timeline import Timeline
from lakehand.formats import instant_names
from lakehand.protocol import lsm_timeline

if TYPE_CHECKING:
    from collections.abc import Collection

    from lakehand.core.instants import Instant
    from lakehand.core.table_config import TableConfig
    from lakehand.ports import Store


def instant_path(config: TableConfig, instant: Instant) -> str:
    """Return where the file of an instant lies."""
    return f"{config.timeline_path}/{instant_names.file_name(instant, config.layout)}"


def load_timeline(store: Store, config: TableConfig) -> Timeline:
    """Return the active timeline."""
    layout = config.layout
    parsed = (instant_names.parse(name, layout) for name in store.names(config.timeline_path))
    return Timeline.of(instant for instant in parsed if instant is not None)


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
