"""Which file slices a table has, from one walk over its files.

A folder is a partition if it holds Hudi's partition metadata file; files elsewhere are not the
table's. The listing is the truth: the metadata table's copy of it is not consulted, because it
can lag behind the timeline and the store cannot.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakehand.core.file_slices import (
    FIRST_VERSION_BY_COMPLETION,
    FileEntry,
    FileSlice,
    build_file_groups,
    latest_slices,
    replaced_groups,
    unsettled_instants,
)
from lakehand.core.table_kinds import META_FOLDER
from lakehand.errors import NotFound
from lakehand.formats import commit_metadata
from lakehand.protocol.timeline_loader import instant_path, with_archived_completions

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lakehand.core.table_config import TableConfig
    from lakehand.core.timeline import Timeline
    from lakehand.ports import Store

_PARTITION_FILE = ".hoodie_partition_metadata"


@dataclass(frozen=True, slots=True)
class TableView:
    """The files of every partition, and what the timeline says of them.

    ``replacements`` pairs the time of a completed replace commit with the file ids it replaced,
    by partition.
    """

    config: TableConfig
    timeline: Timeline
    partitions: Mapping[str, tuple[FileEntry, ...]]
    replacements: tuple[tuple[str, Mapping[str, tuple[str, ...]]], ...]

    def slices(self, as_of: str | None = None) -> list[FileSlice]:
        """Return what a snapshot query reads, now or as of an instant time."""
        timeline = self.timeline_as_of(as_of)
        replaced = replaced_groups(timeline, self.replacements)
        found: list[FileSlice] = []
        for partition, files in self.partitions.items():
            groups = build_file_groups(partition, files, timeline, self.config.version)
            found += latest_slices(groups, replaced)
        return found

    def timeline_as_of(self, as_of: str | None) -> Timeline:
        """Return the timeline that a query at ``as_of`` (None: now) sees."""
        return self.timeline if as_of is None else self.timeline.as_of(as_of)


def load_view(store: Store, config: TableConfig, timeline: Timeline) -> TableView:
    """List the table's files and read what replaced some of them."""
    partitions = list_partitions(store)
    if config.version >= FIRST_VERSION_BY_COMPLETION:
        names = (entry.name for files in partitions.values() for entry in files)
        unsettled = unsettled_instants(names, timeline)
        timeline = with_archived_completions(timeline, store, config, unsettled)
    return TableView(config, timeline, partitions, _replacements(store, config, timeline))


def list_partitions(store: Store) -> dict[str, tuple[FileEntry, ...]]:
    """Return the files of every partition, partitions in order of path."""
    folders: dict[str, list[FileEntry]] = {}
    partitions = set()
    below_metadata = META_FOLDER + "/"
    for info in store.walk(""):
        path = info.path
        if path.startswith(below_metadata):
            continue
        folder, _, name = path.rpartition("/")
        if name.startswith(_PARTITION_FILE):
            partitions.add(folder)
        else:
            entries = folders.get(folder)
            if entries is None:
                folders[folder] = [FileEntry(name, info.size)]
            else:
                entries.append(FileEntry(name, info.size))
    return {folder: tuple(folders.get(folder, ())) for folder in sorted(partitions)}


def _replacements(
    store: Store, config: TableConfig, timeline: Timeline
) -> tuple[tuple[str, Mapping[str, tuple[str, ...]]], ...]:
    found = []
    for instant in timeline.completed_replaces:
        path = instant_path(config, instant)
        try:
            content = store.get(path).content
        except NotFound:
            # Archived between listing and now: its replaced files were cleaned before that.
            continue
        metadata = commit_metadata.decode(content, where=path)
        if metadata.partition_to_replace_file_ids:
            found.append((instant.time, metadata.partition_to_replace_file_ids))
    return tuple(found)
