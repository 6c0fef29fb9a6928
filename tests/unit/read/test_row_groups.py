"""Row groups left unread: never one that holds a row, and really some."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehand.read.base_reader import read_base
from lakehand.read.filters import parse_filter
from lakehand.read.row_groups import matching_row_groups
from lakehand.store.memory import MemoryStore

SCHEMA = pa.schema(
    [("key", pa.string()), ("n", pa.int32()), ("x", pa.float64()), ("day", pa.date32())]
)
ROWS = pa.table(
    [
        pa.array([f"k{n:02d}" for n in range(40)]),
        pa.array([None if n % 7 == 0 else n for n in range(40)], pa.int32()),
        pa.array([float("nan") if n == 11 else n / 2 for n in range(40)]),
        pa.array(range(100, 140), pa.int32()).cast(pa.date32()),
    ],
    schema=SCHEMA,
)


def stored(rows=ROWS):
    sink = pa.BufferOutputStream()
    pq.write_table(rows, sink, row_group_size=10)
    return sink.getvalue().to_pybytes()


CONTENT = stored()


def groups(triples, content=CONTENT, schema=SCHEMA):
    parquet = pq.ParquetFile(pa.BufferReader(content))
    found = parse_filter(triples, schema)
    return matching_row_groups(parquet, found.predicates if found else (), schema)


@pytest.mark.parametrize(
    ("triples", "expected"),
    [
        ([], [0, 1, 2, 3]),
        ([("key", "=", "k15")], [1]),
        ([("key", ">=", "k20"), ("key", "<", "k30")], [2]),
        ([("key", "IN", ["k01", "k39"])], [0, 3]),
        ([("key", "IN", [])], []),
        ([("n", ">", 29)], [3]),
        ([("n", "<=", 9)], [0]),
        ([("n", "!=", 5)], [0, 1, 2, 3]),
        ([("day", "<", "1970-04-21")], [0]),
        ([("n", ">", 29), ("key", "<", "k05")], []),
    ],
)
def test_groups_are_chosen_by_their_smallest_and_largest_values(triples, expected):
    assert groups(triples) == expected


TRIPLES = st.one_of(
    st.tuples(
        st.just("key"),
        st.sampled_from(["=", "!=", "<", "<=", ">", ">="]),
        st.sampled_from(["", "k", "k09", "k1", "k395", "ä"]),
    ),
    st.tuples(
        st.sampled_from(["n", "x"]),
        st.sampled_from(["=", "!=", "<", "<=", ">", ">="]),
        st.integers(-2, 42),
    ),
    st.tuples(st.just("n"), st.sampled_from(["IN", "NOT IN"]), st.lists(st.integers(0, 45))),
)


@settings(max_examples=150, deadline=None)
@given(st.lists(TRIPLES, max_size=3))
def test_no_row_is_lost_with_a_group(triples):
    row_filter = parse_filter(triples, SCHEMA)
    left = pq.ParquetFile(pa.BufferReader(CONTENT)).read_row_groups(groups(triples))
    if row_filter is not None:
        expected = ROWS.filter(row_filter.expression)["key"].to_pylist()
        assert left.filter(row_filter.expression)["key"].to_pylist() == expected


def test_a_file_with_another_type_or_without_the_column_is_read_whole():
    narrow = stored(
        ROWS.select(["key", "n"]).cast(pa.schema([("key", pa.string()), ("n", pa.int64())]))
    )
    wide = pa.schema([*SCHEMA.remove(1), ("n", pa.float64())])
    assert groups([("n", ">", 100.0)], narrow, wide) == [0, 1, 2, 3]
    assert groups([("day", ">", "2999-01-01")], narrow) == [0, 1, 2, 3]


def test_a_base_file_without_any_of_the_columns_still_gives_its_rows():
    store = MemoryStore()
    store.put("f.parquet", CONTENT)
    wanted = pa.schema([("added", pa.list_(pa.string()))])
    batches = list(read_base(store, "f.parquet", schema=wanted, batch_rows=16))
    assert [batch.num_rows for batch in batches] == [16, 16, 8]
    assert {batch.schema for batch in batches} == {wanted}
