"""Bulk insert, spilling, and what is left when a handle fails."""

import dataclasses
import re

import pytest

from handle_tables import SMALL, HandleTable, keyed, read_back, row
from lakehand.formats.bloom import BloomSettings
from lakehand.ports import PromoteOutcome, Staged
from lakehand.store.local import LocalStore
from lakehand.store.memory import MemoryStore
from lakehand.table import Table
from lakehand.write.handles.bulk import file_id_prefix, write_partitioned
from lakehand.write.handles.combining import by_partition
from lakehand.write.handles.group import write_group
from lakehand.write.shapes import FileSettings, GroupTask, GroupWork, LogFormat, Try

CITIES = ["oslo", "rome", "", "a=b/c"]
ROWS = [
    row(f"k{number:03}", 1, f"value {number}", city=CITIES[number * 7 % 4]) for number in range(200)
]
NO_FILTER = dataclasses.replace(SMALL, bloom=None)
TINY = FileSettings(base=NO_FILTER, memory_bytes=3_000)


@pytest.fixture(params=[MemoryStore, LocalStore], ids=["memory", "disk"])
def store(request, tmp_path):
    return MemoryStore() if request.param is MemoryStore else LocalStore(str(tmp_path / "table"))


def written(table, rows, **changes):
    context = table.context(**changes)
    files = write_partitioned(table.store, context, "seed", rows, Try(4, 0))
    table.commit(context, files)
    return files


def test_mixed_rows_go_to_a_new_file_group_for_each_partition(store):
    table = HandleTable(store)
    files = written(table, keyed(ROWS, batch_rows=30), combine=False)
    assert sorted(one.stat.partition_path for one in files) == sorted(CITIES)
    for one in files:
        folder, _, name = one.stat.path.rpartition("/")
        assert folder == one.stat.partition_path
        assert re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}-0_4-.*\.parquet", name)
        expected = [own for own in ROWS if own["city"] == one.stat.partition_path]
        assert one.stat.num_inserts == len(expected)
        path = f"{folder}/.hoodie_partition_metadata" if folder else ".hoodie_partition_metadata"
        depth = folder.count("/") + 1 if folder else 0
        assert f"partitionDepth={depth}".encode() in store.get(path).content
    read = Table.over(store).to_arrow()
    assert read_back(read) == {one["id"]: (1, one["value"]) for one in ROWS}
    assert len(set(read.column("_hoodie_commit_seqno").to_pylist())) == len(ROWS)


def test_a_task_that_runs_twice_makes_the_same_file_groups(store):
    table = HandleTable(store)
    context = table.context(combine=False)
    first = write_partitioned(store, context, "seed", keyed(ROWS), Try(4, 0))
    again = write_partitioned(store, context, "seed", keyed(ROWS), Try(4, 1))
    other = write_partitioned(store, context, "seed", keyed(ROWS), Try(5, 0))
    ids = [{one.stat.file_id for one in files} for files in (first, again, other)]
    assert ids[0] == ids[1]
    assert not ids[0] & ids[2]
    assert not {one.stat.path for one in first} & {one.stat.path for one in again}


def test_file_id_prefixes_follow_from_seed_task_and_number():
    drawn = {file_id_prefix(seed, task, n) for seed in "ab" for task in (1, 2) for n in (1, 2, 11)}
    assert len(drawn) == 12
    assert file_id_prefix("a", 1, 1) == file_id_prefix("a", 1, 1)


def test_little_memory_makes_small_row_groups_and_no_other_rows(store):
    table = HandleTable(store)
    files = written(table, keyed(ROWS, batch_rows=30), combine=False, settings=TINY)
    assert len(files) == len(CITIES)
    read = Table.over(store).to_arrow()
    assert read_back(read) == {one["id"]: (1, one["value"]) for one in ROWS}


def test_filters_that_take_too_much_memory_end_the_largest_file(store):
    table = HandleTable(store)
    filters = dataclasses.replace(SMALL, bloom=BloomSettings(entries=100, max_entries=100))
    bits = filters.bloom.vector_bits
    settings = FileSettings(base=filters, memory_bytes=bits * 5 // 2)
    files = written(table, keyed(ROWS, batch_rows=30), combine=False, settings=settings)
    assert len(files) > len(CITIES)
    assert len({one.stat.file_id for one in files}) == len(files)
    read = Table.over(store).to_arrow()
    assert read_back(read) == {one["id"]: (1, one["value"]) for one in ROWS}


def test_a_few_rows_that_wait_do_not_keep_the_others_in_memory():
    rows = [row(f"k{number}", 1, "x" * 50, city="oslo") for number in range(1000)]
    rows.append(row("alone", 1, "", city="rome"))
    (batch,) = keyed(rows, batch_rows=2000)
    parts = dict(by_partition(batch))
    assert parts["rome"].num_rows == 1
    assert parts["rome"].get_total_buffer_size() < 1000 < parts["oslo"].nbytes


@pytest.mark.parametrize("memory", [100, 3_000, 1 << 30])
def test_spilled_rows_are_combined_as_rows_in_memory_are(memory, tmp_path):
    spills = tmp_path / "spills"
    spills.mkdir()
    table = HandleTable(MemoryStore())
    settings = FileSettings(base=SMALL, memory_bytes=memory, spill_folder=str(spills))
    rows = [row(f"k{n % 70}", n * 31 % 97, f"{n}", deleted=n % 11 == 0) for n in range(300)]
    context = table.context(settings=settings)
    table.write(context, [(GroupTask(GroupWork.CREATE, "oslo", "f"), keyed(rows, batch_rows=40))])
    best = {}
    for one in rows:
        if one["id"] not in best or best[one["id"]]["ts"] <= one["ts"]:
            best[one["id"]] = one
    expected = {
        key: (one["ts"], one["value"]) for key, one in best.items() if not one["_hoodie_is_deleted"]
    }
    assert read_back(Table.over(table.store).to_arrow()) == expected
    assert list(spills.iterdir()) == []


def breaking(rows):
    yield from rows
    raise OSError("the rows end here")


@pytest.mark.parametrize("log_format", LogFormat)
@pytest.mark.parametrize(
    ("work", "memory"), [(work, size) for work in GroupWork for size in (100, 1 << 30)]
)
def test_a_handle_that_fails_leaves_nothing_staged(store, work, memory, log_format):
    table = HandleTable(store, merge_on_read=work is GroupWork.APPEND)
    table.upsert([row("k0", 1, "")])
    task = GroupTask(work, "oslo", "f")
    if work is not GroupWork.CREATE:
        (part,) = Table.over(store).slices()
        task = table.task(work, part.file_id)
    settings = FileSettings(
        base=SMALL, memory_bytes=memory, log_block_bytes=500, log_format=log_format,
        max_file_bytes=2_000,
    )  # fmt: skip
    context = table.context(settings=settings, combine=False)
    some = keyed([row(f"k{number}", 2, "x" * 40) for number in range(300)], batch_rows=50)
    with pytest.raises(OSError, match="the rows end here"):
        write_group(store, context, task, breaking(some), Try(7, 0))
    require_nothing_staged(store, context)


def test_a_bulk_insert_that_fails_leaves_nothing_staged(store):
    table = HandleTable(store)
    settings = FileSettings(base=SMALL, max_file_bytes=1_500)
    context = table.context(settings=settings, combine=False)
    with pytest.raises(OSError, match="the rows end here"):
        write_partitioned(store, context, "seed", breaking(keyed(ROWS, batch_rows=9)), Try(7, 0))
    assert require_nothing_staged(store, context) > len(CITIES)


def require_nothing_staged(store, context):
    markers = [one.path for one in store.walk(f".hoodie/.temp/{context.time}")]
    for path in markers:
        staged = Staged.from_json(store.get(path).content.decode(), where=path)
        closed = dataclasses.replace(staged, parts=("closed",))
        assert store.promote(closed) is PromoteOutcome.GONE
        assert store.head(staged.final) is None
    assert markers
    return len(markers)
