"""How a new snapshot of the history becomes visible, and what is made of a dead writer's rest.

The order of writing, which this file alone decides::

    data file (promoted whole) -> manifest_<N+1> (new, by put_new) -> _version_ = N+1

A crash anywhere leaves a history that reads as before or as after. What the dead left is taken
up by the next writer: a sound manifest beyond ``_version_`` is adopted, a torn one replaced, a
data file that no manifest lists used if it is the very one, else rewritten.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import TYPE_CHECKING, assert_never

from lakehand.errors import Conflict, Corrupt, InvariantBroken, NotFound, Unavailable
from lakehand.formats.lsm_timeline import (
    VERSION_FILE,
    HistoryFile,
    HistoryFileName,
    Manifest,
    decode_manifest,
    decode_version,
    encode_manifest,
    encode_version,
    manifest_name,
    read_entries,
    write_entries,
)
from lakehand.ports import PromoteOutcome, PutOutcome
from lakehand.protocol.lsm_snapshot import (
    TRIES,
    History,
    base_name,
    current_number,
    load,
    load_manifest,
    manifest_numbers,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lakehand.formats.lsm_timeline import HistoryEntry
    from lakehand.ports import Staged, Store


@dataclass(frozen=True, slots=True)
class Base:
    """What a writer builds upon."""

    history: History
    torn: str | None
    """The store's version of an unsound manifest that has the next number, to be replaced."""


def settle(store: Store, folder: str) -> Base:
    """Return what to build upon, after taking up what a dead writer may have left.

    A manifest beyond ``_version_`` is whole if its data files are there: its writer died, or is
    about to write ``_version_``, which comes to the same.
    """
    number = current_number(store, folder)
    numbers = sorted(manifest_numbers(store, folder))
    for newer in numbers[bisect_right(numbers, number) :]:
        path = f"{folder}/{manifest_name(newer)}"
        try:
            stored = store.get(path)
        except NotFound:
            break
        adopted = _sound(store, folder, newer, stored.content)
        if adopted is None:
            if newer != number + 1 or newer != numbers[-1]:
                raise Corrupt("a manifest that is not the newest names missing files", where=path)
            return Base(_at(store, folder, number), torn=stored.version)
        number = newer
    if number:
        _advance_version(store, folder, number)
    return Base(_at(store, folder, number), torn=None)


def _at(store: Store, folder: str, number: int) -> History:
    try:
        return load_manifest(store, folder, number) if number else History(folder, 0, Manifest())
    except NotFound:
        # Not the number that was read a moment ago any more, or Corrupt: load says which.
        return load(store, folder)


def _sound(store: Store, folder: str, number: int, content: bytes) -> History | None:
    try:
        manifest = decode_manifest(content, where=f"{folder}/{manifest_name(number)}")
    except Corrupt:
        return None
    sizes = {base_name(info.path): info.size for info in store.list(folder).objects}
    whole = all(sizes.get(str(file.name)) == file.size for file in manifest.files)
    return History(folder, number, manifest) if whole else None


def publish(store: Store, base: Base, manifest: Manifest) -> History:
    """Make ``manifest`` the next snapshot, or raise ``Conflict`` if the number is taken."""
    history = replace(base.history, number=base.history.number + 1, manifest=manifest)
    path, content = history.path(manifest_name(history.number)), encode_manifest(manifest)
    if base.torn is None:
        outcome = store.put_new(path, content)
    else:
        outcome = store.put_if(path, content, base.torn)
    match outcome:
        case PutOutcome.WRITTEN:
            pass
        case PutOutcome.EXISTS:
            raise Conflict(f"{path}: another writer of the history was first")
        case PutOutcome.UNKNOWN:
            _require_ours(store, path, content)
        case _:
            assert_never(outcome)
    _advance_version(store, history.folder, history.number)
    return history


def _require_ours(store: Store, path: str, content: bytes) -> None:
    """After a lost reply: return if the manifest is there as written, else say what to do."""
    try:
        found = store.get(path).content
    except NotFound:
        raise Unavailable(f"{path}: the reply was lost and nothing was written") from None
    if found != content:
        raise Conflict(f"{path}: another writer of the history was first")


def _advance_version(store: Store, folder: str, number: int) -> None:
    """Let ``_version_`` name manifest ``number``, unless it names a later one."""
    path, content = f"{folder}/{VERSION_FILE}", encode_version(number)
    for _ in range(TRIES):
        try:
            found = store.get(path)
        except NotFound:
            outcome = store.put_new(path, content)
        else:
            if _version_or_zero(found.content, path) >= number:
                return
            outcome = store.put_if(path, content, found.version)
        if outcome is PutOutcome.WRITTEN:
            return
    raise Unavailable(f"{path}: could not be written; the next writer will do it")


def _version_or_zero(content: bytes, path: str) -> int:
    try:
        return decode_version(content, where=path)
    except Corrupt:
        return 0


def write_file(
    store: Store,
    history: History,
    name: HistoryFileName,
    entries: Callable[[], Iterator[HistoryEntry]],
    *,
    area: str,
) -> HistoryFile:
    """Write a data file under its final name and return what a manifest says of it."""
    path = history.path(name)
    if any(file.name == name for file in history.manifest.files):
        raise Corrupt("the name's range and the file's instants disagree", where=path)
    for _ in range(TRIES):
        with store.stage(path, area=area) as writer:
            size = write_entries(writer, entries())
            writer.close()
        if _promote(store, writer.staged):
            return HistoryFile(name, size)
        # A writer that died left a file of this name, which no manifest lists.
        found = _same_file(store, path, entries())
        if found is not None:
            return HistoryFile(name, found)
        store.delete(path)
    raise Conflict(f"{path}: somebody else keeps writing this file")


def _promote(store: Store, staged: Staged) -> bool:
    """Promote and return True, or False if the name is taken."""
    unsure = False
    for _ in range(TRIES):
        outcome = store.promote(staged)
        match outcome:
            case PromoteOutcome.WRITTEN:
                return True
            case PromoteOutcome.EXISTS:
                return False
            case PromoteOutcome.GONE:
                if unsure:
                    # Either it worked or the name was taken: the content will tell.
                    return False
                raise InvariantBroken(f"{staged.final}: what was staged is gone")
            case PromoteOutcome.UNKNOWN:
                unsure = True
            case _:
                assert_never(outcome)
    raise Unavailable(f"{staged.final}: the store does not say whether it was written")


def _same_file(store: Store, path: str, entries: Iterator[HistoryEntry]) -> int | None:
    """Return the size of the file at ``path`` if it holds exactly ``entries``."""
    try:
        with store.open(path) as file:
            found = read_entries(file, where=path)
            same = all(ours == theirs for ours, theirs in zip_longest(entries, found))
            return int(file.size()) if same else None
    except (NotFound, Corrupt):
        return None
