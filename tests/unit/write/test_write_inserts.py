"""Inserts: where their rows go, and of rows with one key which are written."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehand.table import Table

SCHEMA = pa.schema([("id", pa.string()), ("ts", pa.int64()), ("city", pa.string())])
ADDING = ("insert", "bulk_insert", "insert_overwrite", "insert_overwrite_table")
SMALL_FILES = {"row_bytes": 1024, "max_file_mb": 0.01, "small_file_mb": 0.009}
"""Ten rows fill a file."""


def rows_of(*rows: tuple[str, int, str]) -> pa.Table:
    return pa.Table.from_pylist(
        [dict(zip(SCHEMA.names, row, strict=True)) for row in rows], schema=SCHEMA
    )


def new_table(folder) -> Table:
    return Table.create(
        str(folder / "table"), SCHEMA, key=["id"], partition_by=["city"], ordering=["ts"]
    )


def standing(table: Table) -> list[tuple[str, int, str]]:
    found = table.to_arrow(columns=SCHEMA.names).to_pylist()
    return sorted((one["id"], one["ts"], one["city"]) for one in found)


@pytest.mark.parametrize("operation", ADDING)
@pytest.mark.parametrize("threads", [1, 3])
def test_one_row_of_a_key_is_inserted_however_many_file_groups_there_are(
    operation, threads, tmp_path
):
    table = new_table(tmp_path)
    rows = [(f"k{n % 60}", n, "oslo" if n % 60 < 45 else "rome") for n in range(180)]
    writer = table.writer(**SMALL_FILES, combine_before_insert=True, parallelism=threads)
    result = getattr(writer, operation)(rows_of(*rows))
    assert result.files >= 6
    assert standing(table) == sorted(rows[120:])


@pytest.mark.parametrize("operation", ADDING)
def test_without_combining_every_row_is_inserted(operation, tmp_path):
    table = new_table(tmp_path)
    rows = [(f"k{n % 60}", n, "oslo") for n in range(180)]
    getattr(table.writer(**SMALL_FILES), operation)(rows_of(*rows))
    assert standing(table) == sorted(rows)


def test_rows_of_one_key_are_combined_within_their_partition_only(tmp_path):
    table = new_table(tmp_path)
    rows = [("a", ts, city) for ts in (2, 3, 1) for city in ("oslo", "rome")]
    table.writer(combine_before_insert=True).bulk_insert(rows_of(*rows))
    assert standing(table) == [("a", 3, "oslo"), ("a", 3, "rome")]


def test_combined_inserts_leave_rows_that_stand_alone_as_inserts_do(tmp_path):
    table = new_table(tmp_path)
    table.writer().insert(rows_of(("a", 1, "oslo"), ("b", 1, "oslo")))
    table.writer(combine_before_insert=True).insert(rows_of(("a", 2, "oslo"), ("a", 3, "oslo")))
    assert standing(table) == [("a", 1, "oslo"), ("a", 3, "oslo"), ("b", 1, "oslo")]
    assert len(list(table.slices())) == 1


@settings(max_examples=25)
@given(st.lists(st.tuples(st.integers(0, 400), st.integers(0, 9)), max_size=300), st.booleans())
def test_rows_are_inserted_wherever_their_partitions_lie_in_the_data(drawn, combines):
    rows = [(f"k{key}", ts, f"city {key % 7}") for key, ts in drawn]
    with tempfile.TemporaryDirectory() as folder:
        table = new_table(Path(folder))
        table.writer(**SMALL_FILES, combine_before_insert=combines).insert(rows_of(*rows))
        found = standing(table)
    latest = {(key, city): ts for key, ts, city in sorted(rows)}
    expected = sorted((key, ts, city) for (key, city), ts in latest.items())
    assert found == (expected if combines else sorted(rows))
