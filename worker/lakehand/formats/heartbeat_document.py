"""What Lakehand writes into a heartbeat file, which for Apache Hudi is empty.

Hudi looks at the file's modification time alone. An empty one is a foreign writer's: epoch 0.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from lakehand.errors import Corrupt, Unsupported

_FORMAT = 1
_MENDING = "remove it if no writer of this instant is alive"


@dataclass(frozen=True, slots=True)
class BeatContent:
    """Whose heartbeat it is, and the how-many-th."""

    owner: str
    epoch: int
    number: int


FOREIGN_BEAT = BeatContent(owner="a writer of Apache Hudi", epoch=0, number=0)


def encode(beat: BeatContent) -> bytes:
    """Return the file's content, which no other beat of the table has."""
    return json.dumps({"format": _FORMAT, **asdict(beat)}, separators=(",", ":")).encode()


def decode(content: bytes, *, where: str) -> BeatContent:
    """Read a heartbeat file."""
    if not content:
        return FOREIGN_BEAT
    try:
        record = json.loads(content)
        if record["format"] != _FORMAT:
            raise Unsupported(
                f"{where}: heartbeat format {record['format']!r:.40} is not known; use the "
                f"version that wrote it, or {_MENDING}"
            )
        owner, epoch, number = record["owner"], record["epoch"], record["number"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise Corrupt(f"not a heartbeat of Hudi or Lakehand; {_MENDING}", where=where) from error
    if not isinstance(owner, str) or type(epoch) is not int or type(number) is not int:
        raise Corrupt(f"a heartbeat with values of wrong types; {_MENDING}", where=where)
    return BeatContent(owner, epoch, number)
