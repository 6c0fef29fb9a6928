"""Passing over values: the cheap walk for columns nobody asked for, and the items of arrays.

The items of an array lie one behind the other, so the start of an item is only known when the
one before it was passed. The walk therefore goes through the first items of all arrays, then
the second ones, and so on; when few arrays are left that are long, it goes on with one array at
a time (``_skipper``), because a step over few rows costs as much as a step over a thousand.
Decoding then reads the items of all arrays together, as rows of their own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias, assert_never

import numpy as np

from lakehand.formats.avro.cursors import Content, Cursors, Integers
from lakehand.formats.avro.nodes import (
    Choice,
    Fixed,
    Items,
    Node,
    Nullable,
    Plain,
    Record,
    Symbols,
    Wire,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    Skipper: TypeAlias = Callable[[int, int], int]

_FEW_ROWS: Final = 24
"""Below this many rows a walk of single values is faster."""

_MANY_BLOCKS: Final = 8
"""Arrays of constant-size items are passed a block at a time, unless the blocks are tiny."""


def skip(node: Node, cursors: Cursors) -> None:  # noqa: PLR0912 - one per kind of node
    """Move every cursor past one value."""
    match node:
        case Plain(wire=Wire.BOOLEAN):
            cursors.skip(1)
        case Plain(wire=Wire.INT | Wire.LONG):
            cursors.longs()
        case Plain(wire=Wire.FLOAT):
            cursors.skip(4)
        case Plain(wire=Wire.DOUBLE):
            cursors.skip(8)
        case Plain():
            cursors.spans()
        case Fixed(size=size):
            cursors.skip(size)
        case Symbols():
            cursors.longs()
        case Nullable(item=item, null_branch=null_branch):
            present = cursors.choices(2, "branch of a union") != null_branch
            _skip_some(item, cursors, np.flatnonzero(present))
        case Items():
            _Walk(node, cursors, record=False).run()
        case Record(members=members):
            for member in members:
                skip(member.node, cursors)
        case Choice(branches=branches):
            chosen = cursors.choices(len(branches) + 1, "branch of a union")
            for index, branch in enumerate(branches, start=1):
                _skip_some(branch, cursors, np.flatnonzero(chosen == index))
        case _:
            assert_never(node)


def _skip_some(node: Node, cursors: Cursors, rows: Integers) -> None:
    if rows.size == len(cursors):
        skip(node, cursors)
    elif rows.size:
        some = cursors.select(rows)
        skip(node, some)
        cursors.put_back(rows, some)


def items(node: Items, cursors: Cursors) -> tuple[Cursors, Integers]:
    """Move every cursor past one array; return cursors at its items and their count per row."""
    walk = _Walk(node, cursors, record=True)
    walk.run()
    if not walk.rows:
        none = np.zeros(0, dtype=np.int64)
        return Cursors(cursors.content, none, none), np.zeros(len(cursors), dtype=np.int64)
    rows = np.concatenate(walk.rows)
    positions = np.concatenate(walk.positions)
    order = np.argsort(rows, kind="stable")
    rows = rows[order]
    counts = np.bincount(rows, minlength=len(cursors)).astype(np.int64)
    return Cursors(cursors.content, positions[order], cursors.ends[rows]), counts


class _Walk:
    """One pass over the arrays of all rows; notes the items' positions if it is to ``record``."""

    def __init__(self, node: Items, cursors: Cursors, *, record: bool) -> None:
        self._entry = node.entry
        self._cursors = cursors
        self._record = record
        self.rows: list[Integers] = []
        self.positions: list[Integers] = []

    def run(self) -> None:
        # A walk around this one may have noted these very positions: leave that array alone.
        self._cursors.positions = self._cursors.positions.copy()
        rows = np.arange(len(self._cursors), dtype=np.int64)
        left = np.zeros(rows.size, dtype=np.int64)
        size = _constant_size(self._entry)
        steps = 0
        while rows.size:
            steps += 1
            if rows.size < _FEW_ROWS and (size is None or steps > _MANY_BLOCKS):
                self._one_at_a_time(rows, left)
                return
            some = self._cursors.select(rows)
            self._read_counts(some, left)
            going = left > 0
            if not going.all():
                self._cursors.put_back(rows, some)
                rows, left = rows[going], left[going]
                some = some.select(going)
                if not rows.size:
                    return
            if size is not None:
                self._note(np.repeat(rows, left), _runs(some.positions, left, size))
                some.positions = some.positions + left * size
                left = np.zeros_like(left)
            else:
                self._note(rows, some.positions)
                skip(self._entry, some)
                left = left - 1
            self._cursors.put_back(rows, some)

    def _note(self, rows: Integers, positions: Integers) -> None:
        if self._record:
            self.rows.append(rows)
            self.positions.append(positions)

    def _read_counts(self, some: Cursors, left: Integers) -> None:
        """Read the next block's count in the rows whose block is used up; zero ends an array."""
        fresh = np.flatnonzero(left == 0)
        heads = some.select(fresh)
        start = heads.positions
        counts = heads.longs()
        sized = np.flatnonzero(counts < 0)
        if sized.size:
            # A negative count is followed by the block's size in bytes, which is not needed.
            tails = heads.select(sized)
            tails.longs()
            heads.put_back(sized, tails)
            counts = np.abs(counts)
        room = (heads.ends - heads.positions) // self._entry.min_size
        wrong = (counts < 0) | (counts > room)
        heads.refuse(wrong, "an array has more items than its record has bytes", start)
        some.put_back(fresh, heads)
        left[fresh] = counts

    def _one_at_a_time(self, rows: Integers, left: Integers) -> None:
        content = self._cursors.content
        pass_item = content.skippers.get(id(self._entry))
        if pass_item is None:
            pass_item = content.skippers[id(self._entry)] = _skipper(self._entry, content)
        for row, remaining in zip(rows.tolist(), left.tolist(), strict=True):
            start = int(self._cursors.positions[row])
            end = int(self._cursors.ends[row])
            found: list[int] | None = [] if self._record else None
            self._cursors.positions[row] = _pass_blocks(
                content,
                start,
                end,
                pass_item,
                min_size=self._entry.min_size,
                remaining=remaining,
                found=found,
            )
            if found:
                self._note(np.full(len(found), row, dtype=np.int64), np.array(found, np.int64))


def _runs(starts: Integers, counts: Integers, size: int) -> Integers:
    """Return the positions of ``counts`` items of ``size`` bytes behind each start."""
    before = np.cumsum(counts) - counts
    within = np.arange(int(counts.sum()), dtype=np.int64) - np.repeat(before, counts)
    return np.repeat(starts, counts) + within * size


def _constant_size(node: Node) -> int | None:
    match node:
        case Plain(wire=Wire.BOOLEAN):
            return 1
        case Plain(wire=Wire.FLOAT | Wire.DOUBLE):
            return node.min_size
        case Fixed(size=size):
            return size
        case Record(members=members):
            sizes = [_constant_size(member.node) for member in members]
            return None if None in sizes else sum(size for size in sizes if size is not None)
        case Plain() | Symbols() | Nullable() | Items() | Choice():
            return None
        case _:
            assert_never(node)


def _varint(content: Content, position: int, end: int) -> tuple[int, int]:
    data = content.scalar
    raw = shift = 0
    at = position
    while True:
        if at >= end:
            raise content.corrupt("an Avro integer runs past the end of its record", position)
        byte = data[at]
        at += 1
        raw |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
        if shift > 63:
            raise content.corrupt("an Avro integer does not fit in 64 bits", position)
    if raw >> 64:
        raise content.corrupt("an Avro integer does not fit in 64 bits", position)
    return (raw >> 1) ^ -(raw & 1), at


def _pass_blocks(
    content: Content,
    position: int,
    end: int,
    pass_item: Skipper,
    *,
    min_size: int,
    remaining: int = 0,
    found: list[int] | None = None,
) -> int:
    """Pass the rest of one array, of which ``remaining`` items of a block are left."""
    while True:
        for _ in range(remaining):
            if found is not None:
                found.append(position)
            position = pass_item(position, end)
        start = position
        remaining, position = _varint(content, position, end)
        if remaining == 0:
            return position
        if remaining < 0:
            remaining = -remaining
            _, position = _varint(content, position, end)
        if remaining > (end - position) // min_size:
            raise content.corrupt("an array has more items than its record has bytes", start)


def _skipper(node: Node, content: Content) -> Skipper:
    """Return a function that passes one value: from its position and bound to its end."""
    match node:
        case Plain(wire=Wire.BOOLEAN | Wire.FLOAT | Wire.DOUBLE) | Fixed():
            return _fixed_skipper(node.min_size, content)
        case Plain(wire=Wire.INT | Wire.LONG) | Symbols():
            return _varint_skipper(content)
        case Plain():
            return _span_skipper(content)
        case Nullable(item=item, null_branch=null_branch):
            return _branch_skipper({1 - null_branch: _skipper(item, content)}, 2, content)
        case Items(entry=entry):
            inner = _skipper(entry, content)
            size = entry.min_size
            return lambda at, end: _pass_blocks(content, at, end, inner, min_size=size)
        case Record(members=members):
            return _record_skipper([_skipper(member.node, content) for member in members])
        case Choice(branches=branches):
            arms = {index: _skipper(arm, content) for index, arm in enumerate(branches, start=1)}
            return _branch_skipper(arms, len(branches) + 1, content)
        case _:
            assert_never(node)


def _fixed_skipper(size: int, content: Content) -> Skipper:
    def pass_fixed(at: int, end: int) -> int:
        if size > end - at:
            raise content.corrupt(f"{size} bytes run past the end of their record", at)
        return at + size

    return pass_fixed


def _varint_skipper(content: Content) -> Skipper:
    data = content.scalar

    def pass_varint(at: int, end: int) -> int:
        if at < end and data[at] < 0x80:
            return at + 1
        return _varint(content, at, end)[1]

    return pass_varint


def _span_skipper(content: Content) -> Skipper:
    data = content.scalar

    def pass_span(at: int, end: int) -> int:
        if at < end and data[at] < 0x80:
            length, start = data[at] >> 1 if not data[at] & 1 else -1, at + 1
        else:
            length, start = _varint(content, at, end)
        if not 0 <= length <= end - start:
            raise content.corrupt("a length runs past the end of its record", at)
        return start + length

    return pass_span


def _branch_skipper(arms: dict[int, Skipper], count: int, content: Content) -> Skipper:
    data = content.scalar

    def pass_branch(at: int, end: int) -> int:
        if at < end and data[at] < 0x80:
            branch, start = (data[at] >> 1) if not data[at] & 1 else -1, at + 1
        else:
            branch, start = _varint(content, at, end)
        arm = arms.get(branch)
        if arm is not None:
            return arm(start, end)
        if not 0 <= branch < count:
            raise content.corrupt("there is no such branch of a union", at)
        return start

    return pass_branch


def _record_skipper(parts: list[Skipper]) -> Skipper:
    def pass_record(at: int, end: int) -> int:
        for part in parts:
            at = part(at, end)
        return at

    return pass_record
