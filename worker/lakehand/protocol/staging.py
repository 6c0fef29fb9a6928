"""Small files of the timeline: staged before they are decided, promoted after.

Data files are staged by the tasks that write them; what is here serves recipes alone.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from lakehand.core.journal_entries import StagedFile
from lakehand.errors import NotFound
from lakehand.ports import PromoteOutcome, Staged

if TYPE_CHECKING:
    from lakehand.ports import Store

TEMP = ".hoodie/.temp"

_ATTEMPTS = 8


def area(time: str, epoch: int) -> str:
    """Return the staging area of an attempt."""
    return f"{TEMP}/{time}/.staging/{epoch}"


def all_areas(time: str) -> str:
    """Return the folder of all staging areas of an instant."""
    return f"{TEMP}/{time}/.staging"


def digest_of(content: bytes) -> str:
    """Return what tells our file from somebody else's of the same name."""
    return hashlib.sha256(content).hexdigest()[:32]


def stage(store: Store, final: str, content: bytes, *, time: str, epoch: int) -> StagedFile:
    """Stage a whole small file."""
    with store.stage(final, area=area(time, epoch)) as writer:
        writer.write(content)
        writer.close()
        return as_decided(writer.staged, digest=digest_of(content))


def as_decided(staged: Staged, *, digest: str) -> StagedFile:
    """Return the journal's word for a staged file."""
    return StagedFile(staged.final, staged.place, staged.parts, digest)


def handle(file: StagedFile) -> Staged:
    """Return the store's word for a staged file."""
    return Staged(file.final, file.place, file.parts)


def promote(store: Store, file: StagedFile) -> PromoteOutcome:
    """Promote until the store says what became of it; a lost reply is asked about again."""
    outcome = PromoteOutcome.UNKNOWN
    for _ in range(_ATTEMPTS):
        outcome = store.promote(handle(file))
        if outcome is not PromoteOutcome.UNKNOWN:
            break
    return outcome


def discard(store: Store, file: StagedFile) -> None:
    """Make sure that a staged file can never be promoted."""
    store.discard(handle(file))


def is_ours(store: Store, file: StagedFile) -> bool | None:
    """Tell whether what has the file's final name is this file; None if nothing has it."""
    try:
        return digest_of(store.get(file.final).content) == file.digest
    except NotFound:
        return None
