"""What attempts at an instant left behind, and its removal: staging first, then files.

The order matters, so this is the only place that has both. What is staged may still be promoted by
a worker that was presumed dead: once the stage is discarded, its promotion answers GONE. The other
way round a file could come back after it was deleted.

Found are: what begin markers announce, and what manifests name. An attempt of Apache Hudi without
any marker is found by its instant in the names of data files.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakehand.core import file_names, markers
from lakehand.core.file_slices import FIRST_VERSION_BY_COMPLETION
from lakehand.errors import Corrupt, NotFound
from lakehand.formats import manifest_document
from lakehand.ports import Staged
from lakehand.protocol.staging import TEMP, all_areas, as_decided, discard

if TYPE_CHECKING:
    from lakehand.core.journal_entries import StagedFile
    from lakehand.core.table_config import TableConfig
    from lakehand.formats.manifest_document import Manifest
    from lakehand.ports import Store
    from lakehand.protocol.workbench import Workbench

MANIFESTS = ".hoodie/.lakehand/manifests"
MARKS = ".hoodie/.lakehand/marks"
"""Where completion and finalize markers lie (``handle_marks``)."""

_SERVER_MARKERS = "MARKERS"


@dataclass(frozen=True, slots=True)
class Leftover:
    """A file of an attempt, there or not, and the stage that it would come from."""

    path: str
    epoch: int
    staged: StagedFile | None
    is_shared: bool = False
    """A log file of table version 6 that a foreign writer appended to: others' blocks are in it."""


@dataclass(frozen=True, slots=True)
class Leftovers:
    """All that was found of an instant's attempts."""

    files: tuple[Leftover, ...]
    documents: tuple[str, ...]
    """The markers and manifests that told, and the marks of their write handles."""

    def below(self, epoch: int) -> tuple[Leftover, ...]:
        """Return the files of attempts before ``epoch``."""
        return tuple(one for one in self.files if one.epoch < epoch)


def marker_path(time: str, marker: markers.Marker) -> str:
    """Return where a marker lies."""
    return f"{TEMP}/{time}/{marker.name}"


def begin_file(store: Store, time: str, marker: markers.Marker, staged: Staged) -> None:
    """Announce a data file before its first byte is staged, so that a successor can find it."""
    store.put(marker_path(time, marker), staged.to_json().encode())


def manifest_folder(time: str) -> str:
    """Return where the manifests of an instant lie."""
    return f"{MANIFESTS}/{time}"


def find(bench: Workbench, time: str, *, was_foreign: bool) -> Leftovers:
    """Return what attempts at the instant announced or prepared.

    ``was_foreign``: an attempt of Apache Hudi may be among them.
    """
    config = bench.config
    found: dict[tuple[str, str], Leftover] = {}
    documents: list[str] = []
    folder = f"{TEMP}/{time}"
    for info in bench.store.walk(folder):
        documents.append(info.path)
        for one in _announced(bench.store, info.path, folder, config):
            found[one.path, one.staged.place if one.staged else ""] = one
    is_marked = bool(documents)
    for name in bench.store.names(manifest_folder(time)):
        path = f"{manifest_folder(time)}/{name}"
        documents.append(path)
        manifest = read_manifest(bench.store, path)
        if manifest is not None:
            for file in manifest.files:
                found[file.final, file.place] = Leftover(file.final, manifest.epoch, file)
    documents.extend(info.path for info in bench.store.walk(f"{MARKS}/{time}"))
    if was_foreign and not is_marked:
        for one in _named_after(bench, time):
            found.setdefault((one.path, ""), one)
    return Leftovers(tuple(found.values()), tuple(documents))


def read_manifest(store: Store, path: str) -> Manifest | None:
    """Return a manifest; None if it was removed."""
    try:
        content = store.get(path).content
    except NotFound:
        return None
    where = f"{store.uri}/{path}"
    manifest = manifest_document.decode(content, where=where)
    time = path.split("/")[-2]
    if manifest.time != time:
        raise Corrupt(f"a manifest of {manifest.time}, not of {time}; move it away", where=where)
    return manifest


def _announced(store: Store, path: str, folder: str, config: TableConfig) -> list[Leftover]:
    name = path[len(folder) + 1 :]
    try:
        if name.startswith(_SERVER_MARKERS):
            lines = store.get(path).content.decode("utf-8", "replace").splitlines()
            listed = [markers.parse(line) for line in lines]
            return [_foreign(one, config) for one in listed if one is not None]
        marker = markers.parse(name)
        if marker is None:
            return []
        content = store.get(path).content
    except NotFound:
        return []
    if not content:
        return [_foreign(marker, config)]
    staged = Staged.from_json(content.decode("utf-8", "replace"), where=f"{store.uri}/{path}")
    return [Leftover(marker.path, marker.epoch, as_decided(staged, digest=""))]


def _foreign(marker: markers.Marker, config: TableConfig) -> Leftover:
    is_shared = (
        marker.kind is markers.MarkerKind.APPEND and config.version < FIRST_VERSION_BY_COMPLETION
    )
    return Leftover(marker.path, epoch=0, staged=None, is_shared=is_shared)


def _named_after(bench: Workbench, time: str) -> list[Leftover]:
    """Return data files whose names bear the instant: an attempt without markers wrote them."""
    found = []
    for info in bench.store.walk(""):
        folder, _, name = info.path.rpartition("/")
        if folder.startswith(".hoodie") or time not in name:
            continue
        if _instant_of(name, bench.config) == time:
            found.append(Leftover(info.path, markers.epoch_of_file(info.path), None))
    return found


def _instant_of(name: str, config: TableConfig) -> str | None:
    """Return the instant that wrote a data file, as far as its name says.

    Up to version 6 a log file bears its slice's instant: a pending compaction's own, too.
    """
    base = file_names.parse_base_file(name)
    if base is not None:
        return base.instant
    if config.version < FIRST_VERSION_BY_COMPLETION:
        return None
    log = file_names.parse_log_file(name)
    return None if log is None else log.instant


def remove(bench: Workbench, left: tuple[Leftover, ...]) -> tuple[str, ...]:
    """Discard the stages, then delete the files; return the files. May be repeated."""
    for one in left:
        if one.staged is not None:
            discard(bench.store, one.staged)
    paths = tuple(sorted({one.path for one in left if not one.is_shared}))
    for path in paths:
        bench.store.delete(path)
    return paths


def discard_stages(bench: Workbench, time: str) -> None:
    """Discard all that a foreign writer's ending of the instant left staged, as far as it is known.

    So nobody promotes it any more. The markers that told of it may be gone with that ending.
    """
    folder = manifest_folder(time)
    for name in bench.store.names(folder):
        manifest = read_manifest(bench.store, f"{folder}/{name}")
        for file in () if manifest is None else manifest.files:
            discard(bench.store, file)
    bench.store.discard_area(all_areas(time))


def forget(bench: Workbench, time: str, left: Leftovers) -> None:
    """Clear away what told of an instant's attempts, once it has ended and that is published.

    Every stage is discarded: what was chosen is promoted, and so out of reach.
    """
    for one in left.files:
        if one.staged is not None:
            discard(bench.store, one.staged)
    for path in left.documents:
        bench.store.delete(path)
    bench.store.discard_area(all_areas(time))
