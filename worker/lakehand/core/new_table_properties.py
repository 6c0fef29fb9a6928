"""The properties of a new table, as Hudi itself writes them for the table's version.

Each version has its own names and its own habits (``core.table_keys``, ``written_by``): version 6
names a key generator's class and, unless the table is merge on read, does not say how it merges;
version 9 has a merge mode and no payload class unless a delete marker needs the old one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakehand.core import merge_rules
from lakehand.core.key_generators import KeyGenerator
from lakehand.core.table_keys import HoodieKey
from lakehand.core.table_kinds import META_FOLDER, TableType, TableVersion

if TYPE_CHECKING:
    from lakehand.core.table_config import TableConfig

_INDEX_DEFINITIONS = f"{META_FOLDER}/.index_defs/index.json"
_PARTITIONS_WITHOUT_DEFINITION = frozenset({"files", "bloom_filters", "record_index"})
_NATIVE_FORMAT = HoodieKey.TABLE_FORMAT.value.default


def render(config: TableConfig) -> dict[str, str]:
    """Return the properties, without the checksum; unknown keys of the config are carried over."""
    known = {name for key in HoodieKey for name in key.names}
    found = {name: text for name, text in config.properties.items() if name not in known}
    for key, text in {**_identity(config), **_keys(config), **_merging(config)}.items():
        name = key.name_in(config.version)
        if name is not None and text is not None:
            found[name] = text
    return found


def _identity(config: TableConfig) -> dict[HoodieKey, str | None]:
    version = str(int(config.version))
    is_first = config.version is TableVersion.SIX
    building = ",".join(config.metadata_partitions_inflight)
    needs_definitions = not _PARTITIONS_WITHOUT_DEFINITION.issuperset(config.metadata_partitions)
    return {
        HoodieKey.NAME: config.name,
        HoodieKey.DATABASE: config.database if config.database or is_first else None,
        HoodieKey.TYPE: config.table_type.value,
        HoodieKey.VERSION: version,
        HoodieKey.INITIAL_VERSION: str(config.initial_version or version),
        HoodieKey.LAYOUT: str(config.layout),
        HoodieKey.ARCHIVE_FOLDER: config.archive_folder,
        HoodieKey.TIMELINE_FOLDER: config.timeline_folder,
        HoodieKey.HISTORY_FOLDER: config.history_folder,
        HoodieKey.TIMEZONE: config.timezone.value,
        HoodieKey.TABLE_FORMAT: _NATIVE_FORMAT,
        HoodieKey.CREATE_SCHEMA: config.create_schema,
        HoodieKey.BASE_FILE_FORMAT: config.base_file_format,
        HoodieKey.MULTIPLE_BASE_FORMATS: "false",
        HoodieKey.CDC_ENABLED: _text(config.cdc_enabled),
        HoodieKey.PARTITION_METAFILE_IN_BASE_FORMAT: "false",
        HoodieKey.METADATA_PARTITIONS: ",".join(config.metadata_partitions) or None,
        HoodieKey.METADATA_PARTITIONS_INFLIGHT: building if config.metadata_partitions else None,
        HoodieKey.INDEX_DEFINITIONS: _INDEX_DEFINITIONS if needs_definitions else None,
    }


def _keys(config: TableConfig) -> dict[HoodieKey, str | None]:
    generator = config.key_generator
    is_custom = generator is KeyGenerator.CUSTOM
    fields = [
        f"{one.name}:{one.kind.value}"
        if is_custom and one.kind and config.version >= TableVersion.EIGHT
        else one.name
        for one in config.partitioning.fields
    ]
    carried = (
        (key, key.find(config.properties))
        for key in HoodieKey
        if key.name.startswith("TIMESTAMP_") or key is HoodieKey.PARTITION_EXTRACTOR
    )
    return {
        **dict(carried),
        HoodieKey.RECORD_KEY_FIELDS: ",".join(config.record_key_fields) or None,
        HoodieKey.PARTITION_FIELDS: ",".join(fields) or None,
        HoodieKey.KEY_GENERATOR_CLASS: generator.class_name if generator else None,
        HoodieKey.KEY_GENERATOR_TYPE: generator.type_name if generator else None,
        HoodieKey.HIVE_STYLE: _text(config.hive_style),
        HoodieKey.URL_ENCODE: _text(config.url_encode),
        HoodieKey.DROP_PARTITION_COLUMNS: _text(config.drop_partition_columns),
        HoodieKey.POPULATE_META_FIELDS: _text(config.populate_meta_fields),
    }


def _merging(config: TableConfig) -> dict[HoodieKey, str | None]:
    config.merge_rule.require_supported()
    rule = config.merge_rule
    payload: str | None = merge_rules.PAYLOAD_OF_MODE[rule.mode]
    strategy: str | None = merge_rules.STRATEGY_OF_MODE[rule.mode]
    if config.version is TableVersion.SIX:
        # Copy-on-write tables of old do not say how they merge; the others name one strategy.
        merges = config.table_type is TableType.MERGE_ON_READ
        payload = payload if merges else None
        strategy = merge_rules.EVENT_TIME_STRATEGY if merges else None
    return {
        HoodieKey.ORDERING_FIELDS: ",".join(rule.ordering_fields) or None,
        HoodieKey.MERGE_MODE: rule.mode.value,
        HoodieKey.MERGE_STRATEGY_ID: strategy,
        HoodieKey.PAYLOAD_CLASS: payload,
        HoodieKey.LEGACY_PAYLOAD_CLASS: payload if rule.delete_field else None,
        HoodieKey.DELETE_FIELD: rule.delete_field,
        HoodieKey.DELETE_MARKER: rule.delete_marker,
    }


def _text(flag: bool) -> str:
    return "true" if flag else "false"
