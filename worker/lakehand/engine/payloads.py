"""Record batches as bytes, and failures as text, between the tasks of an engine."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa

from lakehand import errors
from lakehand.errors import InvariantBroken, LakehandError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from lakehand.engine.engine import Apart


_PACKED = pa.ipc.IpcWriteOptions(compression=pa.Codec("zstd", 1), use_threads=False)
"""Packing costs less than what the JVM saves, which copies a payload time and again."""


def to_bytes(batch: pa.RecordBatch) -> pa.Buffer:
    """Return a batch as an Arrow stream, packed."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema, options=_PACKED) as writer:
        writer.write_batch(batch)
    return sink.getvalue()


def from_bytes(payload: pa.Buffer | bytes) -> pa.RecordBatch:
    """Read one back."""
    with pa.ipc.open_stream(payload) as reader:
        return reader.read_next_batch()


def gather(batches: Iterable[pa.RecordBatch], *, rows: int, size: int) -> Iterator[pa.RecordBatch]:
    """Put small batches together, until they have so many rows or bytes."""
    pile = _Pile()
    for batch in batches:
        pile.add(batch)
        if pile.rows >= rows or pile.size >= size:
            yield pile.taken()
    if pile.rows:
        yield pile.taken()


def gather_apart(
    batches: Iterable[pa.RecordBatch], apart: Apart, *, rows: int, size: int, held_back: int
) -> Iterator[pa.RecordBatch]:
    """Put the rows of each kind together; ``held_back`` bytes wait for more of theirs at most."""
    piles: dict[str, _Pile] = {}
    for batch in batches:
        for kind, of_kind in apart(batch):
            pile = piles.setdefault(kind, _Pile())
            pile.add(of_kind)
            if pile.rows >= rows or pile.size >= size:
                yield pile.taken()
        if sum(pile.size for pile in piles.values()) >= held_back:
            yield from _rest(piles)
    yield from _rest(piles)


def _rest(piles: dict[str, _Pile]) -> Iterator[pa.RecordBatch]:
    for pile in piles.values():
        if pile.rows:
            yield pile.taken()
    piles.clear()


@dataclass(slots=True)
class _Pile:
    """Batches that wait to become one."""

    batches: list[pa.RecordBatch] = field(default_factory=list)
    rows: int = 0
    size: int = 0

    def add(self, batch: pa.RecordBatch) -> None:
        self.batches.append(batch)
        self.rows += batch.num_rows
        self.size += batch.nbytes

    def taken(self) -> pa.RecordBatch:
        batches, self.batches, self.rows, self.size = self.batches, [], 0, 0
        return together(batches)


def together(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    """Return the rows of several batches as one."""
    if len(batches) == 1:
        return batches[0]
    return pa.Table.from_batches(batches).combine_chunks().to_batches()[0]


def failure_text(error: LakehandError) -> str:
    """Return what the driver needs to raise a task's error again."""
    return json.dumps([type(error).__name__, str(error)])


def failure_from(text: str) -> LakehandError:
    """Return the error of a task, of its own kind and with its own words."""
    name, message = json.loads(text)
    kind = getattr(errors, name, None)
    if not (isinstance(kind, type) and issubclass(kind, LakehandError)):
        return InvariantBroken(f"a task failed with {name}: {message}")
    error = kind.__new__(kind)
    error.args = (message,)
    return error
