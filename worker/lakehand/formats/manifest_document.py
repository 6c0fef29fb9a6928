"""The manifest: every file that an attempt may ever promote, as a document beside the journal."""

from __future__ import annotations

import json
from dataclasses import dataclass

from lakehand.core.journal_entries import StagedFile  # noqa: TC001 - read at run time
from lakehand.errors import Corrupt, Unsupported
from lakehand.formats.document_values import RecordMapping

_FORMAT = 1


@dataclass(frozen=True, slots=True)
class Manifest:
    """The staged files of one attempt, with the names that they are to get."""

    time: str
    epoch: int
    files: tuple[StagedFile, ...]


_MAPPING = RecordMapping(Manifest)


def encode(manifest: Manifest) -> bytes:
    """Return the manifest's document."""
    record = {"format": _FORMAT, **_MAPPING.write(manifest)}
    return json.dumps(record, separators=(",", ":"), ensure_ascii=False).encode()


def decode(content: bytes, *, where: str) -> Manifest:
    """Read a manifest's document."""
    try:
        record = json.loads(content)
        version = record["format"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise Corrupt(f"not a manifest ({error}); move it away", where=where) from error
    if version != _FORMAT:
        raise Unsupported(
            f"{where}: manifest format {version!r:.40} is not known here; use the version that "
            "wrote it"
        )
    return _MAPPING.read(record, where=where)
