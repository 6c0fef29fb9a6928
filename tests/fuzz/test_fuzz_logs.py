"""Broken log files and Avro schemas give typed errors, in bounded time and memory."""

import datetime
import decimal

import pyarrow as pa

from fuzzing import assert_survives
from lakehand.formats import avro_schema
from lakehand.formats.log_deletes import Deletes, Ordering
from lakehand.formats.log_records import (
    encode_avro_data,
    encode_deletes,
    encode_parquet_data,
    encode_rollback_command,
)

SCHEMA = pa.schema(
    [
        pa.field("ok", pa.bool_()),
        pa.field("i", pa.int32()),
        pa.field("l", pa.int64(), nullable=False),
        pa.field("f", pa.float32()),
        pa.field("d", pa.float64()),
        pa.field("b", pa.binary()),
        pa.field("s", pa.string()),
        pa.field("n", pa.decimal128(20, 3)),
        pa.field("big", pa.decimal256(60, 3)),
        pa.field("day", pa.date32()),
        pa.field("at", pa.timestamp("us", "UTC")),
        pa.field("list", pa.list_(pa.list_(pa.string()))),
        pa.field("flat", pa.list_(pa.field("element", pa.float64(), nullable=False))),
        pa.field("map", pa.map_(pa.string(), pa.int64())),
        pa.field("st", pa.struct([("a", pa.int32()), ("b", pa.list_(pa.int64()))])),
    ]
)
AVRO = avro_schema.from_arrow(SCHEMA, table_name="t")


def _batch(rows: int) -> pa.RecordBatch:
    row = {
        "ok": True,
        "i": -5,
        "l": 2**62,
        "f": 1.5,
        "d": -1e300,
        "b": b"bytes",
        "s": "größer",
        "n": decimal.Decimal("-12345.678"),
        "big": decimal.Decimal("99999999999999999999999999.125"),
        "day": datetime.date(2024, 2, 29),
        "at": 1_700_000_000_000_000,
        "list": [["a", None], [], None, ["b"] * 5],
        "flat": [1.0, 2.0],
        "map": [("k", 1), ("k2", None)],
        "st": {"a": 1, "b": [1, 2, 300]},
    }
    rows_of_all = [row, {"l": 0}, {**row, "list": None, "s": "x" * 200, "st": None}]
    return pa.RecordBatch.from_pylist(rows_of_all * rows, SCHEMA)


def _deletes(count: int) -> bytes:
    keys = pa.array([f"key {number}" for number in range(count)], pa.string())
    paths = pa.array(["p"] * count, pa.string())
    numbers = pa.array(range(count), pa.int64())
    several = Ordering.of_several([numbers, keys])
    blocks = [
        encode_deletes(Deletes(keys, paths, ordering), instant="001", schema=AVRO)
        for ordering in (Ordering.natural(count), Ordering.of(numbers), several)
    ]
    return b"".join(blocks)


def _small_avro() -> bytes:
    fields = [("s", pa.string()), ("a", pa.list_(pa.int64())), ("n", pa.decimal128(9, 2))]
    rows = [{"s": "abc", "a": [1, None], "n": decimal.Decimal("1.25")}, {"s": None}]
    schema = pa.schema(fields)
    batch = pa.RecordBatch.from_pylist(rows * 20, schema)
    name = avro_schema.from_arrow(schema, table_name="t")
    return encode_avro_data([batch], instant="001", schema=name)


def test_broken_log_files_are_survived(tmp_path):
    command = encode_rollback_command(instant="002", target="001")
    avro = encode_avro_data([_batch(1)], instant="001", schema=AVRO)
    many = encode_avro_data([_batch(40)], instant="001", schema=AVRO)
    corpus = [
        avro,
        many,
        _small_avro(),
        _deletes(3),
        _deletes(60),
        avro + _deletes(2) + command + avro[:-9] + avro,
        encode_parquet_data([_batch(2).drop_columns(["big"])], instant="001", schema=AVRO),
    ]
    assert_survives("fuzz_targets_logs:whole_log_file", corpus, tmp_path)


def test_broken_schemas_are_survived(tmp_path):
    assert_survives("fuzz_targets_logs:schema", [AVRO.encode()], tmp_path)
