"""What a reader may ask for, and what is left unread because of it."""

import datetime as dt

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from lakehand.core.partition_paths import PartitionField, PartitionScheme, PartitionType
from lakehand.errors import Invalid
from lakehand.read.filters import parse_filter, require_columns
from lakehand.read.pruning import partition_test

SCHEMA = pa.schema(
    [
        ("city", pa.string()),
        ("n", pa.int32()),
        ("day", pa.date32()),
        ("s", pa.struct([("x", pa.int32())])),
    ]
)
ROWS = pa.RecordBatch.from_pylist(
    [
        {"city": "oslo", "n": 1, "day": dt.date(2024, 1, 1), "s": {"x": 1}},
        {"city": "lima", "n": 2, "day": dt.date(2024, 1, 2), "s": {"x": 2}},
        {"city": None, "n": None, "day": None, "s": None},
        {"city": "rome", "n": 4, "day": dt.date(2024, 1, 4), "s": {"x": 4}},
    ],
    SCHEMA,
)


def kept(given):
    found = parse_filter(given, SCHEMA)
    return (
        ROWS.column("n").to_pylist() if found is None else found.apply(ROWS).column("n").to_pylist()
    )


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ([], [1, 2, None, 4]),
        ([("n", "=", 2)], [2]),
        ([("n", "==", "2")], [2]),
        ([("n", "!=", 2)], [1, 4]),
        ([("n", "<", 2)], [1]),
        ([("n", "<=", 2)], [1, 2]),
        ([("n", ">", 1), ("n", "<", 4)], [2]),
        ([("n", ">=", 2)], [2, 4]),
        ([("n", "in", [1, 4, 9])], [1, 4]),
        ([("n", "not  in", [1, 4])], [2]),
        ([("city", "NOT IN", ["oslo"])], [2, 4]),
        ([("day", ">", "2024-01-01")], [2, 4]),
        ([("day", "=", dt.date(2024, 1, 1))], [1]),
        (pc.field("s", "x") > 1, [2, 4]),
        ((pc.field("n") == 1) | pc.field("city").is_null(), [1, None]),
    ],
)
def test_triples_and_expressions_keep_the_rows_that_they_say(given, expected):
    assert kept(given) == expected


def test_the_columns_of_an_expression_are_found_also_within_structs():
    expression = (pc.field("s", "x") > 1) & pc.field("city").is_valid()
    assert parse_filter(expression, SCHEMA).columns == {"s", "city"}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([("town", "=", 1)], "no column 'town'"),
        ([("n", "~", 1)], r"not \(column, operator, value\)"),
        ([("n", "=")], r"not \(column, operator, value\)"),
        ([("n", "=", "many")], "no value of type int32"),
        ([("n", "in", [object()])], "no value of type int32"),
        ([("n", "in", 5)], "list of values"),
        (pc.field("town") == 1, "does not fit the table"),
        (pc.field("city") > 5, "does not fit the table"),
    ],
)
def test_a_filter_that_makes_no_sense_is_refused_with_the_reason(given, message):
    with pytest.raises(Invalid, match=message):
        parse_filter(given, SCHEMA)


def test_an_unknown_column_is_told_with_the_nearest_one():
    with pytest.raises(Invalid, match="did you mean 'city'"):
        require_columns(["citty"], SCHEMA)


def may_hold(given, paths, **style):
    kind = style.pop("kind", PartitionType.SIMPLE)
    fields = tuple(PartitionField(name, kind) for name in style.pop("fields", ("city",)))
    test = partition_test(parse_filter(given, SCHEMA), PartitionScheme(fields, **style), SCHEMA)
    return [path for path in paths if test(path)]


DEFAULT = "__HIVE_DEFAULT_PARTITION__"


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ([("city", "=", "oslo")], ["oslo", DEFAULT]),
        ([("city", ">", "m")], ["oslo", "rome", DEFAULT]),
        ([("city", "NOT IN", ["oslo"])], ["lima", "rome", DEFAULT]),
        ([("n", "=", 1)], ["oslo", "lima", "rome", DEFAULT]),
        (pc.field("city") == "oslo", ["oslo", "lima", "rome", DEFAULT]),
    ],
)
def test_partitions_that_cannot_hold_a_row_are_left_out(given, expected):
    assert may_hold(given, ["oslo", "lima", "rome", DEFAULT]) == expected


def test_partition_values_are_read_in_the_columns_type_and_every_style():
    paths = ["n=10/day=2024-01-01", "n=9/day=2024-01-02"]
    style = {"fields": ("n", "day"), "hive_style": True}
    assert may_hold([("n", ">", 9)], paths, **style) == paths[:1]
    assert may_hold([("day", ">", "2024-01-01")], paths, **style) == paths[1:]
    escaped = ["a%3Ab", "plain"]
    assert may_hold([("city", "=", "a:b")], escaped, url_encode=True) == ["a%3Ab"]


def test_what_cannot_be_read_back_without_doubt_is_kept():
    # Java reads the folder city=x of a table without hive style as x, its rows hold city=x.
    assert may_hold([("city", "=", "city=x")], ["city=x"]) == ["city=x"]
    assert may_hold([("n", "=", 1)], ["many"], fields=("n",)) == ["many"]
    assert may_hold([("city", "=", "b")], ["2024"], kind=PartitionType.TIMESTAMP) == ["2024"]
    assert may_hold([("n", "=", 1)], ["a/b/c"], fields=("city", "n")) == ["a/b/c"]
