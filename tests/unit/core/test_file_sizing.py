"""New rows fill small files first and make files of full size: all of them, none too large."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehand.core.file_sizing import (
    ExistingGroup,
    NewRows,
    Share,
    SizeLimits,
    WrittenBaseFiles,
    average_row_bytes,
    plan_new_rows,
)
from lakehand.core.table_kinds import TableType

COW, MOR = TableType.COPY_ON_WRITE, TableType.MERGE_ON_READ
LIMITS = SizeLimits(max_file_bytes=1000, small_file_bytes=800)


def shares(rows, *groups, kind=COW, row_bytes=10.0, limits=LIMITS):
    made = plan_new_rows({"p": NewRows(rows, groups)}, kind, row_bytes=row_bytes, limits=limits)
    return made.get("p", ())


def group(file_id, base_bytes, *, has_logs=False):
    return ExistingGroup(file_id, base_bytes, has_logs)


def test_the_first_rows_make_full_files_and_one_rest():
    assert shares(250) == (Share(None, 100), Share(None, 100), Share(None, 50))
    assert shares(200) == (Share(None, 100), Share(None, 100))


def test_small_files_are_filled_first_and_the_smallest_before_others():
    made = shares(150, group("b", 700), group("c", 300), group("d", 800), group("a", 700))
    assert made == (Share("c", 70), Share("a", 30), Share("b", 30), Share(None, 20))


def test_merge_on_read_fills_one_group_and_none_that_has_logs():
    groups = (group("a", 100, has_logs=True), group("b", 300), group("c", 200))
    assert shares(150, *groups, kind=MOR) == (Share("c", 80), Share(None, 70))
    two = SizeLimits(max_file_bytes=1000, small_file_bytes=800, merge_on_read_fills=2)
    made = shares(150, *groups, kind=MOR, limits=two)
    assert made == (Share("c", 80), Share("b", 70))


def test_copy_on_write_fills_groups_whatever_lies_on_them():
    assert shares(10, group("a", 100, has_logs=True)) == (Share("a", 10),)


@pytest.mark.parametrize("limit", [0, 1000])
def test_groups_without_a_base_file_and_files_that_are_large_enough_are_left_alone(limit):
    limits = SizeLimits(max_file_bytes=1000, small_file_bytes=limit)
    kept = shares(5, group("logs only", 0), group("full", 1000), group("fuller", 2000))
    assert kept == (Share(None, 5),)
    assert shares(5, group("a", 995), limits=limits) == (Share(None, 5),)


def test_a_row_larger_than_a_file_gets_a_file_of_its_own():
    assert shares(2, row_bytes=5000.0) == (Share(None, 1), Share(None, 1))


def test_partitions_without_new_rows_are_left_out():
    assert plan_new_rows({"p": NewRows(0)}, COW, row_bytes=1.0, limits=LIMITS) == {}
    assert plan_new_rows({}, COW, row_bytes=1.0, limits=LIMITS) == {}


def test_the_newest_commit_that_wrote_enough_tells_the_size_of_a_row():
    commits = [
        WrittenBaseFiles(900, 0),
        WrittenBaseFiles(700, 1),
        WrittenBaseFiles(900, 60),
        WrittenBaseFiles(9000, 3),
    ]
    assert average_row_bytes(commits, estimate=1024, small_file_bytes=800) == 15.0
    assert average_row_bytes(commits[:2], estimate=1024, small_file_bytes=800) == 1024.0


GROUPS = st.lists(
    st.builds(ExistingGroup, st.uuids().map(str), st.integers(0, 3000), st.booleans()),
    max_size=8,
    unique_by=lambda one: one.file_id,
)


@given(
    rows=st.integers(0, 5000),
    groups=GROUPS,
    kind=st.sampled_from(TableType),
    row_bytes=st.floats(0.5, 3000),
    limits=st.builds(
        SizeLimits,
        max_file_bytes=st.integers(1, 3000),
        small_file_bytes=st.integers(0, 3000),
        merge_on_read_fills=st.integers(0, 3),
    ),
)
def test_all_rows_find_a_place_and_no_file_grows_beyond_its_limit(
    rows, groups, kind, row_bytes, limits
):
    made = shares(rows, *groups, kind=kind, row_bytes=row_bytes, limits=limits)
    assert sum(share.rows for share in made) == rows
    assert all(share.rows > 0 for share in made)
    known = {one.file_id: one for one in groups}
    filled = [share for share in made if share.file_id is not None]
    assert len({share.file_id for share in filled}) == len(filled)
    for share in made:
        there = known[share.file_id].base_bytes if share.file_id else 0
        fits = there + share.rows * row_bytes <= limits.max_file_bytes * (1 + 1e-9)
        assert fits or (share.file_id is None and share.rows == 1)
    for share in filled:
        one = known[share.file_id]
        assert 0 < one.base_bytes < limits.small_file_bytes
        assert not (kind is MOR and one.has_logs)
    new = [share.rows for share in made if share.file_id is None]
    if new and filled:
        last = known[filled[-1].file_id]
        room = limits.max_file_bytes - last.base_bytes - filled[-1].rows * row_bytes
        assert room < row_bytes * (1 + 1e-9)
    assert new[:-1] == [max(new, default=0)] * len(new[:-1])
    again = shares(rows, *reversed(groups), kind=kind, row_bytes=row_bytes, limits=limits)
    assert again == made
