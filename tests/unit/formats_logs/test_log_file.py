"""Log files: blocks are found by the format's rules, whatever was torn or torn off."""

import io
import struct

import pyarrow as pa
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from lakehand.errors import Corrupt, Invalid, LakehandError, LimitExceeded, Unsupported
from lakehand.formats import log_file
from lakehand.formats.log_file import (
    MAGIC,
    BlockType,
    HeaderKey,
    LogLimits,
    encode_block,
    read_blocks,
)

WRITTEN = sorted(set(BlockType) - {BlockType.CORRUPT})
HEADERS = st.dictionaries(st.sampled_from(HeaderKey), st.text(max_size=20), max_size=4)
BLOCKS = st.lists(st.tuples(st.sampled_from(WRITTEN), HEADERS, st.binary(max_size=60)), max_size=5)


def _read(content, **settings):
    return list(read_blocks(content, where="f.log", **settings))


def _block(content=b"data", block_type=BlockType.AVRO_DATA, **header):
    entries = {HeaderKey[key]: value for key, value in header.items()}
    return encode_block(block_type, entries or {HeaderKey.INSTANT_TIME: "001"}, content)


@given(BLOCKS)
def test_blocks_read_back_as_they_were_written(blocks):
    content = b"".join(encode_block(*block) for block in blocks)
    found = _read(content)
    assert [(block.type, block.header, block.read()) for block in found] == blocks
    assert [block.offset + block.size for block in found][-1:] == ([len(content)] if blocks else [])


@given(st.binary(max_size=60))
def test_the_length_fields_say_what_the_format_says(body):
    block = _block(body)
    (block_length,) = struct.unpack_from(">q", block, 6)
    (total_length,) = struct.unpack_from(">q", block, len(block) - 8)
    assert len(block) == block_length + 14
    assert total_length == block_length + 6


@given(BLOCKS.filter(len), st.integers(1, 40))
def test_a_file_cut_off_loses_its_last_block_and_no_other(blocks, cut):
    whole = [encode_block(*block) for block in blocks]
    assume(MAGIC not in whole[-1][1:])  # what looks like a block inside of a torn one is tried
    cut = min(cut, len(whole[-1]) - 1)
    found = _read(b"".join(whole)[:-cut])
    assert [block.type for block in found[: len(blocks) - 1]] == [block[0] for block in blocks[:-1]]
    assert [block.type for block in found[len(blocks) - 1 :]] == [BlockType.CORRUPT]
    assert found[-1].offset + found[-1].size == len(b"".join(whole)) - cut


@pytest.mark.parametrize(
    "torn",
    [
        MAGIC,
        MAGIC + b"\0\0\0",
        _block()[:30],
        _block()[:-1],
        MAGIC + struct.pack(">q", -5) + b"x" * 50,
        MAGIC + struct.pack(">q", 1 << 60) + b"x" * 50,
        MAGIC + struct.pack(">q", 7) + b"x" * 50,
        _block()[:-8] + struct.pack(">q", 99),
        _block() + b"junk",
    ],
)
def test_a_torn_block_is_shown_and_the_next_one_is_read(torn):
    found = _read(_block(b"one") + torn + _block(b"two"))
    assert [block.type for block in found] == [
        BlockType.AVRO_DATA,
        BlockType.CORRUPT,
        BlockType.AVRO_DATA,
    ]
    assert [found[0].read(), found[2].read()] == [b"one", b"two"]
    assert (found[1].offset, found[1].size) == (len(_block(b"one")), len(torn))
    assert found[1].read() == torn[len(MAGIC) :]


def test_a_torn_stretch_longer_than_any_read_is_passed_over_in_pieces():
    torn = MAGIC + struct.pack(">q", 1 << 60) + b"#HUD" * 600_000
    for shift in range(8):
        found = _read(torn + b"x" * shift + _block(b"two"))
        assert [block.type for block in found] == [BlockType.CORRUPT, BlockType.AVRO_DATA]
        assert found[1].read() == b"two"


def test_too_few_bytes_for_a_magic_at_the_end_leave_the_block_before_them_whole():
    found = _read(_block(b"one") + MAGIC[:4])
    assert [block.type for block in found] == [BlockType.AVRO_DATA, BlockType.CORRUPT]
    assert found[1].read() == b""


def test_an_empty_file_has_no_blocks():
    assert _read(b"") == []


@pytest.mark.parametrize("content", [b"PAR1....", b"#", b"#HUDX#"])
def test_a_file_of_another_kind_is_refused(content):
    if MAGIC.startswith(content):
        assert [block.type for block in _read(content)] == [BlockType.CORRUPT]
        return
    with pytest.raises(Corrupt, match="not a log file"):
        _read(content)


def test_headers_are_walked_without_reading_contents():
    class Counting(io.BytesIO):
        taken = 0

        def read(self, size=-1):
            self.taken += size
            return super().read(size)

    big = _block(b"x" * (64 << 20))
    counting = Counting(big + big + big)
    found = _read(pa.PythonFile(counting, "r"))
    assert [block.content_length for block in found] == [64 << 20] * 3
    assert counting.taken < 8 << 20
    assert found[1].read_range(5, 3) == b"xxx"


def test_a_content_over_the_limit_is_refused_when_it_is_read():
    found = _read(_block(b"x" * 101), limits=LogLimits(max_content_bytes=100))
    with pytest.raises(LimitExceeded, match="101 bytes"):
        found[0].read()


def test_a_header_over_the_limit_is_refused():
    with pytest.raises(LimitExceeded, match="header"):
        _read(_block(SCHEMA="x" * 101), limits=LogLimits(max_header_bytes=100))


def test_a_header_key_of_a_later_version_is_kept():
    block = bytearray(_block(SCHEMA="later"))
    at = 6 + 8 + 4 + 4 + 4
    block[at : at + 4] = struct.pack(">i", 77)
    assert _read(bytes(block))[0].header == {77: "later"}


@pytest.mark.parametrize(("at", "what"), [(14, "format version 9"), (18, "of type 9")])
def test_a_version_or_type_that_is_not_known_is_refused_by_name(at, what):
    block = bytearray(_block())
    block[at : at + 4] = struct.pack(">i", 9)
    with pytest.raises(Unsupported, match=what):
        _read(bytes(block))


@pytest.mark.parametrize(
    ("at", "number", "problem"),
    [
        (22, -1, "entries"),
        (22, 1000, "entries"),
        (22, 2, "runs past|leaves no room|cut off|longer than|twice"),
        (30, 1 << 30, "runs past"),
        (30, -1, "runs past"),
        (30, 0, "longer than|runs past"),
    ],
)
def test_a_broken_header_in_a_whole_block_is_an_error_with_its_place(at, number, problem):
    block = bytearray(_block())
    block[at : at + 4] = struct.pack(">i", number)
    with pytest.raises(Corrupt, match=problem) as caught:
        _read(bytes(block))
    assert caught.value.where == "f.log"
    assert caught.value.offset is not None


def test_a_header_entry_that_comes_twice_is_refused():
    block = bytearray(_block(SCHEMA="a", IS_PARTIAL="b"))
    at = block.index(struct.pack(">i", HeaderKey.IS_PARTIAL) + struct.pack(">i", 1))
    block[at : at + 4] = struct.pack(">i", HeaderKey.SCHEMA)
    with pytest.raises(Corrupt, match="twice"):
        _read(bytes(block))


def test_a_header_entry_that_is_not_text_is_refused():
    block = bytearray(_block(SCHEMA="abc"))
    block[block.index(b"abc")] = 0xFF
    with pytest.raises(Corrupt, match="UTF-8"):
        _read(bytes(block))


def test_a_content_length_that_leaves_a_gap_is_refused():
    block = bytearray(_block(b"12345678"))
    at = block.index(struct.pack(">q", 8) + b"1234")
    block[at : at + 8] = struct.pack(">q", 4)
    with pytest.raises(LakehandError):
        _read(bytes(block))


def test_a_file_that_shrinks_while_it_is_read_is_an_error():
    class Shrinking(io.BytesIO):
        def read(self, size=-1):
            return super().read(min(size, 1 << 20))

    block = _block(b"x" * (4 << 20))
    found = _read(pa.PythonFile(Shrinking(block + _block()), "r"))
    with pytest.raises(Corrupt, match="ends early"):
        found[0].read()


def test_a_corrupt_block_cannot_be_written():
    with pytest.raises(Invalid):
        encode_block(BlockType.CORRUPT, {}, b"")


def test_what_a_header_says_can_be_asked_by_name():
    header = {
        HeaderKey.INSTANT_TIME: "002",
        HeaderKey.TARGET_INSTANT_TIME: "001",
        HeaderKey.COMPACTED_BLOCK_TIMES: "003,001",
        HeaderKey.IS_PARTIAL: "true",
    }
    (block,) = _read(encode_block(BlockType.AVRO_DATA, header, b""))
    assert block.instant_time == "002"
    assert block.target_instant_time == "001"
    assert block.compacted_block_times == ("003", "001")
    assert block.is_partial
    (bare,) = _read(encode_block(BlockType.AVRO_DATA, {}, b""))
    assert (bare.instant_time, bare.schema, bare.compacted_block_times) == (None, None, ())
    assert not bare.is_partial


def test_the_numbers_of_types_and_keys_are_hudis():
    assert [kind.name for kind in log_file.BlockType] == [
        "COMMAND", "DELETE", "CORRUPT", "AVRO_DATA", "HFILE_DATA", "PARQUET_DATA", "CDC_DATA",
    ]  # fmt: skip
    assert [key.value for key in HeaderKey] == list(range(10))
