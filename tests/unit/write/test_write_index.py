"""Every incoming row learns which file group has its key, whatever the files look like."""

import pickle
import random
import zipfile
from io import BytesIO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import golden
import table_builder_services as services
from lakehand.core.file_names import parse_base_file
from lakehand.core.file_slices import FileEntry, FileSlice
from lakehand.core.table_config import TableConfig, TableType, TableVersion
from lakehand.core.timeline import Timeline
from lakehand.errors import Corrupt, Invalid, Unsupported
from lakehand.formats.base_file import BaseFileOptions, BaseFileWriter
from lakehand.formats.bloom import BloomSettings
from lakehand.read.data_path import data_path
from lakehand.store.memory import MemoryStore
from lakehand.table import Table
from lakehand.write import index, lookup
from lakehand.write.index import NEW, gather_keys, locate, plan_lookups, refuse_buckets
from lakehand.write.lookup import find_in_slice
from lakehand.write.shapes import PARTITION_PATH, RECORD_KEY
from table_builder_rows import Partitioning, Shape
from table_scenarios import start

CONFIG = TableConfig("t", TableType.COPY_ON_WRITE, TableVersion.NINE)
NO_LOGS = Timeline()
SMALL = BaseFileOptions(row_group_rows=4, bloom=BloomSettings(entries=50, max_entries=100))
KEY_SCHEMA = pa.schema([(RECORD_KEY, pa.string())])
TIME = "20260101000000000"


def slice_of(store, keys, *, partition="p", file_id="f-0", options=SMALL, broken=False):
    """Write a base file; a broken one has a sound footer and nothing that could be read."""
    sink = BytesIO()
    with BaseFileWriter(sink, KEY_SCHEMA, options=options) as writer:
        writer.write(pa.record_batch([pa.array(keys, pa.string())], schema=KEY_SCHEMA))
    content = sink.getvalue()
    if broken:
        footer = int.from_bytes(content[-8:-4], "little") + 8
        content = bytes(len(content) - footer) + content[-footer:]
    name = f"{file_id}_0-1-0_{TIME}.parquet"
    part = FileSlice(partition, file_id, TIME, FileEntry(name, len(content)))
    store.put(data_path(part, part.base_file), content)
    return part


def find(store, part, keys, *, use_bloom=True):
    asked = pa.array(keys, pa.string())
    return find_in_slice(store, CONFIG, NO_LOGS, part, asked, use_bloom=use_bloom).to_pylist()


# Characters whose order differs between UTF-8 and Java's UTF-16, and ends of ranges.
KEYS = st.text("ab\ue000\uffff\U0001f600é", min_size=1, max_size=3)


@settings(deadline=None)
@given(st.sets(KEYS, max_size=30), st.lists(KEYS, unique=True, max_size=80), st.booleans())
def test_a_file_says_which_keys_it_holds(held, asked, use_bloom):
    store = MemoryStore()
    part = slice_of(store, sorted(held))
    expected = [place for place, key in enumerate(asked) if key in held]
    assert find(store, part, asked, use_bloom=use_bloom) == expected


def test_large_files_and_many_keys_are_searched_in_runs(monkeypatch):
    monkeypatch.setattr(lookup, "_RUN_KEYS", 7)
    monkeypatch.setattr(lookup, "_BATCH_ROWS", 5)
    store = MemoryStore()
    part = slice_of(store, [f"k{number:03}" for number in range(0, 200, 2)])
    asked = pa.array(["x", *[f"k{number:03}" for number in range(150)]]).slice(1)
    assert find(store, part, asked) == list(range(0, 150, 2))


def test_keys_outside_of_the_range_of_a_file_open_no_column():
    store = MemoryStore()
    part = slice_of(store, ["b", "c"], broken=True)
    assert find(store, part, ["a", "d"], use_bloom=False) == []
    around = [f"{letter}{number:02}" for letter in "ad" for number in range(40)]
    assert find(store, part, around, use_bloom=False) == []
    with pytest.raises(Corrupt, match="broken Parquet data"):
        find(store, part, ["a", "b"], use_bloom=False)


def test_the_bloom_filter_keeps_a_file_closed_unless_there_are_many_keys():
    store = MemoryStore()
    part = slice_of(store, [f"k{number:03}" for number in range(96)], broken=True)
    absent = ["k000x", "k001x", "k002x"]
    assert find(store, part, absent) == []
    for keys, use_bloom in ((absent, False), ([*absent, "k003x"], True), (["k010"], True)):
        with pytest.raises(Corrupt):
            find(store, part, keys, use_bloom=use_bloom)


def test_row_groups_that_cannot_hold_a_key_are_not_read():
    store = MemoryStore()
    part = slice_of(store, [f"k{number:03}" for number in range(40)])
    path = data_path(part, part.base_file)
    content = bytearray(store.get(path).content)
    last = pq.read_metadata(BytesIO(content)).row_group(9).column(0)
    start_of_last = last.dictionary_page_offset
    content[start_of_last : start_of_last + last.total_compressed_size] = bytes(
        last.total_compressed_size
    )
    store.put(path, bytes(content))
    assert find(store, part, ["k001", "k011x"]) == [0]
    assert find(store, part, [f"k0{number:02}" for number in range(36)]) == list(range(36))
    with pytest.raises(Corrupt):
        find(store, part, ["k038"])


def test_files_that_hold_no_keys_at_all_are_named():
    store = MemoryStore()
    sink = BytesIO()
    pq.write_table(pa.table({"other": ["a"]}), sink)
    name = f"f-0_0-1-0_{TIME}.parquet"
    part = FileSlice("", "f-0", TIME, FileEntry(name, 9))
    store.put(name, sink.getvalue())
    with pytest.raises(Corrupt, match=f"{name}: a base file without the column"):
        find(store, part, ["a"])
    assert find(store, part, []) == []


@pytest.mark.parametrize("version", [6, 9])
def test_a_slice_of_log_files_alone_holds_the_keys_of_its_blocks_deleted_ones_too(
    version, tmp_path
):
    shape = Shape(version=version, merge_on_read=True, partitioning=Partitioning.HIVE)
    built = start(shape, tmp_path / "table")
    built.delete([18, 19])
    # From here on nothing but delete entries tells of the two: their rows do not count any more.
    services.compact_logs(built)
    snapshot = Table.open(str(built.folder)).snapshot()
    logs_only = [group for group in built.groups if group.latest.base is None]
    assert logs_only
    parts = {part.file_id: part for part in snapshot.view.slices()}
    for group in logs_only:
        held = sorted({*group.rows, *group.deleted})
        found = find_in_slice(
            built.store,
            snapshot.view.config,
            snapshot.view.timeline,
            parts[group.file_id],
            pa.array(["absent", *held]),
            use_bloom=True,
        )
        assert found.to_pylist() == list(range(1, len(held) + 1))


# -- many files -------------------------------------------------------------------------------


def parcel(rows, *, encode=False):
    keys = pa.array([key for key, _ in rows], pa.string())
    paths = pa.array([path for _, path in rows], pa.string())
    return pa.record_batch(
        [keys, paths.dictionary_encode() if encode else paths], names=[RECORD_KEY, PARTITION_PATH]
    )


def located(store, parts, parcels, *, is_global=False, tasks=2, seed=1):
    incoming = gather_keys(parcels, is_global=is_global)
    plan = plan_lookups(incoming, parts, tasks=tasks)
    answers = [
        index.answer(store, CONFIG, NO_LOGS, pickle.loads(pickle.dumps(task)), use_bloom=True)  # noqa: S301
        for task in plan.tasks
    ]
    random.Random(seed).shuffle(answers)
    return incoming, plan, locate(incoming, plan, answers)


PARTITIONS = st.sampled_from(["", "p=1", "p=2", "p=3"])
FEW_KEYS = st.sampled_from([f"k{number}" for number in range(12)])
ROWS = st.lists(st.tuples(FEW_KEYS, PARTITIONS), max_size=20)
FILES = st.lists(
    st.tuples(PARTITIONS, st.sets(FEW_KEYS, min_size=1, max_size=6)), min_size=0, max_size=5
)


@pytest.mark.parametrize("piece_keys", [3, 1 << 20])
@settings(deadline=None)
@given(
    files=FILES,
    parcels=st.lists(st.tuples(ROWS, st.booleans()), max_size=3),
    is_global=st.booleans(),
    tasks=st.integers(1, 6),
)
def test_rows_are_located_as_a_dictionary_would(piece_keys, files, parcels, is_global, tasks):
    store = MemoryStore()
    parts = [
        slice_of(store, sorted(keys), partition=partition, file_id=f"{9 - number}-0")
        for number, (partition, keys) in enumerate(files)
    ]
    held = {}
    for part, (partition, keys) in zip(parts, files, strict=True):
        for key in keys:
            held.setdefault(key, []).append((partition, part.file_id))
    batches = [parcel(rows, encode=encode) for rows, encode in parcels]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(index, "_PIECE_KEYS", piece_keys)
        _, plan, answer = located(store, parts, batches, is_global=is_global, tasks=tasks)
    assert len(plan.tasks) <= tasks
    copied = set()
    for (rows, _), groups, moved in zip(parcels, answer.group_of_row, answer.moved, strict=True):
        assert len(groups) == len(moved) == len(rows)
        for (key, path), group, is_moved in zip(rows, groups, moved, strict=True):
            places = [one for one in held.get(key, ()) if is_global or one[0] == path]
            best = min(places, key=lambda one: (one[0] != path, one), default=None)
            found = None if group == NEW else plan.groups[group][:2]
            assert found == best
            assert is_moved == (best is not None and best[0] != path)
            if len(places) > 1:
                copied.add(key if is_global else (key, path))
    assert answer.copies == len(copied)


def test_each_question_is_asked_once_and_the_work_is_spread():
    store = MemoryStore()
    parts = [
        slice_of(store, ["k1"], partition=partition, file_id=f"{number}-0")
        for partition in ("a", "b", "untouched")
        for number in range(8)
    ]
    incoming = gather_keys([parcel([("k1", "a"), ("k2", "a"), ("k1", "b")])], is_global=False)
    plan = plan_lookups(incoming, parts, tasks=4)
    asked = [one for task in plan.tasks for one, _ in task.lookups]
    assert len(asked) == len(set(asked)) == 16
    assert [len(task.lookups) for task in plan.tasks] == [4, 4, 4, 4]
    assert [list(task.pieces) for task in plan.tasks] == [[0], [0], [1], [1]]
    assert {part.partition for part in plan.groups} == {"a", "b"}


def test_nothing_incoming_asks_nothing():
    for parcels in ([], [parcel([])]):
        incoming, plan, answer = located(MemoryStore(), [], parcels)
        assert (incoming.count, plan.tasks, answer.copies) == (0, (), 0)
        assert [len(rows) for rows in answer.group_of_row] == [0] * len(parcels)


@pytest.mark.parametrize("is_global", [False, True])
def test_keys_are_known_by_their_numbers(is_global, monkeypatch):
    monkeypatch.setattr(index, "_PIECE_KEYS", 2)
    rows = [(f"k{number}", "pq"[number % 2]) for number in range(9)]
    incoming = gather_keys([parcel(rows)], is_global=is_global)
    assert len(incoming.pieces) == 5
    (ids,) = incoming.key_of_row
    for some in ([], [0, 3, 4, 8], list(range(9))):
        wanted = sorted((ids[number], rows[number][0]) for number in some)
        found = incoming.keys_at(np.array([one for one, _ in wanted], dtype=np.int64))
        assert found.to_pylist() == [key for _, key in wanted]


def test_a_key_that_is_null_is_refused():
    with pytest.raises(Invalid, match="record key is null"):
        gather_keys([parcel([(None, "p")])], is_global=False)


def test_many_bytes_of_keys_are_counted_with_wide_offsets(monkeypatch):
    monkeypatch.setattr(index, "_LARGE_KEYS", 1)
    incoming = gather_keys([parcel([("a", "p"), ("b", "p"), ("a", "p")])], is_global=False)
    assert [piece.keys.type for piece in incoming.pieces] == [pa.string()]
    assert incoming.key_of_row[0].tolist() == [0, 1, 0]


@pytest.mark.parametrize("name", ["v6_mor_bucket_index", "v9_mor_bucket_index", "v9_mor_basic"])
def test_file_groups_of_a_bucket_index_are_refused(name):
    with zipfile.ZipFile(golden.GOLDEN / f"{name}.zip") as archive:
        names = [parse_base_file(path.rpartition("/")[2]) for path in archive.namelist()]
    parts = [FileSlice("p", one.file_id, TIME, None) for one in names if one is not None]
    assert parts
    if "bucket" not in name:
        refuse_buckets(parts)
        refuse_buckets([FileSlice("p", "12345678-90ab-0", TIME, None)])
        return
    with pytest.raises(Unsupported, match="bucket index"):
        refuse_buckets(parts)
    refuse_buckets([*parts, FileSlice("p", "a2345678-90ab-0", TIME, None)])
