"""Log blocks, deletes and the order of events."""

from __future__ import annotations

from maker import (
    ALL,
    COLUMN_STATS,
    DEFAULT_PAYLOAD,
    LATEST_PAYLOAD,
    MERGE_MODE,
    ORDERING,
    PARTITION_STATS,
    PAYLOAD,
    TRIP,
    Maker,
    theme,
    trips,
)

BY12 = ("v8by12", "v6by12")


@theme(
    "basic", crc=True, flavours=ALL + BY12, features=("avro blocks", "insert", "upsert", "delete")
)
def basic(t: Maker) -> None:
    """Insert, update, insert and delete: several logs in one slice for merge-on-read."""
    if t.is_mor and t.bundle == {9: "1.2.0", 8: "1.0.2", 6: "0.15.0"}[t.version]:
        t.set({COLUMN_STATS: None, PARTITION_STATS: None})
    t.write(trips(range(30), 100), "insert")
    t.write(trips(range(0, 12), 200))
    t.write(trips(range(25, 40), 300))
    t.write(trips(range(5, 9), 400), "delete")
    # 1.0.2 cannot read a key that comes back from a delete operation (hudi-format.md §3.2).
    t.write(trips(range(9, 12) if t.bundle == "1.0.2" else range(7, 10), 500))


@theme(
    "parquet_blocks",
    kinds=("mor",),
    flavours=ALL + BY12,
    metadata=False,
    features=("parquet blocks",),
)
def parquet_blocks(t: Maker) -> None:
    """Log files whose data blocks are Parquet, with deletes between them."""
    t.set({"hoodie.logfile.data.block.format": "parquet"})
    t.write(trips(range(30), 100), "insert")
    t.write(trips(range(0, 12), 200))
    t.write(trips(range(10, 14), 300), "delete")
    t.write(trips(range(14, 20) if t.bundle == "1.0.2" else range(8, 20), 400))
    t.write(trips(range(3, 6), 150))


@theme("deletes", metadata=False, features=("delete operation", "_hoodie_is_deleted"))
def deletes(t: Maker) -> None:
    """Both kinds of delete, a late one of each kind, and keys that come back."""
    schema = TRIP + ", _hoodie_is_deleted boolean"

    def flagged(ids: range, ts: int, deleted: bool) -> list[dict]:
        return [{**row, "_hoodie_is_deleted": deleted} for row in trips(ids, ts)]

    t.write(flagged(range(24), 100, False), "bulk_insert", schema=schema)
    t.write(flagged(range(0, 6), 200, True), schema=schema)
    t.write(flagged(range(6, 9), 50, True), schema=schema)
    t.write(flagged(range(9, 12), 300, False), "delete", schema=schema)
    if t.version != 8:
        # 1.0.2 cannot read a key that comes back after a delete operation (hudi-format.md §3.2).
        t.write(flagged(range(10, 12), 400, False), schema=schema)
    t.write(flagged(range(2, 4), 400, False), schema=schema)


@theme(
    "event_time",
    metadata=False,
    flavours=ALL + BY12,
    features=("event time ordering", "late events"),
)
def event_time(t: Maker) -> None:
    """Out-of-order events: the larger ordering value wins, whenever it was written."""
    t.set({PAYLOAD: DEFAULT_PAYLOAD} if t.bundle != "1.2.0" else {})
    t.write(trips(range(20), 500), "insert")
    t.write(trips(range(0, 10), 900, note="newest"))
    t.write(trips(range(0, 5), 700, note="late"))
    t.write(trips(range(3, 15), 300, note="older than the base"))
    t.write(trips(range(8, 12), 900, note="tie"))


@theme(
    "commit_time",
    single=("v8",),
    metadata=False,
    flavours=(*ALL, "v6by12"),
    features=("commit time ordering",),
)
def commit_time(t: Maker) -> None:
    """The newest write wins, whatever the ordering field says (v6: OverwriteWithLatest)."""
    if t.version == 6:
        t.set({PAYLOAD: LATEST_PAYLOAD})
    else:
        t.set({MERGE_MODE: "COMMIT_TIME_ORDERING"})
    t.write(trips(range(20), 500), "insert")
    t.write(trips(range(0, 10), 900, note="second"))
    t.write(trips(range(0, 5), 700, note="third"))
    t.write(trips(range(3, 15), 300, note="fourth"))


@theme("no_ordering", kinds=("mor",), metadata=False, features=("no ordering field",))
def no_ordering(t: Maker) -> None:
    """A table without an ordering field."""
    schema = TRIP.replace("ts long", "stamp long")
    t.set({ORDERING: None})
    if t.version == 6:
        t.set({PAYLOAD: LATEST_PAYLOAD})

    def rows(ids: range, ts: int, note: str) -> list[dict]:
        return [{**row, "stamp": ts} for row in trips(ids, ts, note=note)]

    t.write(rows(range(20), 500, "first"), "insert", schema=schema)
    if t.bundle == "0.15.0":
        # Its data source cannot upsert without an ordering field; its SQL can.
        name = t.catalog()
        t.sql(f"update {name} set stamp = 900, note = 'second' where id < 'k010'")
        t.remember()
        t.sql(f"delete from {name} where id in ('k005', 'k006')")
        t.remember()
        t.sql(f"update {name} set stamp = 300, note = 'third' where id > 'k003' and id < 'k015'")
        t.remember()
        return
    t.write(rows(range(0, 10), 900, "second"), schema=schema)
    t.write(rows(range(5, 8), 1, "gone"), "delete", schema=schema)
    t.write(rows(range(3, 15), 300, "third"), schema=schema)


@theme("delete_marker", kinds=("mor",), metadata=False, features=("payload.delete.field",))
def delete_marker(t: Maker) -> None:
    """A column's value marks a delete (`hoodie.payload.delete.field` and `.marker`)."""
    t.set(
        {
            PAYLOAD: DEFAULT_PAYLOAD,
            "hoodie.payload.delete.field": "note",
            "hoodie.payload.delete.marker": "D",
        }
    )
    t.write(trips(range(20), 500), "insert")
    t.write(trips(range(0, 4), 600, note="D"))
    t.write(trips(range(2, 10), 700, note="back or changed"))
    t.write(trips(range(8, 10), 800, note="D"))
