"""Incremental queries one by one: their edges, what they do not read, and when they refuse."""

import pytest

import table_builder_services as services
import table_builder_timeline as timeline
from lakehand.core.instants import Action, Instant, State
from lakehand.errors import Invalid, NotFound, Unsupported
from lakehand.formats.lsm_timeline import HistoryEntry
from lakehand.protocol import lsm_timeline
from lakehand.read.incremental import incremental_scan
from lakehand.read.reader import Reader
from lakehand.read.snapshot import Scan
from lakehand.store.local import LocalStore
from lakehand.table import Table
from table_builder import TableBuilder
from table_builder_rows import COMMIT_TIME, Partitioning, Shape

MOR = Shape(9, merge_on_read=True, partitioning=Partitioning.HIVE, blocks="parquet")
NEWEST_WINS = Shape(9, merge_on_read=True, partitioning=Partitioning.HIVE, event_time=False)
COW = Shape(8, merge_on_read=False, partitioning=Partitioning.HIVE)
OLD = Shape(6, merge_on_read=True, partitioning=Partitioning.HIVE)


class CountingStore(LocalStore):
    """Remembers which data files were opened."""

    def __init__(self, folder):
        super().__init__(folder)
        self.opened = []

    def open(self, path):
        if not path.startswith(".hoodie"):
            self.opened.append(path)
        return super().open(path)


def reader_of(built, store=None):
    table = Table.over(store or LocalStore(str(built.folder)))
    return Reader(table.store, table.config, Scan.to_arrow)


def keys(rows):
    return sorted(rows.column("id").to_pylist())


def names(numbers):
    return sorted(f"k{number:04d}" for number in numbers)


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "table"


def test_the_earliest_begin_has_two_spellings_and_end_is_inclusive(folder):
    built = TableBuilder(folder, MOR)
    first = built.insert(range(4))
    second = built.upsert([1, 2])
    reader = reader_of(built)
    after_first, after_second = (time for time, _ in built.history)
    assert keys(reader.incremental("earliest")) == names(range(4))
    assert keys(reader.incremental("000", after_first)) == names(range(4))
    assert keys(reader.incremental(after_first)) == names([1, 2])
    assert keys(reader.incremental(after_first, after_second)) == names([1, 2])
    assert keys(reader.incremental(after_second)) == []
    # A time of layout 2 is one of completion: the write had begun, but had not completed.
    assert keys(reader.incremental(first.instant, second.instant)) == names(range(4))
    assert keys(reader.incremental("2023-12-31", "2024-01-02")) == names(range(4))


def test_a_begin_after_the_end_and_one_that_is_no_time_are_refused(folder):
    built = TableBuilder(folder, MOR)
    built.insert(range(4))
    reader = reader_of(built)
    with pytest.raises(Invalid, match="begin is after end"):
        reader.incremental("20250101000000000", "20240101000000000")
    with pytest.raises(Invalid, match="not an instant time"):
        reader.incremental("yesterday")


def test_an_empty_table_has_no_changes_and_no_newest_time(folder):
    built = TableBuilder(folder, MOR)
    built.begin_insert(range(3))
    reader = reader_of(built)
    assert reader.newest() is None
    assert reader.incremental("earliest").num_rows == 0
    assert reader.incremental("20200101000000000").num_rows == 0


def test_a_table_without_meta_columns_is_refused(folder):
    built = TableBuilder(folder, MOR)
    path = folder / ".hoodie" / "hoodie.properties"
    path.write_text(
        path.read_text().replace(
            "hoodie.populate.meta.fields=true", "hoodie.populate.meta.fields=false"
        )
    )
    with pytest.raises(Unsupported, match=r"hoodie\.populate\.meta\.fields=false"):
        incremental_scan(Table.open(str(built.folder)).snapshot(), "earliest")


def test_version_6_is_settled_only_before_a_pending_write(folder):
    built = TableBuilder(folder, OLD)
    first = built.insert(range(4))
    pending = built.begin_insert(range(10, 13))
    later = built.upsert([1])
    reader = reader_of(built)
    assert reader.newest() == first.instant
    assert keys(reader.incremental("earliest")) == names(range(4))
    assert reader.incremental("earliest").column(COMMIT_TIME).unique().to_pylist() == [
        first.instant
    ]
    # Whoever polled past the hole by an end of his own, and comes back, waits.
    assert keys(reader.incremental("earliest", later.instant)) == names(range(4))
    assert keys(reader.incremental(later.instant)) == []
    built.complete(pending)
    assert keys(reader.incremental(first.instant)) == names([1, 10, 11, 12])


def test_version_6_is_not_held_back_by_table_services(folder):
    built = TableBuilder(folder, OLD)
    built.insert(range(6))
    built.upsert([0])
    services.schedule_clustering(built, ["region=us"])
    services.schedule_compaction(built)
    last = built.upsert([1])
    assert reader_of(built).newest() == last.instant


@pytest.mark.parametrize("shape", [MOR, NEWEST_WINS, COW, OLD], ids=["mor", "newest", "cow", "old"])
def test_slices_without_changed_rows_are_not_opened(folder, shape):
    built = TableBuilder(folder, shape)
    built.insert(range(9))
    built.upsert([3])
    before = built.history[-1][0] if shape.version != 6 else built.last_write
    built.upsert([0])
    (changed,) = {row["region"] for row in built.model.values() if row["id"] == "k0000"}
    store = CountingStore(str(built.folder))
    found = reader_of(built, store).incremental(before)
    assert keys(found) == names([0])
    # A base file is opened for the sixth meta column, whatever is asked for.
    read = store.opened[1:]
    assert read
    assert {path.split("/")[0] for path in read} == {f"region={changed}"}
    if not shape.event_time:
        assert not [path for path in read if path.endswith(".parquet")]


def test_a_late_row_that_loses_against_an_old_base_file_is_no_change(folder):
    built = TableBuilder(folder, MOR)
    built.insert(range(4))
    built.upsert([0, 1], late=True)
    assert reader_of(built).incremental(built.history[0][0]).num_rows == 0


def test_row_groups_without_changed_rows_are_not_read(folder):
    built = TableBuilder(folder, COW)
    built.insert(range(6))
    built.upsert([0])
    scan = incremental_scan(Table.open(str(folder)).snapshot(), built.history[0][0])
    (predicate,) = scan.row_filter.predicates
    assert (predicate.column, predicate.value) == (COMMIT_TIME, built.history[0][0])


def archive(built, times):
    """Move completed instants from the timeline into the history, as archival does."""
    done = [one for one in timeline.instants(built) if one.time in times and one.is_completed]
    entries = [HistoryEntry(one.time, one.completion_time, one.action, b"", None) for one in done]
    area = ".hoodie/.temp/archive"
    lsm_timeline.append(built.store, ".hoodie/timeline/history", entries, area=area)
    timeline.forget(built, times)


def test_an_archived_write_counts_by_when_it_completed(folder):
    """It began first and completed last: nothing but the history says that it is a change."""
    built = TableBuilder(folder, MOR)
    slow = built.begin_insert(range(10, 13))
    quick = built.insert(range(4))
    built.complete(slow)
    built.upsert([0])
    after_quick, after_slow, _ = (time for time, _ in built.history)
    archive(built, {slow.instant, quick.instant})
    reader = reader_of(built)
    assert keys(reader.incremental(after_quick)) == names([0, 10, 11, 12])
    assert keys(reader.incremental(after_quick, after_slow)) == names([10, 11, 12])
    assert keys(reader.incremental("earliest", after_quick)) == names(range(4))
    assert keys(reader.incremental(after_slow)) == names([0])


def cleaned(folder):
    built = TableBuilder(folder, COW)
    built.insert(range(4))
    built.upsert([0])
    built.upsert([0, 3])
    times = [time for time, _ in built.history]
    assert services.clean_up(built)
    return built, times


def test_a_state_that_was_cleaned_is_refused_and_the_present_one_is_not(folder):
    built, (first, second, third) = cleaned(folder)
    reader = reader_of(built)
    with pytest.raises(Invalid, match=f"as it was at {second} is gone .* was cleaned") as refused:
        reader.incremental(first, second)
    assert built.last_write in str(refused.value)
    assert keys(reader.incremental(first, third)) == names([0, 3])
    assert keys(reader.incremental(first)) == names([0, 3])


def test_cleaned_files_that_the_past_did_not_need_do_not_matter(folder):
    """The clean removed a file of another partition's later past."""
    built = TableBuilder(folder, COW)
    built.insert(range(4))
    built.upsert([0])
    services.clean_up(built)
    after_clean = built.history or [(built.tick(), built.model)]
    built.upsert([1])
    assert keys(reader_of(built).incremental("earliest", after_clean[-1][0])) == names(range(4))


def test_a_pending_clean_counts_as_far_as_it_came(folder):
    built, (first, second, _) = cleaned(folder)
    (clean,) = (one for one in timeline.instants(built) if one.action is Action.CLEAN
                and one.is_completed)  # fmt: skip
    done = f"{clean.time}_{clean.completion_time}.clean"
    (folder / ".hoodie" / "timeline" / done).unlink()
    with pytest.raises(Invalid, match="was cleaned"):
        reader_of(built).incremental(first, second)


def test_archived_cleans_cannot_be_asked_so_the_past_before_them_is_refused(folder):
    built, (first, second, _) = cleaned(folder)
    cleans = {one.time for one in timeline.instants(built) if one.action is Action.CLEAN}
    archive(built, cleans)
    reader = reader_of(built)
    with pytest.raises(Invalid, match="cleans since then are archived"):
        reader.incremental(first, second)
    assert keys(reader.incremental(first)) == names([0, 3])


def test_a_clean_whose_plan_is_gone_is_taken_for_the_worst(folder):
    built, (first, second, _) = cleaned(folder)
    (clean,) = {one.time for one in timeline.instants(built) if one.action is Action.CLEAN}
    requested = Instant(clean, Action.CLEAN, State.REQUESTED)
    (folder / ".hoodie" / "timeline" / f"{requested.time}.clean.requested").unlink()
    with pytest.raises(Invalid, match=f"the clean {clean} since then cannot be asked"):
        reader_of(built).incremental(first, second)


def test_a_file_that_goes_while_the_query_runs_is_named_with_what_to_do(folder):
    built = TableBuilder(folder, COW)
    built.insert(range(4))
    scan = Table.open(str(folder)).snapshot().scan()
    group = built.live[0]
    (folder / group.path(group.latest.base)).unlink()
    with pytest.raises(NotFound, match="run the query again") as failed:
        scan.to_arrow()
    assert group.path(group.latest.base) in str(failed.value)


def test_a_read_optimized_query_leaves_logs_out(folder):
    built = TableBuilder(folder, MOR)
    first = built.insert(range(4))
    built.upsert([0])
    built.insert(range(20, 22), to_logs=True)
    reader = reader_of(built)
    found = reader.read_optimized()
    assert keys(found) == names(range(4))
    assert found.column(COMMIT_TIME).unique().to_pylist() == [first.instant]
    plan = services.schedule_compaction(built)
    assert keys(reader.read_optimized()) == names(range(4))
    services.execute_compaction(built, plan)
    assert sorted(reader.read_optimized(["id"]).column("id").to_pylist()) == names(
        [*range(4), 20, 21]
    )
