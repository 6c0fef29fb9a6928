"""Adapters for fuzzing the readers of slices: bytes of one file in, rows of the slice out."""

from functools import cache

import pyarrow as pa

from lakehand.core.file_slices import FileEntry, FileSlice
from lakehand.core.merge_rules import MergeMode, MergeRule
from lakehand.core.table_config import TableConfig, TableType, TableVersion
from lakehand.core.timeline import Timeline
from lakehand.formats import avro_schema
from lakehand.formats.base_file import BaseFileOptions, BaseFileWriter
from lakehand.formats.log_deletes import Deletes, Ordering
from lakehand.formats.log_records import encode_avro_data, encode_deletes, encode_parquet_data
from lakehand.read.filters import parse_filter
from lakehand.read.slice_reader import read_slice
from lakehand.store.memory import MemoryStore

INSTANT = "20240101000000000"
SCHEMA = avro_schema.with_meta_columns(
    pa.schema(
        [
            ("id", pa.string()),
            ("ts", pa.int64()),
            ("price", pa.decimal128(9, 2)),
            ("tags", pa.list_(pa.struct([("n", pa.int32())]))),
        ]
    )
)
CONFIG = TableConfig(
    name="fuzzed",
    table_type=TableType.MERGE_ON_READ,
    version=TableVersion.NINE,
    merge_rule=MergeRule(MergeMode.EVENT_TIME, ("ts",)),
)


def rows(count: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(
        [
            {
                "_hoodie_record_key": f"k{number}",
                "id": f"k{number}",
                "ts": number % 3,
                "tags": [{"n": number}, {"n": None}],
            }
            for number in range(count)
        ],
        SCHEMA,
    )


@cache
def base_file() -> bytes:
    sink = pa.BufferOutputStream()
    options = BaseFileOptions(bloom=None, row_group_rows=8)
    with BaseFileWriter(sink, SCHEMA, options=options) as writer:
        writer.write(rows(20))
    return sink.getvalue().to_pybytes()


def log_files() -> list[bytes]:
    schema = avro_schema.from_arrow(SCHEMA, table_name="fuzzed")
    keys = pa.array(["k1", "k5"])
    numbers = Ordering.of(pa.array([5, 0], pa.int64()))
    deletes = Deletes(keys, pa.array(["", ""]), numbers)
    natural = Deletes(keys, pa.array(["", ""]), Ordering.natural(2))
    avro = encode_avro_data([rows(6)], instant=INSTANT, schema=schema)
    parquet = encode_parquet_data([rows(6)], instant=INSTANT, schema=schema)
    both = [encode_deletes(each, instant=INSTANT, schema=schema) for each in (deletes, natural)]
    return [avro + both[0], both[1] + avro, parquet + avro]


def _read(base: bytes, log: bytes | None) -> None:
    store = MemoryStore()
    store.put("base.parquet", base)
    logs = ()
    if log is not None:
        store.put("a.log", log)
        logs = (FileEntry("a.log", len(log)),)
    part = FileSlice("", "f-0", INSTANT, FileEntry("base.parquet", len(base)), logs)
    wanted = parse_filter([("_hoodie_record_key", ">=", "k1"), ("ts", "<", 9)], SCHEMA)
    for row_filter in (None, wanted):
        for batch in read_slice(
            store, CONFIG, Timeline(), part, schema=SCHEMA, row_filter=row_filter
        ):
            batch.validate(full=True)
            batch.to_pylist()


def read_base(content: bytes) -> None:
    """Read a slice whose base file is ``content``."""
    _read(content, None)


def read_log(content: bytes) -> None:
    """Read a slice whose log file is ``content``."""
    _read(base_file(), content)
