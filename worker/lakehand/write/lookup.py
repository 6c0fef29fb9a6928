"""Which of some record keys a file slice holds, by reading as little of it as will do.

::

    smallest and largest key (footer) ─► bloom filter (footer) ─► the key column ─► matches

Every step may end the search. The bloom filter only decides whether the column is read at all:
once one key may be inside, the column is read and its answer is exact, so the filter is asked in
growing runs and left at the first *maybe*. It saves a request to the store and 0.04 us a row; it
costs 2 ms, most of it decoding, and 0.7 us a key (measured on a local disk). So it is not asked
when there are many keys to a file's rows.

A slice with a base file is searched in its base file, as Java's indexes do: they put new keys into
base files only, and so do we. Keys of a slice without one are those of its log files, deleted ones
too: a deletion stands there, and a row that comes back must meet it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakehand.core.merge_rules import MergeMode, MergeRule
from lakehand.errors import Corrupt, Unsupported
from lakehand.formats.base_file import read_footer
from lakehand.formats.untrusted_parquet import sound_batches
from lakehand.read.alignment import align
from lakehand.read.columns import row_numbers
from lakehand.read.data_path import data_path
from lakehand.read.filters import Operator, Predicate
from lakehand.read.log_events import WrittenRows
from lakehand.read.log_reader import read_log
from lakehand.read.row_groups import matching_row_groups
from lakehand.write.shapes import RECORD_KEY

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from lakehand.core.file_slices import FileSlice
    from lakehand.core.table_config import TableConfig
    from lakehand.core.timeline import Timeline
    from lakehand.formats.base_file import BaseFileFooter
    from lakehand.ports import Store

    Keys = pa.Array[Any]

_KEY_SCHEMA = pa.schema([(RECORD_KEY, pa.string())])
_BATCH_ROWS = 1 << 18
_RUN_KEYS = 1 << 16
"""Keys in one hash table of Arrow's: it stays in the processor's cache, which makes looking up a
file's rows in five tables faster than in one of five times the size."""

_ROWS_PER_ASKED_KEY = 32
"""A bloom filter is asked for at most one key per so many rows of its file."""

_FIRST_ASKED = 64
_SINGLE_KEYS = 64
"""Up to so many keys row groups are pruned by each of them, above that by their range."""


def find_in_slice(
    store: Store,
    config: TableConfig,
    timeline: Timeline,
    part: FileSlice,
    keys: pa.StringArray,
    *,
    use_bloom: bool,
) -> pa.Int32Array:
    """Return the places in ``keys`` (distinct, not null) of those that the slice holds, ascending.

    ``part`` is a latest slice; ``timeline`` says which blocks of its logs count.
    """
    held = np.zeros(len(keys), dtype=np.bool_)
    if not len(keys):
        places = np.flatnonzero(held)
    elif part.base_file is None:
        everything = np.arange(len(keys))
        for batch in _log_keys(store, config, timeline, part):
            _mark(held, batch, keys, everything)
        places = np.flatnonzero(held)
    else:
        path = data_path(part, part.base_file)
        with store.open(path) as file:
            places = _in_base_file(file, path, keys, held, use_bloom=use_bloom)
    found: pa.Int32Array = pa.array(places, pa.int32())
    return found


def _in_base_file(
    file: pa.NativeFile, path: str, keys: Keys, held: npt.NDArray[np.bool_], *, use_bloom: bool
) -> npt.NDArray[np.int64]:
    footer = read_footer(file, where=path)
    places = _in_range(footer, keys)
    if not len(places) or not footer.rows:
        return places[:0]
    asked = keys if len(places) == len(keys) else keys.take(row_numbers(places))
    if use_bloom and _filter_rules_out(footer, asked):
        return places[:0]
    for batch in _base_keys(file, footer, asked):
        _mark(held, batch, asked, places)
    return np.flatnonzero(held)


def _mark(
    held: npt.NDArray[np.bool_], batch: Keys, asked: Keys, places: npt.NDArray[np.int64]
) -> None:
    """Mark the keys that ``batch`` holds; ``places`` are those of ``asked`` among all keys."""
    for start in range(0, len(asked), _RUN_KEYS):
        matches: Any = pc.index_in(batch, value_set=asked[start : start + _RUN_KEYS])
        held[places[start + matches.drop_null().to_numpy()]] = True


# -- what the footer says ---------------------------------------------------------------------


def _in_range(footer: BaseFileFooter, keys: Keys) -> npt.NDArray[np.int64]:
    """Return the places of the keys between the file's smallest and largest, or of all."""
    low, high = footer.min_key, footer.max_key
    if low is None or high is None or not _bytes_order_as_java(keys, low + high):
        return np.arange(len(keys))
    compare: Any = pc
    inside = compare.and_(compare.greater_equal(keys, low), compare.less_equal(keys, high))
    return np.flatnonzero(inside.to_numpy(zero_copy_only=False))


def _bytes_order_as_java(keys: Keys, bounds: str) -> bool:
    """Whether the order of UTF-8 bytes, which Arrow compares by, is Java's for these texts.

    It is unless characters of four bytes (F0 to F4 first) meet U+E000 to U+FFFF (EE, EF): see
    ``formats.key_order``. Where they meet, nothing is pruned.
    """
    _, offset_buffer, data = keys.buffers()
    offsets = np.frombuffer(memoryview(offset_buffer or b""), dtype=np.int32)
    start, end = offsets[keys.offset], offsets[keys.offset + len(keys)]
    units = np.frombuffer(memoryview(data or b""), dtype=np.uint8)[start:end]
    others = np.frombuffer(bounds.encode(), dtype=np.uint8)
    if max(units.max(initial=0), others.max(initial=0)) < 0xF0:
        return True
    return not any(bool(((some == 0xEE) | (some == 0xEF)).any()) for some in (units, others))


def _filter_rules_out(footer: BaseFileFooter, keys: Keys) -> bool:
    """Whether the bloom filter says that none of the keys is inside, if it is worth asking."""
    if len(keys) * _ROWS_PER_ASKED_KEY > footer.rows:
        return False
    try:
        found = footer.bloom
    except Unsupported:
        return False
    if found is None:
        return False
    start, run = 0, _FIRST_ASKED
    while start < len(keys):
        if pc.any(found.might_contain(keys[start : start + run])).as_py():
            return False
        start, run = start + run, run * 4
    return True


# -- the keys themselves ----------------------------------------------------------------------


def _base_keys(file: pa.NativeFile, footer: BaseFileFooter, asked: Keys) -> Iterator[Keys]:
    """Yield the record keys of the row groups that can hold one of the keys asked for."""
    where = footer.where
    if RECORD_KEY not in footer.arrow_schema.names:
        raise Corrupt(f"a base file without the column {RECORD_KEY}", where=where)
    parquet = pq.ParquetFile(file, metadata=footer.parquet, pre_buffer=False)
    groups = matching_row_groups(parquet, key_predicates(asked), _KEY_SCHEMA)
    for batch in sound_batches(
        parquet, where=where, rows=_BATCH_ROWS, columns=[RECORD_KEY], row_groups=groups
    ):
        yield align(batch, _KEY_SCHEMA, where=where).column(0)


def key_predicates(asked: Keys) -> list[Predicate]:
    """Return what every row with one of the keys fulfils; statistics are in order of bytes."""
    if len(asked) <= _SINGLE_KEYS:
        return [Predicate(RECORD_KEY, Operator.IN, asked.to_pylist())]
    ends: Any = pc.min_max(asked).as_py()
    return [
        Predicate(RECORD_KEY, Operator.GREATER_OR_EQUAL, ends["min"]),
        Predicate(RECORD_KEY, Operator.LESS_OR_EQUAL, ends["max"]),
    ]


def _log_keys(
    store: Store, config: TableConfig, timeline: Timeline, part: FileSlice
) -> Iterator[Keys]:
    """Yield the record keys that the blocks of the slice's log files write or delete."""
    for event in read_log(
        store,
        timeline,
        config.version,
        part,
        schema=_KEY_SCHEMA,
        rule=MergeRule(MergeMode.COMMIT_TIME),
        batch_rows=_BATCH_ROWS,
    ):
        yield event.rows.column(0) if isinstance(event, WrittenRows) else event.keys
