"""A task's first step: what the user gave becomes keyed batches of the write's schema."""

import pickle
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal

import pyarrow as pa
import pytest

from lakehand.core.key_generators import KeyGenerator, SingleFieldEncoding
from lakehand.core.merge_rules import MergeMode, MergeRule
from lakehand.core.partition_paths import PartitionField, PartitionScheme
from lakehand.core.table_config import TableConfig
from lakehand.core.table_kinds import TableType, TableVersion
from lakehand.errors import Invalid, Unsupported
from lakehand.write.incoming import Prepare

CONFIG = TableConfig(
    name="trips",
    table_type=TableType.MERGE_ON_READ,
    version=TableVersion.NINE,
    record_key_fields=("id",),
    partitioning=PartitionScheme((PartitionField("city"),), hive_style=True),
    merge_rule=MergeRule(MergeMode.EVENT_TIME, ("ts",)),
)
INSTANT = pa.timestamp("us", "UTC")
SCHEMA = pa.schema(
    [
        pa.field("id", pa.string(), nullable=False),
        ("city", pa.string()),
        ("ts", pa.int64()),
        ("at", INSTANT),
        ("fare", pa.float64()),
    ]
)
KEYS = ["_hoodie_record_key", "_hoodie_partition_path"]


def prepared(batches, *, config=CONFIG, schema=SCHEMA, **settings):
    prepare = pickle.loads(  # noqa: S301 - our own
        pickle.dumps(Prepare(config=config, schema=schema, **settings))
    )
    found = list(prepare.batches(iter(batches)))
    for batch in found:
        batch.validate(full=True)
        assert batch.schema == prepare.keyed_schema
    return pa.Table.from_batches(found, prepare.keyed_schema)


def test_rows_get_key_and_path_in_front_and_the_types_of_the_write():
    batch = pa.record_batch(
        {
            "_hoodie_record_key": ["from another table"],
            "at": pa.array([1_000], pa.timestamp("ns", "Europe/Oslo")),
            "ts": pa.array([7], pa.int16()),
            "city": pa.array(["Oslo"]).dictionary_encode(),
            "fare": pa.array([1.1], pa.float32()),
            "id": pa.array(["k1"], pa.large_string()),
        }
    )
    found = prepared([batch.slice(0, 0), batch])
    assert found.schema == pa.schema([*((key, pa.string()) for key in KEYS), *SCHEMA])
    assert found.to_pylist() == [
        {
            "_hoodie_record_key": "k1",
            "_hoodie_partition_path": "city=Oslo",
            "id": "k1",
            "city": "Oslo",
            "ts": 7,
            "at": datetime(1970, 1, 1, microsecond=1, tzinfo=UTC),
            "fare": 1.1,  # not 1.10000002384: floats widen by their decimal text
        }
    ]


def test_columns_that_the_data_lacks_are_null():
    found = prepared([pa.record_batch({"id": ["a"], "city": ["Rome"]})])
    assert found.to_pylist()[0] == {
        "_hoodie_record_key": "a", "_hoodie_partition_path": "city=Rome",
        "id": "a", "city": "Rome", "ts": None, "at": None, "fare": None,
    }  # fmt: skip


def test_keys_are_made_of_the_tables_types_and_not_of_the_datas():
    schema = pa.schema([("id", pa.decimal128(9, 2)), ("city", pa.string())])
    batch = pa.record_batch({"id": pa.array([Decimal("1.5")], pa.decimal128(4, 1)), "city": ["x"]})
    assert prepared([batch], schema=schema).column(0).to_pylist() == ["1.50"]


def test_the_complex_key_of_one_field_is_written_as_the_table_has_it():
    config = replace(CONFIG, key_generator=KeyGenerator.COMPLEX)
    for encoding, key in [(SingleFieldEncoding.NAMED, "id:a"), (SingleFieldEncoding.PLAIN, "a")]:
        batch = pa.record_batch({"id": ["a"], "city": ["x"]})
        found = prepared([batch], config=config, encoding=encoding)
        assert found.column(0).to_pylist() == [key]


@pytest.mark.parametrize(
    ("columns", "is_deletion", "problem"),
    [
        ({"city": ["x"]}, False, "lacks record key field id, which tells .* columns are city"),
        ({"id": ["x"]}, False, "lacks partition field city"),
        ({"city": ["x"]}, True, "lacks record key field id"),
        ({"id": ["x"]}, True, "lacks partition field city"),
    ],
)
def test_a_field_of_key_or_path_that_is_not_there_is_named(columns, is_deletion, problem):
    with pytest.raises(Invalid, match=problem):
        prepared([pa.record_batch(columns)], is_deletion=is_deletion)


def test_a_deletion_takes_key_path_and_ordering_and_looks_at_nothing_else():
    batch = pa.record_batch({"id": ["a"], "city": ["x"], "at": ["no time"], "new": [1]})
    found = prepared([batch], is_deletion=True)
    assert found.column_names == [*KEYS, "ts"]
    assert found.to_pylist() == [dict(zip([*KEYS, "ts"], ["a", "city=x", None], strict=True))]
    with_order = batch.append_column("ts", pa.array([5], pa.int32()))
    assert prepared([with_order], is_deletion=True).column("ts").to_pylist() == [5]


def test_a_deletion_may_leave_out_an_ordering_field_that_rows_must_have():
    schema = pa.schema([*list(SCHEMA)[:2], pa.field("ts", pa.int64(), nullable=False)])
    batch = pa.record_batch({"id": ["a"], "city": ["x"]})
    found = prepared([batch], schema=schema, is_deletion=True)
    assert found.schema.field("ts").nullable
    assert found.column("ts").to_pylist() == [None]


def test_batches_without_rows_give_none():
    empty = pa.record_batch({"id": pa.array([], pa.string()), "city": pa.array([], pa.string())})
    assert list(Prepare(config=CONFIG, schema=SCHEMA).batches([empty, empty])) == []


def test_a_deletion_where_the_last_write_wins_carries_keys_alone():
    config = replace(CONFIG, merge_rule=MergeRule(MergeMode.COMMIT_TIME, ("ts",)))
    batch = pa.record_batch({"id": ["a"], "city": ["x"], "ts": [1]})
    assert prepared([batch], config=config, is_deletion=True).column_names == KEYS


def nested(field):
    return pa.schema([*list(SCHEMA)[:2], field])


@pytest.mark.parametrize(
    ("kind", "values", "path"),
    [
        (pa.int64(), [1, None, 2], "v"),
        (pa.struct([pa.field("zip", pa.string(), nullable=False)]),
         [{"zip": "1"}, {"zip": "2"}, {"zip": None}], "v.zip"),
        (pa.list_(pa.field("element", pa.int64(), nullable=False)), [[1], [], [None]],
         "v.element"),
        (pa.map_(pa.string(), pa.field("value", pa.int64(), nullable=False)),
         [[("a", 1)], [], [("b", None)]], "v.value"),
    ],
)  # fmt: skip
def test_nulls_where_none_may_be_are_refused_by_path(kind, values, path):
    schema = nested(pa.field("v", kind, nullable="." in path))

    def batch(cells):
        ids = [str(number) for number in range(len(cells))]
        return pa.record_batch({"id": ids, "city": ["x"] * len(ids), "v": pa.array(cells, loose)})

    loose = {
        "v": pa.int64(),
        "v.zip": pa.struct([("zip", pa.string())]),
        "v.element": pa.list_(pa.int64()),
        "v.value": pa.map_(pa.string(), pa.int64()),
    }[path]
    with pytest.raises(Invalid, match=rf"column {path} may not be null, and 1 of"):
        prepared([batch(values)], schema=schema)
    with pytest.raises(Invalid, match=rf"column {path} may not be null, and 1 of"):
        prepared([batch(values).slice(1)], schema=schema)
    fitting = [values[0], *([None] if "." in path else [])]
    assert prepared([batch(fitting)], schema=schema).column("v").to_pylist() == fitting
    last_is_cut_off = batch(values).slice(0, 1)
    assert prepared([last_is_cut_off], schema=schema).num_rows == 1


def test_what_lies_below_a_null_is_no_null_of_its_own():
    kind = pa.struct([pa.field("zip", pa.string(), nullable=False)])
    place = pa.StructArray.from_arrays(
        [pa.array(["1", None])], names=["zip"], mask=pa.array([False, True])
    )
    batch = pa.record_batch({"id": ["a", "b"], "city": ["x", "x"], "v": place})
    found = prepared([batch], schema=nested(pa.field("v", kind)))
    assert found.column("v").to_pylist() == [{"zip": "1"}, None]


@pytest.mark.parametrize(
    ("column", "values", "problem"),
    [
        ("at", pa.array([1_001], pa.timestamp("ns", "UTC")), r"column at has type timestamp\[ns"),
        ("ts", pa.array(["7"]), "column ts is stored as string but the table's schema says int64"),
        ("ts", pa.array([2**63], pa.uint64()), "column ts has type uint64"),
    ],
)
def test_values_that_the_table_cannot_hold_are_refused_by_column(column, values, problem):
    batch = pa.record_batch({"id": ["a"], "city": ["x"], column: values})
    with pytest.raises(Invalid, match=problem):
        prepared([batch])


def test_a_decimal_with_too_many_digits_is_the_users_mistake_and_no_corruption():
    schema = nested(pa.field("v", pa.decimal128(4, 2)))
    value = pa.array([Decimal("123.45")], pa.decimal128(9, 2))
    with pytest.raises(Invalid, match="the data to write: column v does not fit"):
        prepared([pa.record_batch({"id": ["a"], "city": ["x"], "v": value})], schema=schema)


@pytest.mark.parametrize("column", ["id", "city", "tags"])
def test_text_that_is_no_utf8_is_refused_by_column(column):
    def text(value):
        binary = pa.array([value], pa.binary())
        return pa.Array.from_buffers(pa.string(), 1, binary.buffers())

    values = {name: text(b"\xff\xfe" if name == column else b"Oslo") for name in ("id", "city")}
    tag = text(b"a\xc3" if column == "tags" else b"a")
    values["tags"] = pa.ListArray.from_arrays(pa.array([0, 1], pa.int32()), tag)
    schema = SCHEMA.append(pa.field("tags", pa.list_(pa.string())))
    with pytest.raises(Invalid, match=rf"column {column} .*UTF8"):
        prepared([pa.record_batch(values)], schema=schema)


def test_batches_of_different_schemas_are_refused():
    first = pa.record_batch({"id": ["a"], "city": ["x"], "ts": [1]})
    second = pa.record_batch({"id": ["b"], "city": ["x"], "tz": [1]})
    with pytest.raises(Invalid, match=r"must have one schema: .*ts int64; then .*tz int64"):
        prepared([first, first, second])


def test_rows_without_a_key_and_ordering_within_structs_are_refused():
    with pytest.raises(Invalid, match="column id may not be null, and 1 of 2 values"):
        prepared([pa.record_batch({"id": ["a", None], "city": ["x", "x"]})])
    with pytest.raises(Invalid, match="key field 'id' is null or empty in 1 of 1 rows"):
        prepared([pa.record_batch({"id": [""], "city": ["x"]})])
    with pytest.raises(Invalid, match="key field 'id' is null or empty in 1 of 1 rows"):
        prepared(
            [pa.record_batch({"id": pa.array([None], pa.string()), "city": ["x"]})],
            is_deletion=True,
        )
    config = replace(CONFIG, merge_rule=MergeRule(MergeMode.EVENT_TIME, ("place.ts",)))
    schema = nested(pa.field("place", pa.struct([("ts", pa.int64())])))
    with pytest.raises(Unsupported, match=r"ordering field place\.ts"):
        prepared([], config=config, schema=schema, is_deletion=True)


def test_keys_and_paths_may_lie_within_structs():
    config = replace(
        CONFIG,
        record_key_fields=("who.id",),
        partitioning=PartitionScheme((PartitionField("who.city"),)),
    )
    who = pa.struct([("id", pa.int64()), ("city", pa.string()), ("age", pa.int64())])
    batch = pa.record_batch({"who": [{"city": "x", "id": 1}]})
    for is_deletion in (False, True):
        found = prepared(
            [batch], config=config, schema=pa.schema([("who", who)]), is_deletion=is_deletion
        )
        assert [column.to_pylist() for column in found.columns[:2]] == [["1"], ["x"]]
    with pytest.raises(Invalid, match=r"lacks partition field who\.city"):
        prepared(
            [pa.record_batch({"who": [{"id": 1}]})], config=config, schema=pa.schema([("who", who)])
        )
