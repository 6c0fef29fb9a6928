"""What a user says about a write, checked once, and turned into the settings of its parts.

``WriteOptions.parse`` knows an option by its short name and by Hudi's key (``option_table``), as
values or as text. Nothing is guessed and nothing passed over: what is not known, given twice in
different ways or out of range is refused before anything is done, by the name it was given under.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from lakehand.core.file_sizing import SizeLimits
from lakehand.core.journal_entries import RunKey
from lakehand.core.key_generators import find_key_generator
from lakehand.core.merge_rules import PAYLOAD_OF_MODE
from lakehand.core.partition_paths import split_fields
from lakehand.core.table_keys import HoodieKey
from lakehand.errors import Invalid, Unsupported
from lakehand.formats.base_file import BaseFileOptions
from lakehand.formats.bloom import BloomKind, BloomSettings
from lakehand.formats.commit_metadata import WriteOperation
from lakehand.protocol.workbench import ProtocolSettings
from lakehand.write.option_kinds import as_text, read
from lakehand.write.option_table import (
    ELSEWHERE,
    HARMLESS,
    OPTIONS,
    TABLE_KEYS,
    IndexType,
    SortMode,
)
from lakehand.write.shapes import FileSettings

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lakehand.core.conflict_tables import Strategy
    from lakehand.core.table_config import TableConfig
    from lakehand.protocol.failed_writes import FailedWritesPolicy
    from lakehand.write.option_table import Option

_LEVELS: Final = {"zstd": (1, 22), "gzip": (1, 9)}
_INSERTS: Final = frozenset(
    {
        WriteOperation.INSERT,
        WriteOperation.BULK_INSERT,
        WriteOperation.INSERT_OVERWRITE,
        WriteOperation.INSERT_OVERWRITE_TABLE,
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteOptions:
    """The options of a write as the parts of a write want them; docs/write-options.md has all."""

    files: FileSettings
    protocol: ProtocolSettings
    sizes: SizeLimits
    row_bytes: int
    index: IndexType
    update_partition_path: bool
    combined: frozenset[WriteOperation]
    sort: SortMode
    allow_new_columns: bool
    parallelism: Mapping[WriteOperation, int]
    """Tasks per operation; an operation that is missing leaves it to the engine."""
    progress: bool
    retries: int
    strategy: Strategy
    failed_writes: FailedWritesPolicy
    lock: str
    """A kind of lock, as ``locks.open`` knows it."""
    lock_options: Mapping[str, str]
    run: RunKey | None
    extra_metadata: Mapping[str, str]
    about_table: tuple[tuple[str, str], ...]
    """Keys that say what the table is, as they were given: see ``check_against``."""

    @classmethod
    def parse(cls, options: Mapping[str, object]) -> WriteOptions:
        """Check and type options; those that are None count as not given. Raises ``Invalid``."""
        given = _sorted_out(options)
        value = {name: given.values.get(name, _default(one)) for name, one in OPTIONS.items()}
        return cls(
            files=_files(value, given),
            protocol=ProtocolSettings(
                lock_timeout_s=value["lock_timeout_s"],
                heartbeat_interval_s=value["heartbeat_s"],
                heartbeat_misses=value["heartbeat_misses"],
                max_clock_skew_s=value["max_clock_skew_s"],
                foreign_writers=value["foreign_writers"],
            ),
            sizes=SizeLimits(
                max_file_bytes=_bytes(value["max_file_mb"]),
                small_file_bytes=_bytes(value["small_file_mb"]),
                merge_on_read_fills=value["small_files_filled"],
            ),
            row_bytes=value["row_bytes"],
            index=value["index"],
            update_partition_path=value["update_partition_path"],
            combined=_combined(value),
            sort=value["sort"],
            allow_new_columns=value["allow_new_columns"],
            parallelism=_parallelism(value),
            progress=value["progress"],
            retries=value["retries"],
            strategy=value["conflict_strategy"],
            failed_writes=value["failed_writes"],
            lock=value["lock"],
            lock_options=value["lock_options"],
            run=_run(value),
            extra_metadata={**given.metadata, **value["extra_metadata"]},
            about_table=given.about_table,
        )

    def combines(self, operation: WriteOperation) -> bool:
        """Whether of several incoming rows with one key one is written."""
        return operation in self.combined

    def check_against(self, config: TableConfig) -> None:
        """Raise ``Invalid`` if a key was given that says of the table what is not so."""
        for name, text in self.about_table:
            key = TABLE_KEYS[name]
            if not _is_so(config, key, text):
                raise Invalid(
                    f"{name}={text!r}, but the table {config.name!r} has {_said(config, key)!r}: "
                    "leave the option out, a write does not change its table"
                )


# -- settings of the parts --------------------------------------------------------------------


def _dictionary_columns(value: Mapping[str, Any]) -> tuple[str, ...] | None:
    """Return the columns that get a dictionary; None is all."""
    named: tuple[str, ...] = value["dictionary_columns"]
    return None if value["dictionary"] and not named else named


def _files(value: Mapping[str, Any], given: _Given) -> FileSettings:
    codec, level = value["codec"], value["level"]
    low, high = _LEVELS.get(codec, (0, 0))
    if level is not None and not low <= level <= high:
        levels = f"from {low} to {high}" if high else "not at all"
        raise Invalid(f"{given.spelled('level')}={level}: {codec} has levels {levels}")
    bloom = BloomSettings(
        kind=BloomKind(value["bloom_type"]),
        entries=value["bloom_entries"],
        false_positive_rate=value["bloom_rate"],
        max_entries=value["bloom_max_entries"],
    )
    return FileSettings(
        base=BaseFileOptions(
            codec=codec,
            level=level,
            dictionary_columns=_dictionary_columns(value),
            row_group_rows=value["row_group_rows"],
            row_group_bytes=_bytes(value["row_group_mb"]),
            page_bytes=int(value["page_kb"] * (1 << 10)),
            bloom=bloom if value["bloom"] else None,
        ),
        max_file_bytes=_bytes(value["max_file_mb"]),
        log_format=value["log_format"],
        log_block_bytes=_bytes(value["log_block_mb"]),
        memory_bytes=_bytes(value["memory_mb"]),
        spill_folder=value["spill_folder"],
    )


def _bytes(megabytes: float) -> int:
    return int(megabytes * (1 << 20))


def _combined(value: Mapping[str, Any]) -> frozenset[WriteOperation]:
    found: set[WriteOperation] = set()
    if value["combine_before_insert"]:
        found |= _INSERTS
    if value["combine_before_upsert"]:
        found.add(WriteOperation.UPSERT)
    if value["combine_before_delete"]:
        found.add(WriteOperation.DELETE)
    return frozenset(found)


def _parallelism(value: Mapping[str, Any]) -> dict[WriteOperation, int]:
    inserts = value["insert_parallelism"]
    own = {
        **dict.fromkeys(_INSERTS, inserts),
        WriteOperation.BULK_INSERT: value["bulk_insert_parallelism"],
        WriteOperation.UPSERT: value["upsert_parallelism"],
        WriteOperation.DELETE: value["delete_parallelism"],
    }
    tasks = {operation: number or value["parallelism"] for operation, number in own.items()}
    return {operation: number for operation, number in tasks.items() if number}


def _run(value: Mapping[str, Any]) -> RunKey | None:
    application, batch = value["app_id"], value["batch"]
    if (application is None) != (batch is None):
        raise Invalid("app_id and batch go together: give both, or none")
    return None if application is None else RunKey(application, batch)


# -- sorting options out ----------------------------------------------------------------------


class _Given(NamedTuple):
    """What was given: values by the option's name, under which spelling, and the rest."""

    values: dict[str, Any]
    spellings: dict[str, str]
    about_table: tuple[tuple[str, str], ...]
    metadata: dict[str, str]

    def spelled(self, name: str) -> str:
        return self.spellings.get(name, name)


_BY_SPELLING: Final[dict[str, tuple[Option, int]]] = {
    **{name: (option, 1) for name, option in OPTIONS.items()},
    **{key.name: (option, key.per_unit) for option in OPTIONS.values() for key in option.keys},
}


def _sorted_out(options: Mapping[str, object]) -> _Given:
    given = _Given({}, {}, (), {})
    about_table = []
    prefix = _metadata_prefix(options)
    for spelling, raw in options.items():
        if raw is None:
            continue
        if spelling in _BY_SPELLING:
            _take(given, spelling, raw)
        elif spelling in TABLE_KEYS:
            about_table.append((spelling, as_text(raw)))
        elif spelling in HARMLESS:
            _require_harmless(spelling, raw)
        elif prefix is None or not spelling.startswith(prefix):
            raise _unknown(spelling)
        if prefix is not None and spelling.startswith(prefix):
            given.metadata[spelling] = as_text(raw)
    return given._replace(about_table=tuple(about_table))


def _metadata_prefix(options: Mapping[str, object]) -> str | None:
    for spelling, raw in options.items():
        option, _ = _BY_SPELLING.get(spelling, (None, 1))
        if option is not None and option.name == "metadata_prefix" and raw is not None:
            return as_text(raw)
    return None


def _take(given: _Given, spelling: str, raw: object) -> None:
    option, per_unit = _BY_SPELLING[spelling]
    value = read(option.kind, spelling, raw, per_unit)
    if option.name in given.values and given.values[option.name] != value:
        other = given.spellings[option.name]
        raise Invalid(
            f"{other} and {spelling} are one option and say different things: give one of them"
        )
    given.values[option.name] = value
    given.spellings[option.name] = spelling


def _require_harmless(spelling: str, raw: object) -> None:
    one = HARMLESS[spelling]
    if one.values and as_text(raw).lower() not in one.values:
        raise Unsupported(
            f"{spelling}={as_text(raw)!r} is not supported ({one.why}): leave it out, or give "
            f"{' or '.join(one.values)}"
        )


def _unknown(spelling: str) -> Invalid:
    for beginning, what_to_do in ELSEWHERE.items():
        if spelling.startswith(beginning):
            return Invalid(f"{spelling} is no option here: {what_to_do}")
    known = [*_BY_SPELLING, *TABLE_KEYS, *HARMLESS]
    close = difflib.get_close_matches(spelling, known, n=1, cutoff=0.6)
    hint = f"did you mean {close[0]!r}?" if close else "docs/write-options.md has all"
    return Invalid(f"unknown option {spelling!r}: {hint}")


def _default(option: Option) -> Any:  # noqa: ANN401 - of the option's type
    if option.default is None:
        return None
    return read(option.kind, option.name, option.default, 1)


# -- what the table is ------------------------------------------------------------------------


_LISTS: Final = frozenset(
    {HoodieKey.RECORD_KEY_FIELDS, HoodieKey.ORDERING_FIELDS, HoodieKey.PARTITION_FIELDS}
)
_GENERATORS: Final = frozenset({HoodieKey.KEY_GENERATOR_CLASS, HoodieKey.KEY_GENERATOR_TYPE})
_EXACT: Final = frozenset({HoodieKey.NAME, HoodieKey.DATABASE, HoodieKey.CREATE_SCHEMA})


def _is_so(config: TableConfig, key: HoodieKey, text: str) -> bool:
    """Whether the table is as ``text`` says; spelling differs between keys of one meaning."""
    said = _said(config, key)
    if key in _LISTS:
        ours, theirs = split_fields(said), split_fields(text)
        plain = [one.partition(":")[0] for one in ours]
        return list(theirs) in (list(ours), plain)
    if key in _GENERATORS:
        generator = config.key_generator
        return generator is not None and generator is find_key_generator(text, text)
    if key is HoodieKey.PAYLOAD_CLASS:
        return text in {said, key.read(config.properties)}
    return text == said if key in _EXACT else text.lower() == said.lower()


def _said(config: TableConfig, key: HoodieKey) -> str:
    match key:
        case HoodieKey.NAME:
            return config.name
        case HoodieKey.TYPE:
            return config.table_type.value
        case HoodieKey.VERSION:
            return str(int(config.version))
        case HoodieKey.RECORD_KEY_FIELDS:
            return ",".join(config.record_key_fields)
        case HoodieKey.ORDERING_FIELDS:
            return ",".join(config.ordering_fields)
        case HoodieKey.PARTITION_FIELDS:
            fields = config.partitioning.fields
            return ",".join(
                f"{one.name}:{one.kind.value}" if one.kind else one.name for one in fields
            )
        case HoodieKey.KEY_GENERATOR_CLASS | HoodieKey.KEY_GENERATOR_TYPE:
            generator = config.key_generator
            return generator.type_name if generator else key.read(config.properties)
        case HoodieKey.MERGE_MODE:
            return config.merge_rule.mode.value
        case HoodieKey.PAYLOAD_CLASS:
            return PAYLOAD_OF_MODE.get(config.merge_rule.mode, key.read(config.properties))
        case _:
            return key.read(config.properties)
