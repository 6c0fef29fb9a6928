"""What checkers read out of a world, each thing once: the same worlds are seen again and again.

``look(world)`` gives what a reader of the table sees. It is remembered by the world's mark, which
stands for all objects; documents are remembered by their bytes.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

from lakehand.core import file_slices, markers
from lakehand.core.file_slices import FileEntry
from lakehand.core.timeline import Timeline
from lakehand.errors import LakehandError
from lakehand.formats import commit_metadata, instant_names
from sim_actors_data import PARTITION, rows_in

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from lakehand.core.instants import Instant
    from lakehand.formats.commit_metadata import CommitMetadata
    from sim_world import World

TIMELINE = ".hoodie/timeline"
HISTORY = f"{TIMELINE}/history/"
MARKS = "marks/"
LAYOUT = 2
VERSION = 9

_MOST = 50_000


@lru_cache(maxsize=_MOST)
def parsed_name(name: str) -> Instant | None:
    """Return the instant that a timeline file's name stands for."""
    return instant_names.parse(name, LAYOUT)


@lru_cache(maxsize=_MOST)
def parsed_metadata(content: bytes) -> CommitMetadata:
    """Return commit metadata."""
    return commit_metadata.decode(content, where="a completed file")


@lru_cache(maxsize=_MOST)
def timeline_of(names: frozenset[str]) -> Timeline:
    """Return the timeline that these files stand for."""
    return Timeline.of(one for one in map(parsed_name, names) if one is not None)


@lru_cache(maxsize=_MOST)
def instant_of_file(path: str) -> str:
    """Return the instant that wrote a data file (table version 8 and later); "" if none."""
    name = path.rpartition("/")[2]
    base = file_slices.split_base_name(name)
    if base is not None:
        return base[2]
    log = file_slices.split_log_name(name)
    return "" if log is None else log[1]


def is_data(path: str) -> bool:
    """Whether a path is one of a data file."""
    return path.startswith(f"{PARTITION}/") and instant_of_file(path) != ""


epoch_of_file = lru_cache(maxsize=_MOST)(markers.epoch_of_file)


@dataclass(frozen=True)
class Look:
    """A table as a reader finds it."""

    names: frozenset[str]
    """The files of the timeline folder."""
    contents: Mapping[str, bytes]
    """The same, with what is in them."""
    data: Mapping[str, bytes]
    """The data files."""
    marks: tuple[tuple[str, str], ...] = ()
    """What actors say that they have done, and to which instant."""

    @cached_property
    def timeline(self) -> Timeline:
        """The active timeline."""
        return timeline_of(self.names)

    @cached_property
    def completed_files(self) -> tuple[tuple[Instant, str], ...]:
        """Every completed file, as its instant and its name: one instant may have two."""
        parsed = ((parsed_name(name), name) for name in sorted(self.names))
        return tuple((one, name) for one, name in parsed if one is not None and one.is_completed)

    @cached_property
    def aborted(self) -> frozenset[str]:
        """The times of aborted instants."""
        return frozenset(one.time for one in self.timeline.aborted)

    def metadata(self, name: str) -> CommitMetadata | None:
        """Return the commit metadata in a completed file of a write."""
        if not name.endswith(("commit", "deltacommit")):
            return None
        return parsed_metadata(self.contents[name])

    @cached_property
    def named(self) -> Mapping[str, frozenset[str]]:
        """The data files that each completed write names."""
        found = {}
        for instant, name in self.completed_files:
            metadata = self.metadata(name)
            if metadata is not None:
                stats = metadata.partition_to_write_stats.values()
                found[instant.time] = frozenset(
                    one.path for many in stats for one in many if one.path is not None
                )
        return found

    @cached_property
    def slices(self) -> tuple[file_slices.FileSlice, ...]:
        """What a snapshot query reads, by the production rules of slicing."""
        entries = [
            FileEntry(path.rpartition("/")[2], len(content)) for path, content in self.data.items()
        ]
        groups = file_slices.build_file_groups(PARTITION, entries, self.timeline, VERSION)
        replaced = file_slices.replaced_groups(self.timeline, self._replacements())
        return tuple(file_slices.latest_slices(groups, replaced))

    def _replacements(self) -> Iterator[tuple[str, Mapping[str, tuple[str, ...]]]]:
        for instant, name in self.completed_files:
            metadata = self.metadata(name)
            if metadata is not None and metadata.partition_to_replace_file_ids:
                yield instant.time, metadata.partition_to_replace_file_ids

    @cached_property
    def snapshot(self) -> frozenset[str] | str:
        """The rows that a reader finds, or why it cannot read."""
        try:
            slices = self.slices
        except LakehandError as error:
            return f"{type(error).__name__}: {error}"
        files = [one for piece in slices for one in (piece.base_file, *piece.log_files)]
        return frozenset().union(
            *(rows_in(self.data[f"{PARTITION}/{one.name}"]) for one in files if one is not None)
        )


_LOOKS: dict[int, Look] = {}
_LOOKS_OF: dict[tuple, Look] = {}


def look(world: World) -> Look:
    """Return what a reader of this world sees."""
    found = _LOOKS.get(world.mark)
    if found is None:
        if len(_LOOKS) > 4 * _MOST:
            _LOOKS.clear()
            _LOOKS_OF.clear()
        found = _LOOKS[world.mark] = _look(world)
    return found


def _look(world: World) -> Look:
    prefix = len(TIMELINE) + 1
    timeline, data, marks = {}, {}, []
    for path, stored in world.objects.items():
        if path.startswith(f"{PARTITION}/"):
            if instant_of_file(path):
                data[path] = stored.content
        elif path.startswith(MARKS):
            _, what, time, _ = path.split("/")
            marks.append((what, time))
        elif path.startswith(f"{TIMELINE}/") and "/" not in path[prefix:]:
            timeline[path[prefix:]] = stored.content
    key = (frozenset(timeline.items()), frozenset(data.items()), frozenset(marks))
    found = _LOOKS_OF.get(key)
    if found is None:
        found = _LOOKS_OF[key] = Look(frozenset(timeline), timeline, data, tuple(marks))
    return found
