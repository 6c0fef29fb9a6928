"""Base files that write handles make: what their rows, names and write stats say."""

import dataclasses

import pyarrow.parquet as pq
import pytest

from handle_tables import PARTITION, SMALL, HandleTable, keyed, read_back, row
from lakehand.core.file_names import parse_base_file
from lakehand.core.file_slices import FileEntry
from lakehand.core.markers import epoch_of_file
from lakehand.errors import Invalid, Unsupported
from lakehand.formats import base_file, partition_metadata
from lakehand.formats.partition_metadata import PartitionMetadata
from lakehand.ports import Staged
from lakehand.protocol import staging
from lakehand.store.memory import MemoryStore
from lakehand.table import Table
from lakehand.write.handles.group import write_group
from lakehand.write.shapes import FileSettings, GroupTask, GroupWork, Try

ROWS = [row(f"k{number}", 1, f"v{number}") for number in range(6)]
NEW = GroupTask(GroupWork.CREATE, PARTITION, "f")
META = ["_hoodie_commit_time", "_hoodie_commit_seqno", "_hoodie_record_key", "_hoodie_file_name"]


@pytest.fixture
def store():
    return MemoryStore()


@pytest.fixture
def table(store):
    return HandleTable(store)


def rows_of(store, columns=None):
    return Table.over(store).to_arrow(columns=columns).sort_by("_hoodie_record_key").to_pylist()


def created(table, rows=ROWS, **changes):
    context = table.context(**changes)
    return context, table.write(context, [(NEW, keyed(rows))])


# -- create -------------------------------------------------------------------------------------


def test_new_rows_get_their_meta_columns(store, table):
    context, (stat,) = created(table)
    name = f"f-0_1-1500000001-0_{context.time}.parquet"
    assert stat.path == f"{PARTITION}/{name}"
    assert epoch_of_file(stat.path) == context.epoch
    expected = [
        {
            "_hoodie_commit_time": context.time,
            "_hoodie_commit_seqno": f"{context.time}_1_{number}",
            "_hoodie_record_key": f"k{number}",
            "_hoodie_file_name": name,
        }
        for number in range(6)
    ]
    assert rows_of(store, META) == expected
    assert {one["_hoodie_partition_path"] for one in rows_of(store)} == {PARTITION}


def test_the_stat_of_a_new_file_says_what_hudi_says(table):
    _, (stat,) = created(table)
    assert (stat.file_id, stat.partition_path, stat.prev_commit) == ("f-0", PARTITION, "null")
    assert (stat.num_writes, stat.num_inserts) == (6, 6)
    assert (stat.num_update_writes, stat.num_deletes) == (0, 0)
    assert stat.total_write_bytes == stat.file_size_in_bytes > 0
    assert stat.log_files is None
    assert stat.prev_base_file is None


def test_a_full_file_is_followed_by_the_next_of_its_prefix(store, table):
    few = FileSettings(base=SMALL, max_file_bytes=2_000)
    rows = [row(f"k{number:03}", 1, "x" * 50) for number in range(200)]
    _, stats = created(table, rows, settings=few)
    assert len(stats) > 2
    assert [one.file_id for one in stats] == [f"f-{number}" for number in range(len(stats))]
    assert sum(one.num_inserts for one in stats) == 200
    assert len(read_back(Table.over(store).to_arrow())) == 200
    sequence = [one["_hoodie_commit_seqno"] for one in rows_of(store)]
    assert len(set(sequence)) == 200


def test_files_end_near_their_size_whatever_the_compression_is(table):
    rows = [row(f"k{number:06}", 1, "the same for every row") for number in range(80_000)]
    most = 60_000
    settings = FileSettings(base=SMALL, max_file_bytes=most)
    _, stats = created(table, rows, settings=settings)
    footers = 4_000
    assert all(most <= one.file_size_in_bytes < most * 1.3 + footers for one in stats[:-1])
    assert len(stats) > 1


def test_rows_that_delete_write_nothing_where_nothing_is(store, table):
    rows = [row("a", 1, "x"), row("b", 1, "y", deleted=True), row("a", 2, "z", deleted=True)]
    context = table.context()
    assert write_group(store, context, NEW, keyed(rows), Try(1, 0)) == []
    deletion = dataclasses.replace(context, is_deletion=True)
    assert write_group(store, deletion, NEW, keyed(ROWS), Try(1, 0)) == []
    assert write_group(store, context, NEW, iter(()), Try(1, 0)) == []
    assert list(store.walk("")) == [
        one for one in store.walk("") if one.path.startswith(".hoodie/")
    ]


def test_of_several_rows_with_one_key_one_is_written_unless_all_count(store, table):
    twice = [row("a", 2, "newer"), row("a", 1, "older")]
    created(table, twice)
    assert read_back(Table.over(store).to_arrow()) == {"a": (2, "newer")}
    other = MemoryStore()
    created(HandleTable(other), twice, combine=False)
    assert len(rows_of(other)) == 2


def test_the_first_file_of_a_partition_makes_it_one_for_java(store, table):
    context, _ = created(table)
    path = f"{PARTITION}/{partition_metadata.FILE_NAME}"
    content = store.get(path)
    assert partition_metadata.decode(content.content, where=path) == PartitionMetadata(
        commit_time=context.time, depth=1
    )
    created(table, [row("z", 1, "z")])
    assert store.get(path).version == content.version


def test_a_file_is_announced_by_a_marker_that_names_its_stage(store, table):
    context = table.context()
    (made,) = write_group(store, context, NEW, keyed(ROWS), Try(3, 1))
    (marker,) = store.walk(f".hoodie/.temp/{context.time}")
    assert marker.path.endswith(f"f-0_3-1500000001-1_{context.time}.parquet.marker.CREATE")
    announced = Staged.from_json(store.get(marker.path).content.decode(), where="marker")
    assert (announced.final, announced.place) == (made.staged.final, made.staged.place)


def test_columns_of_another_type_are_refused_by_name(store, table):
    batch = next(keyed(ROWS))
    at = batch.schema.get_field_index("ts")
    wrong = batch.set_column(at, "ts", batch.column(at).cast("int32"))
    with pytest.raises(Invalid, match=r"column ts is int32 .* int64"):
        write_group(store, table.context(), NEW, iter([wrong]), Try(1, 0))
    with pytest.raises(Invalid, match="column value of the table is not among"):
        write_group(store, table.context(), NEW, iter([batch.drop_columns(["value"])]), Try(1, 0))


def test_a_table_that_merges_by_code_of_its_own_is_refused(store, table):
    rule = dataclasses.replace(table.config.merge_rule, refusal="no such merging")
    context = table.context(config=dataclasses.replace(table.config, merge_rule=rule))
    with pytest.raises(Unsupported, match="no such merging"):
        write_group(store, context, NEW, keyed(ROWS), Try(1, 0))


# -- merge --------------------------------------------------------------------------------------


def merged(table, rows, **changes):
    context = table.context(**changes)
    task = table.task(GroupWork.MERGE, "f-0")
    (stat,) = table.write(context, [(task, keyed(rows))])
    return context, stat


def test_untouched_rows_keep_commit_time_and_sequence_number_and_get_the_new_file_name(
    store, table
):
    first, _ = created(table)
    before = rows_of(store)
    second, stat = merged(table, [row("k2", 2, "new"), row("k9", 1, "fresh")])
    name = stat.path.partition("/")[2]
    after = {one["_hoodie_record_key"]: one for one in rows_of(store)}
    assert {one["_hoodie_file_name"] for one in after.values()} == {name}
    for one in before:
        key = one["_hoodie_record_key"]
        if key != "k2":
            assert after[key] == one | {"_hoodie_file_name": name}
    assert {after[key]["_hoodie_commit_time"] for key in ("k2", "k9")} == {second.time}
    assert len({one["_hoodie_commit_seqno"] for one in after.values()}) == 7
    assert first.time != second.time


@pytest.mark.parametrize("version", [9, 8, 6])
def test_the_stat_of_a_merged_file_counts_what_happened_to_rows(version):
    store = MemoryStore()
    table = HandleTable(store, version=version)
    first, (before,) = created(table)
    _, stat = merged(
        table,
        [
            row("k0", 2, "updated"),
            row("k1", 0, "loses"),
            row("k2", 1, "as new wins"),
            row("k3", 1, "", deleted=True),
            row("k4", 0, "", deleted=True),
            row("new", 1, "inserted"),
            row("never", 1, "", deleted=True),
        ],
    )
    assert (stat.num_update_writes, stat.num_inserts, stat.num_deletes) == (2, 1, 1)
    assert stat.num_writes == 6
    assert stat.prev_commit == first.time
    assert stat.prev_base_file == (None if version == 6 else before.path.partition("/")[2])
    assert stat.file_id == "f-0"
    assert [one["ts"] for one in rows_of(store)] == [2, 1, 1, 1, 1, 1]


def test_every_row_of_a_key_that_is_there_twice_is_updated_or_deleted(store, table):
    created(table, [row("a", 1, "x"), row("a", 2, "y"), row("b", 1, "z")], combine=False)
    _, stat = merged(table, [row("b", 5, "new")])
    context = table.context(is_deletion=True)
    deletion = keyed([row("a", 0, "")])
    (gone,) = table.write(context, [(table.task(GroupWork.MERGE, "f-0"), deletion)])
    assert (stat.num_update_writes, gone.num_deletes) == (1, 2)
    assert read_back(Table.over(store).to_arrow()) == {"b": (5, "new")}


def test_rows_extend_a_file_whatever_their_keys_are(store, table):
    created(table)
    context = table.context(combine=False)
    rows = [row("k0", 0, "again"), row("k0", 0, "and again"), row("q", 1, "", deleted=True)]
    (stat,) = table.write(context, [(table.task(GroupWork.EXTEND, "f-0"), keyed(rows))])
    assert (stat.num_writes, stat.num_inserts, stat.num_update_writes) == (8, 2, 0)
    values = [one["value"] for one in rows_of(store) if one["_hoodie_record_key"] == "k0"]
    assert sorted(values) == ["again", "and again", "v0"]


def test_an_older_base_file_gets_the_columns_that_the_table_has_now(store, table):
    created(table)
    path = Table.over(store).slices()[0]
    old = pq.read_table(store.open(f"{PARTITION}/{path.base_file.name}")).drop_columns(["value"])
    assert "value" not in old.schema.names
    area = staging.area("20200101000000000", 1)
    with store.stage("oslo/old.parquet", area=area) as writer:
        with base_file.BaseFileWriter(writer, old.schema) as parquet:
            for batch in old.to_batches():
                parquet.write(batch)
        writer.close()
    store.promote(writer.staged)
    task = table.task(GroupWork.MERGE, "f-0")
    part = task.part._replace(base_file=FileEntry("old.parquet", 1))
    (stat,) = table.write(table.context(), [(task._replace(part=part), keyed([row("k0", 2, "v")]))])
    assert (stat.num_writes, stat.num_update_writes) == (6, 1)
    assert {one["value"] for one in rows_of(store)} == {"v", None}


def test_a_slice_with_log_files_is_not_merged_into():
    table = HandleTable(MemoryStore(), merge_on_read=True)
    table.upsert(ROWS)
    table.upsert([row("k0", 2, "")])
    (part,) = Table.over(table.store).slices()
    task = table.task(GroupWork.MERGE, part.file_id)
    context = table.context()
    with pytest.raises(Invalid, match="rows are appended to such a slice"):
        write_group(table.store, context, task, keyed(ROWS), Try(9, 0))


def test_a_merged_file_finds_every_key_in_its_filter(store, table):
    created(table)
    _, stat = merged(table, [row("new", 1, "")])
    footer = base_file.read_footer(store.open(stat.path), where=stat.path)
    assert (footer.min_key, footer.max_key) == ("k0", "new")
    batch = next(keyed([*ROWS, row("new", 1, "")]))
    assert footer.bloom.might_contain(batch.column("id")).to_pylist() == [True] * 7
    assert parse_base_file(stat.path.partition("/")[2]).file_id == "f-0"
