"""The history of layout 2 as it is now: found, and read as a stream, without a lock.

``_version_`` names the current manifest; when it cannot be read, the newest manifest is the
current one. Only files that the manifest lists are part of the history.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakehand.errors import Conflict, Corrupt, NotFound, Unavailable
from lakehand.formats.lsm_timeline import (
    VERSION_FILE,
    HistoryFileName,
    Manifest,
    decode_manifest,
    decode_version,
    manifest_name,
    parse_manifest_name,
    read_entries,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lakehand.formats.lsm_timeline import HistoryEntry
    from lakehand.ports import Store

TRIES = 5
"""How often to look again when somebody else moves on meanwhile."""


@dataclass(frozen=True, slots=True)
class History:
    """One snapshot of the history in ``folder``; number 0 is the empty one before any writing."""

    folder: str
    number: int
    manifest: Manifest

    def path(self, name: object) -> str:
        """Return the path of one of the folder's files."""
        return f"{self.folder}/{name}"


def load(store: Store, folder: str) -> History:
    """Return the current snapshot, by ``_version_`` or, if that cannot be read, by listing."""
    for _ in range(TRIES):
        number = current_number(store, folder)
        if number == 0:
            return History(folder, 0, Manifest())
        try:
            return load_manifest(store, folder, number)
        except NotFound:
            newest = max(manifest_numbers(store, folder), default=0)
        if newest <= number:
            raise Corrupt(
                f"names {manifest_name(number)}, which is missing",
                where=f"{folder}/{VERSION_FILE}",
            )
        # Retention overtook us, or _version_ fell behind: the newest manifest is the history.
        try:
            return load_manifest(store, folder, newest)
        except NotFound:
            continue
    raise Unavailable(f"{store.uri}/{folder}: the history changes faster than it can be read")


def read(
    store: Store,
    history: History,
    *,
    first: str | None = None,
    last: str | None = None,
    contents: bool = True,
) -> Iterator[HistoryEntry]:
    """Yield the entries of the closed time range (None: open), in order of time, as a stream.

    An instant that a writer archived twice, because it died in between, comes once. Raises
    ``Conflict`` if retention removed a file of this snapshot: load anew.
    """
    names = sorted(file.name for file in history.manifest.files if file.name.overlaps(first, last))
    before = None
    for group in _overlapping(names):
        streams = [_entries(store, history, name, first, last, contents=contents) for name in group]
        for entry in heapq.merge(*streams, key=entry_key):
            if entry.key != before:
                yield entry
            before = entry.key


def _overlapping(names: list[HistoryFileName]) -> Iterator[list[HistoryFileName]]:
    """Yield runs of files that overlap in time: most hold one file, so few are open at a time."""
    group: list[HistoryFileName] = []
    for name in names:
        if group and name.first > max(each.last for each in group):
            yield group
            group = []
        group.append(name)
    if group:
        yield group


def entry_key(entry: HistoryEntry) -> tuple[str, str]:
    """Return what orders entries and tells them apart."""
    return entry.key


def base_name(path: str) -> str:
    """Return the last part of a path."""
    return path.rpartition("/")[2]


def manifest_numbers(store: Store, folder: str) -> list[int]:
    """Return the numbers of the manifests that are there, in no order."""
    names = (base_name(info.path) for info in store.list(folder).objects)
    return [number for number in map(parse_manifest_name, names) if number]


def current_number(store: Store, folder: str) -> int:
    """Return the number that ``_version_`` holds, else that of the newest manifest, else 0."""
    path = f"{folder}/{VERSION_FILE}"
    try:
        return decode_version(store.get(path).content, where=path)
    except (NotFound, Corrupt):
        return max(manifest_numbers(store, folder), default=0)


def load_manifest(store: Store, folder: str, number: int) -> History:
    """Return the snapshot of one manifest. Raises ``NotFound``."""
    path = f"{folder}/{manifest_name(number)}"
    return History(folder, number, decode_manifest(store.get(path).content, where=path))


def _entries(
    store: Store,
    history: History,
    name: HistoryFileName,
    first: str | None,
    last: str | None,
    *,
    contents: bool,
) -> Iterator[HistoryEntry]:
    path = history.path(name)
    try:
        file = store.open(path)
    except NotFound as error:
        if load(store, history.folder).number != history.number:
            raise Conflict(f"{path} was merged away while it was read: load anew") from error
        raise Corrupt("the current manifest lists this file, but it is missing", where=path) from (
            error
        )
    with file:
        yield from read_entries(file, where=path, first=first, last=last, contents=contents)
