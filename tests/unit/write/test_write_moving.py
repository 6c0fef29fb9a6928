"""A global index: rows move to the partition that they name, if they win against what stands."""

from __future__ import annotations

import logging

import pyarrow as pa
import pytest

from lakehand.formats.log_deletes import OrderingKind
from lakehand.formats.log_file import BlockType, read_blocks
from lakehand.formats.log_records import read_deletes
from lakehand.table import Table
from lakehand.write import work
from lakehand.write.standing import FindStanding

SCHEMA = pa.schema(
    [
        pa.field("id", pa.string()),
        pa.field("city", pa.string()),
        pa.field("ts", pa.int64()),
        pa.field("_hoodie_is_deleted", pa.bool_()),
    ]
)
PLACES = [(version, kind) for version in (9, 8, 6) for kind in ("cow", "mor")]
BOTH = pytest.mark.parametrize("kind", ["cow", "mor"])


def rows(*given, deleted=False):
    keys, cities, times = zip(*given, strict=True)
    return pa.table([keys, cities, times, [deleted] * len(keys)], schema=SCHEMA)


def deletes_in(log):
    (block,) = read_blocks(log.read_bytes(), where=log.name)
    assert block.type is BlockType.DELETE
    return read_deletes(block)


class Moving:
    """A table with ``a`` and ``b`` in oslo and ``c`` in bergen, at 5."""

    def __init__(self, folder, kind="cow", version=9, ordering=("ts",), **options):
        self.uri = str(folder / "table")
        Table.create(
            self.uri,
            SCHEMA,
            name="moving",
            key=("id",),
            partition_by=("city",),
            ordering=ordering,
            table_type=kind,
            version=version,
        )
        self.folder = folder / "table"
        self.options = {"index": "GLOBAL_SIMPLE", "small_file_mb": 0, **options}
        self.upsert(("a", "oslo", 5), ("b", "oslo", 5), ("c", "bergen", 5))

    def writer(self, **options):
        return Table.open(self.uri).writer(**self.options | options)

    def upsert(self, *given, deleted=False):
        return self.writer().upsert(rows(*given, deleted=deleted))

    @property
    def all_found(self):
        table = Table.open(self.uri).read().snapshot()
        names = ("id", "_hoodie_partition_path", "ts")
        return sorted(zip(*(table.column(name).to_pylist() for name in names), strict=True))

    @property
    def found(self):
        """What readers see: by key the partition that the row is in and its ordering value."""
        found = self.all_found
        assert len({key for key, _, _ in found}) == len(found)
        return {key: (city, ts) for key, city, ts in found}


@pytest.mark.parametrize("ordering", [("ts",), ()], ids=["event-time", "commit-time"])
@pytest.mark.parametrize(("version", "kind"), PLACES)
def test_a_row_that_wins_moves_and_counts_as_a_deletion_and_an_insert(
    version, kind, ordering, tmp_path
):
    table = Moving(tmp_path, kind, version, ordering)
    done = table.upsert(("a", "bergen", 6), ("d", "bergen", 1))
    assert table.found == {
        "a": ("bergen", 6),
        "b": ("oslo", 5),
        "c": ("bergen", 5),
        "d": ("bergen", 1),
    }
    assert (done.inserts, done.updates, done.deletes) == (2, 0, 1)


@BOTH
def test_a_row_that_loses_moves_nothing_and_one_that_ties_does(kind, tmp_path):
    table = Moving(tmp_path, kind)
    table.upsert(("a", "bergen", 4), ("b", "bergen", 5))
    assert table.found == {"a": ("oslo", 5), "b": ("bergen", 5), "c": ("bergen", 5)}


@BOTH
def test_a_late_row_meets_the_row_that_stands_and_not_the_one_in_the_base_file(kind, tmp_path):
    table = Moving(tmp_path, kind)
    table.upsert(("a", "oslo", 9))
    table.upsert(("a", "bergen", 7))
    assert table.found["a"] == ("oslo", 9)
    table.upsert(("a", "bergen", 9))
    assert table.found["a"] == ("bergen", 9)


@BOTH
def test_a_deletion_that_names_another_partition_deletes_where_the_row_is(kind, tmp_path):
    table = Moving(tmp_path, kind)
    late = table.upsert(("b", "tromsø", 4), deleted=True)
    done = table.upsert(("a", "bergen", 6), deleted=True)
    if kind == "mor":
        late_entry, entry = sorted(
            deletes_in(one).ordering.values[OrderingKind.LONG].to_pylist()
            for one in (table.folder / "oslo").glob(".*.log.*")
        )
        assert (late_entry, entry) == ([4], [6])
    assert table.found == {"b": ("oslo", 5), "c": ("bergen", 5)}
    assert (late.inserts, done.inserts, done.deletes) == (0, 0, 1)
    assert table.writer().delete(rows(("c", "oslo", 0))).deletes == 1
    assert table.found == {"b": ("oslo", 5)}


@pytest.mark.parametrize("ordering", [("ts",), ()], ids=["event-time", "commit-time"])
@BOTH
def test_a_row_may_go_away_and_come_back_and_be_deleted_and_come_again(kind, ordering, tmp_path):
    table = Moving(tmp_path, kind, ordering=ordering)
    for city, ts in (("bergen", 6), ("oslo", 7), ("oslo", 8), ("bergen", 9), ("tromsø", 9)):
        table.upsert(("a", city, ts))
        assert table.found["a"] == (city, ts)
    table.writer().delete(rows(("a", "oslo", 0)))
    assert "a" not in table.found
    table.upsert(("a", "oslo", 1))
    assert table.found["a"] == ("oslo", 1)


@BOTH
def test_keys_that_logs_deleted_are_no_copies(kind, tmp_path, caplog):
    table = Moving(tmp_path, kind)
    with caplog.at_level(logging.WARNING, "lakehand"):
        table.upsert(("a", "bergen", 6))
        table.upsert(("a", "bergen", 7))
        table.upsert(("a", "oslo", 8))
        assert not caplog.records
        table.writer().insert(rows(("a", "bergen", 1)))
        table.upsert(("c", "bergen", 7), ("a", "oslo", 9))
    assert [record.args[1] for record in caplog.records] == [1]
    # Of true copies the one in the row's own partition is meant.
    copies = [(city, ts) for key, city, ts in table.all_found if key == "a"]
    assert copies == [("bergen", 1), ("oslo", 9)]


@BOTH
def test_another_index_finds_a_row_that_came_back_where_it_stands(kind, tmp_path):
    table = Moving(tmp_path, kind)
    for city, ts in (("bergen", 6), ("oslo", 7)):
        table.upsert(("a", city, ts))
    table.writer(index="BLOOM").upsert(rows(("a", "oslo", 8)))
    assert table.found["a"] == ("oslo", 8)
    table.writer(index="BLOOM").delete(rows(("a", "oslo", 0)))
    assert "a" not in table.found


@pytest.mark.parametrize(("ordering", "wins"), [(("ts",), 8), ((), 7)], ids=str)
def test_of_rows_of_one_key_that_name_several_partitions_one_is_written(ordering, wins, tmp_path):
    table = Moving(tmp_path, ordering=ordering)
    city = {8: "oslo", 7: "bergen"}[wins]
    done = table.upsert(
        ("a", "tromsø", 6),
        ("a", "oslo", 8),
        ("a", "bergen", 7),
        ("new", "tromsø", 6),
        ("new", "oslo", 8),
        ("new", "bergen", 7),
    )
    assert table.found["a"] == table.found["new"] == (city, wins)
    assert done.inserts == (1 if city == "oslo" else 2)


def test_new_keys_that_name_several_partitions_are_all_that_is_in_doubt(tmp_path):
    table = Moving(tmp_path)
    table.upsert(("n", "oslo", 2), ("n", "bergen", 1), ("m", "oslo", 2), ("m", "bergen", 2))
    assert (table.found["n"], table.found["m"]) == (("oslo", 2), ("bergen", 2))


@BOTH
def test_rows_stay_where_they_are_and_bear_that_partition_if_they_shall_not_move(kind, tmp_path):
    table = Moving(tmp_path, kind, update_partition_path=False)
    done = table.upsert(("a", "bergen", 6), ("a", "oslo", 7), ("n", "oslo", 1), ("n", "bergen", 2))
    assert table.found == {
        "a": ("oslo", 7),
        "b": ("oslo", 5),
        "c": ("bergen", 5),
        "n": ("bergen", 2),
    }
    assert (done.inserts, done.updates, done.deletes) == (1, 1, 0)


@pytest.mark.parametrize("ordering", [("ts",), ()], ids=["event-time", "commit-time"])
def test_the_old_group_gets_a_deletion_that_nothing_in_it_survives(ordering, tmp_path):
    table = Moving(tmp_path, "mor", ordering=ordering)
    table.upsert(("a", "bergen", 6))
    (log,) = (table.folder / "oslo").glob(".*.log.*")
    deletes = deletes_in(log)
    assert deletes.record_keys.to_pylist() == ["a"]
    assert deletes.partition_paths.to_pylist() == ["oslo"]
    assert deletes.ordering.values[OrderingKind.INT].to_pylist() == [0]


@pytest.mark.parametrize(("version", "kind"), PLACES)
def test_a_moving_write_says_beforehand_which_groups_it_is_about(
    version, kind, tmp_path, monkeypatch
):
    table = Moving(tmp_path, kind, version)
    told = []
    show = work.show

    def heard(job, attempt, made):
        told.append((made.routing.touched, made.routing.workload()))
        show(job, attempt, made)

    monkeypatch.setattr(work, "show", heard)
    table.upsert(("a", "bergen", 6))
    ((touched, workload),) = told
    assert [partition for partition, _ in touched] == ["oslo"]
    ((old,), (new,)) = workload["oslo"], workload["bergen"]
    assert (old.num_update_writes, old.num_inserts) == (1, 0)
    assert (new.num_update_writes, new.num_inserts) == (0, 1)


@BOTH
def test_what_leaves_and_what_comes_may_meet_in_one_group(kind, tmp_path):
    table = Moving(tmp_path, kind, small_file_mb=100)
    done = table.upsert(("a", "bergen", 6), ("c", "oslo", 6), ("b", "oslo", 7))
    assert table.found == {"a": ("bergen", 6), "b": ("oslo", 7), "c": ("oslo", 6)}
    assert (done.inserts, done.updates, done.deletes) == (2, 1, 2)


def test_while_nothing_is_in_doubt_nothing_is_asked(tmp_path, monkeypatch):
    table = Moving(tmp_path, "mor")
    asked = []

    def find(self, task):
        asked.extend(task.keys.to_pylist())
        return real(self, task)

    real = FindStanding.__call__
    monkeypatch.setattr(FindStanding, "__call__", find)
    table.upsert(("a", "oslo", 6), ("b", "oslo", 6), ("c", "bergen", 6), ("new", "oslo", 1))
    assert asked == []
    table.upsert(("a", "bergen", 7), ("b", "oslo", 7))
    assert asked == ["a"]


def test_many_rows_move_from_many_groups_on_many_threads(tmp_path):
    table = Moving(tmp_path)
    cities = [f"city {number}" for number in range(7)]
    keys = [f"k{number:03}" for number in range(300)]
    start = [(key, cities[number % 7], 1) for number, key in enumerate(keys)]
    end = [(key, cities[number % 3], 2) for number, key in enumerate(keys)]
    table.upsert(*start)
    done = table.writer(parallelism=3).upsert(rows(*end))
    stay = sum(number % 7 == number % 3 for number in range(300))
    assert (done.inserts, done.updates, done.deletes) == (300 - stay, stay, 300 - stay)
    assert {key: one for key, one in table.found.items() if key in keys} == {
        key: (city, ts) for key, city, ts in end
    }
