"""Records of Avro log blocks per second of one core: ours, fastavro and polars, same bytes.

    python bench/bench_avro.py [records]

All start from a log block's content (records behind their lengths) and end with columns, but for
fastavro, which ends with dictionaries. The three take turns; shown are the median of five rounds
and the slowest and fastest, by processor time, which a busy machine falsifies least. Results are
compared before anything is measured. ``write`` goes the other way: from a batch to a block.
"""

import datetime
import decimal
import io
import json
import os
import statistics
import struct
import sys
import time
from collections.abc import Callable

import fastavro
import polars
import pyarrow as pa

from lakehand.formats import avro_schema
from lakehand.formats.avro_encoding import encode_framed
from lakehand.formats.log_file import LogBlock, read_blocks
from lakehand.formats.log_records import encode_avro_data, read_data

ROUNDS = 5
os.environ["RUST_BACKTRACE"] = "0"

FLAT = pa.schema(
    [
        ("id", pa.int64()),
        ("name", pa.string()),
        ("price", pa.float64()),
        ("quantity", pa.int32()),
        ("paid", pa.bool_()),
        ("day", pa.date32()),
        ("at", pa.timestamp("us", "UTC")),
        ("city", pa.string()),
    ]
)
NESTED = pa.schema(
    [
        ("id", pa.int64()),
        ("price", pa.decimal128(18, 4)),
        ("local", pa.timestamp("us")),
        ("tags", pa.list_(pa.string())),
        ("labels", pa.map_(pa.string(), pa.string())),
        ("address", pa.struct([("street", pa.string()), ("number", pa.int32())])),
        ("lines", pa.list_(pa.struct([("sku", pa.string()), ("count", pa.int32())]))),
        ("scores", pa.list_(pa.float64())),
    ]
)


def row(number: int) -> dict[str, object]:
    return {
        "_hoodie_commit_time": "20250922132151286",
        "_hoodie_commit_seqno": f"20250922132151286_0_{number}",
        "_hoodie_record_key": f"key{number:08d}",
        "_hoodie_partition_path": f"region=r{number % 7}",
        "_hoodie_file_name": "8f2f2f2f-1111-2222-3333-444444444444-0",
        "id": number * 7919,
        "name": f"name {number}" if number % 10 else None,
        "price": decimal.Decimal(number).scaleb(-4),
        "quantity": number % 1000 - 500,
        "paid": number % 2 == 0,
        "day": datetime.date(2024, 1, 1) + datetime.timedelta(number % 365),
        "at": 1_700_000_000_000_000 + number * 1_000_003,
        "city": ("Berlin", "Ulm", "Zürich")[number % 3],
        "local": 1_700_000_000_000_000 + number,
        "tags": ["red", "green", None][: number % 4],
        "labels": [(f"label{index}", "x" * index) for index in range(number % 3)],
        "address": {"street": "Main Street", "number": number % 90} if number % 5 else None,
        "lines": [{"sku": f"sku{index}", "count": index} for index in range(number % 4)],
        "scores": [0.5, 1.5, 2.5][: number % 4] if number % 9 else None,
    }


def block_of(schema: pa.Schema, count: int) -> LogBlock:
    full = avro_schema.with_meta_columns(schema)
    rows = [row(number) for number in range(count)]
    if full.field("price").type == pa.float64():
        rows = [{**one, "price": float(one["price"])} for one in rows]
    batch = pa.RecordBatch.from_pylist(rows, full)
    avro = avro_schema.from_arrow(full, table_name="bench")
    content = encode_avro_data([batch], instant="001", schema=avro)
    (block,) = read_blocks(content, where="bench.log")
    return block


def ours(block: LogBlock) -> pa.Table:
    return pa.Table.from_batches(read_data(block))


def by_fastavro(block: LogBlock) -> list[dict[str, object]]:
    schema = fastavro.parse_schema(json.loads(block.schema))
    content = block.read()
    source = io.BytesIO(content)
    source.seek(8)
    rows = []
    for _ in range(struct.unpack_from(">i", content, 4)[0]):
        source.seek(4, os.SEEK_CUR)
        rows.append(fastavro.schemaless_reader(source, schema, schema))
    return rows


def by_polars(block: LogBlock) -> polars.DataFrame:
    """Wrap the records, without their lengths, as an Avro file of one block."""
    content = block.read()
    count = struct.unpack_from(">i", content, 4)[0]
    pieces, at = [], 8
    for _ in range(count):
        end = at + 4 + struct.unpack_from(">i", content, at)[0]
        pieces.append(content[at + 4 : end])
        at = end
    body = b"".join(pieces)
    sync = bytes(16)
    source = io.BytesIO()
    source.write(b"Obj\x01")
    entries = {"avro.schema": block.schema.encode(), "avro.codec": b"null"}
    header = {"type": "map", "values": "bytes"}
    fastavro.schemaless_writer(source, header, entries)
    source.write(sync)
    for number in (count, len(body)):
        fastavro.schemaless_writer(source, "long", number)
    source.write(body + sync)
    source.seek(0)
    return polars.read_avro(source)


def write_ours(block: LogBlock) -> Callable[[], object]:
    table = ours(block).combine_chunks().to_batches()[0]
    return lambda: encode_framed(table, block.schema)


def write_by_fastavro(block: LogBlock) -> Callable[[], object]:
    rows = by_fastavro(block)
    schema = fastavro.parse_schema(json.loads(block.schema))

    def write() -> bytes:
        pieces = []
        for one in rows:
            piece = io.BytesIO()
            fastavro.schemaless_writer(piece, schema, one)
            pieces += (struct.pack(">i", piece.tell()), piece.getvalue())
        return b"".join(pieces)

    return write


def compare(block: LogBlock) -> bool:
    """Check that all give the same rows; return whether polars can read this schema at all."""
    expected = by_fastavro(block)
    assert ours(block).to_pylist(maps_as_pydicts="strict") == expected
    assert bytes(write_ours(block)()) == write_by_fastavro(block)() == block.read()[8:]
    try:
        found = by_polars(block)
    except BaseException as error:  # polars panics with an exception of its own
        if isinstance(error, KeyboardInterrupt):
            raise
        print(f"  polars cannot: {str(error).splitlines()[0][:90]}")
        return False
    assert found.to_dicts() == expected
    return True


def measure(candidates: dict[str, Callable[[], object]], count: int) -> None:
    rates: dict[str, list[float]] = {name: [] for name in candidates}
    for _ in range(ROUNDS):
        for name, run in candidates.items():
            start = time.process_time()
            run()
            rates[name].append(count / (time.process_time() - start))
    slowest = statistics.median(rates[next(name for name in rates if "fastavro" in name)])
    for name, found in rates.items():
        median = statistics.median(found)
        print(
            f"  {name:16}{median / 1e6:8.3f} M records/s ({min(found) / 1e6:.3f}"
            f" to {max(found) / 1e6:.3f}), {median / slowest:5.1f} x fastavro"
        )


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    for name, schema in (("flat", FLAT), ("nested", NESTED)):
        block = block_of(schema, count)
        size = block.content_length / count
        print(f"{name}: {count} records of {len(schema) + 5} columns, {size:.0f} bytes each")
        candidates: dict[str, Callable[[], object]] = {
            "read ours": lambda block=block: ours(block),
            "read fastavro": lambda block=block: by_fastavro(block),
        }
        if compare(block):
            candidates["read polars"] = lambda block=block: by_polars(block)
        measure(candidates, count)
        write = {"write ours": write_ours(block), "write fastavro": write_by_fastavro(block)}
        measure(write, count)


if __name__ == "__main__":
    main()
