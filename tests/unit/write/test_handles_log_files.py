"""Log files that write handles make: blocks, headers, deletions, write stats as Java has them."""

import json

import pyarrow as pa
import pytest

from handle_tables import DATA, PARTITION, SMALL, HandleTable, keyed, keys_to_delete, row
from lakehand.core.merge_rules import MergeMode, MergeRule
from lakehand.formats.commit_metadata import RuntimeStats
from lakehand.formats.log_deletes import OrderingKind
from lakehand.formats.log_file import BlockType, HeaderKey, read_blocks
from lakehand.formats.log_records import read_data, read_deletes
from lakehand.store.memory import MemoryStore
from lakehand.table import Table
from lakehand.write.handles import append
from lakehand.write.handles.group import write_group
from lakehand.write.shapes import FileSettings, GroupWork, LogFormat, Try

ROWS = [row(f"k{number}", 1, f"v{number}") for number in range(6)]
HOME = "00000001-0000-5000-8000-000000000001-0"


def started(**kind):
    table = HandleTable(MemoryStore(), merge_on_read=True, **kind)
    table.upsert(ROWS)
    return table


def appended(table, rows, **changes):
    context = table.context(**changes)
    tasks = [(table.task(GroupWork.APPEND, HOME), rows)]
    (stat,) = table.write(context, tasks)
    return context, stat


def blocks_of(table, stat):
    return list(read_blocks(table.store.get(stat.path).content, where=stat.path))


@pytest.mark.parametrize("log_format", LogFormat)
@pytest.mark.parametrize("version", [9, 8, 6])
def test_rows_and_deletions_lie_in_blocks_of_their_own(version, log_format):
    table = started(version=version, settings=FileSettings(base=SMALL, log_format=log_format))
    rows = [row("k1", 2, "new"), row("k2", 3, "", deleted=True), row("k3", 2, "new too")]
    context, stat = appended(table, keyed(rows))
    data, deletes = blocks_of(table, stat)
    assert (
        data.type
        is {
            LogFormat.AVRO: BlockType.AVRO_DATA,
            LogFormat.PARQUET: BlockType.PARQUET_DATA,
        }[log_format]
    )
    for block in (data, deletes):
        assert set(block.header) == {HeaderKey.INSTANT_TIME, HeaderKey.SCHEMA}
        assert block.instant_time == context.time
        names = [field["name"] for field in json.loads(block.schema)["fields"]]
        assert names == table.schema.names
    (batch,) = read_data(data)
    assert batch.column("_hoodie_record_key").to_pylist() == ["k1", "k3"]
    assert set(batch.column("_hoodie_file_name").to_pylist()) == {HOME}
    assert set(batch.column("_hoodie_commit_time").to_pylist()) == {context.time}
    assert len(set(batch.column("_hoodie_commit_seqno").to_pylist())) == 2
    entries = read_deletes(deletes)
    assert entries.record_keys.to_pylist() == ["k2"]
    assert entries.partition_paths.to_pylist() == [PARTITION]
    assert entries.ordering.values[OrderingKind.LONG].to_pylist() == [3]


def test_the_stat_of_a_log_file_of_version_9_knows_its_own_instant_alone():
    table = started()
    rows = [row("k1", 2, ""), row("k2", 3, "", deleted=True)]
    for _ in range(2):
        context, stat = appended(table, keyed(rows))
    name = stat.path.partition("/")[2]
    assert name.startswith(f".{HOME}_{context.time}.log.1_")
    assert stat.prev_commit == context.time
    assert (stat.log_version, stat.log_offset, stat.base_file) == (1, 0, "")
    assert stat.log_files == (name,)
    assert (stat.num_writes, stat.num_update_writes, stat.num_deletes) == (1, 1, 1)
    assert stat.num_inserts == 0
    assert stat.total_write_bytes == stat.file_size_in_bytes
    assert stat.runtime_stats == RuntimeStats()


def test_the_stat_of_a_log_file_of_version_6_names_the_files_of_its_slice():
    table = started(version=6)
    (part,) = Table.over(table.store).slices()
    stats = [appended(table, keyed([row("k1", 2 + n, "")]))[1] for n in range(2)]
    names = [one.path.partition("/")[2] for one in stats]
    assert [name.split("_")[1] for name in names] == [
        f"{part.base_instant}.log.1",
        f"{part.base_instant}.log.2",
    ]
    assert [one.prev_commit for one in stats] == [part.base_instant] * 2
    assert [one.base_file for one in stats] == [part.base_file.name] * 2
    assert [one.log_version for one in stats] == [1, 2]
    assert [one.log_files for one in stats] == [(names[0],), tuple(names)]


def test_a_slice_that_a_pending_compaction_opened_has_no_base_file_yet():
    table = started(version=6)
    appended(table, keyed([row("k1", 2, "")]))
    planned = table.tick()
    task = table.task(GroupWork.APPEND, HOME)._replace(base_instant=planned, log_version=1)
    (stat,) = table.write(table.context(), [(task, keyed([row("k1", 3, "")]))])
    name = stat.path.partition("/")[2]
    assert name.startswith(f".{HOME}_{planned}.log.1_")
    assert (stat.prev_commit, stat.base_file, stat.log_files) == (planned, "", (name,))


def test_keys_to_delete_win_whatever_the_row_says():
    table = started()
    context, stat = appended(table, keys_to_delete(["k1", "k2", "k1"]), is_deletion=True)
    (block,) = blocks_of(table, stat)
    entries = read_deletes(block)
    assert entries.record_keys.to_pylist() == ["k2", "k1"]
    assert entries.ordering.values == {OrderingKind.INT: pa.array([0, 0], pa.int32())}
    assert (stat.num_writes, stat.num_deletes) == (0, 2)
    assert context.is_deletion


def test_a_deletion_without_an_ordering_value_always_wins():
    table = started()
    rows = [row("k1", None, "", deleted=True), row("k2", 4, "", deleted=True)]
    _, stat = appended(table, keyed(rows))
    (block,) = blocks_of(table, stat)
    ordering = read_deletes(block).ordering
    assert ordering.kinds.tolist() == [OrderingKind.INT, OrderingKind.LONG]
    assert ordering.always_wins().tolist() == [True, False]


def test_several_ordering_values_of_a_deletion_are_kept():
    columns = [pa.array([1, None, 3], pa.int64()), pa.array([1, None, None], pa.int32())]
    natural = [False, True, False]
    ordering = append._ordering(columns, pa.array(natural).to_numpy(zero_copy_only=False))
    assert ordering.kinds.tolist() == [OrderingKind.ARRAY, OrderingKind.INT, OrderingKind.ARRAY]
    assert ordering.values[OrderingKind.INT].to_pylist() == [None, 0, None]


def test_commit_time_ordering_leaves_ordering_values_out():
    table = started(event_time=False)
    rule = MergeRule(MergeMode.COMMIT_TIME, ("ts",))
    assert table.config.merge_rule.mode is rule.mode
    _, stat = appended(table, keyed([row("k1", 0, "", deleted=True)]))
    (block,) = blocks_of(table, stat)
    assert read_deletes(block).ordering.always_wins().all()


@pytest.mark.parametrize("log_format", LogFormat)
def test_many_rows_are_written_in_several_blocks_of_one_file(log_format):
    settings = FileSettings(base=SMALL, log_format=log_format, log_block_bytes=5_000)
    table = started(settings=settings)
    rows = [row(f"k{number:04}", 2, "x" * 20) for number in range(400)]
    deleted = [row(f"d{number:04}", 2, "", deleted=True) for number in range(400)]
    _, stat = appended(table, keyed(rows + deleted, batch_rows=90))
    blocks = blocks_of(table, stat)
    data = [block for block in blocks if block.type is not BlockType.DELETE]
    keys = [key for block in data for batch in read_data(block) for key in _keys(batch)]
    assert keys == [one["id"] for one in rows]
    assert len(data) > 5
    assert max(batch.nbytes for block in data for batch in read_data(block)) < 6_000
    gone = [key for block in blocks if block not in data for key in _entries(block)]
    assert sorted(gone) == [one["id"] for one in deleted]
    assert (stat.num_writes, stat.num_deletes) == (400, 400)


def _keys(batch):
    return batch.column("_hoodie_record_key").to_pylist()


def _entries(block):
    return read_deletes(block).record_keys.to_pylist()


def test_without_rows_there_is_no_log_file():
    table = started()
    task = table.task(GroupWork.APPEND, HOME)
    context = table.context()
    nothing = next(keyed(ROWS)).slice(0, 0)
    assert write_group(table.store, context, task, iter([nothing]), Try(9, 0)) == []
    assert list(table.store.walk(f".hoodie/.temp/{context.time}")) == []
    assert DATA.names[0] == "id"
