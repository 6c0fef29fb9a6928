"""Every ``hoodie.*`` key of a table's properties, once: name, other names, default, who writes it.

Keys were renamed over the releases, and a table keeps what its writers left in it: version 1.2.0
writes new names into old tables, an upgrade leaves old names in new ones. So a key is looked up
under all its names whatever the table's version says; what Lakehand writes goes by ``written_by``.
No other module spells a key out.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, unique
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

_ALL = frozenset({6, 8, 9})
_NEW = frozenset({8, 9})


@dataclass(frozen=True, slots=True)
class KeySpec:
    """What is known of one key.

    ``default`` is what readers assume when the key is missing or empty. ``written_by`` are the
    table versions whose properties hold the key when it has something to say; those below
    ``renamed_in`` hold it under ``older``. ``aliases`` are read and never written.
    """

    name: str
    default: str = ""
    aliases: tuple[str, ...] = ()
    written_by: frozenset[int] = _ALL
    older: str = ""
    renamed_in: int = 0


@unique
class HoodieKey(Enum):
    """The keys of ``hoodie.properties`` that Lakehand understands."""

    NAME = KeySpec("hoodie.table.name")
    DATABASE = KeySpec("hoodie.database.name")
    TYPE = KeySpec("hoodie.table.type", default="COPY_ON_WRITE")
    VERSION = KeySpec("hoodie.table.version")
    INITIAL_VERSION = KeySpec("hoodie.table.initial.version", written_by=_NEW)
    LAYOUT = KeySpec("hoodie.timeline.layout.version")
    CHECKSUM = KeySpec("hoodie.table.checksum")
    TABLE_FORMAT = KeySpec("hoodie.table.format", default="native", written_by=frozenset({9}))
    CREATE_SCHEMA = KeySpec("hoodie.table.create.schema")

    ARCHIVE_FOLDER = KeySpec("hoodie.archivelog.folder", default="archived")
    TIMELINE_FOLDER = KeySpec("hoodie.timeline.path", default="timeline", written_by=_NEW)
    HISTORY_FOLDER = KeySpec("hoodie.timeline.history.path", default="history", written_by=_NEW)
    TIMEZONE = KeySpec("hoodie.table.timeline.timezone", default="LOCAL")

    RECORD_KEY_FIELDS = KeySpec("hoodie.table.recordkey.fields")
    PARTITION_FIELDS = KeySpec("hoodie.table.partition.fields")
    PARTITION_EXTRACTOR = KeySpec(
        "hoodie.table.partition_extractor_class", written_by=frozenset({9})
    )
    KEY_GENERATOR_CLASS = KeySpec("hoodie.table.keygenerator.class", written_by=frozenset({6}))
    KEY_GENERATOR_TYPE = KeySpec("hoodie.table.keygenerator.type", written_by=_NEW)
    HIVE_STYLE = KeySpec("hoodie.datasource.write.hive_style_partitioning", default="false")
    URL_ENCODE = KeySpec("hoodie.datasource.write.partitionpath.urlencode", default="false")
    DROP_PARTITION_COLUMNS = KeySpec(
        "hoodie.datasource.write.drop.partition.columns", default="false"
    )
    SLASH_DATES = KeySpec(
        "hoodie.datasource.write.slash.separated.date.partitioning",
        default="false",
        written_by=frozenset(),
    )

    BASE_FILE_FORMAT = KeySpec(
        "hoodie.table.base.file.format",
        default="PARQUET",
        aliases=("hoodie.table.ro.file.format",),
    )
    LOG_FILE_FORMAT = KeySpec(
        "hoodie.table.log.file.format",
        default="HOODIE_LOG",
        aliases=("hoodie.table.rt.file.format",),
        written_by=frozenset(),
    )
    MULTIPLE_BASE_FORMATS = KeySpec(
        "hoodie.table.multiple.base.file.formats.enable", default="false", written_by=_NEW
    )
    POPULATE_META_FIELDS = KeySpec("hoodie.populate.meta.fields", default="true")
    PARTITION_METAFILE_IN_BASE_FORMAT = KeySpec(
        "hoodie.partition.metafile.use.base.format", default="false"
    )
    BOOTSTRAP_BASE_PATH = KeySpec("hoodie.bootstrap.base.path", written_by=frozenset())
    CDC_ENABLED = KeySpec("hoodie.table.cdc.enabled", default="false")

    ORDERING_FIELDS = KeySpec(
        "hoodie.table.ordering.fields", older="hoodie.table.precombine.field", renamed_in=9
    )
    MERGE_MODE = KeySpec("hoodie.record.merge.mode", written_by=_NEW)
    MERGE_STRATEGY_ID = KeySpec(
        "hoodie.record.merge.strategy.id",
        older="hoodie.compaction.record.merger.strategy",
        renamed_in=8,
        written_by=frozenset({6, 8}),
    )
    PAYLOAD_CLASS = KeySpec(
        "hoodie.compaction.payload.class",
        aliases=("hoodie.datasource.write.payload.class",),
        written_by=frozenset({6, 8}),
    )
    LEGACY_PAYLOAD_CLASS = KeySpec("hoodie.table.legacy.payload.class", written_by=frozenset({9}))
    PARTIAL_UPDATE_MODE = KeySpec("hoodie.table.partial.update.mode", written_by=frozenset({9}))
    DELETE_FIELD = KeySpec(
        "hoodie.record.merge.property.hoodie.payload.delete.field",
        aliases=("hoodie.payload.delete.field",),
        written_by=frozenset({9}),
    )
    DELETE_MARKER = KeySpec(
        "hoodie.record.merge.property.hoodie.payload.delete.marker",
        aliases=("hoodie.payload.delete.marker",),
        written_by=frozenset({9}),
    )

    METADATA_PARTITIONS = KeySpec("hoodie.table.metadata.partitions")
    METADATA_PARTITIONS_INFLIGHT = KeySpec("hoodie.table.metadata.partitions.inflight")
    INDEX_DEFINITIONS = KeySpec("hoodie.table.index.defs.path", written_by=_NEW)

    TIMESTAMP_TYPE = KeySpec(
        "hoodie.keygen.timebased.timestamp.type",
        aliases=("hoodie.deltastreamer.keygen.timebased.timestamp.type",),
    )
    TIMESTAMP_INPUT_FORMAT = KeySpec(
        "hoodie.keygen.timebased.input.dateformat",
        aliases=("hoodie.deltastreamer.keygen.timebased.input.dateformat",),
    )
    TIMESTAMP_INPUT_DELIMITER = KeySpec(
        "hoodie.keygen.timebased.input.dateformat.list.delimiter.regex",
        default=",",
        aliases=("hoodie.deltastreamer.keygen.timebased.input.dateformat.list.delimiter.regex",),
    )
    TIMESTAMP_INPUT_ZONE = KeySpec(
        "hoodie.keygen.timebased.input.timezone",
        aliases=("hoodie.deltastreamer.keygen.timebased.input.timezone",),
    )
    TIMESTAMP_OUTPUT_FORMAT = KeySpec(
        "hoodie.keygen.timebased.output.dateformat",
        aliases=("hoodie.deltastreamer.keygen.timebased.output.dateformat",),
    )
    TIMESTAMP_OUTPUT_ZONE = KeySpec(
        "hoodie.keygen.timebased.output.timezone",
        aliases=("hoodie.deltastreamer.keygen.timebased.output.timezone",),
    )
    TIMESTAMP_ZONE = KeySpec(
        "hoodie.keygen.timebased.timezone",
        aliases=("hoodie.deltastreamer.keygen.timebased.timezone",),
    )
    TIMESTAMP_SCALAR_UNIT = KeySpec(
        "hoodie.keygen.timebased.timestamp.scalar.time.unit",
        default="SECONDS",
        aliases=("hoodie.deltastreamer.keygen.timebased.timestamp.scalar.time.unit",),
    )

    @property
    def key(self) -> str:
        """The newest name of the key."""
        return self.value.name

    def name_in(self, version: int) -> str | None:
        """Return the name under which tables of this version hold the key, or None."""
        spec = self.value
        if version not in spec.written_by:
            return None
        return spec.older if version < spec.renamed_in else spec.name

    @property
    def names(self) -> tuple[str, ...]:
        """All names of the key, the newest first."""
        spec = self.value
        older = (spec.older,) if spec.older else ()
        return (spec.name, *older, *spec.aliases)

    def find(self, properties: Mapping[str, str]) -> str | None:
        """Return the value under the first of the key's names that has one, or None."""
        for name in self.names:
            text = properties.get(name, "").strip()
            if text:
                return text
        return None

    def read(self, properties: Mapping[str, str]) -> str:
        """Return the value, else the default."""
        return self.find(properties) or self.value.default
