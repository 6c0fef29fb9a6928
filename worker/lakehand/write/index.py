"""The key index on the driver: what to look up where, and what the answers mean for each row.

::

    parcels of incoming rows ─► gather_keys ─► IncomingKeys: the distinct keys, in pieces
    pieces + file slices     ─► plan_lookups ─► LookupPlan: groups with numbers, and tasks
    tasks (``answer``)       ─► answers as bytes, from wherever they were done
    keys + plan + answers    ─► locate ─► Located: the file group of every row, or NEW

An index is *per partition*, where a key is looked for in the partition of its row, or *global*,
where it is looked for in all. Everything that grows with rows or keys is done on whole columns;
loops go over parcels, partitions and files.

Should several file groups hold one key (two writers inserted it, or plain inserts did), its row
goes to one of them: to one in the row's own partition before others, then to the first by
partition and file id. Java updates all; ``Located.copies`` says how many keys it concerns.
"""

from __future__ import annotations

import io
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehand.core.file_names import bucket_of
from lakehand.errors import Invalid, Unsupported
from lakehand.read.columns import row_numbers
from lakehand.write.lookup import find_in_slice
from lakehand.write.shapes import PARTITION_PATH, RECORD_KEY

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import numpy.typing as npt

    from lakehand.core.file_slices import FileSlice
    from lakehand.core.table_config import TableConfig
    from lakehand.core.timeline import Timeline
    from lakehand.ports import Store

    Numbers = npt.NDArray[np.int64]
    Groups = npt.NDArray[np.int32]

NEW: Final = -1
"""The place of a row whose key is nowhere."""

LOST: Final = -2
"""The place of a row that goes nowhere: one of its key that names another partition counts."""

_PIECE_KEYS = 1 << 21
_LARGE_KEYS = 1 << 30
"""Bytes of keys from which on Arrow's 32-bit offsets would not do."""

_ANSWERS = pa.schema(
    [("piece", pa.int32()), ("group", pa.int32()), ("places", pa.list_(pa.int32()))]
)


class KeyPiece(NamedTuple):
    """Distinct keys of one partition, or (global index) of all; many keys make several pieces."""

    partition: str | None
    first: int
    """The number of its first key among all distinct keys."""
    keys: pa.StringArray


@dataclass(frozen=True, slots=True)
class IncomingKeys:
    """The keys of the incoming rows, each once, and which of them each row has."""

    partitions: tuple[str, ...]
    """The partition paths of the rows, in order."""
    pieces: tuple[KeyPiece, ...]
    count: int
    """How many distinct keys there are: per partition, unless the index is global."""
    key_of_row: tuple[Numbers, ...]
    """Of each parcel the number of each row's key."""
    partition_of_row: tuple[Groups, ...]
    """Of each parcel the place of each row's partition in ``partitions``."""

    def keys_at(self, numbers: Numbers) -> pa.StringArray:
        """Return the keys that have some numbers, which are in order."""
        ends = [*(piece.first for piece in self.pieces[1:]), self.count]
        taken: list[Any] = [pa.array([], pa.string())]
        start = 0
        for piece, end in zip(self.pieces, np.searchsorted(numbers, ends).tolist(), strict=True):
            taken.append(piece.keys.take(row_numbers(numbers[start:end] - piece.first)))
            start = end
        keys: pa.StringArray = pa.concat_arrays(taken)
        return keys


class Lookup(NamedTuple):
    """One question: which keys of a piece a file group holds."""

    piece: int
    group: int


class LookupTask(NamedTuple):
    """The questions of one task with all that it needs to answer them; plain data."""

    pieces: dict[int, pa.StringArray]
    lookups: tuple[tuple[Lookup, FileSlice], ...]


@dataclass(frozen=True, slots=True)
class LookupPlan:
    """The file groups that may hold incoming keys, by number, and the tasks that find out."""

    groups: tuple[FileSlice, ...]
    tasks: tuple[LookupTask, ...]


@dataclass(frozen=True, slots=True)
class Located:
    """Where the keys of the incoming rows are."""

    group_of_row: tuple[Groups, ...]
    """Of each parcel the number of each row's file group in the plan, or NEW, or LOST."""
    moved: tuple[npt.NDArray[np.bool_], ...]
    """Of each parcel the rows whose file group is in another partition (global index only)."""
    copies: int
    """How many keys stand in more than one file group."""
    found_keys: Numbers
    """Of each finding the number of its key."""
    found_groups: Groups
    """Of each finding the number of the group that has the key, or had it once."""


# -- gathering --------------------------------------------------------------------------------


def gather_keys(parcels: Sequence[pa.RecordBatch], *, is_global: bool) -> IncomingKeys:
    """Return the distinct keys of parcels, which have the key columns (paths may be encoded)."""
    partitions, partition_of_row = number_partitions(parcels)
    texts, ids = _number_keys([parcel.column(RECORD_KEY) for parcel in parcels])
    if is_global:
        pieces = tuple(_pieces(None, 0, len(texts), texts, None))
        count = len(texts)
    else:
        numbers = _joined(partition_of_row, np.int32)
        ids, chosen, owners = _by_partition(ids, numbers, len(texts))
        bounds = np.searchsorted(owners, np.arange(len(partitions) + 1))
        pieces = tuple(
            piece
            for number, partition in enumerate(partitions)
            for piece in _pieces(
                partition, int(bounds[number]), int(bounds[number + 1]), texts, chosen
            )
        )
        count = len(chosen)
    ends = np.cumsum([parcel.num_rows for parcel in parcels], dtype=np.int64)
    key_of_row = tuple(np.split(ids, ends[:-1])) if parcels else ()
    return IncomingKeys(partitions, pieces, count, key_of_row, tuple(partition_of_row))


def number_partitions(
    parcels: Sequence[pa.RecordBatch],
) -> tuple[tuple[str, ...], list[Groups]]:
    """Return the partition paths of all rows, in order, and of each row the place of its own."""
    encoded: list[Any] = []
    for parcel in parcels:
        paths: Any = parcel.column(PARTITION_PATH)
        encoded.append(paths if pa.types.is_dictionary(paths.type) else pc.dictionary_encode(paths))
    names = sorted({name for one in encoded for name in one.dictionary.to_pylist()})
    number_of = {name: number for number, name in enumerate(names)}
    numbers = []
    for one in encoded:
        mine = np.array([number_of[name] for name in one.dictionary.to_pylist()], dtype=np.int32)
        numbers.append(mine[one.indices.to_numpy()] if len(one) else mine[:0])
    return tuple(names), numbers


def _number_keys(columns: list[pa.Array[Any]]) -> tuple[pa.Array[Any], Numbers]:
    """Return the distinct texts of all columns, and which of them each row has."""
    if any(column.null_count for column in columns):
        raise Invalid("a record key is null: Hudi's record keys never are")
    is_large = sum(column.nbytes for column in columns) >= _LARGE_KEYS
    kind: Any = pa.large_string() if is_large else pa.string()
    keys = pa.chunked_array([column.cast(kind) for column in columns], kind).combine_chunks()
    encoded: Any = pc.dictionary_encode(keys)
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.unify_dictionaries().combine_chunks()
    return encoded.dictionary, encoded.indices.to_numpy().astype(np.int64)


def _by_partition(ids: Numbers, numbers: Groups, texts: int) -> tuple[Numbers, Numbers, Groups]:
    """Return pairs of key and partition in order of partition.

    Of each row the number of its pair; of each pair its text and its partition.
    """
    owner = np.zeros(texts, dtype=np.int32)
    owner[ids] = numbers
    if (owner[ids] == numbers).all():
        # Each key is in one partition only, so that nothing has to be sorted by key.
        short = owner.astype(np.uint16) if owner.max(initial=0) < 1 << 16 else owner
        chosen = np.argsort(short, kind="stable")
        rank = np.empty(texts, dtype=np.int64)
        rank[chosen] = np.arange(texts)
        return rank[ids], chosen, owner[chosen]
    pairs, pair_of_row = np.unique(numbers.astype(np.int64) * texts + ids, return_inverse=True)
    return pair_of_row, pairs % texts, (pairs // texts).astype(np.int32)


def _pieces(
    partition: str | None, start: int, end: int, texts: pa.Array[Any], chosen: Numbers | None
) -> Iterator[KeyPiece]:
    """Yield the keys from ``start`` to ``end`` (places in ``chosen``), each piece copied out."""
    for first in range(start, end, _PIECE_KEYS):
        last = min(end, first + _PIECE_KEYS)
        places = np.arange(first, last) if chosen is None else chosen[first:last]
        keys: Any = texts.take(row_numbers(places)).cast(pa.string())
        yield KeyPiece(partition, first, keys)


# -- lookups ----------------------------------------------------------------------------------


def plan_lookups(incoming: IncomingKeys, parts: Iterable[FileSlice], *, tasks: int) -> LookupPlan:
    """Spread the questions over about ``tasks`` tasks, by the bytes of the slices.

    ``parts`` are latest slices; those of partitions where no key can be are left out.
    """
    touched = {piece.partition for piece in incoming.pieces}
    groups = tuple(
        sorted(
            (part for part in parts if part.partition in touched or None in touched),
            key=lambda part: (part.partition, part.file_id),
        )
    )
    by_partition: dict[str | None, list[int]] = {None: list(range(len(groups)))}
    for number, group in enumerate(groups):
        by_partition.setdefault(group.partition, []).append(number)
    lookups = [
        Lookup(number, group)
        for number, piece in enumerate(incoming.pieces)
        for group in by_partition.get(piece.partition, ())
    ]
    weights = np.array([_weight(groups[lookup.group]) for lookup in lookups], dtype=np.float64)
    ends = np.cumsum(weights)
    # A lookup belongs to the task in whose share its middle lies; neighbours share their keys.
    task_of = ((ends - weights / 2) / max(1.0, weights.sum()) * max(1, tasks)).astype(np.int64)
    starts = np.flatnonzero(np.diff(task_of, prepend=-1))
    return LookupPlan(
        groups,
        tuple(
            _task(incoming, groups, lookups[start:end])
            for start, end in pairwise([*starts, len(lookups)])
        ),
    )


def _task(
    incoming: IncomingKeys, groups: tuple[FileSlice, ...], lookups: list[Lookup]
) -> LookupTask:
    pieces = {lookup.piece: incoming.pieces[lookup.piece].keys for lookup in lookups}
    return LookupTask(pieces, tuple((lookup, groups[lookup.group]) for lookup in lookups))


def _weight(part: FileSlice) -> int:
    return max(1, part.total_size if part.base_file is None else part.base_file.size)


def answer(
    store: Store, config: TableConfig, timeline: Timeline, task: LookupTask, *, use_bloom: bool
) -> bytes:
    """Do a task and return its answers, for ``locate``."""
    found = [
        find_in_slice(store, config, timeline, part, task.pieces[lookup.piece], use_bloom=use_bloom)
        for lookup, part in task.lookups
    ]
    ends: Any = pa.array(np.cumsum([0, *map(len, found)]), pa.int32())
    batch = pa.record_batch(
        [
            pa.array([lookup.piece for lookup, _ in task.lookups], pa.int32()),
            pa.array([lookup.group for lookup, _ in task.lookups], pa.int32()),
            pa.ListArray.from_arrays(ends, pa.concat_arrays([pa.array([], pa.int32()), *found])),
        ],
        schema=_ANSWERS,
    )
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, _ANSWERS) as stream:
        stream.write_batch(batch)
    return sink.getvalue()


# -- locating ---------------------------------------------------------------------------------


def locate(incoming: IncomingKeys, plan: LookupPlan, answers: Iterable[bytes]) -> Located:
    """Return each row's file group from the answers of all tasks, in any order."""
    group_of_key = np.full(incoming.count, NEW, dtype=np.int32)
    ids, groups = _found(incoming, answers)
    order = np.argsort(groups, kind="stable")[::-1]
    # Of several groups the first by number is assigned last, and stays.
    group_of_key[ids[order]] = groups[order]
    located = [group_of_key[keys] for keys in incoming.key_of_row]
    times_found = np.bincount(ids, minlength=incoming.count)
    number_of = {name: number for number, name in enumerate(incoming.partitions)}
    # A group in a partition that no row is in has the number -2: nothing equals it.
    owner = np.array([number_of.get(part.partition, -2) for part in plan.groups], dtype=np.int32)
    is_copied = times_found > 1
    if is_copied.any():
        _prefer_own_partition(incoming, located, ids, groups, owner, is_copied)
    moved = [
        (rows != NEW) & (owner[rows] != partitions)
        if len(owner)
        else np.zeros(len(rows), dtype=np.bool_)
        for rows, partitions in zip(located, incoming.partition_of_row, strict=True)
    ]
    return Located(tuple(located), tuple(moved), int(is_copied.sum()), ids, groups)


def _found(incoming: IncomingKeys, answers: Iterable[bytes]) -> tuple[Numbers, Groups]:
    """Return pairs of the number of a key and of a group that holds it."""
    first_of_piece = np.array([piece.first for piece in incoming.pieces], dtype=np.int64)
    ids, groups = [], []
    for content in answers:
        with pa.ipc.open_stream(content) as stream:
            for batch in stream:
                places: Any = batch.column("places")
                counts = places.value_lengths().to_numpy()
                first = first_of_piece[batch.column("piece").to_numpy()]
                ids.append(places.flatten().to_numpy() + np.repeat(first, counts))
                groups.append(np.repeat(batch.column("group").to_numpy(), counts))
    return _joined(ids, np.int64), _joined(groups, np.int32)


def _prefer_own_partition(
    incoming: IncomingKeys,
    located: list[Groups],
    ids: Numbers,
    groups: Groups,
    owner: Groups,
    is_copied: npt.NDArray[np.bool_],
) -> None:
    """Send rows whose key stands in several groups to the first one in their own partition."""
    chosen = is_copied[ids]
    partitions = max(1, len(incoming.partitions))
    at_home = chosen & (owner[groups] >= 0)
    pairs = ids[at_home] * partitions + owner[groups[at_home]]
    order = np.lexsort((groups[at_home], pairs))
    known, first = np.unique(pairs[order], return_index=True)
    best = groups[at_home][order][first]
    for rows, keys, own in zip(
        located, incoming.key_of_row, incoming.partition_of_row, strict=True
    ):
        wanted = keys * partitions + own
        place = np.searchsorted(known, wanted)
        place[place == len(known)] = 0
        hit = known[place] == wanted if len(known) else np.zeros(len(keys), dtype=np.bool_)
        rows[hit] = best[place[hit]]


def _joined(arrays: Sequence[npt.NDArray[Any]], kind: type[np.generic]) -> npt.NDArray[Any]:
    return np.concatenate(arrays) if arrays else np.empty(0, dtype=kind)


# -- what must not be touched -----------------------------------------------------------------


_CERTAINLY_A_BUCKET: Final = 10_000


def refuse_buckets(parts: Iterable[FileSlice]) -> None:
    """Raise ``Unsupported`` if the file groups are those of a bucket index.

    No property of a table says so: its file ids begin with the bucket's number. One random id in
    forty looks alike, so all must, and one must be small.
    """
    buckets = [bucket_of(part.file_id) for part in parts]
    known = [bucket for bucket in buckets if bucket is not None]
    if known and len(known) == len(buckets) and min(known) < _CERTAINLY_A_BUCKET:
        raise Unsupported(
            "the table's file groups are those of a bucket index, where a key's group follows from "
            "its hash: write it with Hudi, or copy it into a table without one"
        )
