"""Data blocks give their records as batches, and are written from batches."""

import struct

import numpy as np
import pyarrow as pa
import pytest

from lakehand.errors import Corrupt, Invalid, LimitExceeded, Unsupported
from lakehand.formats import avro_schema, log_records
from lakehand.formats.base_file import BaseFileOptions
from lakehand.formats.log_file import BlockType, HeaderKey, LogLimits, encode_block, read_blocks
from lakehand.formats.log_records import (
    encode_avro_data,
    encode_parquet_data,
    read_data,
    read_deletes,
)

ROWS = pa.schema(
    [
        pa.field("id", pa.int64()),
        pa.field("name", pa.string()),
        pa.field("tags", pa.list_(pa.field("element", pa.string()))),
        pa.field("scores", pa.map_(pa.string(), pa.float64())),
        pa.field("price", pa.decimal128(18, 4)),
        pa.field("at", pa.timestamp("us", "UTC")),
        pa.field("local", pa.timestamp("us")),
    ]
)
SCHEMA = avro_schema.from_arrow(avro_schema.with_meta_columns(ROWS), table_name="t")


def _batch(count, start=0):
    rows = [
        {
            "_hoodie_record_key": f"k{number}",
            "id": number,
            "name": None if number % 3 else f"name {number}",
            "tags": ["a", None] * (number % 3),
            "scores": [("x", 1.5)] if number % 2 else None,
            "at": number,
        }
        for number in range(start, start + count)
    ]
    return pa.RecordBatch.from_pylist(rows, avro_schema.with_meta_columns(ROWS))


def _only(content, **settings):
    (block,) = read_blocks(content, where="f.log", **settings)
    return block


def _avro_block(content, schema=SCHEMA, **settings):
    header = {} if schema is None else {HeaderKey.SCHEMA: schema}
    return _only(encode_block(BlockType.AVRO_DATA, header, content), **settings)


@pytest.mark.parametrize("write", [encode_avro_data, encode_parquet_data])
@pytest.mark.parametrize("count", [0, 1, 100])
def test_records_read_back_as_they_were_written(write, count):
    batches = [_batch(count), _batch(7, start=count)]
    extra = {HeaderKey.COMPACTED_BLOCK_TIMES: "000"}
    block = _only(write(batches, instant="001", schema=SCHEMA, extra=extra))
    assert block.instant_time == "001"
    assert block.schema == SCHEMA
    assert block.compacted_block_times == ("000",)
    found = pa.Table.from_batches(read_data(block, batch_rows=10))
    found.validate(full=True)
    assert found.to_pylist() == pa.Table.from_batches(batches).to_pylist()


@pytest.mark.parametrize("write", [encode_avro_data, encode_parquet_data])
def test_only_the_columns_asked_for_are_read(write):
    block = _only(write([_batch(20)], instant="001", schema=SCHEMA))
    (found,) = read_data(block, columns={"scores", "id", "elsewhere"})
    assert found.schema.names == ["id", "scores"]
    assert found.column("id").to_pylist() == list(range(20))
    assert sum(batch.num_rows for batch in read_data(block, columns=[])) == 20


def test_a_block_without_records_gives_no_batches():
    block = _only(encode_avro_data([], instant="001", schema=SCHEMA))
    assert list(read_data(block)) == []


def test_a_block_is_read_in_pieces_and_in_batches(monkeypatch):
    monkeypatch.setattr(log_records, "_PIECE", 300)
    block = _only(encode_avro_data([_batch(100)], instant="001", schema=SCHEMA))
    batches = list(read_data(block, batch_rows=4))
    assert max(batch.num_rows for batch in batches) == 4
    assert pa.Table.from_batches(batches).to_pylist() == _batch(100).to_pylist()


def test_a_record_longer_than_a_piece_is_read_whole(monkeypatch):
    monkeypatch.setattr(log_records, "_PIECE", 64)
    schema = avro_schema.from_arrow(pa.schema([("x", pa.string())]), table_name="t")
    rows = pa.RecordBatch.from_pydict({"x": ["a", "b" * 500, "c", "d" * 70, "e"]})
    block = _only(encode_avro_data([rows], instant="001", schema=schema))
    found = pa.Table.from_batches(read_data(block))
    assert found.column("x").to_pylist() == rows.column("x").to_pylist()


def test_a_record_over_the_limit_is_refused(monkeypatch):
    monkeypatch.setattr(log_records, "_PIECE", 64)
    schema = avro_schema.from_arrow(pa.schema([("x", pa.string())]), table_name="t")
    rows = pa.RecordBatch.from_pydict({"x": ["b" * 500]})
    content = encode_avro_data([rows], instant="001", schema=schema)
    block = _only(content, limits=LogLimits(max_content_bytes=200))
    with pytest.raises(LimitExceeded, match="a record of"):
        list(read_data(block))


def test_the_framing_is_a_version_a_count_and_lengths():
    schema = avro_schema.from_arrow(pa.schema([("x", pa.int32())]), table_name="t")
    rows = pa.RecordBatch.from_pydict({"x": pa.array([3, None], pa.int32())})
    block = _only(encode_avro_data([rows], instant="001", schema=schema))
    assert block.read() == struct.pack(">iii", 3, 2, 2) + b"\x02\x06" + struct.pack(">i", 1) + b"\0"


@pytest.mark.parametrize("version", [1, 2, 4])
def test_other_versions_are_refused_by_name(version):
    with pytest.raises(Unsupported, match=f"version {version}"):
        list(read_data(_avro_block(struct.pack(">ii", version, 0))))


@pytest.mark.parametrize(
    "content",
    [
        b"\0\0\0\3",
        struct.pack(">ii", 3, -1),
        struct.pack(">ii", 3, 1 << 30),
        struct.pack(">ii", 3, 1),
        struct.pack(">iii", 3, 1, -1),
        struct.pack(">iii", 3, 1, 1 << 30),
        struct.pack(">iii", 3, 1, 5) + b"\0" * 4,
        struct.pack(">iii", 3, 1, 12) + b"\0" * 13,
        struct.pack(">iii", 3, 1, 11) + b"\0" * 11,
        struct.pack(">iii", 3, 1, 13) + b"\0" * 13,
        struct.pack(">iii", 3, 2, 12) + b"\0" * 12,
        struct.pack(">ii", 3, 0) + b"x",
    ],
)
def test_broken_contents_are_an_error_with_its_place(content):
    with pytest.raises(Corrupt) as caught:
        list(read_data(_avro_block(content)))
    assert caught.value.where == "f.log"
    assert caught.value.offset is not None


def test_the_place_of_an_error_is_that_of_the_byte_in_the_file():
    schema = avro_schema.from_arrow(pa.schema([("x", pa.string())]), table_name="t")
    rows = pa.RecordBatch.from_pydict({"x": [f"row {number:03d}" for number in range(100)]})
    content = bytearray(encode_avro_data([rows], instant="001", schema=schema))
    at = content.index(b"row 077")
    content[at + 2] = 0xFF
    with pytest.raises(Corrupt, match="not UTF-8") as caught:
        list(read_data(_only(bytes(content)), batch_rows=30))
    assert caught.value.offset == at


@pytest.mark.parametrize("text", ["a row", "a longer row of text"])
def test_text_of_a_parquet_block_that_is_not_utf8_is_found_where_it_is_read(text):
    schema = avro_schema.from_arrow(pa.schema([("x", pa.string())]), table_name="t")
    rows = pa.RecordBatch.from_pydict({"x": [text]})
    plain = BaseFileOptions(bloom=None, codec="none")
    content = encode_parquet_data([rows], instant="001", schema=schema, options=plain)
    broken = content.replace(text.encode(), b"\xff" * len(text))
    with pytest.raises(Corrupt, match="UTF8") as caught:
        list(read_data(_only(broken)))
    assert caught.value.where == "f.log, the block at byte 0"


def test_a_data_block_needs_a_schema():
    with pytest.raises(Corrupt, match="without a schema"):
        list(read_data(_avro_block(struct.pack(">ii", 3, 0), schema=None)))


def test_a_parquet_block_that_is_none_is_an_error():
    block = _only(encode_block(BlockType.PARQUET_DATA, {}, b"PAR1" + b"\0" * 20 + b"PAR1"))
    with pytest.raises(Corrupt):
        list(read_data(block))


@pytest.mark.parametrize("block_type", [BlockType.HFILE_DATA, BlockType.CDC_DATA])
def test_records_of_blocks_not_known_yet_are_refused_by_name(block_type):
    block = _only(encode_block(block_type, {}, b"content"))
    assert block.read() == b"content"
    with pytest.raises(Unsupported, match=block_type.name):
        list(read_data(block))


@pytest.mark.parametrize("block_type", [BlockType.COMMAND, BlockType.DELETE])
def test_blocks_without_records_give_none(block_type):
    block = _only(encode_block(block_type, {}, b""))
    with pytest.raises(Invalid, match="holds no records"):
        list(read_data(block))


def test_a_data_block_holds_no_deletions():
    with pytest.raises(Invalid, match="holds no deletions"):
        read_deletes(_avro_block(b""))


@pytest.mark.parametrize("write", [encode_avro_data, encode_parquet_data])
def test_columns_the_schema_lacks_are_refused(write):
    rows = pa.RecordBatch.from_pydict({"elsewhere": np.arange(3)})
    with pytest.raises(Invalid, match="no column elsewhere"):
        write([rows], instant="001", schema=SCHEMA)
