"""Large files: staged as a stream, read by ranges, in bounded memory."""

from __future__ import annotations

import hashlib
import random
import tracemalloc

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakehand.errors import Unavailable
from lakehand.ports import PromoteOutcome
from store_places import AREA, stage

MIB = 1024 * 1024


def test_a_large_file_is_staged_as_a_stream_in_bounded_memory(shared_place):
    """24 MiB in chunks of odd lengths: five parts where a part has 5 MiB."""
    store = shared_place.open()
    chunks = [random.Random(n).randbytes(997_331 + n) for n in range(4)]
    total, digest = 0, hashlib.sha256()
    tracemalloc.start()
    try:
        with store.stage("t/large", area=AREA) as writer:
            begun = writer.staged
            n = 0
            while total < 24 * MIB:
                chunk = memoryview(chunks[n % 4])
                n += 1
                total += writer.write(chunk)
                digest.update(chunk)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    handle = writer.staged
    assert (handle.final, handle.place) == (begun.final, begun.place)
    if shared_place.kind in ("versitygw", "minio"):
        assert len(handle.parts) == 5
    assert peak < 4 * 5 * MIB, "more than the parts that the writer may hold"
    assert store.promote(handle) is PromoteOutcome.WRITTEN
    assert store.head("t/large").size == total
    assert hashlib.sha256(store.get("t/large").content).digest() == digest.digest()


def test_a_single_write_may_be_larger_than_a_part(store):
    content = random.Random(1).randbytes(11 * MIB)
    store.promote(stage(store, "t/large", content))
    assert store.get("t/large").content == content


def test_any_buffer_is_written_by_its_bytes(store):
    with store.stage("t/buffer", area=AREA) as writer:
        assert writer.write(memoryview(pa.array([1, 2], pa.int32()).buffers()[1])[:8]) == 8
        assert writer.write(b"") == 0
        assert writer.write(memoryview(b"abc")) == 3
    store.promote(writer.staged)
    assert store.get("t/buffer").content == b"\1\0\0\0\2\0\0\0abc"


def test_pyarrow_reads_parquet_through_open(store):
    table = pa.table(
        {
            "n": pa.array(range(200_000)),
            "text": pa.array([f"value {n % 1000}" for n in range(200_000)]),
        }
    )
    with store.stage("t/data.parquet", area=AREA) as writer:
        sink = pa.PythonFile(writer, mode="w")
        pq.write_table(table, sink, row_group_size=20_000)
    store.promote(writer.staged)
    with store.open("t/data.parquet") as source, pq.ParquetFile(source) as file:
        assert file.read(["text"]).equals(table.select(["text"]))
        assert file.read_row_group(3).equals(table.slice(60_000, 20_000))
    with store.open("t/data.parquet") as source:
        assert pq.read_table(source).equals(table)


def test_open_reads_any_range(store):
    content = random.Random(2).randbytes(300_000)
    store.put("x", content)
    with store.open("x") as file:
        assert file.size() == len(content)
        for start, length in ((0, 10), (299_990, 100), (150_000, 1), (5, 200_000), (0, 0)):
            file.seek(start)
            assert file.read(length) == content[start : start + length]
        file.seek(-3, 2)
        assert file.tell() == len(content) - 3
        assert file.read() == content[-3:]
        assert file.read(10) == b""
        assert file.read_at(7, 1000) == content[1000:1007]


def test_an_open_file_stays_the_version_that_was_opened(place):
    store = place.open()
    store.put("x", b"a" * 200_000)
    with store.open("x") as file:
        assert file.read(10) == b"a" * 10
        store.put("x", b"b" * 200_000)
        file.seek(150_000)
        if place.kind in ("memory", "local", "hdfs"):
            assert file.read(10) == b"a" * 10
        else:
            with pytest.raises(Unavailable, match="replaced while it was read"):
                file.read(10)
