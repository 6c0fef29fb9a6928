"""Keys and paths of whole batches are equal, to the letter, to the rules for single records."""

import math
from datetime import UTC, date, datetime
from decimal import Decimal
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehand.core.key_generators import (
    KeyGenerator,
    SingleFieldEncoding,
    field_value,
    java_float,
    record_key,
)
from lakehand.core.partition_paths import (
    PartitionField,
    PartitionScheme,
    PartitionType,
    TimestampFormat,
    TimestampType,
)
from lakehand.core.table_config import TableConfig
from lakehand.core.table_kinds import TableType, TableVersion
from lakehand.errors import Invalid, Unsupported
from lakehand.write.keys import partition_paths, record_keys

TEXTS = st.text(alphabet="ab./%=-: ü\0", max_size=4)
TIMES = st.datetimes(datetime(1, 1, 3), datetime(9999, 12, 28))  # noqa: DTZ001 - without zone


def whole(bits, *, signed=True):
    low = -(2 ** (bits - 1)) if signed else 0
    return st.integers(low, low + 2**bits - 1)


def decimals(precision, scale):
    digits = st.integers(-(10**precision) + 1, 10**precision - 1)
    return digits.map(lambda number: Decimal(number).scaleb(-scale))


VALUES = {
    pa.string(): TEXTS,
    pa.large_string(): TEXTS,
    pa.dictionary(pa.int32(), pa.string()): TEXTS,
    pa.int8(): whole(8),
    pa.int16(): whole(16),
    pa.int32(): whole(32),
    pa.int64(): whole(64),
    pa.uint8(): whole(8, signed=False),
    pa.uint64(): whole(64, signed=False),
    pa.bool_(): st.booleans(),
    pa.float32(): st.floats(width=32) | st.sampled_from([0.0, -0.0]),
    pa.float64(): st.floats() | st.sampled_from([0.0, -0.0]),
    pa.decimal128(9, 2): decimals(9, 2),
    pa.decimal128(18, 9): decimals(18, 9),
    pa.date32(): st.dates(),
    pa.timestamp("s"): TIMES.map(lambda moment: moment.replace(microsecond=0)),
    pa.timestamp("ms"): TIMES.map(lambda moment: moment.replace(microsecond=1000)),
    pa.timestamp("us"): TIMES,
    pa.timestamp("us", "UTC"): TIMES.map(lambda moment: moment.replace(tzinfo=UTC)),
    pa.timestamp("us", "Europe/Oslo"): TIMES.map(
        lambda moment: moment.replace(tzinfo=ZoneInfo("Europe/Oslo"))
    ),
    pa.null(): st.none(),
}


@st.composite
def batches(draw, names, kinds=tuple(VALUES)):
    """A batch of such columns, each as it is or within a struct, cut out of a larger one."""
    count = draw(st.integers(0, 6))
    columns, fields = {}, []
    for name in names:
        kind = draw(st.sampled_from(kinds))
        cells = st.none() | VALUES[kind]
        values = pa.array(draw(st.lists(cells, min_size=count + 2, max_size=count + 2)), kind)
        if draw(st.booleans()):
            there = draw(st.lists(st.booleans(), min_size=count + 2, max_size=count + 2))
            mask = pa.array([not one for one in there])
            values = pa.StructArray.from_arrays([values], names=["inner"], mask=mask)
            fields.append(f"{name}.inner")
        else:
            fields.append(name)
        columns[name] = values
    return pa.record_batch(columns).slice(1, count), fields


def records(batch):
    """The rows as the models take them: they know Python's floats only, not Arrow's short ones."""
    short = pa.struct([("inner", pa.float32())])
    for row in batch.to_pylist():
        for name, kind in zip(batch.schema.names, batch.schema.types, strict=True):
            if kind == pa.float32() and row[name] is not None:
                row[name] = java_float(row[name])
            elif kind == short and row[name] is not None and row[name]["inner"] is not None:
                row[name] = {"inner": java_float(row[name]["inner"])}
        yield row


def table(generator=KeyGenerator.SIMPLE, keys=("id",), **scheme):
    return TableConfig(
        name="trips",
        table_type=TableType.MERGE_ON_READ,
        version=TableVersion.NINE,
        record_key_fields=tuple(keys),
        key_generator=generator,
        partitioning=PartitionScheme(**scheme),
    )


def outcome(function, *arguments, **named):
    try:
        return function(*arguments, **named)
    except Invalid:
        return Invalid


@settings(deadline=None)
@given(
    st.data(),
    st.integers(1, 3),
    st.sampled_from(KeyGenerator),
    st.sampled_from(SingleFieldEncoding),
)
def test_keys_are_those_of_the_single_records(data, width, generator, encoding):
    batch, fields = data.draw(batches("abc"[:width]))
    config = table(generator, fields)
    expected = [
        outcome(record_key, generator, fields, record, encoding=encoding)
        for record in records(batch)
    ]
    keys = outcome(record_keys, config, batch, encoding=encoding)
    if Invalid in expected:
        assert keys is Invalid
    else:
        assert keys.type == pa.string()
        assert keys.to_pylist() == expected


def leaves_the_table(path):
    parts = path.split("/")
    return bool({"", ".", ".."} & set(parts)) or "\0" in path or parts[0].lower() == ".hoodie"


@settings(deadline=None)
@given(st.data(), st.integers(1, 3), st.booleans(), st.booleans(), st.booleans())
def test_paths_are_those_of_the_single_records(data, width, hive_style, url_encode, slash_dates):
    batch, fields = data.draw(batches("abc"[:width]))
    config = table(
        fields=tuple(PartitionField(name) for name in fields),
        hive_style=hive_style,
        url_encode=url_encode,
        slash_dates=slash_dates,
    )
    expected = [config.partitioning.path_of(record) for record in records(batch)]
    paths = outcome(partition_paths, config, batch)
    if any(leaves_the_table(path) for path in expected):
        assert paths is Invalid
    else:
        assert paths.type == pa.string()
        assert paths.to_pylist() == expected


@settings(deadline=None)
@given(st.data(), st.sampled_from(TimestampType), st.booleans())
def test_paths_of_moments_are_those_of_the_single_records(data, kind, is_mixed):
    batch, fields = data.draw(batches("ab" if is_mixed else "a"))
    config = table(
        fields=tuple(
            PartitionField(name, PartitionType.SIMPLE if number else PartitionType.TIMESTAMP)
            for number, name in enumerate(fields)
        ),
        timestamp=TimestampFormat(kind, "yyyy/MM/dd", ("a-b", "yyyy"), scalar_unit="DAYS"),
        url_encode=True,
    )

    def path_of(record, raw):
        moment = field_value(raw, fields[0])
        short = {"a": {"inner": moment} if "." in fields[0] else moment}
        return config.partitioning.path_of(record | short)

    pairs = zip(records(batch), batch.to_pylist(), strict=True)
    expected = [outcome(path_of, record, raw) for record, raw in pairs]
    paths = outcome(partition_paths, config, batch)
    if Invalid in expected or any(leaves_the_table(path) for path in expected):
        assert paths is Invalid
    else:
        assert paths.to_pylist() == expected


def test_many_combinations_of_several_columns_keep_their_rows():
    count = 5000
    batch = pa.record_batch(
        {
            "a": pa.array([number % 71 for number in range(count)]),
            "b": pa.array(
                [None if number % 3 == 0 else f"v{number % 53}" for number in range(count)]
            ),
            "c": pa.array([number % 7 == 0 for number in range(count)]),
        }
    )
    config = table(fields=tuple(map(PartitionField, "abc")))
    assert partition_paths(config, batch).to_pylist() == [
        config.partitioning.path_of(record) for record in batch.to_pylist()
    ]


def test_a_table_without_partition_fields_has_one_path():
    assert partition_paths(table(), pa.record_batch({"id": ["a", "b"]})).to_pylist() == ["", ""]


def test_zeros_of_both_signs_and_what_is_no_number_are_keys_of_their_own():
    for kind in (pa.float32(), pa.float64()):
        batch = pa.record_batch({"id": pa.array([0.0, -0.0, math.nan, -math.inf, 1e10], kind)})
        keys = record_keys(table(), batch).to_pylist()
        assert keys == ["0.0", "-0.0", "NaN", "-Infinity", "1.0E10"]


def test_the_complex_key_of_one_field_has_its_name_or_not_as_the_table_has_it():
    batch = pa.record_batch({"id": ["a"]})
    config = table(KeyGenerator.COMPLEX)
    assert record_keys(config, batch).to_pylist() == ["id:a"]
    keys = record_keys(config, batch, encoding=SingleFieldEncoding.PLAIN)
    assert keys.to_pylist() == ["a"]
    assert record_keys(table(), batch).to_pylist() == ["a"]


def test_rows_without_a_key_are_refused_by_field_and_number():
    batch = pa.record_batch({"id": ["a", None, "", "b"]})
    with pytest.raises(Invalid, match="key field 'id' is null or empty in 2 of 4 rows"):
        record_keys(table(), batch)
    batch = pa.record_batch({"id": [None, None, "x"], "day": [None, date(2024, 1, 1), None]})
    with pytest.raises(Invalid, match="fields 'id', 'day' are all null or empty in 1 of 3 rows"):
        record_keys(table(KeyGenerator.COMPLEX, ("id", "day")), batch)


@pytest.mark.parametrize(
    ("columns", "field", "problem"),
    [
        ({"other": ["x"]}, "id", "'id' is not in the data; its columns are other"),
        ({"id": ["x"]}, "id.inner", "'id.inner' is not in the data: 'id' has type string"),
        ({"id": [{"x": 1}]}, "id.y", "'id.y' is not in the data"),
        ({"id": [b"x"]}, "id", "type binary, which cannot be part of a key"),
        ({"id": [["x"]]}, "id", "type list<.*> cannot be part|type list"),
    ],
)
def test_fields_that_give_no_key_are_refused_by_name(columns, field, problem):
    with pytest.raises(Invalid, match=problem):
        record_keys(table(keys=(field,)), pa.record_batch(columns))


def test_a_column_that_is_there_twice_gives_no_key():
    twice = pa.RecordBatch.from_arrays([pa.array(["a"]), pa.array(["b"])], names=["id", "id"])
    with pytest.raises(Invalid, match="'id' is twice in the data"):
        record_keys(table(), twice)


def test_a_table_whose_writers_make_the_keys_is_refused():
    with pytest.raises(Invalid, match="no record key fields"):
        record_keys(table(keys=()), pa.record_batch({"id": ["a"]}))


@pytest.mark.parametrize(
    "value", ["..", ".", "/etc", "a//b", "a/../../b", "a/", ".hoodie", ".Hoodie/x", "a\0b"]
)
def test_a_value_whose_folder_lies_outside_of_the_data_is_refused_by_value(value):
    config = table(fields=(PartitionField("city"),))
    with pytest.raises(Invalid) as refused:
        partition_paths(config, pa.record_batch({"city": ["Oslo", value]}))
    assert f"city={value!r}" in str(refused.value)


def test_a_value_that_is_no_moment_is_refused_by_field():
    config = table(
        fields=(PartitionField("day", PartitionType.TIMESTAMP),),
        timestamp=TimestampFormat(TimestampType.DATE_STRING, "yyyy", ("yyyy-MM-dd",)),
    )
    with pytest.raises(Invalid, match=r"day='soon'.*'soon' is not a time of the form"):
        partition_paths(config, pa.record_batch({"day": ["soon"]}))
    far = pa.record_batch({"day": pa.array([2**62], pa.timestamp("us"))})
    with pytest.raises(Invalid, match="field 'day' holds a time that is none"):
        partition_paths(config, far)


def test_a_table_that_keeps_its_partition_settings_to_itself_is_refused():
    config = table(fields=(PartitionField("day", None),))
    with pytest.raises(Unsupported, match="does not say of what type partition field 'day' is"):
        partition_paths(config, pa.record_batch({"day": ["x"]}))
