"""Where new rows go: small files are filled first, the rest is packed into new file groups.

The plan is Hudi's, over plain values. Rows are counted in bytes by an average that recent commits
give (``average_row_bytes``). Small files are filled in order of size, the smallest first, ties by
file id; what is left makes file groups of full size and one rest, so that the next write finds one
small file and not many.

**Merge on read** differs in two points. A file group that has log files is not filled: its rows
would be written twice, by the merge now and by the compaction. And few groups are filled per
partition (Hudi: one), since each costs a rewrite of its base file that updates do not need.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from lakehand.core.table_kinds import TableType

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


@dataclass(frozen=True, slots=True, kw_only=True)
class SizeLimits:
    """How large base files should be."""

    max_file_bytes: int = 120 << 20
    """No file is planned beyond this, but for a file of a single row."""
    small_file_bytes: int = 100 << 20
    """Base files below this are filled with new rows; 0: none is."""
    merge_on_read_fills: int = 1
    """How many small files a write to a merge-on-read table fills per partition."""


class WrittenBaseFiles(NamedTuple):
    """The base files of one commit, as its statistics sum them up."""

    file_bytes: int
    rows: int


class ExistingGroup(NamedTuple):
    """The latest slice of a file group that may take rows.

    Whoever makes it leaves out the groups that a pending compaction or clustering has.
    """

    file_id: str
    base_bytes: int
    """0 of a slice without a base file: it is not filled."""
    has_logs: bool


class NewRows(NamedTuple):
    """What comes into one partition, and what is there."""

    rows: int
    groups: tuple[ExistingGroup, ...] = ()


class Share(NamedTuple):
    """Some of a partition's new rows, and where they go. Shares take rows in their order."""

    file_id: str | None
    """None: a new file group."""
    rows: int


def average_row_bytes(
    commits: Iterable[WrittenBaseFiles], *, estimate: int, small_file_bytes: int
) -> float:
    """Return the bytes of a row on disk, by the newest of ``commits`` that is large enough.

    ``commits`` come newest first. One that wrote less than a small file says little: footers and
    filters weigh too much in it. ``estimate`` is for tables without any other.
    """
    for commit in commits:
        if commit.rows > 0 and commit.file_bytes > small_file_bytes:
            return commit.file_bytes / commit.rows
    return float(estimate)


def plan_new_rows(
    partitions: Mapping[str, NewRows],
    table_type: TableType,
    *,
    row_bytes: float,
    limits: SizeLimits,
) -> dict[str, tuple[Share, ...]]:
    """Return for each partition with new rows who takes how many; the shares sum to the rows."""
    return {
        partition: tuple(_shares(incoming, table_type, row_bytes, limits))
        for partition, incoming in partitions.items()
        if incoming.rows > 0
    }


def _shares(
    incoming: NewRows, table_type: TableType, row_bytes: float, limits: SizeLimits
) -> list[Share]:
    left = incoming.rows
    shares = []
    for group in _fillable(incoming.groups, table_type, limits):
        rows = min(left, math.floor((limits.max_file_bytes - group.base_bytes) / row_bytes))
        if rows > 0:
            shares.append(Share(group.file_id, rows))
            left -= rows
    full = max(1, math.floor(limits.max_file_bytes / row_bytes))
    files, rest = divmod(left, full)
    shares += [Share(None, full)] * files
    if rest:
        shares.append(Share(None, rest))
    return shares


def _fillable(
    groups: tuple[ExistingGroup, ...], table_type: TableType, limits: SizeLimits
) -> list[ExistingGroup]:
    """Return the small files in the order in which they are filled."""
    merge_on_read = table_type is TableType.MERGE_ON_READ
    small = [
        group
        for group in groups
        if 0 < group.base_bytes < limits.small_file_bytes and not (merge_on_read and group.has_logs)
    ]
    small.sort(key=lambda group: (group.base_bytes, group.file_id))
    return small[: limits.merge_on_read_fills] if merge_on_read else small
