"""A table's properties, typed: what the table is, and whether Lakehand may read or write it.

``TableConfig.from_properties`` reads the settings of table versions 6, 8 and 9 whoever wrote them
(``core.table_keys`` knows all names) and keeps unknown ones. What Lakehand would get wrong is
refused by name, in two steps: ``require_readable`` and ``require_writable``. ``to_properties``
gives the settings of a new table as Hudi writes them; the checksum is added by ``formats``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, TypeVar

from lakehand.core import merge_rules, new_table_properties
from lakehand.core.key_generators import KeyGenerator, find_key_generator
from lakehand.core.merge_rules import Dialect, MergeMode, MergeRule, MergeSettings
from lakehand.core.partition_paths import (
    PartitionField,
    PartitionScheme,
    PartitionType,
    TimestampFormat,
    TimestampType,
    split_fields,
    zone_of,
)
from lakehand.core.table_keys import HoodieKey
from lakehand.core.table_kinds import META_FOLDER, TableType, TableVersion, TimelineZone
from lakehand.errors import Corrupt, Invalid, Unsupported

__all__ = [
    "META_FOLDER", "PROPERTIES_PATH", "TableConfig", "TableType", "TableVersion", "TimelineZone",
]  # fmt: skip

if TYPE_CHECKING:
    from collections.abc import Mapping

PROPERTIES_PATH = f"{META_FOLDER}/hoodie.properties"
_E = TypeVar("_E", bound=Enum)
_PARQUET = "PARQUET"


@dataclass(frozen=True, slots=True)
class TableConfig:
    """What ``hoodie.properties`` says. ``properties`` holds all of it, unknown keys included.

    ``key_generator`` is None if it is not one that Lakehand knows. The folders are names as the
    properties give them: the ``..._path`` properties say where they are.
    """

    name: str
    table_type: TableType
    version: TableVersion
    database: str = ""
    initial_version: int | None = None
    record_key_fields: tuple[str, ...] = ()
    partitioning: PartitionScheme = field(default_factory=PartitionScheme)
    key_generator: KeyGenerator | None = KeyGenerator.SIMPLE
    merge_rule: MergeRule = field(default_factory=lambda: MergeRule(MergeMode.COMMIT_TIME))
    timezone: TimelineZone = TimelineZone.UTC
    archive_folder: str = "archived"
    timeline_folder: str = "timeline"
    history_folder: str = "history"
    base_file_format: str = _PARQUET
    populate_meta_fields: bool = True
    drop_partition_columns: bool = False
    cdc_enabled: bool = False
    metadata_partitions: tuple[str, ...] = ()
    metadata_partitions_inflight: tuple[str, ...] = ()
    create_schema: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict, repr=False, compare=False)

    @property
    def layout(self) -> int:
        """The layout of the timeline, 1 or 2."""
        return self.version.layout

    @property
    def timeline_path(self) -> str:
        """Where the active instants lie, relative to the table's base."""
        return META_FOLDER if self.layout == 1 else f"{META_FOLDER}/{self.timeline_folder}"

    @property
    def history_path(self) -> str:
        """Where archived instants lie, relative to the table's base."""
        if self.layout == 1:
            return f"{META_FOLDER}/{self.archive_folder}"
        return f"{self.timeline_path}/{self.history_folder}"

    @property
    def ordering_fields(self) -> tuple[str, ...]:
        """The fields whose values order the versions of a record."""
        return self.merge_rule.ordering_fields

    @property
    def partition_fields(self) -> tuple[str, ...]:
        """The names of the partition fields."""
        return tuple(one.name for one in self.partitioning.fields)

    @property
    def hive_style(self) -> bool:
        """Whether partition folders are named ``field=value``."""
        return self.partitioning.hive_style

    @property
    def url_encode(self) -> bool:
        """Whether partition values are URL-encoded."""
        return self.partitioning.url_encode

    @classmethod
    def from_properties(
        cls, properties: Mapping[str, str], *, where: str = PROPERTIES_PATH
    ) -> TableConfig:
        """Type a table's properties. Raises ``Corrupt`` or ``Unsupported``, naming the key."""
        return _Reader(properties, where).config()

    def require_readable(self) -> None:
        """Raise ``Unsupported`` with all reasons why Lakehand cannot read the table."""
        self._require("read", self._unreadable())

    def require_writable(self) -> None:
        """Raise ``Unsupported`` with all reasons why Lakehand cannot write to the table."""
        self._require("write", [*self._unreadable(), *self._unwritable()])

    def _require(self, what: str, reasons: list[str]) -> None:
        if reasons:
            raise Unsupported(f"cannot {what} table {self.name!r}: {'; '.join(reasons)}")

    def _flag(self, key: HoodieKey) -> bool:
        return key.read(self.properties).lower() == "true"

    def _unreadable(self) -> list[str]:
        merge_on_read = self.table_type is TableType.MERGE_ON_READ
        log_format = HoodieKey.LOG_FILE_FORMAT.read(self.properties)
        table_format = HoodieKey.TABLE_FORMAT.read(self.properties)
        found = {
            f"base file format {self.base_file_format} (only PARQUET is supported)": (
                self.base_file_format != _PARQUET
            ),
            f"{HoodieKey.MULTIPLE_BASE_FORMATS.key}=true": self._flag(
                HoodieKey.MULTIPLE_BASE_FORMATS
            ),
            f"log file format {log_format}": (
                log_format.upper() != HoodieKey.LOG_FILE_FORMAT.value.default
            ),
            f"table format {table_format}": table_format != HoodieKey.TABLE_FORMAT.value.default,
            f"{HoodieKey.DROP_PARTITION_COLUMNS.key}=true (rows lack their partition columns)": (
                self.drop_partition_columns
            ),
            f"{HoodieKey.POPULATE_META_FIELDS.key}=false on a MERGE_ON_READ table": (
                merge_on_read and not self.populate_meta_fields
            ),
            f"{HoodieKey.PARTITION_METAFILE_IN_BASE_FORMAT.key}=true": self._flag(
                HoodieKey.PARTITION_METAFILE_IN_BASE_FORMAT
            ),
            f"{HoodieKey.BOOTSTRAP_BASE_PATH.key} (data outside of the table)": bool(
                HoodieKey.BOOTSTRAP_BASE_PATH.read(self.properties)
            ),
        }
        return [reason for reason, is_so in found.items() if is_so]

    def _unwritable(self) -> list[str]:
        generator_name = HoodieKey.KEY_GENERATOR_TYPE.read(self.properties) or (
            HoodieKey.KEY_GENERATOR_CLASS.read(self.properties)
        )
        indexes = ", ".join((*self.metadata_partitions, *self.metadata_partitions_inflight))
        found = {
            f"its metadata table ({indexes}) would fall behind: drop it with Hudi (write once with "
            "the metadata table disabled, or call its delete_metadata_table), and keep it off": (
                bool(indexes)
            ),
            f"no {HoodieKey.RECORD_KEY_FIELDS.key} (its writers make the keys up): copy it into a "
            "table with key fields": not self.record_key_fields,
            self.merge_rule.refusal or "": self.merge_rule.refusal is not None,
            self.partitioning.refusal or " ": self.partitioning.refusal is not None,
            f"key generator {generator_name} (known are "
            f"{', '.join(one.type_name for one in KeyGenerator)})": self.key_generator is None,
            f"{HoodieKey.POPULATE_META_FIELDS.key}=false": not self.populate_meta_fields,
            f"{HoodieKey.CDC_ENABLED.key}=true (change logs are not written)": self.cdc_enabled,
            f"{HoodieKey.SLASH_DATES.key}=true": self.partitioning.slash_dates,
        }
        return [reason for reason, is_so in found.items() if is_so]

    def to_properties(self) -> dict[str, str]:
        """Return the properties of a new table of this version, as Hudi writes them.

        Without the checksum. Keys of ``properties`` that Lakehand does not know are carried over.
        """
        return new_table_properties.render(self)


class _Reader:
    """Types the properties of one table, with the file's name for its errors."""

    def __init__(self, properties: Mapping[str, str], where: str) -> None:
        self._properties = dict(properties)
        self._where = where

    def config(self) -> TableConfig:
        version = self._version()
        generator = find_key_generator(
            self._text(HoodieKey.KEY_GENERATOR_TYPE), self._text(HoodieKey.KEY_GENERATOR_CLASS)
        )
        partitioning = self._partitioning(generator)
        return TableConfig(
            name=self._required(HoodieKey.NAME),
            database=self._text(HoodieKey.DATABASE),
            table_type=self._one_of(TableType, HoodieKey.TYPE),
            version=version,
            initial_version=self._number(HoodieKey.INITIAL_VERSION),
            record_key_fields=self._list(HoodieKey.RECORD_KEY_FIELDS),
            partitioning=partitioning,
            key_generator=generator,
            merge_rule=self._merge_rule(version),
            timezone=self._one_of(TimelineZone, HoodieKey.TIMEZONE),
            archive_folder=self._folder(HoodieKey.ARCHIVE_FOLDER),
            timeline_folder=self._folder(HoodieKey.TIMELINE_FOLDER),
            history_folder=self._folder(HoodieKey.HISTORY_FOLDER),
            base_file_format=self._text(HoodieKey.BASE_FILE_FORMAT).upper(),
            populate_meta_fields=self._flag(HoodieKey.POPULATE_META_FIELDS),
            drop_partition_columns=self._flag(HoodieKey.DROP_PARTITION_COLUMNS),
            cdc_enabled=self._flag(HoodieKey.CDC_ENABLED),
            metadata_partitions=self._list(HoodieKey.METADATA_PARTITIONS),
            metadata_partitions_inflight=self._list(HoodieKey.METADATA_PARTITIONS_INFLIGHT),
            create_schema=self._text(HoodieKey.CREATE_SCHEMA) or None,
            properties=self._properties,
        )

    def _version(self) -> TableVersion:
        number = self._number(HoodieKey.VERSION)
        supported = ", ".join(str(int(version)) for version in TableVersion)
        if number is None or number not in list(TableVersion):
            raise Unsupported(
                f"table version {'missing' if number is None else number} in {self._where} is not "
                f"supported (supported are {supported}): upgrade or downgrade the table with Hudi"
            )
        version = TableVersion(number)
        layout = self._number(HoodieKey.LAYOUT)
        if layout is not None and layout != version.layout:
            raise Unsupported(
                f"table version {number} with timeline layout {layout} in {self._where} is not "
                f"supported: layout {version.layout} goes with it"
            )
        return version

    def _merge_rule(self, version: TableVersion) -> MergeRule:
        return merge_rules.infer(
            MergeSettings(
                version=version,
                ordering_fields=self._list(HoodieKey.ORDERING_FIELDS),
                mode=self._text(HoodieKey.MERGE_MODE),
                payload_class=self._text(HoodieKey.PAYLOAD_CLASS),
                strategy_id=self._text(HoodieKey.MERGE_STRATEGY_ID),
                partial_update_mode=self._text(HoodieKey.PARTIAL_UPDATE_MODE),
                delete_field=self._text(HoodieKey.DELETE_FIELD),
                delete_marker=self._text(HoodieKey.DELETE_MARKER),
                dialect=self._dialect(version),
            )
        )

    def _dialect(self, version: TableVersion) -> Dialect:
        """Hudi 1.x leaves a table format, or a key generator's type, in tables of version 6."""
        marks = (HoodieKey.TABLE_FORMAT.key, HoodieKey.KEY_GENERATOR_TYPE.key)
        if version is TableVersion.SIX and self._properties.keys().isdisjoint(marks):
            return Dialect.PAYLOADS
        return Dialect.MODES

    def _partitioning(self, generator: KeyGenerator | None) -> PartitionScheme:
        default: PartitionType | None = PartitionType.SIMPLE
        if generator is KeyGenerator.TIMESTAMP:
            default = PartitionType.TIMESTAMP
        elif generator is KeyGenerator.CUSTOM:
            default = None
        # Nothing here keeps a reader from reading: paths are listed, not made.
        texts = self._list(HoodieKey.PARTITION_FIELDS)
        timestamp = problem = None
        try:
            fields = tuple(PartitionField.parse(one, default=default) for one in texts)
            timestamp = self._timestamp()
        except Invalid as error:
            problem = str(error)
            fields = tuple(PartitionField(one.partition(":")[0], None) for one in texts)
        return PartitionScheme(
            fields=fields,
            hive_style=self._flag(HoodieKey.HIVE_STYLE),
            url_encode=self._flag(HoodieKey.URL_ENCODE),
            slash_dates=self._flag(HoodieKey.SLASH_DATES),
            timestamp=timestamp,
            problem=problem,
        )

    def _timestamp(self) -> TimestampFormat | None:
        """Return the timestamp settings, if the table has them all (0.15 leaves the type out)."""
        name = self._text(HoodieKey.TIMESTAMP_TYPE).upper()
        output = self._text(HoodieKey.TIMESTAMP_OUTPUT_FORMAT)
        if not (name and output):
            return None
        try:
            kind = TimestampType(name)
        except ValueError:
            raise Unsupported(f"timestamp type {name!r} in {self._where} is not known") from None
        shared = self._text(HoodieKey.TIMESTAMP_ZONE)
        delimiter = self._text(HoodieKey.TIMESTAMP_INPUT_DELIMITER)
        inputs = self._text(HoodieKey.TIMESTAMP_INPUT_FORMAT)
        return TimestampFormat(
            type=kind,
            output_pattern=output,
            input_patterns=tuple(one for one in inputs.split(delimiter) if one),
            input_zone=zone_of(shared or self._text(HoodieKey.TIMESTAMP_INPUT_ZONE) or "UTC"),
            output_zone=zone_of(shared or self._text(HoodieKey.TIMESTAMP_OUTPUT_ZONE) or "UTC"),
            scalar_unit=self._text(HoodieKey.TIMESTAMP_SCALAR_UNIT).upper(),
        )

    # -- single keys --------------------------------------------------------------------------

    def _text(self, key: HoodieKey) -> str:
        return key.read(self._properties)

    def _required(self, key: HoodieKey) -> str:
        text = self._text(key)
        if not text:
            raise Corrupt(f"no {key.key}", where=self._where)
        return text

    def _list(self, key: HoodieKey) -> tuple[str, ...]:
        return tuple(split_fields(self._text(key)))

    def _flag(self, key: HoodieKey) -> bool:
        text = self._text(key).lower()
        if text not in {"true", "false", ""}:
            raise Corrupt(f"{key.key}={text!r} is neither true nor false", where=self._where)
        return text == "true"

    def _number(self, key: HoodieKey) -> int | None:
        text = self._text(key)
        if not text:
            return None
        if not (text.isascii() and text.isdecimal() and len(text) <= 9):
            raise Corrupt(f"{key.key}={text!r} is no number", where=self._where)
        return int(text)

    def _one_of(self, kind: type[_E], key: HoodieKey) -> _E:
        text = self._text(key).upper()
        try:
            return kind(text)
        except ValueError:
            raise Corrupt(f"{key.key}={text!r} is not known", where=self._where) from None

    def _folder(self, key: HoodieKey) -> str:
        text = self._text(key).strip("/")
        if not text or not all(part not in {"", ".", ".."} for part in text.split("/")):
            raise Corrupt(f"{key.key}={text!r} is no folder name", where=self._where)
        return text
