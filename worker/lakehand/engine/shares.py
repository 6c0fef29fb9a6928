"""Rows that lie in files, as a ``pyarrow.dataset.Dataset``: dealt out to tasks, which read them.

Such rows reach a task without a JVM in between. A dataset of a few large files is dealt out by row
groups; one of many files by files, whose footers the driver need not read then.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from itertools import accumulate, groupby, pairwise
from operator import itemgetter
from os.path import abspath, isabs
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.dataset as ds
from pyarrow.fs import LocalFileSystem

from lakehand.errors import Corrupt, Invalid, NotFound, Unavailable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lakehand.engine.engine import Batches

_SHARE_BYTES: Final = 128 << 20
"""A task is given about so much at most, unless one file or row group is larger."""


@dataclass(frozen=True, slots=True)
class Share:
    """What one task reads; it pickles."""

    fragments: tuple[Any, ...]
    schema: pa.Schema

    def batches(self, rows: int) -> Batches:
        """Yield the rows, so many at a time. Memory holds about one row group of the files."""
        for fragment in self.fragments:
            with _reading(fragment.path):
                scanner = fragment.scanner(schema=self.schema, batch_size=rows, use_threads=False)
                yield from scanner.to_batches()


def deal(dataset: ds.Dataset, tasks: int) -> list[Share]:
    """Divide a dataset among so many tasks or, if it is large, more; in the order of its rows."""
    files = _files(dataset)
    with _reading("a dataset"):
        if len(files) < tasks:
            pieces = [piece for file in files for piece in _row_groups(file)]
        else:
            pieces = [_whole(file) for file in files]
    return [Share(run, dataset.schema) for run in _runs(pieces, tasks)]


def require_readable(dataset: ds.Dataset) -> None:
    """Raise ``Invalid`` for a dataset that tasks cannot read by its files."""
    _files(dataset)


class _Piece(NamedTuple):
    fragment: Any
    size: int


def _files(dataset: ds.Dataset) -> list[Any]:
    if not isinstance(dataset, ds.FileSystemDataset):
        raise Invalid(
            f"rows of a {type(dataset).__name__}: a write takes datasets of files, as "
            "pyarrow.dataset.dataset(path) returns them"
        )
    try:
        return [_anywhere(file) for file in dataset.get_fragments()]
    except ValueError as error:
        raise Invalid(
            "rows of a filtered dataset: filter a DataFrame of it, or give the files that hold "
            f"the rows ({error})"
        ) from error


def _anywhere(file: Any) -> Any:  # noqa: ANN401
    """Return a file by a path that is right in whatever folder a task's process stands."""
    if not isinstance(file.filesystem, LocalFileSystem) or isabs(file.path):
        return file
    place = (abspath(file.path), file.filesystem, file.partition_expression)
    make: Any = file.format.make_fragment
    if not isinstance(file, ds.ParquetFileFragment):
        return make(*place)
    return make(*place, row_groups=[group.id for group in file.row_groups or ()])


def _whole(file: Any) -> _Piece:  # noqa: ANN401
    return _Piece(file, int(file.filesystem.get_file_info(file.path).size or 0))


def _row_groups(file: Any) -> list[_Piece]:  # noqa: ANN401
    if not isinstance(file, ds.ParquetFileFragment):
        return [_whole(file)]
    parts: list[Any] = file.split_by_row_group()
    return [_Piece(part, sum(one.total_byte_size for one in part.row_groups)) for part in parts]


def _runs(pieces: Sequence[_Piece], tasks: int) -> Iterator[tuple[Any, ...]]:
    """Yield the fragments of pieces that follow each other, in runs of much the same size."""
    total = sum(piece.size for piece in pieces) or 1
    count = max(tasks, -(-total // _SHARE_BYTES))
    before = [0, *accumulate(piece.size for piece in pieces)]
    run_of = [(start + end) * count // (2 * total) for start, end in pairwise(before)]
    for _, run in groupby(zip(run_of, pieces, strict=True), key=itemgetter(0)):
        yield tuple(piece.fragment for _, piece in run)


@contextmanager
def _reading(what: str) -> Iterator[None]:
    """Put what PyArrow raises for files in words."""
    try:
        yield
    except FileNotFoundError as error:
        raise NotFound(f"{what}: {error}: it was there when the dataset was made") from error
    except OSError as error:
        raise Unavailable(f"{what} cannot be read: {error}") from error
    except pa.ArrowException as error:
        raise Corrupt(f"not to be read as rows of the dataset: {error}", where=what) from error
