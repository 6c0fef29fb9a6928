"""Every log file that Java wrote is read whole, and every record as fastavro reads it."""

import io
import json
import struct
import zipfile
from collections import Counter
from functools import cache

import fastavro
import pyarrow as pa
import pytest

from golden import GOLDEN, golden_names, read_meta
from lakehand.formats import avro_schema, log_deletes
from lakehand.formats.avro_encoding import encode_framed
from lakehand.formats.log_file import BlockType, HeaderKey, encode_block, read_blocks
from lakehand.formats.log_records import encode_rollback_command, read_data, read_deletes


@cache
def _log_files(name):
    with zipfile.ZipFile(GOLDEN / f"{name}.zip") as archive:
        return {
            file: archive.read(file)
            for file in archive.namelist()
            if (".log." in file or ".archive." in file) and not file.endswith(".crc")
        }


def _blocks(name):
    for file, content in _log_files(name).items():
        for block in read_blocks(content, where=file):
            yield content, block


def _rows(block):
    """Return a data block's records as fastavro reads them."""
    schema = fastavro.parse_schema(json.loads(block.schema))
    content = block.read()
    at = 8
    for _ in range(struct.unpack_from(">i", content, 4)[0]):
        (length,) = struct.unpack_from(">i", content, at)
        piece = io.BytesIO(content[at + 4 : at + 4 + length])
        yield fastavro.schemaless_reader(piece, schema, schema)
        at += 4 + length
    assert at == len(content)


def _of_a_table(block):
    return "/metadata/" not in block.where and ".archive." not in block.where


@pytest.mark.parametrize("name", golden_names())
def test_every_block_is_whole_and_written_back_the_same(name):
    for content, block in _blocks(name):
        assert block.type is not BlockType.CORRUPT, block
        header = {HeaderKey(key): text for key, text in block.header.items()}
        again = encode_block(block.type, header, block.read())
        assert again == content[block.offset : block.offset + block.size]


@pytest.mark.parametrize("name", golden_names())
def test_every_avro_record_reads_as_fastavro_reads_it_and_is_written_back_the_same(name):
    for _, block in _blocks(name):
        if block.type is not BlockType.AVRO_DATA or not _of_a_table(block):
            continue
        batches = list(read_data(block, batch_rows=50))
        table = pa.Table.from_batches(batches)
        table.validate(full=True)
        assert table.to_pylist(maps_as_pydicts="strict") == list(_rows(block))
        again = b"".join(encode_framed(batch, block.schema).to_pybytes() for batch in batches)
        assert again == block.read()[8:]


@pytest.mark.parametrize("name", golden_names())
def test_every_delete_block_is_written_back_the_same(name):
    for _, block in _blocks(name):
        if block.type is BlockType.DELETE:
            deletes = read_deletes(block)
            assert log_deletes.encode(deletes) == block.read()
            assert deletes.record_keys.null_count == 0


@pytest.mark.parametrize("name", golden_names())
def test_every_parquet_block_has_the_columns_of_its_schema(name):
    for _, block in _blocks(name):
        if block.type is BlockType.PARQUET_DATA:
            table = pa.Table.from_batches(read_data(block))
            assert table.num_rows > 0
            schema = avro_schema.to_arrow(block.schema, where=block.where)
            assert table.schema.names == schema.names
            for name_ in schema.names:
                kind, other = schema.field(name_).type, table.schema.field(name_).type
                assert pa.types.is_nested(kind) or kind == other, name_


@pytest.mark.parametrize("name", golden_names())
def test_our_schema_of_a_table_is_javas(name):
    for _, block in _blocks(name):
        if block.type is not BlockType.AVRO_DATA or not _of_a_table(block) or block.is_partial:
            continue
        java = json.loads(block.schema)
        arrow = avro_schema.to_arrow(block.schema, where=block.where)
        table = java["namespace"].removeprefix("hoodie.")
        assert json.loads(avro_schema.from_arrow(arrow, table_name=table)) == _without_docs(java)


def _without_docs(node):
    if isinstance(node, dict):
        return {key: _without_docs(value) for key, value in node.items() if key != "doc"}
    return [_without_docs(item) for item in node] if isinstance(node, list) else node


def test_rollback_commands_are_as_javas_but_for_the_order_of_their_header():
    found = 0
    for name in golden_names():
        for content, block in _blocks(name):
            if block.type is not BlockType.COMMAND:
                continue
            command = encode_rollback_command(
                instant=block.instant_time, target=block.target_instant_time
            )
            (ours,) = read_blocks(command, where="ours.log")
            assert ours.header == block.header
            assert len(command) == block.size
            in_order = {HeaderKey(key): ours.header[key] for key in block.header}
            again = encode_block(BlockType.COMMAND, in_order, ours.read())
            assert again == content[block.offset : block.offset + block.size]
            found += 1
    assert found or not any("rollback" in read_meta(name)["features"] for name in golden_names())


def test_the_golden_tables_hold_every_kind_of_block_that_is_read():
    kinds = Counter(
        block.type for name in golden_names() for _, block in _blocks(name) if _of_a_table(block)
    )
    assert {BlockType.AVRO_DATA, BlockType.PARQUET_DATA, BlockType.DELETE} <= set(kinds)
