"""A writer without Spark takes a dataset of files; what it cannot read it refuses at once."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from lakehand import Table
from lakehand.errors import Invalid

ROWS = pa.table({"id": [f"k{number % 70}" for number in range(100)], "n": range(100)})


@pytest.fixture
def dataset(tmp_path):
    folder = tmp_path / "rows"
    folder.mkdir()
    for start in (0, 40):
        part = ROWS.slice(start, 40 if not start else 60)
        pq.write_table(part, folder / f"{start:02}.parquet", row_group_size=7)
    return ds.dataset(folder)


@pytest.fixture
def table(tmp_path):
    return Table.create(str(tmp_path / "table"), ROWS.schema, name="t", key=["id"], ordering=["n"])


def rows_of(table):
    found = pa.Table.from_batches(table.scan()).select(["id", "n"])
    return sorted(map(tuple, found.to_pandas().itertuples(index=False)))


def test_an_upsert_of_a_dataset_keeps_the_last_row_of_each_key(table, dataset):
    assert table.writer().upsert(dataset).inserts == 70
    last = {row["id"]: row["n"] for row in ROWS.to_pylist()}
    assert rows_of(table) == sorted(last.items())


def test_a_sorted_bulk_insert_of_a_dataset_is_in_order_over_all_files(table, dataset):
    table.writer(sort="GLOBAL_SORT").bulk_insert(dataset)
    assert rows_of(table) == sorted((row["id"], row["n"]) for row in ROWS.to_pylist())
    keys = pa.Table.from_batches(table.scan())["id"].to_pylist()
    assert keys == sorted(keys)


def test_a_filtered_dataset_leaves_no_trace(table, dataset):
    with pytest.raises(Invalid, match="filtered dataset"):
        table.writer().upsert(dataset.filter(ds.field("n") < 5))
    assert not list(table.scan())
