"""Every option of a write, once: its name, Hudi's key for it, type, default, range and meaning.

``options`` reads what a user gives by this table, and docs/write-options.md is printed from it
(``as_markdown``). Besides the options stand Hudi's keys that describe the table, which a write may
repeat but not change, and those that Lakehand has nothing to do for, with the reason. All others
are refused: a setting that silently does nothing is worse than an error.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, unique
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from lakehand.core.conflict_tables import Strategy
from lakehand.core.table_keys import HoodieKey
from lakehand.protocol.failed_writes import FailedWritesPolicy
from lakehand.write.option_kinds import Amount, Choice, Flag, Names, Text, Texts, allowed
from lakehand.write.shapes import LogFormat

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lakehand.write.option_kinds import Kind


@unique
class IndexType(Enum):
    """How a write finds the file groups of its keys; the values are Hudi's words."""

    BLOOM = "BLOOM"
    SIMPLE = "SIMPLE"
    GLOBAL_BLOOM = "GLOBAL_BLOOM"
    GLOBAL_SIMPLE = "GLOBAL_SIMPLE"

    @property
    def is_global(self) -> bool:
        """Whether a key is looked for in all partitions."""
        return self in {IndexType.GLOBAL_BLOOM, IndexType.GLOBAL_SIMPLE}

    @property
    def uses_bloom(self) -> bool:
        """Whether bloom filters are asked before keys are read."""
        return self in {IndexType.BLOOM, IndexType.GLOBAL_BLOOM}


@unique
class SortMode(Enum):
    """How a bulk insert orders its rows; the values are Hudi's words."""

    NONE = "NONE"
    PARTITION_SORT = "PARTITION_SORT"
    GLOBAL_SORT = "GLOBAL_SORT"


class HudiKey(NamedTuple):
    """Hudi's name for an option, and how many of its units make one of the option's."""

    name: str
    per_unit: int = 1


@dataclass(frozen=True, slots=True)
class Option:
    """One option; ``default`` is what it would be given as, None: it is not set."""

    name: str
    keys: tuple[HudiKey, ...]
    kind: Kind
    default: Any
    doc: str


def _words(kind: type[Enum]) -> dict[str, Any]:
    return {member.value: member for member in kind}


_FLAG: Final = Flag()
_MB: Final = 1 << 20
_SIZE_MB: Final = Amount(0.0001, 1 << 20)
_TASKS: Final = Amount(0, 1_000_000, is_whole=True)
_HASHED = "the table's file groups follow from a hash of the key: write it with Hudi"
_IN_METADATA = "it needs the metadata table, which Lakehand does not keep yet: choose BLOOM"
_REFUSED_INDEXES = {
    "BUCKET": _HASHED,
    "RECORD_INDEX": _IN_METADATA,
    "RECORD_LEVEL_INDEX": _IN_METADATA,
    "GLOBAL_RECORD_LEVEL_INDEX": _IN_METADATA,
    "HBASE": "choose BLOOM or SIMPLE",
    "INMEMORY": "choose BLOOM or SIMPLE",
    "FLINK_STATE": "choose BLOOM or SIMPLE",
}
_REPARTITION = "choose PARTITION_SORT or GLOBAL_SORT"
_STRATEGY = "org.apache.hudi.client.transaction."
_LOCKS = _STRATEGY + "lock."

TOPICS: Final[Mapping[str, tuple[Option, ...]]] = {
    "Files": (
        Option("codec", (HudiKey("hoodie.parquet.compression.codec"),),
               Choice({one: one for one in ("zstd", "gzip", "snappy", "none")},
                      aliases={"uncompressed": "none"}),
               "zstd", "how base files, and Parquet blocks of logs, are compressed"),
        Option("level", (), Amount(1, 22, is_whole=True), None,
               "the codec's level: zstd 1 to 22 (1 if not given), gzip 1 to 9 (6)"),
        Option("dictionary", (HudiKey("hoodie.parquet.dictionary.enabled"),), _FLAG, True,
               "write every column with a dictionary, until its values turn out not to repeat"),
        Option("dictionary_columns", (), Names(), (),
               "the columns of few values: only these get one, the partition columns and the "
               "meta columns that repeat; also what gets one if `dictionary` is off"),
        Option("row_group_mb", (HudiKey("hoodie.parquet.block.size", _MB),), _SIZE_MB, 128,
               "where a row group ends, in Arrow's bytes"),
        Option("row_group_rows", (), Amount(1, 1 << 30, is_whole=True), 1 << 20,
               "where a row group ends, in rows"),
        Option("page_kb", (HudiKey("hoodie.parquet.page.size", 1 << 10),),
               Amount(1, 1 << 20), 1024, "the size of a data page"),
        Option("max_file_mb", (HudiKey("hoodie.parquet.max.file.size", _MB),), _SIZE_MB, 120,
               "a base file ends about here"),
        Option("small_file_mb", (HudiKey("hoodie.parquet.small.file.limit", _MB),),
               Amount(0, 1 << 20), 100,
               "base files below this are filled with new rows; 0: none is"),
        Option("small_files_filled", (HudiKey("hoodie.merge.small.file.group.candidates.limit"),),
               Amount(0, 1_000_000, is_whole=True), 1,
               "merge on read: how many small files a write fills per partition"),
        Option("row_bytes", (HudiKey("hoodie.copyonwrite.record.size.estimate"),),
               Amount(1, 1 << 30, is_whole=True), 1024,
               "bytes of a row on disk, until a commit has shown it"),
        Option("log_format", (HudiKey("hoodie.logfile.data.block.format"),),
               Choice(_words(LogFormat), refused={"hfile": "choose parquet or avro"}), "parquet",
               "how rows are kept in log files"),
        Option("log_block_mb", (HudiKey("hoodie.logfile.data.block.max.size", _MB),), _SIZE_MB, 128,
               "where a block of a log file ends, in Arrow's bytes"),
        Option("bloom", (HudiKey("hoodie.parquet.bloom.filter.enabled"),), _FLAG, True,
               "write a bloom filter of the keys into base files"),
        Option("bloom_type", (HudiKey("hoodie.bloom.index.filter.type"),),
               Choice({"DYNAMIC_V0": "DYNAMIC_V0", "SIMPLE": "SIMPLE"}), "DYNAMIC_V0",
               "a filter that grows, or one of fixed size"),
        Option("bloom_entries", (HudiKey("hoodie.index.bloom.num_entries"),),
               Amount(1, 1 << 30, is_whole=True), 60_000, "keys that a filter is made for"),
        Option("bloom_rate", (HudiKey("hoodie.index.bloom.fpp"),), Amount(1e-300, 0.999), 1e-9,
               "the filter's rate of false positives"),
        Option("bloom_max_entries", (HudiKey("hoodie.bloom.index.filter.dynamic.max.entries"),),
               Amount(1, 1 << 30, is_whole=True), 100_000,
               "keys up to which a dynamic filter grows"),
    ),
    "Rows": (
        Option("index", (HudiKey("hoodie.index.type"),),
               Choice(_words(IndexType), refused=_REFUSED_INDEXES), "BLOOM",
               "how keys are found; the global ones look in all partitions"),
        Option("update_partition_path",
               (HudiKey("hoodie.bloom.index.update.partition.path"),
                HudiKey("hoodie.simple.index.update.partition.path")), _FLAG, True,
               "global index: a row that comes with another partition moves there; else it stays"),
        Option("combine_before_insert", (HudiKey("hoodie.combine.before.insert"),), _FLAG, False,
               "of several incoming rows with one key, insert one"),
        Option("combine_before_upsert", (HudiKey("hoodie.combine.before.upsert"),), _FLAG, True,
               "the same for upserts"),
        Option("combine_before_delete", (HudiKey("hoodie.combine.before.delete"),), _FLAG, True,
               "the same for deletes"),
        Option("sort", (HudiKey("hoodie.bulkinsert.sort.mode"),),
               Choice(_words(SortMode), refused={
                   "PARTITION_PATH_REPARTITION": _REPARTITION,
                   "PARTITION_PATH_REPARTITION_AND_SORT": _REPARTITION}), "NONE",
               "how a bulk insert orders its rows by partition and key: not, within each task, "
               "or over all"),
        Option("allow_new_columns", (), _FLAG, True,
               "take columns that the table does not have yet; else refuse them"),
    ),
    "Resources": (
        Option("parallelism", (), _TASKS, 0, "tasks of each step; 0: the engine's choice"),
        Option("upsert_parallelism", (HudiKey("hoodie.upsert.shuffle.parallelism"),), _TASKS, 0,
               "the same for upserts only; 0: as `parallelism`"),
        Option("insert_parallelism", (HudiKey("hoodie.insert.shuffle.parallelism"),), _TASKS, 0,
               "the same for inserts and overwrites only"),
        Option("bulk_insert_parallelism", (HudiKey("hoodie.bulkinsert.shuffle.parallelism"),),
               _TASKS, 0, "the same for bulk inserts only"),
        Option("delete_parallelism", (HudiKey("hoodie.delete.shuffle.parallelism"),), _TASKS, 0,
               "the same for deletes only"),
        Option("memory_mb", (HudiKey("hoodie.memory.merge.max.size", _MB),), _SIZE_MB, 512,
               "what a task holds at once, in Arrow's bytes; more goes to disk"),
        Option("progress", (), _FLAG, True,
               "on a terminal, a line for each step that takes a while: rows, files, rate"),
        Option("spill_folder", (HudiKey("hoodie.memory.spillable.map.path"),), Text(), None,
               "where that goes; not given: the system's folder for temporary files"),
    ),
    "Several writers": (
        Option("retries", (HudiKey("hoodie.write.num.retries.on.conflict.failures"),),
               Amount(0, 1000, is_whole=True), 0,
               "how often a write that met a conflict is done again, as a whole"),
        Option("conflict_strategy",
               (HudiKey("hoodie.write.lock.conflict.resolution.strategy"),),
               Choice(_words(Strategy), aliases={
                   _STRATEGY + "SimpleConcurrentFileWritesConflictResolutionStrategy": "simple",
                   _STRATEGY + "PreferWriterConflictResolutionStrategy": "prefer-writer"}),
               "prefer-ingestion", "who gives way (`conflicts.md`)"),
        Option("failed_writes",
               (HudiKey("hoodie.clean.failed.writes.policy"),
                HudiKey("hoodie.cleaner.policy.failed.writes")),
               Choice(_words(FailedWritesPolicy)), "LAZY",
               "when a pending write counts as failed: when its heartbeat expired (LAZY), at once "
               "(EAGER: only with a single writer), or never"),
        Option("lock", (HudiKey("hoodie.write.lock.provider"),),
               Choice({one: one for one in ("storage", "filesystem", "in-process", "etcd",
                                            "kubernetes-lease", "config-map")},
                      aliases={_LOCKS + "StorageBasedLockProvider": "storage",
                               _LOCKS + "FileSystemBasedLockProvider": "filesystem",
                               _LOCKS + "InProcessLockProvider": "in-process"}),
               "storage", "the lock of the table's workers (`locks.md`)"),
        Option("lock_options", (), Texts(), {}, "that lock's own options (`cli.md`)"),
        Option("lock_timeout_s", (HudiKey("hoodie.write.lock.wait_time_ms", 1000),),
               Amount(0, 86_400), 120, "how long to wait for the lock"),
        Option("foreign_writers", (), _FLAG, True,
               "whether Apache Hudi's own writers change the table, too; "
               "not given: as far as the lock keeps them out (docs/locks.md)"),
        Option("heartbeat_s", (HudiKey("hoodie.client.heartbeat.interval_in_ms", 1000),),
               Amount(1, 86_400), 60, "how often a write says that it is alive"),
        Option("heartbeat_misses", (HudiKey("hoodie.client.heartbeat.tolerable.misses"),),
               Amount(1, 1000, is_whole=True), 2,
               "after how many silent intervals a write counts as dead"),
        Option("max_clock_skew_s", (), Amount(0, 86_400), 60,
               "how far the timeline may lie ahead of the store's clock"),
    ),
    "The commit": (
        Option("app_id", (), Text(), None,
               "the application whose batch this is; what was written is not written again"),
        Option("batch", (), Text(), None, "that batch's number; goes with `app_id`"),
        Option("extra_metadata", (), Texts(), {}, "what else to say in the commit's metadata"),
        Option("metadata_prefix", (HudiKey("hoodie.datasource.write.commitmeta.key.prefix"),),
               Text(), None, "options that begin with this go into the commit's metadata as well"),
    ),
}  # fmt: skip

OPTIONS: Final = {option.name: option for topic in TOPICS.values() for option in topic}

TABLE_KEYS: Final[Mapping[str, HoodieKey]] = {
    **{name: key for key in HoodieKey for name in key.names},
    "hoodie.datasource.write.recordkey.field": HoodieKey.RECORD_KEY_FIELDS,
    "hoodie.datasource.write.precombine.field": HoodieKey.ORDERING_FIELDS,
    "hoodie.datasource.write.partitionpath.field": HoodieKey.PARTITION_FIELDS,
    "hoodie.datasource.write.table.name": HoodieKey.NAME,
    "hoodie.datasource.write.table.type": HoodieKey.TYPE,
    "hoodie.datasource.write.keygenerator.class": HoodieKey.KEY_GENERATOR_CLASS,
    "hoodie.datasource.write.keygenerator.type": HoodieKey.KEY_GENERATOR_TYPE,
    "hoodie.write.record.merge.mode": HoodieKey.MERGE_MODE,
    "hoodie.write.table.version": HoodieKey.VERSION,
}
"""Keys that say what the table is. A write may give them if they are the table's own."""


class Harmless(NamedTuple):
    """Why Lakehand has nothing to do for a key, and for which values that is so (none: all)."""

    why: str
    values: tuple[str, ...] = ()


_OFF = ("false",)
_NO_SERVICES = Harmless("a write runs no table services", _OFF)
_NO_SERVER = Harmless("there is no timeline server")
_NO_SYNC = Harmless("no catalog is synchronised", _OFF)
_OWN_INDEX = Harmless("key lookups are spread over the engine's tasks")

HARMLESS: Final[Mapping[str, Harmless]] = {
    "hoodie.metadata.enable": Harmless("the metadata table is not kept yet", _OFF),
    "hoodie.clean.automatic": _NO_SERVICES,
    "hoodie.clean.async.enabled": _NO_SERVICES,
    "hoodie.archive.automatic": _NO_SERVICES,
    "hoodie.compact.inline": _NO_SERVICES,
    "hoodie.compact.schedule.inline": _NO_SERVICES,
    "hoodie.log.compaction.inline": _NO_SERVICES,
    "hoodie.clustering.inline": _NO_SERVICES,
    "hoodie.clustering.schedule.inline": _NO_SERVICES,
    "hoodie.clustering.async.enabled": _NO_SERVICES,
    "hoodie.datasource.compaction.async.enable": _NO_SERVICES,
    "hoodie.embed.timeline.server": _NO_SERVER,
    "hoodie.write.markers.type": Harmless("markers are direct, and read by Java as they are"),
    "hoodie.rollback.using.markers": Harmless("rollbacks look at markers and at the listing"),
    "hoodie.datasource.hive_sync.enable": _NO_SYNC,
    "hoodie.datasource.meta.sync.enable": _NO_SYNC,
    "hoodie.write.auto.upgrade": Harmless("a write changes no table's version", _OFF),
    "hoodie.write.concurrency.mode": Harmless(
        "every write is safe beside others",
        ("single_writer", "optimistic_concurrency_control"),
    ),
    "hoodie.write.concurrency.early.conflict.detection.enable": Harmless(
        "every write looks for conflicts before it writes data"
    ),
    "hoodie.schema.on.read.enable": Harmless("columns are added, never renamed", _OFF),
    "hoodie.datasource.write.row.writer.enable": Harmless("there is one way to write rows"),
    "hoodie.datasource.write.insert.drop.duplicates": Harmless("inserts look up no keys", _OFF),
    "hoodie.parquet.compression.ratio": Harmless("sizes are measured"),
    "hoodie.bloom.index.parallelism": _OWN_INDEX,
    "hoodie.simple.index.parallelism": _OWN_INDEX,
    "hoodie.bloom.index.prune.by.ranges": _OWN_INDEX,
    "hoodie.bloom.index.use.metadata": Harmless("there is no metadata table", _OFF),
    "hoodie.bloom.index.use.caching": _OWN_INDEX,
}


ELSEWHERE: Final[Mapping[str, str]] = {
    "hoodie.datasource.write.operation": "call the writer's upsert, insert, bulk_insert ...",
    "hoodie.write.lock.": "give lock= and lock_options= (docs/cli.md has the options)",
}
"""Beginnings of keys that people give out of habit, and what to do instead."""


# -- the page ---------------------------------------------------------------------------------


def as_markdown() -> str:
    """Return docs/write-options.md."""
    parts = [_INTRODUCTION]
    for topic, options in TOPICS.items():
        rows = [_row(option) for option in options]
        parts.append(
            f"## {topic}\n\n| option | Hudi's key | default | allowed | meaning |\n"
            "|---|---|---|---|---|\n" + "\n".join(rows) + "\n"
        )
    own = [name for name in TABLE_KEYS if name not in {n for key in HoodieKey for n in key.names}]
    parts.append(_TABLE + "".join(f"* `{name}`: `{TABLE_KEYS[name].key}`\n" for name in own))
    rows = [
        f"| `{name}` | {', '.join(one.values) or 'any'} | {one.why} |"
        for name, one in HARMLESS.items()
    ]
    parts.append(_IGNORED + "\n".join(rows) + "\n")
    return "\n".join(parts)


def _row(option: Option) -> str:
    keys = "<br>".join(f"`{key.name}`{_UNITS[key.per_unit]}" for key in option.keys) or "-"
    match option.default:
        case None | () | {}:
            default = "-"
        case bool():
            default = str(option.default).lower()
        case _:
            default = f"{option.default}"
    return f"| `{option.name}` | {keys} | {default} | {allowed(option.kind)} | {option.doc} |"


_UNITS = {1: "", 1000: " (ms)", 1 << 10: " (bytes)", _MB: " (bytes)"}

_INTRODUCTION = """# Options of a write

`table.writer(spark, max_file_mb=256, retries=3)`, or with Hudi's own keys:
`table.writer(spark, **{"hoodie.parquet.max.file.size": "268435456"})`.
Values may be text. Of two spellings of one option both may be given if they say the same.
An option that is not known is an error that names the nearest one.

This page is printed from `lakehand.write.option_table`; a test compares.
"""
_TABLE = """## Keys that belong to the table

Every key of `hoodie.properties`, and the ones below, may be given if it says what
the table is; it cannot change it.

"""
_IGNORED = """## Hudi's keys that nothing has to be done for

They are taken with these values only. Every other key is refused.

| key | values | why |
|---|---|---|
"""
