"""Batches of old files in the table's schema of today."""

import io

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehand.errors import Corrupt, Unsupported
from lakehand.read.alignment import MAX_DEPTH, align

DAY = pa.scalar(19000, pa.int32()).cast(pa.date32()).as_py()


def aligned(array, target):
    batch = pa.RecordBatch.from_arrays([array], names=["c"])
    found = align(batch, pa.schema([("c", target)]), where="file")
    found.validate(full=True)
    assert found.schema.field("c").type == target
    return found.column(0)


@pytest.mark.parametrize(
    ("stored", "values", "target", "expected"),
    [
        (pa.int32(), [1, None], pa.int64(), [1, None]),
        (pa.int32(), [16777217], pa.float32(), [16777216.0]),
        (pa.int64(), [2**53 + 1], pa.float64(), [float(2**53)]),
        (pa.float32(), [1.1, None], pa.float64(), [1.1, None]),
        (pa.string(), ["é"], pa.binary(), ["é".encode()]),
        (pa.decimal128(4, 2), [pa.scalar("1.50").cast(pa.decimal128(4, 2)).as_py()], None, None),
        (pa.date32(), [DAY], pa.string(), [str(DAY)]),
        (pa.int32(), [7], pa.string(), ["7"]),
        (pa.null(), [None], pa.list_(pa.int32()), [None]),
        (pa.dictionary(pa.int32(), pa.string()), ["a", None, "a"], pa.string(), ["a", None, "a"]),
    ],
)
def test_a_narrower_type_becomes_the_wider_one_as_in_java(stored, values, target, expected):
    target = target or pa.decimal128(9, 2)
    assert aligned(pa.array(values, stored), target).to_pylist() == (expected or values)


@pytest.mark.parametrize(
    ("stored", "target"),
    [
        (pa.int64(), pa.int32()),
        (pa.float64(), pa.float32()),
        (pa.string(), pa.int32()),
        (pa.list_(pa.int32()), pa.int32()),
        (pa.struct([("a", pa.string())]), pa.struct([("a", pa.bool_())])),
    ],
)
def test_what_is_no_promotion_is_refused_by_name(stored, target):
    with pytest.raises(Unsupported, match="column c"):
        aligned(pa.nulls(1, stored), target)


def test_columns_come_by_name_and_missing_ones_are_null():
    batch = pa.RecordBatch.from_arrays([pa.array([1]), pa.array(["x"])], names=["b", "a"])
    schema = pa.schema(
        [("a", pa.string()), ("new", pa.struct([("x", pa.int32())])), ("b", pa.int64())]
    )
    assert align(batch, schema, where="f").to_pylist() == [{"a": "x", "new": None, "b": 1}]


def test_a_column_that_is_there_twice_is_corrupt():
    batch = pa.RecordBatch.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"])
    with pytest.raises(Corrupt, match="more than once"):
        align(batch, pa.schema([("a", pa.int64())]), where="f")


def test_a_decimal_that_does_not_fit_is_corrupt_and_not_rounded():
    value = pa.scalar("123.45").cast(pa.decimal128(5, 2)).as_py()
    with pytest.raises(Corrupt, match="does not fit"):
        aligned(pa.array([value], pa.decimal128(5, 2)), pa.decimal128(5, 1))


def test_a_schema_without_bottom_is_refused():
    deep_from, deep_to = pa.int32(), pa.int64()
    for _ in range(MAX_DEPTH + 5):
        deep_from, deep_to = pa.list_(deep_from), pa.list_(deep_to)
    with pytest.raises(Unsupported, match="nests deeper"):
        aligned(pa.nulls(1, deep_from), deep_to)


OLD = pa.list_(
    pa.struct([("n", pa.int32()), ("m", pa.map_(pa.string(), pa.struct([("f", pa.float32())])))])
)
NEW = pa.list_(
    pa.field(
        "element",
        pa.struct(
            [
                ("added", pa.list_(pa.string())),
                ("m", pa.map_(pa.string(), pa.struct([("f", pa.float64()), ("g", pa.int32())]))),
                ("n", pa.int64()),
            ]
        ),
    )
)
OLD_VALUES = st.lists(
    st.none()
    | st.lists(
        st.none()
        | st.fixed_dictionaries(
            {
                "n": st.none() | st.integers(0, 9),
                "m": st.none()
                | st.lists(
                    st.tuples(
                        st.text(max_size=2),
                        st.none() | st.fixed_dictionaries({"f": st.sampled_from([0.5, 2.25])}),
                    ),
                    max_size=2,
                ),
            }
        ),
        max_size=3,
    ),
    max_size=12,
)


def evolved(value):
    if value is None:
        return None
    return [
        one
        and {
            "added": None,
            "m": one["m"]
            if one["m"] is None
            else [(key, item and {"f": item["f"], "g": None}) for key, item in one["m"]],
            "n": one["n"],
        }
        for one in value
    ]


@settings(max_examples=60, deadline=None)
@given(OLD_VALUES, st.integers(0, 4), st.integers(0, 4))
def test_nested_columns_evolve_at_every_level_also_in_slices(values, head, tail):
    array = pa.array(values, OLD)
    part = array.slice(head, max(0, len(array) - head - tail))
    kept = values[head : max(head, len(values) - tail)]
    assert aligned(part, NEW).to_pylist() == [evolved(value) for value in kept]


@pytest.mark.parametrize("compliant", [True, False])
def test_both_layouts_of_lists_give_the_same_column(compliant):
    column = pa.array([[{"a": 1}, {"a": None}], [], None], pa.list_(pa.struct([("a", pa.int32())])))
    sink = io.BytesIO()
    pq.write_table(pa.table({"c": column}), sink, use_compliant_nested_type=compliant)
    read = pq.read_table(sink).column("c").combine_chunks()
    target = pa.list_(pa.field("element", pa.struct([("a", pa.int64())])))
    assert aligned(read, target).to_pylist() == column.to_pylist()
