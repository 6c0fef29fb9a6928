"""Record keys, key generators and partition paths in all their encodings."""

from __future__ import annotations

import datetime as dt
from typing import Any

from maker import (
    ALL,
    HIVE,
    KEY,
    KEYGEN,
    METADATA,
    ORDERING,
    PARTITION,
    TRIP,
    URLENCODE,
    Maker,
    theme,
    trips,
)

PACKAGE = "org.apache.hudi.keygen."


def four_writes(t: Maker, rows: Any, schema: str = TRIP) -> None:
    """Insert, update, insert new keys, delete: enough for three earlier instants."""
    t.write(rows(range(14), 100), "insert", schema=schema)
    t.write(rows(range(4), 200), schema=schema)
    t.write(rows(range(10, 18), 300), schema=schema)
    t.write(rows(range(2, 3), 400), "delete", schema=schema)


@theme("nonpartitioned", single=("v8", "v6"), metadata=False, features=("non-partitioned",))
def nonpartitioned(t: Maker) -> None:
    """No partitions: `NonpartitionedKeyGenerator`."""
    t.set({PARTITION: None if t.bundle != "0.15.0" else ""})
    t.set({KEYGEN: PACKAGE + "NonpartitionedKeyGenerator"})
    four_writes(t, trips)


@theme("hive_style", metadata=False, kinds=("cow",), features=("hive style partitions",))
def hive_style(t: Maker) -> None:
    """Directories `city=berlin`."""
    t.set({HIVE: "true"})
    four_writes(t, trips)


@theme(
    "complex_keys",
    kinds=("mor",),
    metadata=False,
    features=("complex keys", "several partition fields", "null in a key"),
)
def complex_keys(t: Maker) -> None:
    """Two key fields (one null or empty at times) and two partition fields, hive style."""
    schema = "id string, sub string, ts long, region string, day int, note string"
    t.set(
        {
            KEY: "id,sub",
            PARTITION: "region,day",
            KEYGEN: PACKAGE + "ComplexKeyGenerator",
            HIVE: "true",
        }
    )

    def rows(ids: range, ts: int) -> list[dict[str, Any]]:
        return [
            {
                "id": f"k{n}",
                "sub": [None, "", "s1", "s:2,x"][n % 4],
                "ts": ts,
                "region": ["eu", "us"][n % 2],
                "day": 20260100 + n % 3,
                "note": f"n{n}@{ts}",
            }
            for n in ids
        ]

    four_writes(t, rows, schema)


@theme(
    "complex_one_key",
    metadata=False,
    kinds=("cow",),
    flavours=(*ALL, "v6by12"),
    features=("complex keys of one field",),
)
def complex_one_key(t: Maker) -> None:
    """The complex key generator with a single field, whose encoding differs by release."""
    t.set({KEYGEN: PACKAGE + "ComplexKeyGenerator"})
    # 1.2.0 asks its users to have read about the change before it writes older tables.
    t.set({"hoodie.write.complex.keygen.validation.enable": "false"})
    four_writes(t, trips)


@theme(
    "odd_partitions",
    kinds=("cow",),
    metadata=False,
    features=("URL-encoded partitions", "null and empty partition values"),
)
def odd_partitions(t: Maker) -> None:
    """URL-encoded partition values: reserved characters, blanks, non-ASCII, null, empty."""
    t.set({URLENCODE: "true"})
    odd = ["a/b", "c=d", "e f", "ünï", "100%", "x:y", "[b]{c}", "q?#", None, "", "it's", "b\\s"]

    def rows(ids: range, ts: int) -> list[dict[str, Any]]:
        return trips(ids, ts, cities=odd)  # type: ignore[arg-type]

    four_writes(t, rows)


@theme(
    "odd_hive_partitions",
    flavours=("v9", "v6"),
    metadata=False,
    kinds=("cow",),
    features=("hive style", "URL-encoded partitions"),
)
def odd_hive_partitions(t: Maker) -> None:
    """The same, hive style as well."""
    t.set({URLENCODE: "true", HIVE: "true"})
    odd = ["a/b", "c=d", "ünï x", None, "1%2"]

    def rows(ids: range, ts: int) -> list[dict[str, Any]]:
        return trips(ids, ts, cities=odd)  # type: ignore[arg-type]

    four_writes(t, rows)


@theme(
    "raw_partitions",
    flavours=("v9", "v6"),
    metadata=False,
    kinds=("cow",),
    features=("slashes in partition values",),
)
def raw_partitions(t: Maker) -> None:
    """Without encoding a value with slashes becomes several directories."""
    four_writes(t, lambda ids, ts: trips(ids, ts, cities=["2026/01/02", "2026/01/03", "flat"]))


@theme("date_partition", kinds=("mor",), metadata=False, features=("date partition column",))
def date_partition(t: Maker) -> None:
    """A partition column of type date."""
    schema = "id string, ts long, day date, note string"
    t.set({PARTITION: "day"})

    def rows(ids: range, ts: int) -> list[dict[str, Any]]:
        first = dt.date(2024, 2, 28)
        return [
            {"id": f"k{n}", "ts": ts, "day": first + dt.timedelta(days=n % 3), "note": f"{n}@{ts}"}
            for n in ids
        ]

    four_writes(t, rows, schema)


@theme(
    "int_partition",
    metadata=False,
    kinds=("mor",),
    flavours=ALL,
    features=("integer partition column", "integer key"),
)
def int_partition(t: Maker) -> None:
    """Integer record key and integer partition column, hive style."""
    schema = "id long, ts long, bucket int, note string"
    t.set({PARTITION: "bucket", HIVE: "true"})

    def rows(ids: range, ts: int) -> list[dict[str, Any]]:
        return [{"id": n, "ts": ts, "bucket": n % 3, "note": f"{n}@{ts}"} for n in ids]

    four_writes(t, rows, schema)


TIMED = {
    PARTITION: "at",
    KEYGEN: PACKAGE + "TimestampBasedKeyGenerator",
    "hoodie.keygen.timebased.timestamp.type": "EPOCHMILLISECONDS",
    "hoodie.keygen.timebased.output.dateformat": "yyyy/MM/dd",
    "hoodie.keygen.timebased.timezone": "UTC",
}


def timed_rows(ids: range, ts: int) -> list[dict[str, Any]]:
    start = 1_600_000_000_000
    return [
        {
            "id": f"k{n}",
            "ts": ts,
            "at": start + (n % 3) * 86_400_000,
            "grp": f"g{n % 2}",
            "note": f"{n}@{ts}",
        }
        for n in ids
    ]


@theme("timestamp_keygen", kinds=("cow",), metadata=False, features=("timestamp key generator",))
def timestamp_keygen(t: Maker) -> None:
    """Partition path from epoch milliseconds as yyyy/MM/dd."""
    t.set(TIMED)  # type: ignore[arg-type]
    four_writes(t, timed_rows, "id string, ts long, at long, grp string, note string")


@theme("custom_keygen", metadata=False, kinds=("mor",), features=("custom key generator",))
def custom_keygen(t: Maker) -> None:
    """CustomKeyGenerator: `grp:SIMPLE,at:TIMESTAMP`."""
    t.set(TIMED)  # type: ignore[arg-type]
    t.set({PARTITION: "grp:SIMPLE,at:TIMESTAMP", KEYGEN: PACKAGE + "CustomKeyGenerator"})
    # With slashes 1.2.0 cannot split the path of its own table into two values.
    t.set({"hoodie.keygen.timebased.output.dateformat": "yyyyMMdd"})
    four_writes(t, timed_rows, "id string, ts long, at long, grp string, note string")


@theme("auto_keys", metadata=False, kinds=("cow",), features=("auto-generated keys",))
def auto_keys(t: Maker) -> None:
    """No record key field: Hudi makes the keys; updates by SQL."""
    t.set({KEY: None, ORDERING: None})
    if t.bundle == "0.15.0":
        t.set({"hoodie.datasource.write.payload.class": None})
    t.write(trips(range(12), 1), "insert")
    t.write(trips(range(20, 26), 2), "insert")
    name = t.catalog()
    # SQL takes its settings from the session.
    t.sql(f"set {METADATA}=false")
    t.sql(f"update {name} set note = 'updated' where id in ('k003', 'k021')")
    t.remember()
    t.sql(f"delete from {name} where id in ('k005', 'k022')")
    t.remember()
    t.sql(f"reset {METADATA}")


@theme(
    "drop_partition_columns",
    refused="drop.partition.columns",
    metadata=False,
    kinds=("cow",),
    features=("drop.partition.columns",),
)
def drop_partition_columns(t: Maker) -> None:
    """The partition column is not in the files (`…write.drop.partition.columns`)."""
    t.set({"hoodie.datasource.write.drop.partition.columns": "true", HIVE: "true"})
    t.write(trips(range(12), 1), "insert")
    t.write(trips(range(20, 26), 2), "insert")
    t.write(trips(range(30, 36), 3), "insert")
    t.write(trips(range(40, 46), 4), "insert")


@theme(
    "no_meta_fields",
    flavours=("v9", "v6"),
    metadata=False,
    kinds=("cow",),
    features=("populate.meta.fields=false",),
)
def no_meta_fields(t: Maker) -> None:
    """Files without the five meta columns."""
    t.set({"hoodie.populate.meta.fields": "false"})
    for step in range(4):
        t.write(trips(range(step * 10, step * 10 + 6), step), "insert")
