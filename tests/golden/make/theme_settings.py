"""Payloads, table features and file settings that change the bytes or must be refused."""

from __future__ import annotations

from typing import Any

from maker import (
    COLUMN_STATS,
    MODERN,
    ORDERING,
    PARTITION_STATS,
    PAYLOAD,
    Maker,
    theme,
    trips,
)

MODEL = "org.apache.hudi.common.model."


def partial_rows(t: Maker) -> None:
    t.write(trips(range(12), 100, note="first"), "insert")
    t.write(nulls(range(0, 6), 200))
    t.write(nulls(range(3, 9), 300))
    t.write(trips(range(20, 22), 400, note="new"))


def nulls(ids: range, ts: int) -> list[dict[str, Any]]:
    """Rows whose amount or note is null, to be filled from the row before."""
    return [
        {**row, "amount": None if n % 2 else row["amount"], "note": f"at {ts}" if n % 2 else None}
        for n, row in zip(ids, trips(ids, ts), strict=True)
    ]


@theme(
    "partial_payload",
    refused="PartialUpdateAvroPayload|partial.update.mode",
    kinds=("mor",),
    metadata=False,
    features=("PartialUpdateAvroPayload", "refused"),
)
def partial_payload(t: Maker) -> None:
    """PartialUpdateAvroPayload: null columns keep the old value."""
    t.set({PAYLOAD: MODEL + "PartialUpdateAvroPayload"})
    partial_rows(t)


@theme(
    "non_defaults_payload",
    refused="OverwriteNonDefaultsWithLatestAvroPayload|partial.update.mode",
    metadata=False,
    kinds=("mor",),
    features=("OverwriteNonDefaults payload", "refused"),
)
def non_defaults_payload(t: Maker) -> None:
    """OverwriteNonDefaultsWithLatestAvroPayload: default values keep the old value."""
    t.set({PAYLOAD: MODEL + "OverwriteNonDefaultsWithLatestAvroPayload"})
    partial_rows(t)


@theme(
    "merge_into",
    refused="(?i)partial",
    metadata=False,
    kinds=("mor",),
    flavours=MODERN,
    features=("partial update blocks", "MERGE INTO"),
)
def merge_into(t: Maker) -> None:
    """MERGE INTO with some columns: log blocks with IS_PARTIAL."""
    t.write(trips(range(12), 100), "insert")
    t.write(trips(range(0, 4), 200))
    name = t.catalog()
    for ts in (300, 400):
        t.frame(trips(range(2, 8), ts, note=f"merged at {ts}")).createOrReplaceTempView("incoming")
        t.sql(
            f"merge into {name} as target using incoming as source "
            "on target.id = source.id and target.city = source.city "
            "when matched then update set note = source.note, ts = source.ts"
        )
        t.remember()
    t.write(trips(range(7, 9), 500))


@theme(
    "several_orderings",
    kinds=("mor",),
    metadata=False,
    flavours=("v9",),
    features=("several ordering fields",),
)
def several_orderings(t: Maker) -> None:
    """Two ordering fields, compared one after the other."""
    schema = "id string, ts long, seq int, city string, note string"
    t.set({ORDERING: "ts,seq", "hoodie.table.ordering.fields": "ts,seq"})

    def rows(ids: range, ts: int, seq: int) -> list[dict[str, Any]]:
        return [
            {"id": f"k{n}", "ts": ts, "seq": seq, "city": f"c{n % 2}", "note": f"{ts}.{seq}"}
            for n in ids
        ]

    t.write(rows(range(12), 5, 5), "insert", schema=schema)
    t.write(rows(range(0, 6), 5, 7), schema=schema)
    t.write(rows(range(3, 9), 5, 6), schema=schema)
    t.write(rows(range(0, 2), 4, 99), schema=schema)
    t.write(rows(range(10, 11), 6, 0), "delete", schema=schema)


@theme("cdc", single=("v8",), metadata=False, features=("CDC log files",))
def cdc(t: Maker) -> None:
    """Change data capture is on: `.cdc` files lie beside the data."""
    t.set(
        {
            "hoodie.table.cdc.enabled": "true",
            "hoodie.table.cdc.supplemental.logging.mode": "data_before_after",
        }
    )
    t.write(trips(range(12), 100), "insert")
    t.write(trips(range(0, 6), 200))
    t.write(trips(range(10, 16), 300))
    t.write(trips(range(0, 2), 400), "delete")


@theme(
    "operation_field",
    flavours=("v9", "v6"),
    metadata=False,
    kinds=("cow",),
    features=("_hoodie_operation",),
)
def operation_field(t: Maker) -> None:
    """The sixth meta column, `_hoodie_operation`."""
    t.set({"hoodie.allow.operation.metadata.field": "true"})
    t.write(trips(range(12), 100), "insert")
    t.write(trips(range(0, 6), 200))
    t.write(trips(range(10, 16), 300))
    t.write(trips(range(0, 2), 400), "delete")


@theme("no_metadata", kinds=("mor",), metadata=False, features=("no metadata table",))
def no_metadata(t: Maker) -> None:
    """Without a metadata table; times in UTC by the table's own word."""
    t.set({"hoodie.table.timeline.timezone": "UTC"})
    t.write(trips(range(12), 100), "insert")
    t.write(trips(range(0, 6), 200))
    t.write(trips(range(10, 16), 300))
    t.write(trips(range(0, 2), 400), "delete")


@theme(
    "all_indexes",
    kinds=("mor",),
    flavours=("v9", "v6"),
    features=("record index", "bloom filter index", "column stats"),
)
def all_indexes(t: Maker) -> None:
    """The metadata table with files, statistics, bloom filters and the record index."""
    t.set(
        {
            COLUMN_STATS: "true",
            PARTITION_STATS: None,
            "hoodie.metadata.index.bloom.filter.enable": "true",
            "hoodie.metadata.record.index.enable": "true",
            "hoodie.metadata.record.index.min.filegroup.count": "2",
            "hoodie.metadata.record.index.max.filegroup.count": "2",
            "hoodie.metadata.global.record.level.index.enable": "true",
            "hoodie.metadata.global.record.level.index.min.filegroup.count": "2",
            "hoodie.metadata.global.record.level.index.max.filegroup.count": "2",
        }
    )
    cities = ("amsterdam", "berlin")
    t.write(trips(range(12), 100, cities=cities), "insert")
    t.write(trips(range(0, 6), 200, cities=cities))
    t.compact("both")
    t.write(trips(range(10, 16), 300, cities=cities))
    t.write(trips(range(0, 2), 400, cities=cities), "delete")


@theme(
    "bloom_filters",
    flavours=("v9", "v6"),
    metadata=False,
    kinds=("cow",),
    features=("simple bloom", "dynamic bloom that grew"),
)
def bloom_filters(t: Maker) -> None:
    """Footers with a SIMPLE filter and with dynamic ones of several rows; keys beyond ASCII."""
    t.set({"hoodie.index.bloom.num_entries": "10"})
    t.set(
        {"hoodie.index.bloom.fpp": "0.001", "hoodie.bloom.index.filter.dynamic.max.entries": "40"}
    )

    def rows(ids: range, ts: int, city: str) -> list[dict[str, Any]]:
        return [{**row, "id": f"schlüssel-{row['id']}-☂", "city": city} for row in trips(ids, ts)]

    simple = {"hoodie__bloom__index__filter__type": "SIMPLE"}
    dynamic = {"hoodie__bloom__index__filter__type": "DYNAMIC_V0"}
    t.write(rows(range(8), 100, "simple"), "insert", **simple)
    t.write(rows(range(20, 55), 200, "grown"), "insert", **dynamic)
    t.write(rows(range(100, 175), 300, "full"), "insert", **dynamic)
    t.write(rows(range(100, 110), 400, "full"), **dynamic)


@theme(
    "codecs", metadata=False, kinds=("cow",), flavours=("v9", "v6"), features=("parquet codecs",)
)
def codecs(t: Maker) -> None:
    """Base files compressed with each codec, and not at all."""
    for step, codec in enumerate(("gzip", "snappy", "zstd", "uncompressed")):
        rows = trips(range(step * 10, step * 10 + 8), 100, cities=(codec,))
        t.write(rows, "insert", hoodie__parquet__compression__codec=codec)
    t.write(trips(range(0, 4), 200, cities=("gzip",)), hoodie__parquet__compression__codec="zstd")


@theme(
    "many_blocks",
    metadata=False,
    kinds=("mor",),
    features=("several blocks in a file", "several log versions"),
)
def many_blocks(t: Maker) -> None:
    """Writes cut into several blocks, and into several log files of one delta commit."""
    option = {
        "hoodie__logfile__data__block__max__size": "2048",
        "hoodie__logfile__max__size": "4096",
    }
    cities = ("amsterdam",)
    t.write(trips(range(160), 100, cities=cities), "insert")
    t.write(trips(range(0, 150), 200, cities=cities), **option)
    t.write(trips(range(40, 120), 300, cities=cities), **option)
    t.write(trips(range(100, 130), 400, cities=cities), "delete", **option)
    # 1.0.2 cannot read a key that comes back from a delete operation (hudi-format.md §3.2).
    back = range(130, 135) if t.bundle == "1.0.2" else range(125, 135)
    t.write(trips(back, 500, cities=cities), **option)
