"""The completion marker of a write handle: its write statuses, inline or in a side object.

The statuses are bytes of the engine's own; a marker only keeps them and knows them by digest.
"""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass

from lakehand.errors import Corrupt, Unsupported

_FORMAT = 1


@dataclass(frozen=True, slots=True)
class HandleMark:
    """What a completion marker says; one of ``inline`` and ``side_object`` is given."""

    digest: str
    inline: bytes | None = None
    side_object: str | None = None


def encode(mark: HandleMark) -> bytes:
    """Return the marker's content."""
    record = {
        "format": _FORMAT,
        "digest": mark.digest,
        "inline": None if mark.inline is None else base64.b64encode(mark.inline).decode(),
        "sideObject": mark.side_object,
    }
    return json.dumps(record, separators=(",", ":")).encode()


def decode(content: bytes, *, where: str) -> HandleMark:
    """Read a marker."""
    try:
        record = json.loads(content)
        if record["format"] != _FORMAT:
            raise Unsupported(
                f"{where}: completion marker format {record['format']!r:.40} is not known here; "
                "use the version that wrote it"
            )
        inline, side = record["inline"], record["sideObject"]
        found = HandleMark(
            digest=str(record["digest"]),
            inline=None if inline is None else base64.b64decode(inline, validate=True),
            side_object=None if side is None else str(side),
        )
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise Corrupt(
            f"not a completion marker ({error}); the write it belongs to has to be done again",
            where=where,
        ) from error
    if (found.inline is None) == (found.side_object is None):
        raise Corrupt("a completion marker without statuses, or with two of them", where=where)
    return found
