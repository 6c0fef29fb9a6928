"""What a write finds: the schema, the file groups as they stand, the plans that have some.

It is read once, right after the write was requested, so that it is never older than what the write
says that it knew. Whatever completes between the two and touches the same groups is found by the
conflict check.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakehand.core.file_names import split_log_name
from lakehand.core.file_sizing import ExistingGroup, WrittenBaseFiles
from lakehand.core.file_slices import (
    FIRST_VERSION_BY_COMPLETION,
    FileGroup,
    FileSlice,
    build_file_groups,
    replaced_groups,
)
from lakehand.core.instants import Action
from lakehand.formats import avro_schema, commit_metadata
from lakehand.protocol.conflict_check import pending_plans
from lakehand.protocol.timeline_loader import instant_path, load_timeline
from lakehand.protocol.transaction import load_view
from lakehand.read import table_view
from lakehand.read.table_schema import declared_schema

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import pyarrow as pa

    from lakehand.core.timeline import Timeline
    from lakehand.protocol.workbench import Workbench

_RECENT = 10
"""So many commits are asked how large a row is."""


@dataclass(frozen=True, slots=True)
class KnownSchema:
    """The table's schema as its last write, or its creator, declared it."""

    text: str | None
    """Avro's; None: nobody declared one."""
    arrow: pa.Schema | None
    """The same without meta columns."""


def known_schema(bench: Workbench) -> KnownSchema:
    """Read the table's schema as it is now."""
    timeline = load_timeline(bench.store, bench.config)
    text = declared_schema(bench.store, bench.config, timeline)
    if text is None:
        return KnownSchema(None, None)
    found = avro_schema.to_arrow(text, where=f"the schema of {bench.store.uri}")
    return KnownSchema(text, avro_schema.without_meta_columns(found))


@dataclass(frozen=True, slots=True)
class Ground:
    """The table as a write finds it."""

    timeline: Timeline
    groups: Mapping[str, Mapping[str, FileGroup]]
    """The file groups that are not replaced, by partition and file id."""
    planned: frozenset[tuple[str, str]]
    """Partition and file id of groups that a pending plan of a table service has."""

    @property
    def slices(self) -> tuple[FileSlice, ...]:
        """What a reader reads of each group, and where its keys are."""
        return tuple(
            group.latest_slice for groups in self.groups.values() for group in groups.values()
        )

    def fillable(self, partition: str) -> tuple[ExistingGroup, ...]:
        """Return the groups of a partition that new rows may be added to."""
        return tuple(
            ExistingGroup(
                group.file_id,
                0 if part.base_file is None else part.base_file.size,
                bool(part.log_files),
            )
            for group in self.groups.get(partition, {}).values()
            if (partition, group.file_id) not in self.planned
            for part in (group.latest_slice,)
        )


def next_log(group: FileGroup, version: int) -> tuple[str, int]:
    """Return the base instant and the number of a new log file on top of a group.

    From version 8 on every delta commit begins to count anew, because its files bear its time.
    """
    last = group.slices[-1]
    if version >= FIRST_VERSION_BY_COMPLETION:
        return last.base_instant, 1
    named = (split_log_name(log.name) for log in last.log_files)
    numbers = [log[2] for log in named if log is not None]
    return last.base_instant, max(numbers, default=0) + 1


def look_at(bench: Workbench) -> Ground:
    """Read the table as it is now."""
    view = load_view(bench)
    plans = pending_plans(bench, view)
    compactions: dict[str, dict[str, str]] = {}
    for plan in plans:
        if plan.action is Action.COMPACTION:
            for key in plan.footprint.groups:
                compactions.setdefault(key.partition, {})[key.file_id] = plan.time
    files = table_view.load_view(bench.store, view.config, view.timeline)
    return Ground(
        timeline=files.timeline,
        groups=_groups(files, compactions),
        planned=frozenset(
            (key.partition, key.file_id) for plan in plans for key in plan.footprint.groups
        ),
    )


def _groups(
    files: table_view.TableView, compactions: Mapping[str, Mapping[str, str]]
) -> dict[str, dict[str, FileGroup]]:
    replaced = replaced_groups(files.timeline, files.replacements)
    return {
        partition: {
            group.file_id: group
            for group in build_file_groups(
                partition,
                entries,
                files.timeline,
                files.config.version,
                pending_compactions=compactions.get(partition, {}),
            )
            if (partition, group.file_id) not in replaced
        }
        for partition, entries in files.partitions.items()
    }


def recent_base_files(bench: Workbench, timeline: Timeline) -> Iterator[WrittenBaseFiles]:
    """Yield what recent commits wrote to base files, the newest first, reading as few as asked."""
    for instant in timeline.completed_writes[: -_RECENT - 1 : -1]:
        path = instant_path(bench.config, instant)
        metadata = commit_metadata.decode(bench.store.get(path).content, where=path)
        stats = [
            stat
            for stats in metadata.partition_to_write_stats.values()
            for stat in stats
            if not stat.log_files
        ]
        yield WrittenBaseFiles(
            sum(stat.file_size_in_bytes for stat in stats), sum(stat.num_writes for stat in stats)
        )
