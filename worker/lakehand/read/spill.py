"""Files beside memory: the parts of a merge that is too large for its memory limit.

Both sides of a merge are dealt out over ``PARTITIONS`` Arrow stream files by a hash of the record
key, so that each part can be merged by itself with the same result. A part that is still too
large is dealt out again by further bits of the hash.
"""

from __future__ import annotations

from enum import Enum, unique
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from lakehand.errors import Unavailable
from lakehand.read.columns import row_numbers
from lakehand.read.key_hash import hash_keys
from lakehand.read.log_events import RECORD_KEY

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from types import TracebackType
    from typing import Self

PARTITIONS = 32
_BITS = 5
MAX_LEVEL = 5
"""How often a part is dealt out again; what is still too large then is one key many times over."""


@unique
class Side(Enum):
    """What a spilled batch is."""

    BASE = "base"
    ROWS = "rows"
    DELETES = "deletes"


class SpilledParts:
    """One level of spill files in a folder of its own, written once and then read part by part."""

    def __init__(self, folder: Path, *, level: int) -> None:
        """Spill into ``folder``, which exists and is empty."""
        self._folder = folder
        self._level = level
        self._writers: dict[tuple[Side, int], tuple[pa.OSFile, pa.ipc.RecordBatchStreamWriter]] = {}
        self._written: set[tuple[Side, int]] = set()

    def __enter__(self) -> Self:
        """Enter."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close what is still open; the folder's owner removes it."""
        self.finish_writing()

    def write(self, side: Side, batch: pa.RecordBatch) -> None:
        """Deal the rows of ``batch`` out over the parts."""
        shift = np.uint64(_BITS * self._level)
        hashes = hash_keys(batch.column(RECORD_KEY)) >> shift
        part_of = (hashes % np.uint64(PARTITIONS)).astype(np.int64)
        dealt = batch.take(row_numbers(np.argsort(part_of, kind="stable")))
        ends = np.cumsum(np.bincount(part_of, minlength=PARTITIONS))
        start = 0
        for part, end in enumerate(ends.tolist()):
            if end > start:
                self._write_part(side, part, dealt.slice(start, end - start))
            start = end

    def finish_writing(self) -> None:
        """Close the files, so that they can be read."""
        for sink, writer in self._writers.values():
            writer.close()
            sink.close()
        self._writers.clear()

    def read(self, side: Side, part: int) -> Iterator[pa.RecordBatch]:
        """Yield what was written to one part of one side, in the order written."""
        if (side, part) not in self._written:
            return
        with pa.OSFile(self._path(side, part), "rb") as source:
            yield from pa.ipc.open_stream(source)

    def is_empty(self, part: int) -> bool:
        """Whether nothing at all was written to a part."""
        return not any((side, part) in self._written for side in Side)

    def remove(self, part: int) -> None:
        """Give the disk space of a part back."""
        for side in Side:
            if (side, part) in self._written:
                (self._folder / f"{side.value}-{part}").unlink(missing_ok=True)

    def _path(self, side: Side, part: int) -> str:
        return str(self._folder / f"{side.value}-{part}")

    def _write_part(self, side: Side, part: int, batch: pa.RecordBatch) -> None:
        try:
            if (side, part) not in self._writers:
                sink = pa.OSFile(self._path(side, part), "wb")
                self._writers[side, part] = (sink, pa.ipc.new_stream(sink, batch.schema))
                self._written.add((side, part))
            self._writers[side, part][1].write_batch(batch)
        except OSError as error:
            raise Unavailable(
                f"cannot spill to {self._folder}: {error}; "
                "give the merge more memory or a spill folder with more room"
            ) from error
