"""Rows for tables that our formats write: every column type, odd partition values, and the model.

A row is a plain dictionary of Python values. The model of a table is a dictionary from record key
to row; whatever a reader returns is compared with it column by column. Keys and partition paths
stand here as literals, so that the shipped key generators are judged and not asked.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc

Row = dict[str, Any]

COMMIT_TIME = "_hoodie_commit_time"
SEQUENCE = "_hoodie_commit_seqno"
RECORD_KEY = "_hoodie_record_key"
PARTITION_PATH = "_hoodie_partition_path"
FILE_NAME = "_hoodie_file_name"
JUDGED_META = (COMMIT_TIME, SEQUENCE, RECORD_KEY, PARTITION_PATH)


class Partitioning(Enum):
    NONE = "none"
    PLAIN = "plain"
    HIVE = "hive"
    ENCODED = "encoded"
    TWO = "two"
    DATE = "date"


_BORN = (dt.date(1969, 7, 20), dt.date(2024, 2, 29), dt.date(2038, 1, 19))
_REGIONS: dict[Partitioning, tuple[str | None, ...]] = {
    Partitioning.NONE: ("eu", None, "us"),
    Partitioning.PLAIN: ("eu", "us", "asia pacific"),
    Partitioning.HIVE: ("eu", None, "us"),
    Partitioning.ENCODED: ("a/b", "50% off: x=y?", "ünï [cödé]"),
    Partitioning.TWO: ("eu", "us", "eu"),
    Partitioning.DATE: ("eu", "us", None),
}
_COUNTRIES = ("fr", "ca", "de")
_PATHS: dict[Partitioning, tuple[str, ...]] = {
    Partitioning.NONE: ("", "", ""),
    Partitioning.PLAIN: ("eu", "us", "asia pacific"),
    Partitioning.HIVE: ("region=eu", "region=__HIVE_DEFAULT_PARTITION__", "region=us"),
    Partitioning.ENCODED: ("a%2Fb", "50%25 off%3A x%3Dy%3F", "ünï %5Bcödé%5D"),
    Partitioning.TWO: (
        "region=eu/country=fr",
        "region=us/country=ca",
        "region=eu/country=de",
    ),
    Partitioning.DATE: ("1969-07-20", "2024-02-29", "2038-01-19"),
}
PARTITION_FIELDS: dict[Partitioning, tuple[str, ...]] = {
    Partitioning.NONE: (),
    Partitioning.PLAIN: ("region",),
    Partitioning.HIVE: ("region",),
    Partitioning.ENCODED: ("region",),
    Partitioning.TWO: ("region", "country"),
    Partitioning.DATE: ("born",),
}
HIVE_STYLE = frozenset({Partitioning.HIVE, Partitioning.TWO})


@dataclass(frozen=True, slots=True)
class Shape:
    """What a generated table is, before anything is written to it."""

    version: Literal[6, 8, 9]
    merge_on_read: bool
    partitioning: Partitioning = Partitioning.NONE
    blocks: Literal["avro", "parquet"] = "avro"
    event_time: bool = True
    """Merge by the ordering field ``ts``; else the newest commit wins."""
    decimal_in_struct: bool = False
    null_elements: bool = False
    """Lists and maps with null elements: Java reads them, but its Avro writer refuses the lists."""
    local_timestamp: bool = False
    """A timestamp without zone: only Java 1.2 and we ourselves read it."""

    @property
    def key_fields(self) -> tuple[str, ...]:
        return ("id", "id2") if self.partitioning is Partitioning.TWO else ("id",)

    @property
    def partition_fields(self) -> tuple[str, ...]:
        return PARTITION_FIELDS[self.partitioning]


def data_schema(shape: Shape) -> pa.Schema:
    place = [pa.field("lat", pa.float64()), pa.field("label", pa.string())]
    if shape.decimal_in_struct:
        place.append(pa.field("cost", pa.decimal128(12, 3)))
    local = [pa.field("local", pa.timestamp("us"))] if shape.local_timestamp else []
    step = pa.struct([pa.field("n", pa.int32()), pa.field("note", pa.string())])
    return pa.schema(
        [
            pa.field("id", pa.string()),
            pa.field("id2", pa.int32()),
            pa.field("name", pa.string()),
            pa.field("flag", pa.bool_()),
            pa.field("count", pa.int32()),
            pa.field("total", pa.int64()),
            pa.field("ratio", pa.float32()),
            pa.field("score", pa.float64()),
            pa.field("price", pa.decimal128(9, 2)),
            pa.field("amount", pa.decimal128(18, 4)),
            pa.field("huge", pa.decimal128(30, 10)),
            pa.field("day", pa.date32()),
            pa.field("seen", pa.timestamp("us", tz="UTC")),
            *local,
            pa.field("raw", pa.binary()),
            pa.field("place", pa.struct(place)),
            pa.field("tags", pa.list_(pa.string())),
            pa.field("steps", pa.list_(step)),
            pa.field("attributes", pa.map_(pa.string(), pa.int64())),
            pa.field("region", pa.string()),
            pa.field("country", pa.string()),
            pa.field("born", pa.date32()),
            pa.field("ts", pa.int64()),
        ]
    )


def make_row(shape: Shape, number: int, *, ts: int) -> Row:
    """Row ``number`` as it stands at event time ``ts``: the same key for ever, other values."""
    turn = number * 7 + ts * 13
    place_of = number % 3
    elements = range(turn % 4)
    row = {
        "id": f"k{number:04d}",
        "id2": number % 5,
        "name": None if turn % 11 == 0 else f"näme {turn} ✓" if turn % 2 else "",
        "flag": (True, False, None)[turn % 3],
        "count": (-(2**31), 2**31 - 1, 0, turn, None)[turn % 5],
        "total": (-(2**63), 2**63 - 1, turn, None)[turn % 4],
        "ratio": (0.5 * turn, float("inf"), -0.25, None)[turn % 4],
        "score": (turn / 8, 1e300, -1e-300, None)[turn % 4],
        "price": (Decimal("-9999999.99"), Decimal(turn).scaleb(-2), None)[turn % 3],
        "amount": (Decimal("99999999999999.9999"), Decimal(-turn).scaleb(-4), None)[turn % 3],
        "huge": (Decimal("-12345678901234567890.0123456789"), Decimal(turn), None)[turn % 3],
        "day": (dt.date(1950, 1, 1) + dt.timedelta(days=turn * 31), None)[turn % 7 == 0],
        "seen": dt.datetime(1965, 6, 5, 4, 3, 2, 999_001, tzinfo=dt.UTC)
        + dt.timedelta(days=turn, microseconds=turn),
        "raw": (b"\x00\xff\x80#HUDI#", b"", None)[turn % 3],
        "place": _place(shape, turn),
        "tags": _tags(shape, turn),
        "steps": [{"n": step, "note": f"s{step}"} for step in range(turn % 3)],
        "attributes": None if turn % 5 == 0 else {f"a{n}": turn * n for n in elements},
        "region": _REGIONS[shape.partitioning][place_of],
        "country": _COUNTRIES[place_of],
        "born": _BORN[place_of],
        "ts": ts,
    }
    if shape.local_timestamp:
        row["local"] = None if turn % 5 == 1 else row["seen"].replace(tzinfo=None)
    if shape.null_elements and row["attributes"] is not None:
        row["attributes"]["nothing"] = None
    return row


def _place(shape: Shape, turn: int) -> Row | None:
    if turn % 6 == 0:
        return None
    place: Row = {"lat": turn / 4, "label": None if turn % 4 == 0 else f"L{turn}"}
    if shape.decimal_in_struct:
        place["cost"] = Decimal(turn).scaleb(-3)
    return place


def _tags(shape: Shape, turn: int) -> list[str | None] | None:
    if turn % 4 == 0:
        return None
    tags: list[str | None] = [f"t{n}" for n in range(turn % 3)]
    return [*tags, None] if shape.null_elements else tags


def key_of(shape: Shape, row: Row) -> str:
    if shape.partitioning is Partitioning.TWO:
        return f"id:{row['id']},id2:{row['id2']}"
    return str(row["id"])


def path_of(shape: Shape, row: Row) -> str:
    return _PATHS[shape.partitioning][int(row["id"][1:]) % 3]


def paths(shape: Shape) -> tuple[str, ...]:
    return tuple(dict.fromkeys(_PATHS[shape.partitioning]))


def to_table(shape: Shape, rows: list[Row]) -> pa.Table:
    """The data columns of rows (meta values in them are left out)."""
    schema = data_schema(shape)
    plain = [{name: row[name] for name in schema.names} for row in rows]
    for row in plain:
        if row["attributes"] is not None:
            row["attributes"] = list(row["attributes"].items())
    return pa.Table.from_pylist(plain, schema)


def differences(
    shape: Shape, model: dict[str, Row], found: pa.Table, *, without: frozenset[str] = frozenset()
) -> list[str]:
    """What ``found`` says otherwise than the model, a few lines; empty if they are equal.

    A model value ``...`` for a meta column is not compared: that row was written by Java.
    """
    schema = data_schema(shape)
    columns = [name for name in (*JUDGED_META, *schema.names) if name not in without]
    missing = [name for name in columns if name not in found.column_names]
    if missing:
        return [f"columns missing: {missing}"]
    order = pc.sort_indices(found.column(RECORD_KEY).cast(pa.string()))
    found = found.take(order)
    keys = found.column(RECORD_KEY).to_pylist()
    if keys != sorted(model):
        extra = sorted(key for key in set(keys) if key not in model)
        lost = sorted(set(model) - set(keys))
        twice = sorted({key for key in keys if keys.count(key) > 1})
        return [f"keys extra {extra[:5]}, lost {lost[:5]}, twice {twice[:5]} of {len(model)}"]
    problems = []
    for name in columns:
        kind = pa.string() if name in JUDGED_META else schema.field(name).type
        values = _plain(found.column(name), kind)
        for key, value in zip(keys, values, strict=True):
            expected = model[key][name]
            if expected is not ... and _unequal(expected, value):
                problems.append(f"{key}.{name}: expected {expected!r}, found {value!r}")
                break
    return problems


def _plain(column: pa.ChunkedArray, kind: pa.DataType) -> list[Any]:
    if pa.types.is_map(kind):
        return [None if value is None else dict(value) for value in column.to_pylist()]
    if column.type != kind and not pa.types.is_nested(kind):
        column = column.cast(kind)
    return column.to_pylist()


def _unequal(expected: object, found: object) -> bool:
    return expected != found
