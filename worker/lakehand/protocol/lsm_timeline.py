"""The history of layout 2: appended to, merged and thinned out, under the table's lock.

::

    append: what left the timeline -> one file of level 0      (protocol.lsm_publish: the order)
    compact: a batch of files of a level -> one of the next
    retain: old manifests -> then the data files that no manifest kept names

``append`` leaves out what the history already holds, so a run of the archive service that died
may simply be repeated. Should two writers meet in spite of the lock, ``put_new`` on the manifest
lets one through and tells the other ``Conflict``; ``_version_`` only ever moves forward.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING

from lakehand.errors import Invalid
from lakehand.formats.lsm_timeline import (
    HIGHEST_LEVEL,
    HistoryFile,
    HistoryFileName,
    Manifest,
    manifest_name,
    parse_history_file,
    parse_manifest_name,
)
from lakehand.protocol.lsm_publish import Base, publish, settle, write_file
from lakehand.protocol.lsm_snapshot import (
    History,
    base_name,
    entry_key,
    load,
    load_manifest,
    read,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lakehand.formats.lsm_timeline import HistoryEntry
    from lakehand.ports import Store

__all__ = ["History", "HistorySettings", "append", "compact", "load", "read", "retain"]


@dataclass(frozen=True, slots=True)
class HistorySettings:
    """When files are merged and dropped; the defaults are Hudi's."""

    batch_size: int = 10
    """Files of one level that are merged into the next: ``hoodie.timeline.compaction.batch.size``;
    at least 2."""

    target_bytes: int = 1_048_576_000
    """A merge takes no more files once it has this much:
    ``hoodie.timeline.compaction.target.file.max.bytes``."""

    manifests_kept: int = 3
    """Snapshots that readers may still be busy with, at least 1:
    ``hoodie.timeline.manifest.retained.versions``."""

    def __post_init__(self) -> None:
        if self.batch_size < 2 or self.manifests_kept < 1:
            raise Invalid("history settings: batch_size is at least 2, manifests_kept at least 1")


def append(store: Store, folder: str, entries: Sequence[HistoryEntry], *, area: str) -> History:
    """Add completed instants as one file of level 0, leaving out what the history has already.

    ``area`` is where the store may stage. Returns the new snapshot (or the present one if there
    was nothing to add). Raises ``Conflict`` if another writer came first.
    """
    base = settle(store, folder)
    history = base.history
    ordered = sorted(entries, key=entry_key)
    for one, other in pairwise(ordered):
        if one.key == other.key:
            raise Invalid(f"instant {one.time}.{one.action.value} is given twice")
    if ordered:
        low, high = ordered[0].time, ordered[-1].time
        known = {e.key for e in read(store, history, first=low, last=high, contents=False)}
        ordered = [entry for entry in ordered if entry.key not in known]
    if not ordered:
        return history
    name = HistoryFileName(ordered[0].time, ordered[-1].time, 0)
    file = write_file(store, history, name, lambda: iter(ordered), area=area)
    return publish(store, base, Manifest((*history.manifest.files, file)))


def compact(
    store: Store, folder: str, *, area: str, settings: HistorySettings | None = None
) -> History:
    """Merge the files of each level that has a batch of them into the next level."""
    settings = settings or HistorySettings()
    base = settle(store, folder)
    level = 0
    while level < HIGHEST_LEVEL:
        sources = _merge_candidates(base.history.manifest, level, settings)
        if sources is None:
            level += 1
            continue
        base = Base(_merge(store, base, sources, area=area), torn=None)
    return base.history


def retain(store: Store, folder: str, *, settings: HistorySettings | None = None) -> list[str]:
    """Delete manifests beyond the last few, then the data files only they named; return the names.

    Manifests go first: a data file named by a manifest that can still be found always exists.
    Of the data files that no manifest names, only those older than the oldest manifest kept are
    deleted, since a newer one may belong to a writer that is about to publish it.
    """
    settings = settings or HistorySettings()
    base = settle(store, folder)
    if base.torn is not None:
        return []
    history = base.history
    objects = {base_name(info.path): info for info in store.list(folder).objects}
    numbers = sorted(filter(None, map(parse_manifest_name, objects)))
    present = [number for number in numbers if number <= history.number]
    kept = [*present[-settings.manifests_kept :], *(n for n in numbers if n > history.number)]
    if not present:
        return []
    named: set[str] = set()
    for number in kept:
        manifest = load_manifest(store, folder, number).manifest
        named.update(str(file.name) for file in manifest.files)
    dropped = [manifest_name(number) for number in present if number not in kept]
    horizon = objects[manifest_name(kept[0])].modified_ms
    dropped += [
        name
        for name, info in sorted(objects.items())
        if parse_history_file(name) and name not in named and info.modified_ms < horizon
    ]
    for name in dropped:
        store.delete(history.path(name))
    return dropped


def _merge_candidates(
    manifest: Manifest, level: int, settings: HistorySettings
) -> list[HistoryFile] | None:
    """Return the oldest run of a level's files to merge, by count and size, or None."""
    files = sorted(
        (file for file in manifest.files if file.name.level == level), key=lambda file: file.name
    )
    if len(files) < settings.batch_size:
        return None
    taken: list[HistoryFile] = []
    for file in files:
        taken.append(file)
        if len(taken) == settings.batch_size:
            break
        if sum(each.size for each in taken) > settings.target_bytes:
            if len(taken) > 1:
                break
            taken = []
    return taken if len(taken) > 1 else None


def _merge(store: Store, base: Base, sources: list[HistoryFile], *, area: str) -> History:
    history = base.history
    name = HistoryFileName(
        min(file.name.first for file in sources),
        max(file.name.last for file in sources),
        sources[0].name.level + 1,
    )
    part = replace(history, manifest=Manifest(tuple(sources)))
    merged = write_file(store, history, name, lambda: read(store, part), area=area)
    rest = tuple(file for file in history.manifest.files if file not in sources)
    return publish(store, base, Manifest((*rest, merged)))
