"""Table services: compaction, clustering, cleaning, rollback, savepoints, archiving."""

from __future__ import annotations

from maker import ALL, Maker, theme, trips

BY12 = ("v8by12", "v6by12")
TWO = ("amsterdam", "berlin")


def start(t: Maker, **more: str) -> None:
    t.write(trips(range(20), 100, cities=TWO), "insert", **more)
    t.write(trips(range(0, 8), 200, cities=TWO), **more)


@theme(
    "compaction_done",
    metadata=False,
    kinds=("mor",),
    flavours=ALL + BY12,
    features=("compaction done",),
)
def compaction_done(t: Maker) -> None:
    """Compacted twice, with logs before, between and after."""
    start(t)
    t.compact("both")
    t.write(trips(range(5, 12), 300, cities=TWO))
    t.write(trips(range(0, 3), 400, cities=TWO), "delete")
    t.compact("both")
    t.write(trips(range(10, 14), 500, cities=TWO))


@theme(
    "compaction_pending",
    kinds=("mor",),
    flavours=ALL + BY12,
    crc=True,
    features=("compaction pending", "delta commits after the plan"),
)
def compaction_pending(t: Maker) -> None:
    """A compaction is planned, not run; delta commits were written after the plan."""
    start(t)
    t.write(trips(range(30, 34), 250, cities=TWO))
    t.compact("schedule")
    t.write(trips(range(5, 12), 300, cities=TWO))
    t.write(trips(range(0, 3), 400, cities=TWO), "delete")
    t.write(trips(range(9, 11), 50, cities=TWO))


@theme(
    "compaction_late",
    metadata=False,
    kinds=("mor",),
    features=("compaction done", "delta commits after the plan"),
)
def compaction_late(t: Maker) -> None:
    """Delta commits between the plan and its execution, and after it."""
    start(t)
    t.compact("schedule")
    t.write(trips(range(5, 12), 300, cities=TWO))
    t.write(trips(range(0, 3), 400, cities=TWO), "delete")
    t.compact("run")
    t.write(trips(range(10, 14), 500, cities=TWO))


@theme(
    "clustering_done",
    flavours=(*ALL, "v6by12"),
    features=("clustering done", "replaced file groups"),
)
def clustering_done(t: Maker) -> None:
    """Clustered, then written again."""
    start(t)
    t.write(
        trips(range(30, 36), 250, cities=TWO), "insert", hoodie__parquet__small__file__limit="0"
    )
    t.cluster("both")
    # 0.15.0 cannot rewrite a clustered base file with a decimal column ("precision 11 as max 9").
    cities = ("cairo",) if t.bundle == "0.15.0" and not t.is_mor else TWO
    t.write(trips(range(5, 12), 300, cities=cities))
    t.write(trips(range(5, 8), 400, cities=cities), "delete")


@theme("clustering_pending", metadata=False, features=("clustering pending",))
def clustering_pending(t: Maker) -> None:
    """A clustering is planned, not run; other partitions were written since."""
    start(t)
    t.write(
        trips(range(30, 36), 250, cities=TWO), "insert", hoodie__parquet__small__file__limit="0"
    )
    t.cluster("schedule")
    t.write(trips(range(40, 46), 300, cities=("cairo",)))
    t.write(trips(range(42, 44), 400, cities=("cairo",)))


CLEAN = {
    "hoodie.cleaner.commits.retained": "4",
    "hoodie.clean.commits.retained": "4",
    "hoodie.clean.automatic": "true",
}


@theme("clean", metadata=False, single=("v8",), features=("clean",))
def clean(t: Maker) -> list[str]:
    """Old file versions are cleaned away; the earlier instants are those still retained."""
    t.set(CLEAN)  # type: ignore[arg-type]
    start(t)
    t.write(trips(range(0, 6), 250, cities=TWO))
    if t.is_mor:
        t.compact("both")
    t.write(trips(range(0, 8), 300, cities=TWO))
    if t.is_mor:
        t.compact("both")
    t.write(trips(range(0, 4), 400, cities=TWO))
    t.write(trips(range(2, 6), 500, cities=TWO))
    if t.is_mor:
        t.compact("both")
    t.write(trips(range(1, 9), 600, cities=TWO))
    t.write(trips(range(0, 3), 700, cities=TWO))
    return [m["instant"] for m in t.moments][-4:-1]


@theme(
    "clean_versions",
    flavours=("v9", "v6"),
    metadata=False,
    kinds=("cow",),
    features=("clean by file versions",),
)
def clean_versions(t: Maker) -> list[str]:
    """KEEP_LATEST_FILE_VERSIONS with two versions kept."""
    t.set(
        {
            "hoodie.cleaner.policy": "KEEP_LATEST_FILE_VERSIONS",
            "hoodie.clean.policy": "KEEP_LATEST_FILE_VERSIONS",
            "hoodie.cleaner.fileversions.retained": "2",
            "hoodie.clean.fileversions.retained": "2",
        }
    )
    start(t)
    for step in range(3, 6):
        t.write(trips(range(step, step + 6), step * 100, cities=TWO))
    return [m["instant"] for m in t.moments][-2:-1]


@theme("rollback_failed", flavours=ALL + BY12, features=("rollback of a failed write",))
def rollback_failed(t: Maker) -> None:
    """A write fails before its commit; the next write rolls it back (v6 logs: command blocks)."""
    start(t)
    t.fail_write(trips(range(4, 10), 900, cities=TWO, note="must not be seen"))
    t.write(trips(range(5, 12), 300, cities=TWO))
    t.fail_write(trips(range(30, 40), 900, cities=TWO, note="must not be seen"), "insert")
    t.write(trips(range(0, 2), 400, cities=TWO), "delete")


@theme("failed_left", crc=True, features=("inflight write left behind",))
def failed_left(t: Maker) -> None:
    """The last write failed before its commit and nobody has rolled it back."""
    start(t)
    t.write(trips(range(5, 12), 300, cities=TWO))
    t.write(trips(range(0, 2), 400, cities=TWO), "delete")
    t.fail_write(trips(range(4, 10), 900, cities=TWO, note="must not be seen"))


@theme(
    "rollback_completed",
    single=("v8",),
    metadata=False,
    features=("rollback of a completed write",),
)
def rollback_completed(t: Maker) -> list[str]:
    """A completed write is rolled back, and the table goes on."""
    start(t)
    t.write(trips(range(5, 12), 300, cities=TWO))
    t.write(trips(range(0, 15), 900, cities=TWO, note="must not be seen"), keep=False)
    bad = t.completed()[-1]
    t.call("rollback_to_instant", table=f"'{t.catalog()}'", instant_time=f"'{bad}'")
    assert bad not in t.completed()
    t.write(trips(range(3, 7), 400, cities=TWO))
    t.write(trips(range(0, 2), 500, cities=TWO), "delete")
    return t.choose()


@theme("savepoint", metadata=False, kinds=("mor",), features=("savepoint",))
def savepoint(t: Maker) -> list[str]:
    """A savepoint pins old files that cleaning would take."""
    t.set(CLEAN)  # type: ignore[arg-type]
    start(t)
    pinned = t.completed()[-1]
    t.call("create_savepoint", table=f"'{t.catalog()}'", commit_time=f"'{pinned}'")
    for step in range(3, 6):
        t.write(trips(range(step, step + 5), step * 100, cities=TWO))
    moments = [m["instant"] for m in t.moments]
    return [pinned, *moments[-3:-1]]


@theme("restore", single=("v8",), features=("savepoint", "restore"))
def restore(t: Maker) -> None:
    """Restored to a savepoint, then written again."""
    start(t)
    pinned = t.completed()[-1]
    t.call("create_savepoint", table=f"'{t.catalog()}'", commit_time=f"'{pinned}'")
    t.write(trips(range(5, 12), 800, cities=TWO, note="must not be seen"), keep=False)
    t.write(trips(range(30, 35), 900, cities=TWO, note="must not be seen"), keep=False)
    t.call("rollback_to_savepoint", table=f"'{t.catalog()}'", instant_time=f"'{pinned}'")
    t.remember()
    t.write(trips(range(3, 7), 300, cities=TWO))
    t.write(trips(range(0, 2), 400, cities=TWO), "delete")


@theme(
    "insert_overwrite",
    single=("v8",),
    metadata=False,
    features=("insert overwrite", "replaced file groups"),
)
def insert_overwrite(t: Maker) -> None:
    """One partition is overwritten, then the whole table."""
    start(t)
    t.write(trips(range(50, 56), 300, cities=("berlin",)), "insert_overwrite")
    t.write(trips(range(50, 52), 400, cities=("berlin",)))
    t.write(trips(range(60, 66), 500, cities=("berlin", "cairo")), "insert_overwrite_table")
    t.write(trips(range(60, 62), 600, cities=("berlin", "cairo")))


@theme("delete_partition", metadata=False, kinds=("cow",), features=("delete partition",))
def delete_partition(t: Maker) -> None:
    """A partition is deleted and comes back with other rows."""
    start(t)
    t.write(
        trips(range(1, 2), 300, cities=TWO),
        "delete_partition",
        hoodie__datasource__write__partitions__to__delete="berlin",
    )
    t.write(trips(range(0, 4), 350, cities=("amsterdam",)))
    t.write(trips(range(70, 74), 400, cities=("berlin",)), "insert")


ARCHIVE = {
    **CLEAN,
    "hoodie.keep.min.commits": "5",
    "hoodie.keep.max.commits": "6",
    "hoodie.timeline.compaction.batch.size": "3",
}


@theme(
    "archived",
    metadata=False,
    single=("v8",),
    flavours=(*ALL, "v6by12"),
    features=("archived history",),
)
def archived(t: Maker) -> list[str]:
    """Enough commits for several archive files (version 8 and 9: a compacted LSM level)."""
    t.set(ARCHIVE)  # type: ignore[arg-type]
    if t.is_mor:
        t.set({"hoodie.compact.inline": "true", "hoodie.compact.inline.max.delta.commits": "2"})
    for step in range(1, 15):
        rows = trips(range(step, step + 6), step * 100, cities=("amsterdam",))
        t.write(rows, "insert" if step == 1 else "upsert", keep=step > 9)
    return [m["instant"] for m in t.moments][-4:-1]


@theme("log_compaction", metadata=False, kinds=("mor",), features=("log compaction",))
def log_compaction(t: Maker) -> None:
    """Log blocks merged into one by log compaction, then written again."""
    option = {
        "hoodie__log__compaction__enable": "true",
        "hoodie__log__compaction__inline": "true",
        "hoodie__log__compaction__blocks__threshold": "2",
        "hoodie__optimized__log__blocks__scan__enable": "true",
    }
    t.write(trips(range(20), 100, cities=TWO), "insert")
    t.write(trips(range(0, 8), 200, cities=TWO))
    t.write(trips(range(4, 12), 300, cities=TWO))
    t.write(trips(range(0, 2), 400, cities=TWO), "delete")
    t.write(trips(range(10, 14), 500, cities=TWO), **option)
    assert any("logcompaction" in rest for _, rest in t.instants()), t.instants()
    t.write(trips(range(12, 15), 600, cities=TWO))


@theme(
    "bucket_index",
    metadata=False,
    kinds=("mor",),
    flavours=(*ALL, "v6by12"),
    features=("bucket index", "log-only groups"),
)
def bucket_index(t: Maker) -> None:
    """Inserts go to logs: groups without a base file, one partition of them compacted later."""
    t.set(
        {
            "hoodie.index.type": "BUCKET",
            "hoodie.bucket.index.num.buckets": "2",
            "hoodie.storage.layout.type": "BUCKET",
            "hoodie.storage.layout.partitioner.class": (
                "org.apache.hudi.table.action.commit.SparkBucketIndexPartitioner"
            ),
        }
    )
    t.write(trips(range(12), 100, cities=TWO), "upsert")
    t.write(trips(range(0, 8), 200, cities=TWO))
    t.compact("both")
    t.write(trips(range(20, 26), 300, cities=("cairo", "berlin")), "upsert")
    t.write(trips(range(5, 7), 400, cities=TWO), "delete")
