"""Which blocks of a slice's log files count, and in which order they are read.

A log file is a heap of blocks by several writers, some of whom failed. Whoever reads it scans the
block headers first, asks here, and then reads the blocks that are named:

* up to table version 7 a data or delete block counts if its instant is committed (completed, or
  older than the active timeline); from version 8 on the file's own instant has answered that,
  but old files in an upgraded table still carry rollback commands;
* a block of a later instant than the one that is queried never counts (time travel);
* a rollback command removes every block of its target, wherever it stands;
* a log-compaction block stands for the blocks of the instants it lists. Both lie in the log, so
  the originals are left out and the compacted block takes the place of the newest of them: then
  a delta commit that was not merged keeps its place before or after;
* corrupt blocks never count, CDC blocks hold nothing a snapshot needs: both are reported.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, unique
from typing import TYPE_CHECKING, assert_never

from lakehand.core.file_slices import FIRST_VERSION_BY_COMPLETION

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lakehand.core.timeline import Timeline


@unique
class BlockKind(Enum):
    """What a block is, as far as its validity goes."""

    DATA = "data"
    DELETE = "delete"
    ROLLBACK = "rollback"
    CDC = "cdc"
    CORRUPT = "corrupt"


@dataclass(frozen=True, slots=True)
class BlockHeader:
    """What the header of one block says.

    ``target`` is the instant that a rollback command removes. ``compacted_times`` are the
    instants whose blocks a log-compaction block stands for, in any order.
    """

    kind: BlockKind
    instant: str = ""
    target: str | None = None
    compacted_times: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class BlockSelection:
    """Which blocks to read: indices into the headers that were asked about.

    ``read`` is in the order of merging, oldest first. The rest is why blocks were left out.
    """

    read: tuple[int, ...]
    corrupt: tuple[int, ...] = ()
    cdc: tuple[int, ...] = ()
    uncommitted: tuple[int, ...] = ()
    rolled_back: tuple[int, ...] = ()
    compacted: tuple[int, ...] = ()


def select_blocks(
    headers: Iterable[BlockHeader], timeline: Timeline, version: int
) -> BlockSelection:
    """Return which blocks of one slice count; headers in the order of log files and offsets.

    ``timeline`` is what the query sees: for time travel, ``timeline.as_of(time)``.
    """
    blocks = list(headers)
    targets = {block.target for block in blocks if block.kind is BlockKind.ROLLBACK}
    corrupt: list[int] = []
    cdc: list[int] = []
    uncommitted: list[int] = []
    rolled_back: list[int] = []
    standing: list[int] = []
    for index, block in enumerate(blocks):
        match block.kind:
            case BlockKind.ROLLBACK:
                pass
            case BlockKind.CORRUPT:
                corrupt.append(index)
            case BlockKind.CDC:
                cdc.append(index)
            case BlockKind.DATA | BlockKind.DELETE:
                if block.instant in targets:
                    rolled_back.append(index)
                elif _is_visible(block.instant, timeline, version):
                    standing.append(index)
                else:
                    uncommitted.append(index)
            case _:
                assert_never(block.kind)
    read = _with_compacted_in_place(blocks, standing)
    left_out = set(standing).difference(read)
    return BlockSelection(
        read=tuple(read),
        corrupt=tuple(corrupt),
        cdc=tuple(cdc),
        uncommitted=tuple(uncommitted),
        rolled_back=tuple(rolled_back),
        compacted=tuple(sorted(left_out)),
    )


def _is_visible(instant: str, timeline: Timeline, version: int) -> bool:
    if timeline.limit is not None and instant > timeline.limit:
        return False
    return version >= FIRST_VERSION_BY_COMPLETION or timeline.is_committed(instant)


def _with_compacted_in_place(blocks: list[BlockHeader], standing: list[int]) -> list[int]:
    """Drop the blocks that log compaction merged, and put the merged ones in their place."""
    stands_for = {
        original: block.instant
        for block in (blocks[index] for index in standing)
        for original in block.compacted_times
        if original < block.instant  # what it merged was there before it: no circles
    }
    if not stands_for:
        return standing
    # A log compaction can merge an earlier one: follow the chain to the last.
    final = {original: _last_of_chain(original, stands_for) for original in stands_for}
    place: dict[str, int] = {}
    for index in standing:
        heir = final.get(blocks[index].instant)
        # An earlier log compaction lies behind commits that it does not hold: no place to take.
        if heir is not None and not blocks[index].compacted_times:
            place[heir] = index
    kept = [index for index in standing if blocks[index].instant not in final]
    return sorted(kept, key=lambda index: (place.get(blocks[index].instant, index), index))


def _last_of_chain(instant: str, stands_for: dict[str, str]) -> str:
    while (heir := stands_for.get(instant)) is not None:
        instant = heir
    return instant
