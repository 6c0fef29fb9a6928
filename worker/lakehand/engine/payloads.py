"""Record batches as bytes, and failures as text, between the tasks of an engine."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.types as pt

from lakehand import errors
from lakehand.errors import InvariantBroken, LakehandError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from lakehand.engine.engine import Apart


_PACKED = pa.ipc.IpcWriteOptions(compression="lz4", use_threads=False)
"""Packing costs less than what the JVM saves, which copies a payload time and again. Zstandard
packs a third better, and takes twice as long there and back."""

_WHOLE, _PLACES = b"lakehand.whole", b"lakehand.places"


def to_bytes(batch: pa.RecordBatch) -> pa.Buffer:
    """Return a batch as an Arrow stream, packed; of text columns that are equal one is in it.

    A table's record key is mostly a column of its data as well.
    """
    kept, places = _distinct(batch.columns)
    if len(kept) < len(places):
        whole: dict[bytes | str, bytes | str] = {
            _WHOLE: batch.schema.serialize().to_pybytes(),
            _PLACES: json.dumps(places),
        }
        fields = [pa.field(str(number), column.type) for number, column in enumerate(kept)]
        batch = pa.RecordBatch.from_arrays(kept, schema=pa.schema(fields, metadata=whole))
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema, options=_PACKED) as writer:
        writer.write_batch(batch)
    return sink.getvalue()


def from_bytes(payload: pa.Buffer | bytes) -> pa.RecordBatch:
    """Read one back."""
    with pa.ipc.open_stream(payload) as reader:
        batch = reader.read_next_batch()
    packed = batch.schema.metadata or {}
    if _WHOLE not in packed:
        return batch
    schema = pa.ipc.read_schema(pa.py_buffer(packed[_WHOLE]))
    columns = [batch.column(place) for place in json.loads(packed[_PLACES])]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _distinct(columns: Sequence[pa.Array[Any]]) -> tuple[list[pa.Array[Any]], list[int]]:
    """Return the columns that differ, and for each column which of them it is."""
    kept: list[pa.Array[Any]] = []
    places: list[int] = []
    alike: dict[tuple[object, ...], list[int]] = {}
    for column in columns:
        # Of numbers, some are equal that are not the same: 0.0 and -0.0.
        is_text = pt.is_string(column.type)
        looks = (column.nbytes, column.null_count) if is_text else (len(kept),)
        candidates = alike.setdefault(looks, [])
        place = next((one for one in candidates if kept[one].equals(column)), len(kept))
        if place == len(kept):
            kept.append(column)
            candidates.append(place)
        places.append(place)
    return kept, places


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
