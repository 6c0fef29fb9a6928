"""The table's own files: ``hoodie.properties`` and the timeline, in the layout of its version."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakehand.core.instants import Action, Instant, State, completed_action
from lakehand.core.key_generators import KeyGenerator
from lakehand.core.merge_rules import MergeMode, MergeRule
from lakehand.core.partition_paths import PartitionField, PartitionScheme
from lakehand.core.table_config import TableConfig, TableType, TableVersion
from lakehand.formats import avro_schema, commit_metadata, instant_names
from lakehand.formats.commit_metadata import SCHEMA_KEY, CommitMetadata, WriteStat
from lakehand.formats.plans import clustering
from lakehand.ports import PutOutcome
from table_builder_rows import HIVE_STYLE, Partitioning, data_schema

if TYPE_CHECKING:
    from table_builder import TableBuilder, Write
    from table_builder_rows import Shape


def config_of(shape: Shape, name: str) -> TableConfig:
    mode = MergeMode.EVENT_TIME if shape.event_time else MergeMode.COMMIT_TIME
    generators = {
        Partitioning.NONE: KeyGenerator.NON_PARTITION,
        Partitioning.TWO: KeyGenerator.COMPLEX,
    }
    return TableConfig(
        name=name,
        table_type=TableType.MERGE_ON_READ if shape.merge_on_read else TableType.COPY_ON_WRITE,
        version=TableVersion(shape.version),
        record_key_fields=shape.key_fields,
        partitioning=PartitionScheme(
            fields=tuple(PartitionField(field) for field in shape.partition_fields),
            hive_style=shape.partitioning in HIVE_STYLE,
            url_encode=shape.partitioning is Partitioning.ENCODED,
        ),
        key_generator=generators.get(shape.partitioning, KeyGenerator.SIMPLE),
        merge_rule=MergeRule(mode, ("ts",) if shape.event_time else ()),
    )


def layout(table: TableBuilder) -> int:
    return 1 if table.shape.version == 6 else 2


def folder(table: TableBuilder) -> str:
    return ".hoodie" if layout(table) == 1 else ".hoodie/timeline"


def _path(table: TableBuilder, instant: Instant) -> str:
    return f"{folder(table)}/{instant_names.file_name(instant, layout(table))}"


def write_state(
    table: TableBuilder, time: str, action: Action, state: State, content: bytes
) -> None:
    outcome = table.store.put_new(_path(table, Instant(time, action, state)), content)
    assert outcome is PutOutcome.WRITTEN


def write_finished(
    table: TableBuilder, time: str, action: Action, content: bytes, completion: str
) -> None:
    done = Instant(
        time,
        completed_action(action),
        State.COMPLETED,
        None if layout(table) == 1 else completion,
    )
    assert table.store.put_new(_path(table, done), content) is PutOutcome.WRITTEN


def remove_pending(table: TableBuilder, write: Write) -> None:
    for state in (State.INFLIGHT, State.REQUESTED):
        table.store.delete(_path(table, Instant(write.instant, write.action, state)))
    remove_markers(table, write)


def remove_markers(table: TableBuilder, write: Write) -> None:
    for marker in list(table.store.walk(f".hoodie/.temp/{write.instant}")):
        table.store.delete(marker.path)


def table_schema_json(table: TableBuilder) -> str:
    return avro_schema.from_arrow(data_schema(table.shape), table_name=table.name)


def requested(write: Write) -> bytes:
    """Writes have no plan; an overwrite's is a document of nulls."""
    if write.action is Action.REPLACE_COMMIT:
        return clustering.encode(clustering.RequestedReplace(version=None))
    return b""


def workload(table: TableBuilder, write: Write) -> bytes:
    """The inflight file of a write: what it expects to do, by partition and group."""
    profile: dict[str, list[WriteStat]] = {}
    for change in write.changes:
        stats = profile.setdefault(change.group.partition, [WriteStat(
            file_id="", prev_commit=commit_metadata.NO_PREVIOUS_COMMIT
        )])  # fmt: skip
        if change.group in table.groups:
            stats.append(
                WriteStat(
                    file_id=change.group.file_id,
                    prev_commit=change.group.latest.instant,
                    num_update_writes=len(change.puts) + len(change.removes),
                )
            )
    replaced = {} if write.action is Action.REPLACE_COMMIT else None
    metadata = CommitMetadata(
        partition_to_write_stats={name: tuple(stats) for name, stats in profile.items()},
        operation_type=write.operation,
        partition_to_replace_file_ids=replaced,
    )
    return commit_metadata.encode(metadata, version=table.shape.version)


def write_completed(table: TableBuilder, write: Write, completion: str) -> None:
    replaced: dict[str, tuple[str, ...]] | None = None
    if completed_action(write.action) is Action.REPLACE_COMMIT:
        replaced = {}
        for group in write.replaces:
            replaced[group.partition] = (*replaced.get(group.partition, ()), group.file_id)
    metadata = CommitMetadata(
        partition_to_write_stats={name: tuple(stats) for name, stats in write.stats.items()},
        compacted=write.operation in {"COMPACT", "LOG_COMPACT"},
        extra_metadata={SCHEMA_KEY: table_schema_json(table)},
        operation_type=write.operation,
        partition_to_replace_file_ids=replaced,
    )
    content = commit_metadata.encode(metadata, version=table.shape.version)
    write_finished(table, write.instant, write.action, content, completion)
    remove_markers(table, write)


def instants(table: TableBuilder) -> list[Instant]:
    """What stands in the timeline's folder, each state of an instant for itself."""
    names = [info.path.rpartition("/")[2] for info in table.store.list(folder(table)).objects]
    found = [instant_names.parse(name, layout(table)) for name in names]
    return [instant for instant in found if instant is not None]


def forget(table: TableBuilder, times: set[str]) -> None:
    """Remove the files of these instants, as archival does: pending states go first."""
    for instant in sorted(instants(table), key=lambda found: found.is_completed):
        if instant.time in times:
            table.store.delete(_path(table, instant))
