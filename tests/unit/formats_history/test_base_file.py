"""Base files written and read back, by our reader and by PyArrow's."""

import decimal
import io
import random
from datetime import UTC, date, datetime
from itertools import pairwise

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehand.errors import Corrupt, Invalid, LakehandError, Unsupported
from lakehand.formats import bloom
from lakehand.formats.base_file import BaseFileOptions, BaseFileWriter, read_footer
from lakehand.formats.bloom import BloomKind, BloomSettings
from lakehand.formats.key_order import java_min_max, java_order

SMALL_BLOOM = BloomSettings(entries=100, false_positive_rate=0.01)
META = [
    "_hoodie_commit_time",
    "_hoodie_commit_seqno",
    "_hoodie_record_key",
    "_hoodie_partition_path",
    "_hoodie_file_name",
]
SCHEMA = pa.schema([*((name, pa.string()) for name in META), ("v", pa.int64())])


def batch(keys, start=0):
    n = len(keys)
    columns = [["20240101000000000"] * n, [f"s{i}" for i in range(n)], keys, ["p"] * n, ["f"] * n]
    arrays = [pa.array(column, pa.string()) for column in columns]
    return pa.RecordBatch.from_arrays([*arrays, pa.array(range(start, start + n))], schema=SCHEMA)


def write(batches, schema=SCHEMA, **options):
    sink = io.BytesIO()
    options = BaseFileOptions(**{"bloom": SMALL_BLOOM, **options})
    with BaseFileWriter(sink, schema, options=options) as writer:
        for each in batches:
            writer.write(each)
    assert writer.bytes_written == len(sink.getvalue())
    return sink.getvalue()


def test_the_footer_says_what_was_written():
    content = write([batch(["m", "b"]), batch(["z", "a"])])
    footer = read_footer(content, where="f")
    assert (footer.min_key, footer.max_key, footer.rows) == ("a", "z", 4)
    assert footer.bloom_kind is BloomKind.DYNAMIC
    assert footer.bloom == bloom.build(pa.array(["m", "b", "z", "a"]), SMALL_BLOOM)
    assert footer.avro_schema is None
    assert footer.arrow_schema.equals(SCHEMA)
    assert [group.rows for group in footer.row_groups] == [4]


def test_a_simple_filter_goes_without_a_code_as_in_java():
    simple = BloomSettings(kind=BloomKind.SIMPLE, entries=10)
    content = write([batch(["a"])], bloom=simple)
    assert b"hoodie_bloom_filter_type_code" not in pq.read_metadata(io.BytesIO(content)).metadata
    footer = read_footer(content, where="f")
    assert footer.bloom == bloom.build(pa.array(["a"]), simple)


def test_an_unknown_kind_of_filter_is_refused_by_name():
    table = pa.table({"a": [1]}).replace_schema_metadata(
        {"org.apache.hudi.bloomfilter": "x", "hoodie_bloom_filter_type_code": "CUCKOO"}
    )
    sink = io.BytesIO()
    pq.write_table(table, sink)
    with pytest.raises(Unsupported, match="CUCKOO"):
        read_footer(sink.getvalue(), where="f")


def test_a_file_without_rows_has_no_keys():
    footer = read_footer(write([]), where="f")
    assert (footer.min_key, footer.max_key, footer.rows) == (None, None, 0)
    assert footer.bloom == bloom.build(pa.array([], pa.string()), SMALL_BLOOM)


def test_a_table_without_meta_columns_has_neither_keys_nor_filter():
    schema = pa.schema([("v", pa.int64())])
    content = write([pa.record_batch([pa.array([1])], schema=schema)], schema)
    footer = read_footer(content, where="f")
    assert (footer.min_key, footer.bloom_kind, footer.bloom) == (None, None, None)


def test_a_table_that_does_not_fill_its_meta_columns_has_neither():
    content = write([batch([None, None])], key_column=None)
    footer = read_footer(content, where="f")
    assert (footer.min_key, footer.bloom_kind, footer.rows) == (None, None, 2)


def test_an_avro_schema_goes_in_with_its_model():
    sink = io.BytesIO()
    with BaseFileWriter(sink, SCHEMA, avro_schema='{"type":"record"}'):
        pass
    entries = pq.read_metadata(io.BytesIO(sink.getvalue())).metadata
    assert entries[b"writer.model.name"] == b"avro"
    assert read_footer(sink.getvalue(), where="f").avro_schema == '{"type":"record"}'


def test_physical_types_are_javas():
    element = pa.struct([("x", pa.int32())])
    schema = pa.schema(
        [
            ("d4", pa.decimal128(9, 2)),
            ("d8", pa.decimal128(18, 4)),
            ("d13", pa.decimal128(30, 10)),
            ("at", pa.timestamp("us", "UTC")),
            ("ntz", pa.timestamp("us")),
            ("day", pa.date32()),
            ("tags", pa.list_(pa.string())),
            ("items", pa.list_(element)),
            ("m", pa.map_(pa.string(), pa.int32())),
        ]
    )
    moment = datetime(2024, 1, 2, tzinfo=UTC)
    row = {
        "d4": decimal.Decimal("1.25"),
        "d8": decimal.Decimal("-1.2500"),
        "d13": None,
        "at": moment,
        "ntz": moment.replace(tzinfo=None),
        "day": date(2024, 1, 2),
        "tags": ["a", None],
        "items": [{"x": 1}, None],
        "m": [("k", 1)],
    }
    content = write([pa.RecordBatch.from_pylist([row], schema=schema)], schema)
    parquet = pq.ParquetFile(io.BytesIO(content))
    columns = [parquet.schema.column(n) for n in range(len(parquet.schema))]
    assert {c.path: (c.physical_type, c.length) for c in columns[:3]} == {
        "d4": ("FIXED_LEN_BYTE_ARRAY", 4),
        "d8": ("FIXED_LEN_BYTE_ARRAY", 8),
        "d13": ("FIXED_LEN_BYTE_ARRAY", 13),
    }
    logical = {c.path: str(c.logical_type) for c in columns}
    for name, utc in (("at", "true"), ("ntz", "false")):
        assert f"isAdjustedToUTC={utc}, timeUnit=microseconds" in logical[name]
    assert {"tags.list.element", "items.list.element.x", "m.key_value.key"} < set(logical)
    assert parquet.metadata.format_version == "1.0"
    assert b"ARROW:schema" not in parquet.metadata.metadata
    assert parquet.schema_arrow.equals(schema)
    assert parquet.read().to_pylist() == [row]


@pytest.mark.parametrize("kind", [pa.timestamp("ns"), pa.list_(pa.timestamp("s")), pa.uint32()])
def test_types_that_hudi_does_not_have_are_refused_by_name(kind):
    with pytest.raises(Unsupported, match="column when"):
        BaseFileWriter(io.BytesIO(), pa.schema([("when", kind)]))


@pytest.mark.parametrize(
    ("chosen", "expected"),
    [
        (None, {*META, "v"}),
        ((), {META[0], META[3], META[4]}),
        (("v",), {META[0], META[3], META[4], "v"}),
    ],
)
def test_all_columns_get_dictionaries_or_those_chosen_and_those_that_repeat(chosen, expected):
    content = write([batch(["a", "b"])], dictionary_columns=chosen)
    group = pq.read_metadata(io.BytesIO(content)).row_group(0)
    columns = [group.column(n) for n in range(group.num_columns)]
    assert {c.path_in_schema for c in columns if c.has_dictionary_page} == expected
    assert {c.compression for c in columns} == {"ZSTD"}


@given(sizes=st.lists(st.integers(0, 50), max_size=12), limit=st.integers(1, 60))
@settings(max_examples=40, deadline=None)
def test_row_groups_end_at_the_limit_and_rows_keep_their_order(sizes, limit):
    keys = [f"{n:05d}" for n in range(sum(sizes))]
    ends = [sum(sizes[:n]) for n in range(len(sizes) + 1)]
    parts = [batch(keys[a:b], a) for a, b in pairwise(ends)]
    content = write(parts, row_group_rows=limit)
    footer = read_footer(content, where="f")
    assert all(0 < group.rows <= limit for group in footer.row_groups)
    assert pq.read_table(io.BytesIO(content))["v"].to_pylist() == list(range(len(keys)))


def test_row_groups_end_at_their_bytes_too():
    content = write([batch([f"{n}"]) for n in range(40)], row_group_bytes=500)
    assert len(read_footer(content, where="f").row_groups) > 2


def test_a_batch_of_other_columns_is_refused():
    with pytest.raises(Invalid, match="other columns"):
        write([pa.record_batch([pa.array([1])], names=["v"])])


def test_a_null_key_is_refused():
    for made in (SMALL_BLOOM, None):
        with pytest.raises(Invalid, match="record key is null"):
            write([batch(["a", None])], bloom=made)


@pytest.mark.parametrize(
    "option",
    [{"codec": "nonsense"}, {"codec": "zstd", "level": 99}, {"codec": "snappy", "level": 1}],
)
def test_options_that_make_no_file_are_refused(option):
    with pytest.raises(Invalid, match=option["codec"]):
        write([batch(["a"])], **option)


@pytest.mark.parametrize("codec", ["zstd", "gzip", "snappy", "none"])
def test_codecs_keep_the_rows(codec):
    content = write([batch(["a", "b"])], codec=codec)
    assert pq.read_table(io.BytesIO(content)).num_rows == 2


def test_an_exception_leaves_no_valid_file_and_passes_through():
    sink = io.BytesIO()

    def broken_off():
        with BaseFileWriter(sink, SCHEMA) as writer:
            writer.write(batch(["a"]))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        broken_off()
    with pytest.raises(Corrupt):
        read_footer(sink.getvalue(), where="f")


def test_an_error_of_the_sink_reaches_the_caller():
    class Full:
        def write(self, _data):
            raise OSError("no space")

    with pytest.raises(OSError, match="no space"), BaseFileWriter(Full(), SCHEMA) as writer:
        writer.write(batch(["a"]))


TEXT = st.text(
    st.characters(codec="utf-8") | st.sampled_from("\ue000\uffff\ud7ff\U00010000\U0010ffffé"),
    min_size=1,
    max_size=6,
)


@given(keys=st.lists(TEXT, min_size=1, max_size=12), cut=st.integers(0, 11))
@settings(max_examples=300, deadline=None)
def test_smallest_and_largest_follow_utf_16(keys, cut):
    array = pa.array(["", *keys])[1:][min(cut, len(keys) - 1) :]
    ordered = sorted(array.to_pylist(), key=java_order)
    assert java_min_max(array) == (ordered[0], ordered[-1])


def test_smallest_and_largest_follow_utf_16_across_batches():
    footer = read_footer(write([batch(["\uffff"]), batch(["\U00010000"])]), where="f")
    assert (footer.min_key, footer.max_key) == ("\U00010000", "\uffff")


def test_every_truncation_and_many_flips_give_a_typed_error_or_a_footer():
    content = write([batch(["a", "b"])])
    for length in range(len(content)):
        with pytest.raises(Corrupt):
            read_footer(content[:length], where="f")
    generator = random.Random(1)
    for _ in range(300):
        broken = bytearray(content)
        broken[generator.randrange(len(broken))] ^= 1 << generator.randrange(8)
        try:
            footer = read_footer(bytes(broken), where="f")
            assert footer.bloom is not None or footer.bloom_kind is None
        except LakehandError:
            continue
