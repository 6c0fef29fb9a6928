"""A new table: its properties, after everything in them was checked.

A table is there when ``hoodie.properties`` is, which is created whole or not at all. Java wants the
folder of the timeline as well, before it holds an instant, and on object stores a folder is there
as long as something is in it: so a file that keeps it goes first. Other folders come with their
first file. Everything is decided before anything is written::

    arguments + properties ──► draft ──► TableConfig ──► rendered as Hudi does for the version
         fields against the schema           may we write such a table?

A place that holds a table, or what is left of one, is not touched.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote, urlsplit

from lakehand.core.key_generators import KeyGenerator
from lakehand.core.merge_rules import MergeMode
from lakehand.core.partition_paths import PartitionType
from lakehand.core.table_config import TableConfig
from lakehand.core.table_keys import HoodieKey
from lakehand.core.table_kinds import META_FOLDER, TableType, TableVersion, TimelineZone
from lakehand.errors import Conflict, Invalid, NotFound, Unsupported
from lakehand.formats import avro_schema
from lakehand.protocol import table_properties
from lakehand.write.creation_fields import (
    data_schema,
    hint,
    require_fields,
    require_generator,
    require_list,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow as pa

    from lakehand.ports import Store

_TYPES: Final = {"cow": TableType.COPY_ON_WRITE, "mor": TableType.MERGE_ON_READ}

_ARGUMENT_OF: Final = {
    HoodieKey.NAME: "name",
    HoodieKey.TYPE: "table_type",
    HoodieKey.VERSION: "version",
    HoodieKey.RECORD_KEY_FIELDS: "key",
    HoodieKey.PARTITION_FIELDS: "partition_by",
    HoodieKey.ORDERING_FIELDS: "ordering",
    HoodieKey.CREATE_SCHEMA: "schema",
}
"""What is said by an argument is not said by a property as well."""

_FOLLOWS: Final = frozenset({
    HoodieKey.INITIAL_VERSION, HoodieKey.LAYOUT, HoodieKey.CHECKSUM, HoodieKey.INDEX_DEFINITIONS,
    HoodieKey.METADATA_PARTITIONS, HoodieKey.METADATA_PARTITIONS_INFLIGHT,
})  # fmt: skip
"""What follows from the rest, or is not there on the first day."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTable:
    """What a user says of a new table. ``table_type`` is ``cow``, ``mor`` or Hudi's word."""

    key: Sequence[str]
    partition_by: Sequence[str] = ()
    ordering: Sequence[str] = ()
    table_type: str = "cow"
    version: int = int(TableVersion.NINE)
    name: str | None = None
    """None: the last part of the table's URI."""
    properties: Mapping[str, str | bool] | None = None
    """Further settings under Hudi's own table keys, as hive style or a timestamp key generator."""


def create_table(
    store: Store, schema: pa.Schema, table: NewTable, *, exist_ok: bool = False
) -> TableConfig:
    """Create the table and return what it is.

    Where there is one already, ``exist_ok`` returns it if it is the same kind of table: version,
    type, key, partition and ordering fields, and whatever else was asked for. All else that is
    there is ``Invalid``, and left as it is.
    """
    wanted = _config(schema, table, where=store.uri)
    found = _existing(store)
    if found is None:
        _require_empty(store, wanted)
        _keep_timeline_folder(store, wanted)
        try:
            created = table_properties.create(store, wanted.to_properties())
        except Conflict:
            # Another creator came between.
            found = _existing(store)
            if found is None:
                raise
        else:
            return TableConfig.from_properties(created)
    if not exist_ok:
        raise Invalid(f"{store.uri} holds a table already: {_sketch(found)}; open it instead")
    _require_same(found, wanted, table, where=store.uri)
    return found


# -- what is there --------------------------------------------------------------------------------


def _existing(store: Store) -> TableConfig | None:
    try:
        return TableConfig.from_properties(table_properties.load(store))
    except NotFound:
        return None


def _require_empty(store: Store, wanted: TableConfig) -> None:
    """Old instants would be the new table's history, old locks and journals its protocol."""
    ours = _keeper(wanted)
    left = next((one for one in store.walk(META_FOLDER) if one.path != ours), None)
    if left is not None:
        raise Invalid(
            f"{store.uri} holds what is left of a table ({left.path}) without its properties: "
            "choose another place, or remove that first"
        )


def _keep_timeline_folder(store: Store, wanted: TableConfig) -> None:
    """Layout 1 has its timeline beside the properties."""
    path = _keeper(wanted)
    if path is not None:
        store.put_new(path, b"keeps the folder\n")


def _keeper(wanted: TableConfig) -> str | None:
    return f"{wanted.history_path}/.keep" if wanted.layout > 1 else None


def _require_same(found: TableConfig, wanted: TableConfig, table: NewTable, *, where: str) -> None:
    there, here = _identity(found), _identity(wanted)
    rendered = wanted.to_properties()
    for key in map(_known_key, table.properties or {}):
        there[key.key] = key.read(found.properties)
        here[key.key] = key.read(rendered)
    if table.name is not None:
        there["name"], here["name"] = found.name, wanted.name
    different = [
        f"{what} is {there[what] or 'none'}, not {here[what] or 'none'}"
        for what in here
        if there[what] != here[what]
    ]
    if different:
        raise Invalid(
            f"{where} holds another table, {found.name!r}: {'; '.join(different)}. Open it as it "
            "is, or choose another place"
        )


def _identity(config: TableConfig) -> dict[str, str]:
    partitioning = config.partitioning.fields
    return {
        "version": str(int(config.version)),
        "table_type": config.table_type.value,
        "key": ", ".join(config.record_key_fields),
        "partition_by": ", ".join(
            f"{one.name}:{one.kind.value}" if one.kind is PartitionType.TIMESTAMP else one.name
            for one in partitioning
        ),
        "ordering": ", ".join(config.ordering_fields),
    }


def _sketch(config: TableConfig) -> str:
    said = ", ".join(f"{what} {text}" for what, text in _identity(config).items() if text)
    return f"{config.name!r} ({said})"


# -- what is wanted -------------------------------------------------------------------------------


def _config(schema: pa.Schema, table: NewTable, *, where: str) -> TableConfig:
    data = data_schema(schema)
    for argument, fields in _lists(table).items():
        require_list(argument, fields)
    version, table_type = _version(table.version), _table_type(table.table_type)
    name = _name(table.name, where)
    given = {_known_key(key): _text(key, text) for key, text in (table.properties or {}).items()}
    generator = given.get(HoodieKey.KEY_GENERATOR_TYPE, "")
    if not (generator or HoodieKey.KEY_GENERATOR_CLASS in given):
        generator = _key_generator(table).type_name
    draft = {
        HoodieKey.TIMEZONE: TimelineZone.UTC.value,
        HoodieKey.MERGE_MODE: _merge_mode(table, given).value,
        **given,
        HoodieKey.NAME: name,
        HoodieKey.TYPE: table_type.value,
        HoodieKey.VERSION: str(int(version)),
        HoodieKey.RECORD_KEY_FIELDS: ",".join(table.key),
        HoodieKey.PARTITION_FIELDS: ",".join(table.partition_by),
        HoodieKey.ORDERING_FIELDS: ",".join(table.ordering),
        HoodieKey.KEY_GENERATOR_TYPE: generator,
        HoodieKey.CREATE_SCHEMA: avro_schema.from_arrow(data, table_name=name),
    }
    config = TableConfig.from_properties(
        {key.key: text for key, text in draft.items()}, where="the new table's properties"
    )
    require_fields(data, config)
    config.require_writable()
    require_generator(config)
    _require_kept(config)
    return config


def _require_kept(config: TableConfig) -> None:
    """Older versions have no words for some settings: what they would lose is refused."""
    kept = TableConfig.from_properties(config.to_properties(), where="the new table's properties")
    kept.require_writable()
    wanted, read = config.merge_rule.mode, kept.merge_rule.mode
    if wanted is not read:
        raise Unsupported(
            f"a {config.table_type.value} table of version {int(config.version)} with ordering "
            f"fields cannot say that it merges by {wanted.value}: leave the fields out, or choose "
            "version 9"
        )


def _lists(table: NewTable) -> dict[str, Sequence[str]]:
    return {"key": table.key, "partition_by": table.partition_by, "ordering": table.ordering}


def _version(number: int) -> TableVersion:
    try:
        return TableVersion(number)
    except ValueError:
        known = ", ".join(str(int(one)) for one in TableVersion)
        raise Unsupported(
            f"table version {number} is not supported: choose one of {known}"
        ) from None


def _table_type(word: str) -> TableType:
    known = {**_TYPES, **{one.value.lower(): one for one in TableType}}
    found = known.get(word.lower())
    if found is None:
        raise Invalid(f"unknown table type {word!r}{hint(word, known)}: it is 'cow' or 'mor'")
    return found


def _name(name: str | None, uri: str) -> str:
    if name is None:
        parts = urlsplit(uri)
        name = unquote(parts.path.rstrip("/").rpartition("/")[2]) or parts.netloc
    if not name.strip() or not name.isprintable():
        raise Invalid(f"{name!r} is no name for a table: give a name of printable characters")
    return name


def _known_key(name: str) -> HoodieKey:
    """Return the key of a property that may be asked for."""
    key = next((one for one in HoodieKey if name in one.names), None)
    if key is None:
        asked = [one.key for one in HoodieKey if one not in {*_ARGUMENT_OF, *_FOLLOWS}]
        raise Invalid(
            f"{name!r} is no property of a table that Lakehand knows{hint(name, asked)}; "
            "settings of a writer are given to the writer"
        )
    if key in _ARGUMENT_OF:
        raise Invalid(f"{name} is said by the argument {_ARGUMENT_OF[key]}")
    if key in _FOLLOWS:
        raise Invalid(f"{name} is not for a new table's creator to choose")
    return key


def _text(name: str, value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if not isinstance(value, str):
        raise Invalid(f"{name}={value!r}: properties are text")
    return value


def _key_generator(table: NewTable) -> KeyGenerator:
    """Choose as Hudi does when it is told nothing."""
    if any(":" in field for field in table.partition_by):
        return KeyGenerator.CUSTOM
    if not table.partition_by:
        return KeyGenerator.NON_PARTITION
    if len(table.key) == 1 and len(table.partition_by) == 1:
        return KeyGenerator.SIMPLE
    return KeyGenerator.COMPLEX


def _merge_mode(table: NewTable, given: Mapping[HoodieKey, str]) -> MergeMode:
    default = MergeMode.EVENT_TIME if table.ordering else MergeMode.COMMIT_TIME
    text = given.get(HoodieKey.MERGE_MODE, default.value).upper()
    if text == MergeMode.EVENT_TIME.value and not table.ordering:
        raise Invalid(f"{HoodieKey.MERGE_MODE.key}={text} needs ordering fields: name them")
    return default
