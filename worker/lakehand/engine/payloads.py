"""Record batches as bytes, and failures as text, between the tasks of an engine."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pyarrow as pa

from lakehand import errors
from lakehand.errors import InvariantBroken, LakehandError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


def to_bytes(batch: pa.RecordBatch) -> pa.Buffer:
    """Return a batch as an Arrow stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue()


def from_bytes(payload: pa.Buffer | bytes) -> pa.RecordBatch:
    """Read one back, without copying it."""
    with pa.ipc.open_stream(payload) as reader:
        return reader.read_next_batch()


def gather(batches: Iterable[pa.RecordBatch], *, rows: int, size: int) -> Iterator[pa.RecordBatch]:
    """Put small batches together, until they have so many rows or bytes."""
    waiting: list[pa.RecordBatch] = []
    waiting_rows = waiting_bytes = 0
    for batch in batches:
        waiting.append(batch)
        waiting_rows += batch.num_rows
        waiting_bytes += batch.nbytes
        if waiting_rows >= rows or waiting_bytes >= size:
            yield together(waiting)
            waiting, waiting_rows, waiting_bytes = [], 0, 0
    if waiting_rows:
        yield together(waiting)


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
