"""Every column type, and how they change."""

from __future__ import annotations

import datetime as dt
import random
from decimal import Decimal
from typing import Any

from maker import ALL, Maker, theme

UTC = dt.timezone.utc
BASE = (
    "id string, ts long, part string, b boolean, i int, l long, f float, d double, "
    "d9 decimal(9,2), d18 decimal(18,4), d30 decimal(30,10), day date, at timestamp, "
    "s string, bin binary, st struct<x:int,y:string,z:struct<p:double,q:decimal(12,3)>>, "
    "li array<long>, ls array<struct<k:string,v:int>>, ll array<array<int>>, "
    "m map<string,long>, ms map<string,struct<a:int,b:array<string>>>"
)


def typed(ids: range, ts: int, *, nulls: bool = True, ntz: bool = False) -> list[dict[str, Any]]:
    """Rows that reach the ends of each type; every fifth row is null wherever it may be."""
    rows = []
    for n in ids:
        r = random.Random(n * 7919 + ts)
        row: dict[str, Any] = {
            "id": f"k{n:03d}",
            "ts": ts,
            "part": f"p{n % 2}",
            "b": bool(n % 2),
            "i": r.choice([-(2**31), 2**31 - 1, 0, r.randrange(-1000, 1000)]),
            "l": r.choice([-(2**63), 2**63 - 1, 0, r.randrange(10**12)]),
            "f": r.choice([0.5, -0.0, 3.4028234663852886e38, 1.401298464324817e-45, 1.25]),
            "d": r.choice([0.1, -0.0, 1.7976931348623157e308, 5e-324, 2.5]),
            "d9": Decimal(r.randrange(-999999999, 999999999)).scaleb(-2),
            "d18": Decimal(r.randrange(-(10**18) + 1, 10**18)).scaleb(-4),
            "d30": Decimal(r.randrange(-(10**29), 10**29)).scaleb(-10),
            "day": dt.date(1950, 1, 1) + dt.timedelta(days=r.randrange(40000)),
            "at": dt.datetime(1969, 12, 30, tzinfo=UTC)
            + dt.timedelta(microseconds=r.randrange(2 * 10**15)),
            "s": r.choice(["", "x", "naïve ☂ 𝄞", "tab\there", 'q"uote\\']),
            "bin": bytearray(r.randbytes(r.randrange(0, 9))),
            "st": (n, f"y{n}", (n / 4, Decimal(n).scaleb(-3))),
            "li": [r.randrange(100) for _ in range(n % 4)],
            "ls": [(f"e{j}", j * n) for j in range(n % 3)],
            "ll": [[j, n] for j in range(n % 3)],
            "m": {f"m{j}": j * n for j in range(n % 3)},
            "ms": {"one": (n, ["a", "b"][: n % 3])},
        }
        if ntz:
            row["ntz"] = dt.datetime(2020, 2, 29, 1, 2, 3, 456789) + dt.timedelta(hours=n)
        if nulls and n % 5 == 0:
            row = {k: (v if k in ("id", "ts", "part") else None) for k, v in row.items()}
        elif nulls and n % 5 == 1:
            row["st"] = (None, None, (None, None))
        rows.append(row)
    return rows


@theme("types", metadata=False, features=("every type", "nulls", "nested"))
def types(t: Maker) -> None:
    """Every type with nulls and nesting, by bulk insert, upsert and insert."""
    t.set({"hoodie.datasource.write.partitionpath.field": "part"})
    ntz = t.version == 9
    schema = BASE + (", ntz timestamp_ntz" if ntz else "")
    # 1.2.0's row writer makes three-level lists; lists of lists that the older ones make
    # cannot be read by themselves (their Avro reader finds a group without columns).
    first = "bulk_insert" if t.bundle == "1.2.0" else "insert"
    t.write(typed(range(20), 100, ntz=ntz), first, schema=schema)
    t.write(typed(range(0, 8), 200, ntz=ntz), schema=schema)
    t.write(typed(range(15, 26), 300, ntz=ntz), schema=schema)
    t.write(typed(range(2, 4), 400, ntz=ntz), "delete", schema=schema)
    t.write(typed(range(6, 12), 500, ntz=ntz), schema=schema)


@theme(
    "types_parquet",
    metadata=False,
    kinds=("mor",),
    features=("every type", "parquet blocks", "compaction"),
)
def types_parquet(t: Maker) -> None:
    """Every type in Parquet log blocks, compacted in the middle."""
    t.set(
        {
            "hoodie.datasource.write.partitionpath.field": "part",
            "hoodie.logfile.data.block.format": "parquet",
        }
    )
    t.write(typed(range(16), 100), "insert", schema=BASE)
    t.write(typed(range(0, 8), 200), schema=BASE)
    t.compact("both")
    t.write(typed(range(6, 12), 300), schema=BASE)
    t.write(typed(range(3, 5), 400), schema=BASE)


@theme(
    "small_ints",
    flavours=("v9", "v6"),
    metadata=False,
    kinds=("cow",),
    features=("tinyint", "smallint"),
)
def small_ints(t: Maker) -> None:
    """tinyint and smallint columns, which Hudi stores as int."""
    schema = "id string, ts long, city string, tiny tinyint, small smallint"

    def rows(ids: range, ts: int) -> list[dict[str, Any]]:
        return [
            {
                "id": f"k{n}",
                "ts": ts,
                "city": "a",
                "tiny": n - 5,
                "small": None if n == 3 else n * 99,
            }
            for n in ids
        ]

    t.write(rows(range(10), 1), "insert", schema=schema)
    t.write(rows(range(3), 2), schema=schema)
    t.write(rows(range(5, 12), 3), schema=schema)
    t.write(rows(range(1), 4), "delete", schema=schema)


@theme(
    "list_nulls",
    metadata=False,
    kinds=("cow",),
    flavours=("v9",),
    features=("three-level lists", "null elements"),
)
def list_nulls(t: Maker) -> None:
    """Lists with null elements (`parquet.avro.write-old-list-structure=false`)."""
    # Read where a Hadoop configuration is looked at, not only the write options.
    t.session.spark._jsc.hadoopConfiguration().set("parquet.avro.write-old-list-structure", "false")
    schema = "id string, ts long, city string, li array<int>, m map<string,string>"

    def rows(ids: range, ts: int) -> list[dict[str, Any]]:
        return [
            {
                "id": f"k{n}",
                "ts": ts,
                "city": "a",
                "li": [None, n, None][: n % 4],
                "m": {"a": None, "b": str(n)},
            }
            for n in ids
        ]

    option = {"parquet__avro__write-old-list-structure": "false"}
    try:
        t.write(rows(range(8), 1), "bulk_insert", schema=schema, **option)
        t.write(rows(range(4), 2), schema=schema, **option)
        t.write(rows(range(6, 12), 3), schema=schema, **option)
        t.write(rows(range(2, 3), 4), schema=schema, **option)
    finally:
        t.session.spark._jsc.hadoopConfiguration().unset("parquet.avro.write-old-list-structure")


@theme(
    "evolution",
    single=("v8",),
    metadata=False,
    flavours=(*ALL, "v6by12"),
    features=("added columns", "promotion", "nested add"),
)
def evolution(t: Maker) -> None:
    """Columns added at top level and in a struct; int becomes long, float becomes double."""
    one = "id string, ts long, city string, n int, f float, st struct<a:int>"
    two = "id string, ts long, city string, n int, f float, st struct<a:int>, extra string"
    three = (
        "id string, ts long, city string, n long, f double, "
        "st struct<a:int,b:string>, extra string, more decimal(9,2)"
    )

    def rows(ids: range, ts: int, stage: int) -> list[dict[str, Any]]:
        found = []
        for n in ids:
            row: dict[str, Any] = {
                "id": f"k{n:02d}",
                "ts": ts,
                "city": f"c{n % 2}",
                "n": n * (10**10 if stage == 3 else 1),
                "f": n / 8,
                "st": (n,) if stage < 3 else (n, f"b{n}"),
                "extra": f"extra {n}",
                "more": Decimal(n).scaleb(-2),
            }
            found.append(row)
        return found

    t.write(rows(range(12), 1, 1), "insert", schema=one)
    t.write(rows(range(4), 2, 1), schema=one)
    t.write(rows(range(2, 8), 3, 2), schema=two)
    t.write(rows(range(6, 14), 4, 3), schema=three)
    t.write(rows(range(0, 2), 5, 3), schema=three)


@theme(
    "schema_on_read",
    metadata=False,
    kinds=("mor",),
    flavours=("v9",),
    features=("schema on read", "rename", "drop column"),
)
def schema_on_read(t: Maker) -> None:
    """ALTER TABLE with schema-on-read: a column renamed, one dropped, one added, a type changed."""
    schema = "id string, ts long, city string, n int, old string, gone string"

    def rows(ids: range, ts: int) -> list[dict[str, Any]]:
        return [
            {"id": f"k{n}", "ts": ts, "city": "a", "n": n, "old": f"o{n}", "gone": "g"} for n in ids
        ]

    t.write(rows(range(10), 1), "insert", schema=schema)
    t.write(rows(range(4), 2), schema=schema)
    t.write(rows(range(8, 14), 3), schema=schema)
    t.write(rows(range(3, 4), 4), "delete", schema=schema)
    t.sql("set hoodie.schema.on.read.enable=true")
    # 1.2.0 takes a renamed column for a dropped one, and refuses that by default.
    t.sql("set hoodie.datasource.write.schema.allow.auto.evolution.column.drop=true")
    try:
        name = t.catalog()
        t.sql(f"alter table {name} rename column old to new")
        t.sql(f"alter table {name} drop column gone")
        t.sql(f"alter table {name} add columns (added int)")
        t.sql(f"alter table {name} alter column n type bigint")
        t.remember()
    finally:
        t.sql("reset hoodie.schema.on.read.enable")
        t.sql("reset hoodie.datasource.write.schema.allow.auto.evolution.column.drop")
