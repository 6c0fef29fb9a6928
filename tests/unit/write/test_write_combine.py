"""Of several incoming rows with one key one is written: the one that the table's rule names."""

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehand.core.merge_rules import Dialect, MergeMode, MergeRule, Version, merge
from lakehand.errors import Unsupported
from lakehand.write.combine import combine

EVENT, COMMIT = MergeMode.EVENT_TIME, MergeMode.COMMIT_TIME
SCHEMA = pa.schema(
    [
        ("_hoodie_record_key", pa.string()),
        ("_hoodie_partition_path", pa.string()),
        ("ts", pa.int64()),
        ("number", pa.int32()),
        ("op", pa.string()),
        ("_hoodie_is_deleted", pa.bool_()),
        ("arrival", pa.int64()),
    ]
)
RULES = [
    MergeRule(mode, fields, "op" if marked else None, "D" if marked else None, None, dialect)
    for mode in (EVENT, COMMIT)
    for fields in ((), ("ts",), ("number",), ("ts", "number"), ("unknown",))
    for marked in (False, True)
    for dialect in Dialect
]
ROWS = st.lists(
    st.tuples(
        st.sampled_from(["k1", "k2", "k3", ""]),
        st.just("p"),
        st.none() | st.integers(-1, 3),
        st.none() | st.integers(-1, 2),
        st.sampled_from([None, "D", "U"]),
        st.sampled_from([None, False, False, True]),
    ),
    max_size=12,
)


def table_of(rows, cut=0):
    numbered = [(*row, place) for place, row in enumerate(rows)]
    columns = list(zip(*numbered, strict=True)) or [[]] * len(SCHEMA)
    arrays = [pa.array(c, field.type) for c, field in zip(columns, SCHEMA, strict=True)]
    whole = pa.table(arrays, schema=SCHEMA)
    return pa.concat_tables([whole.slice(0, cut), whole.slice(cut)])


def version_of(row, rule):
    """The row as the model takes it: a delete without ordering values is a natural one."""
    deleted = rule.dialect is Dialect.MODES and rule.is_delete(row)
    values = [row[name] for name in rule.ordering_fields if name in row]
    nothing = [
        value is None or (deleted and value == 0 and name == "number")
        for name, value in zip(rule.ordering_fields, values, strict=False)
    ]
    ordering = tuple((value is not None, value or 0) for value in values)
    absent = all(nothing) if deleted else all(value is None for value in values)
    return Version(None if deleted else row, None if absent else ordering)


@settings(deadline=None)
@given(ROWS, st.sampled_from(RULES), st.integers(0, 12))
def test_the_row_that_stands_is_that_of_the_rules_applied_one_row_at_a_time(rows, rule, cut):
    table = table_of(rows, cut)
    versions = {}
    for row in table.to_pylist():
        of_key = versions.setdefault(row["_hoodie_record_key"], [])
        of_key.append((version_of(row, rule), row["arrival"]))
    standing = []
    for of_key in versions.values():
        winner = merge(rule, None, (version for version, _ in of_key))
        standing += [arrival for version, arrival in of_key if version is winner]
    found = combine(table, rule)
    assert found.schema == table.schema
    assert found.column("arrival").to_pylist() == sorted(standing)
    assert found.to_pylist() == [table.to_pylist()[arrival] for arrival in sorted(standing)]


def test_by_commit_time_the_last_that_arrives_stands_whatever_its_ordering_value():
    rows = [("c", "p", 9, 0, "a", False), ("c", "p", 3, 0, "b", False)]
    for mode, fields, op in [(COMMIT, ("ts",), "b"), (COMMIT, (), "b"), (EVENT, ("ts",), "a")]:
        assert combine(table_of(rows), MergeRule(mode, fields)).column("op").to_pylist() == [op]


def test_a_delete_that_stands_is_kept_for_what_the_table_holds():
    rows = [("k", "p", 1, 0, "a", False), ("k", "p", 2, 0, "b", True)]
    found = combine(table_of(rows), MergeRule(EVENT, ("ts",)))
    assert found.column("_hoodie_is_deleted").to_pylist() == [True]


def test_rows_with_keys_of_their_own_stay_as_they_are():
    table = table_of([("b", "p", 1, 0, "x", None), ("a", "p", 0, 0, "y", None)])
    assert combine(table, MergeRule(EVENT, ("ts",))) is table


def test_a_rule_with_code_of_its_own_is_refused():
    with pytest.raises(Unsupported, match="somebody's own"):
        combine(table_of([]), MergeRule(MergeMode.CUSTOM, refusal="somebody's own"))
