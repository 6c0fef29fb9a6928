"""A dataset of files is dealt out to tasks: every row once, in its order."""

from __future__ import annotations

import pickle

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lakehand.engine import shares
from lakehand.errors import Corrupt, Invalid, NotFound

FILES = st.lists(st.integers(0, 40), min_size=1, max_size=6)


def rows_of(dealt):
    return [
        number
        for share in pickle.loads(pickle.dumps(dealt))  # noqa: S301 - our own
        for batch in share.batches(7)
        for number in batch["number"].to_pylist()
    ]


def files(folder, counts, rows_of_a_group=5):
    """A dataset of files with so many rows each, numbered through."""
    folder.mkdir()
    at = 0
    for number, count in enumerate(counts):
        table = pa.table({"number": pa.array(range(at, at + count), pa.int64())})
        pq.write_table(table, folder / f"{number}.parquet", row_group_size=rows_of_a_group)
        at += count
    return ds.dataset(folder)


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(counts=FILES, tasks=st.integers(1, 9))
def test_every_row_is_in_one_share_in_the_order_of_the_dataset(tmp_path_factory, counts, tasks):
    dataset = files(tmp_path_factory.mktemp("shares") / "rows", counts)
    dealt = shares.deal(dataset, tasks)
    assert rows_of(dealt) == list(range(sum(counts)))
    assert len(dealt) <= tasks


def test_a_large_file_is_dealt_out_by_row_groups(tmp_path):
    dealt = shares.deal(files(tmp_path / "rows", [4000], rows_of_a_group=500), 4)
    assert [sum(batch.num_rows for batch in share.batches(999)) for share in dealt] == [1000] * 4


def test_a_large_dataset_has_more_shares_than_tasks(tmp_path, monkeypatch):
    monkeypatch.setattr(shares, "_SHARE_BYTES", 1000)
    dealt = shares.deal(files(tmp_path / "rows", [400] * 3), 2)
    assert rows_of(dealt) == list(range(1200))
    assert len(dealt) == 3


def test_of_many_files_no_footer_is_read_to_deal_them_out(tmp_path):
    dataset = files(tmp_path / "rows", [5, 5, 5])
    (tmp_path / "rows" / "1.parquet").write_bytes(b"PAR1 no Parquet file PAR1")
    first, second, third = shares.deal(dataset, 3)
    assert rows_of([first, third]) == [0, 1, 2, 3, 4, 10, 11, 12, 13, 14]
    with pytest.raises(Corrupt, match=r"1\.parquet"):
        list(second.batches(10))


def test_columns_of_the_path_and_columns_that_a_file_lacks_are_there(tmp_path):
    rows = pa.table({"number": [1, 2], "city": ["Oslo", "Lima"], "note": ["a", "b"]})
    ds.write_dataset(
        rows,
        tmp_path,
        format="parquet",
        partitioning=["city"],
        partitioning_flavor="hive",
        schema=rows.schema,
    )
    pq.write_table(pa.table({"number": [3]}), tmp_path / "city=Oslo" / "z.parquet")
    dataset = ds.dataset(tmp_path, partitioning="hive", schema=rows.schema)
    found = [
        row
        for share in shares.deal(dataset, 2)
        for batch in share.batches(9)
        for row in batch.to_pylist()
    ]
    assert sorted(found, key=lambda row: row["number"]) == [
        {"number": 1, "city": "Oslo", "note": "a"},
        {"number": 2, "city": "Lima", "note": "b"},
        {"number": 3, "city": "Oslo", "note": None},
    ]


def test_files_of_other_formats_are_read_too(tmp_path):
    (tmp_path / "rows.csv").write_text("number\n1\n2\n")
    assert rows_of(shares.deal(ds.dataset(tmp_path, format="csv"), 4)) == [1, 2]


def test_tasks_need_not_stand_in_the_folder_of_the_driver(tmp_path, monkeypatch):
    files(tmp_path / "rows", [5, 5], rows_of_a_group=3)
    monkeypatch.chdir(tmp_path)
    whole = ds.dataset("rows")
    (first, *_) = next(whole.get_fragments()).split_by_row_group()
    part = ds.FileSystemDataset([first], whole.schema, whole.format, whole.filesystem)
    (tmp_path / "lines.csv").write_text("number\n7\n")
    dealt = [shares.deal(one, 2) for one in (whole, part, ds.dataset("lines.csv", format="csv"))]
    monkeypatch.chdir("/")
    assert [rows_of(one) for one in dealt] == [list(range(10)), [0, 1, 2], [7]]


def test_a_file_that_went_away_is_named(tmp_path):
    dataset = files(tmp_path / "rows", [5, 5])
    (share, gone) = shares.deal(dataset, 2)
    (tmp_path / "rows" / "1.parquet").unlink()
    assert rows_of([share]) == [0, 1, 2, 3, 4]
    with pytest.raises(NotFound, match=r"1\.parquet"):
        list(gone.batches(10))


@pytest.mark.parametrize(
    ("made", "problem"),
    [
        (lambda dataset: dataset.filter(ds.field("number") > 2), "filtered dataset"),
        (lambda dataset: ds.dataset(dataset.to_table()), "InMemoryDataset"),
        (lambda dataset: ds.dataset([dataset, dataset]), "UnionDataset"),
    ],
)
def test_rows_that_tasks_cannot_find_again_are_refused(tmp_path, made, problem):
    with pytest.raises(Invalid, match=problem):
        shares.require_readable(made(files(tmp_path / "rows", [5])))
