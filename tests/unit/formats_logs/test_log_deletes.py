"""Delete blocks hold keys and typed ordering values, byte for byte as Java writes them."""

import datetime
import decimal
import io
import json
import struct
from importlib import resources

import fastavro
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehand.errors import Corrupt, LakehandError, Unsupported
from lakehand.formats import log_deletes
from lakehand.formats.log_deletes import Deletes, Ordering, OrderingKind
from lakehand.formats.log_file import BlockType, HeaderKey, encode_block, read_blocks
from lakehand.formats.log_records import encode_deletes, encode_rollback_command, read_deletes

SCHEMA = resources.files("lakehand.formats") / "schemas" / "HoodieDeleteRecordList.avsc"
WIDE = decimal.Context(prec=40)
MODEL = "org.apache.hudi.avro.model."
WRAPPERS = {
    "Boolean": st.booleans(),
    "Int": st.integers(-(2**31), 2**31 - 1),
    "Long": st.integers(-(2**63), 2**63 - 1),
    "Float": st.floats(width=32, allow_nan=False),
    "Double": st.floats(allow_nan=False),
    "Bytes": st.binary(max_size=9),
    "String": st.text(max_size=9),
    "Date": st.integers(-(2**31), 2**31 - 1),
    "Decimal": st.integers(0, 10**30 - 1).map(lambda n: decimal.Decimal(n).scaleb(-15, WIDE)),
    "TimeMicros": st.times(),
    "TimestampMicros": st.integers(-(2**63), 2**63 - 1),
}
WRAPPED = st.one_of(
    *[
        values.map(lambda value, name=name: (f"{MODEL}{name}Wrapper", {"value": value}))
        for name, values in WRAPPERS.items()
    ]
)
LOCAL_DATE = st.integers(0, 99).map(lambda day: (f"{MODEL}LocalDateWrapper", {"value": day}))
SEVERAL = st.lists(st.none() | WRAPPED | LOCAL_DATE, min_size=2, max_size=2).map(
    lambda values: (f"{MODEL}ArrayWrapper", {"wrappedValues": values})
)
TEXT = st.none() | st.text(max_size=12)
ENTRIES = st.lists(
    st.fixed_dictionaries(
        {"recordKey": TEXT, "partitionPath": TEXT, "orderingVal": st.none() | WRAPPED | SEVERAL}
    ),
    max_size=6,
)


def _parsed():
    return fastavro.parse_schema(json.loads(SCHEMA.read_text()))


def _content(entries):
    buffer = io.BytesIO()
    fastavro.schemaless_writer(buffer, _parsed(), {"deleteRecordList": entries})
    return struct.pack(">ii", 3, buffer.tell()) + buffer.getvalue()


def _block(content):
    header = {HeaderKey.INSTANT_TIME: "001"}
    (block,) = read_blocks(encode_block(BlockType.DELETE, header, content), where="f.log")
    return block


def _value_at(ordering, row):
    """Return an entry's value as fastavro takes it."""
    kind = OrderingKind(int(ordering.kinds[row]))
    if kind is OrderingKind.NONE:
        return None
    if kind is OrderingKind.ARRAY:
        values = [_value_at(part, row) for part in ordering.parts]
        return (f"{MODEL}ArrayWrapper", {"wrappedValues": values})
    name = "".join(word.title() for word in kind.name.split("_"))
    return (f"{MODEL}{name}Wrapper", {"value": ordering.values[kind][row].as_py()})


@settings(deadline=None, max_examples=60)
@given(ENTRIES, st.sampled_from([1, 30]))
def test_entries_read_as_fastavro_wrote_them_and_are_written_back_the_same(entries, times):
    entries = entries * times
    content = _content(entries)
    deletes = read_deletes(_block(content))
    assert deletes.record_keys.to_pylist() == [entry["recordKey"] for entry in entries]
    assert deletes.partition_paths.to_pylist() == [entry["partitionPath"] for entry in entries]
    found = [_value_at(deletes.ordering, row) for row in range(len(deletes))]
    assert found == [entry["orderingVal"] for entry in entries]
    assert log_deletes.encode(deletes) == content


def test_the_first_block_of_a_metadata_table_is_written_byte_for_byte():
    none = Deletes(pa.array([], pa.string()), pa.array([], pa.string()), Ordering.natural(0))
    block = encode_deletes(none, instant="0" * 17)
    assert len(block) == 80
    assert block.hex() == (
        "234855444923" + "0000000000000042" + "00000001" + "00000001" + "00000001"
        "00000000" + "00000011" + "30" * 17 + "0000000000000009" + "000000030000000100"
        "00000000" + "0000000000000048"
    )


def test_a_rollback_command_is_written_byte_for_byte():
    block = encode_rollback_command(instant="20240101000000002", target="20240101000000001")
    assert len(block) == 105
    (found,) = read_blocks(block, where="f.log")
    assert found.type is BlockType.COMMAND
    assert list(found.header.items()) == [
        (HeaderKey.TARGET_INSTANT_TIME, "20240101000000001"),
        (HeaderKey.COMMAND_BLOCK_TYPE, "0"),
        (HeaderKey.INSTANT_TIME, "20240101000000002"),
    ]
    assert found.content_length == 0
    assert block[-8:] == struct.pack(">q", 97)


def _one(ordering):
    return Deletes(pa.array(["k002"]), pa.array(["a"]), ordering)


def test_the_example_of_the_format_is_written_byte_for_byte():
    expected = "000000030000000d" + "0202086b30303202026106" + "04" + "00"
    deletes = _one(Ordering.of(pa.array([2])))
    assert log_deletes.encode(deletes).hex() == expected


def test_an_int_zero_and_a_long_zero_stay_apart():
    natural, compared = (_one(Ordering.natural(1)), _one(Ordering.of(pa.array([0], pa.int64()))))
    assert log_deletes.encode(natural).endswith(b"\x02\x02a" + b"\x04\0" + b"\0")
    assert log_deletes.encode(compared).endswith(b"\x02\x02a" + b"\x06\0" + b"\0")
    for deletes, wins in ((natural, True), (compared, False)):
        read = read_deletes(_block(log_deletes.encode(deletes)))
        assert read.ordering.always_wins().tolist() == [wins]


def test_only_zeros_and_nothing_win_always():
    ordering = Ordering.of(pa.array([0, 1, None, -1], pa.int32()))
    assert ordering.always_wins().tolist() == [True, False, True, False]


@pytest.mark.parametrize(
    ("column", "kind"),
    [
        (pa.array([True]), OrderingKind.BOOLEAN),
        (pa.array([1], pa.int8()), OrderingKind.INT),
        (pa.array([1], pa.int64()), OrderingKind.LONG),
        (pa.array([1.5], pa.float32()), OrderingKind.FLOAT),
        (pa.array([1.5]), OrderingKind.DOUBLE),
        (pa.array([b"x"]), OrderingKind.BYTES),
        (pa.array(["x"], pa.large_string()), OrderingKind.STRING),
        (pa.array([datetime.date(2024, 1, 1)]), OrderingKind.DATE),
        (pa.array([decimal.Decimal("1.5")]), OrderingKind.DECIMAL),
        (pa.array([5], pa.timestamp("us", "UTC")), OrderingKind.LONG),
        (pa.array([5], pa.timestamp("ms")), OrderingKind.LONG),
        (pa.array([5], pa.time64("us")), OrderingKind.TIME_MICROS),
    ],
)
def test_a_column_is_wrapped_as_java_wraps_its_type(column, kind):
    deletes = _one(Ordering.of(column))
    read = read_deletes(_block(log_deletes.encode(deletes)))
    assert read.ordering.kinds_present == {kind}
    assert read.ordering.values[kind].equals(
        deletes.ordering.values[kind].cast(read.ordering.values[kind].type)
    )


def test_several_ordering_columns_are_an_array():
    ordering = Ordering.of_several([pa.array([1, 2]), pa.array(["a", None])])
    deletes = Deletes(pa.array(["x", "y"]), pa.array(["", ""]), ordering)
    read = read_deletes(_block(log_deletes.encode(deletes)))
    assert [_value_at(read.ordering, row)[1]["wrappedValues"] for row in (0, 1)] == [
        [(f"{MODEL}LongWrapper", {"value": 1}), (f"{MODEL}StringWrapper", {"value": "a"})],
        [(f"{MODEL}LongWrapper", {"value": 2}), None],
    ]


def test_a_column_that_cannot_order_is_refused():
    with pytest.raises(Unsupported, match="list"):
        Ordering.of(pa.array([[1]]))


@pytest.mark.parametrize("version", [1, 2, 4])
def test_other_versions_are_refused_by_name(version):
    with pytest.raises(Unsupported, match=f"version {version}"):
        read_deletes(_block(struct.pack(">ii", version, 1) + b"\0"))


@pytest.mark.parametrize(
    "content",
    [
        b"",
        struct.pack(">ii", 3, 5) + b"\0",
        struct.pack(">ii", 3, 0),
        struct.pack(">ii", 3, 2) + b"\0\0",
        struct.pack(">ii", 3, 2) + b"\x7f\0",
        struct.pack(">ii", 3, 3) + b"\x02\x06\0",
        struct.pack(">ii", 3, 5) + b"\x02\0\0\x1c\0",
        struct.pack(">ii", 3, 7) + b"\x02\x02\x02\xff\0\0\0",
    ],
)
def test_broken_entries_are_an_error_with_its_place(content):
    with pytest.raises(Corrupt) as caught:
        read_deletes(_block(content))
    assert caught.value.offset is not None


def test_an_entry_with_endless_ordering_values_is_refused():
    many = [(f"{MODEL}IntWrapper", {"value": 1})] * 100
    entry = {"orderingVal": (f"{MODEL}ArrayWrapper", {"wrappedValues": many})}
    with pytest.raises(LakehandError, match="100 ordering values"):
        read_deletes(_block(_content([entry])))


def test_kinds_are_bytes_so_that_a_million_entries_take_little():
    assert Ordering.natural(3).kinds.dtype == np.int8
