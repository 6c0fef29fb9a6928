"""``.hoodie_partition_metadata``: the file that makes a folder a partition for Java.

It is created once, when absent, and never changed: the instant that first wrote into the partition,
and how many folders below the table's base it lies (0 for a table without partitions).
"""

from __future__ import annotations

from dataclasses import dataclass

from lakehand.errors import Corrupt
from lakehand.formats import java_properties

FILE_NAME = ".hoodie_partition_metadata"

_COMMIT_TIME = "commitTime"
_DEPTH = "partitionDepth"
_DEPTH_LIMIT = 1000


@dataclass(frozen=True, slots=True)
class PartitionMetadata:
    """What the file says."""

    commit_time: str
    depth: int


def decode(content: bytes, *, where: str) -> PartitionMetadata:
    """Read the file; a missing or wrong entry is ``Corrupt``."""
    properties = java_properties.parse(content, where=where)
    commit_time, depth = properties.get(_COMMIT_TIME, ""), properties.get(_DEPTH, "")
    if not (commit_time.isascii() and commit_time.isdecimal()):
        raise Corrupt(f"{_COMMIT_TIME} is {commit_time!r}, not an instant time", where=where)
    if not (depth.isascii() and depth.isdecimal() and len(depth) < 5 and int(depth) < _DEPTH_LIMIT):
        raise Corrupt(f"{_DEPTH} is {depth!r}, not a number of folders", where=where)
    return PartitionMetadata(commit_time=commit_time, depth=int(depth))


def encode(metadata: PartitionMetadata, *, written_at_ms: int) -> bytes:
    """Return the file's content; the time only goes into its comment."""
    return java_properties.render(
        {_COMMIT_TIME: metadata.commit_time, _DEPTH: str(metadata.depth)},
        comments=("partition metadata", java_properties.java_date(written_at_ms)),
    )
