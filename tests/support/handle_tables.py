"""Tables whose data files come from write handles alone, with a dictionary beside them.

The timeline is written by hand here, one write after the other, so that nothing but the handles is
judged. A table has one partition and a *home* for every key: the file group that it was created in.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lakehand.core.instants import Action, Instant, State, format_instant_time
from lakehand.core.key_generators import KeyGenerator
from lakehand.core.merge_rules import MergeMode, MergeRule, Version, merge
from lakehand.core.partition_paths import PartitionField, PartitionScheme
from lakehand.core.table_config import TableConfig, TableType, TableVersion
from lakehand.formats import avro_schema, commit_metadata, instant_names
from lakehand.formats.base_file import BaseFileOptions
from lakehand.formats.bloom import BloomSettings
from lakehand.formats.commit_metadata import SCHEMA_KEY, CommitMetadata, WriteStat
from lakehand.ports import PromoteOutcome
from lakehand.protocol import staging, table_properties
from lakehand.table import Table
from lakehand.write.handles.group import write_group
from lakehand.write.shapes import (
    KEY_COLUMNS,
    FileSettings,
    GroupTask,
    GroupWork,
    Try,
    WriteContext,
    WrittenFile,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from lakehand.ports import Store

PARTITION = "oslo"
DATA = pa.schema(
    [
        pa.field("id", pa.string()),
        pa.field("city", pa.string()),
        pa.field("ts", pa.int64()),
        pa.field("value", pa.string()),
        pa.field("_hoodie_is_deleted", pa.bool_()),
    ]
)
SMALL = BaseFileOptions(bloom=BloomSettings(entries=100, max_entries=200))
FIRST_MOMENT = 1_704_067_200_000

Row = dict[str, Any]


def row(key: str, ts: int, value: str, *, deleted: bool = False, city: str = PARTITION) -> Row:
    return {"id": key, "city": city, "ts": ts, "value": value, "_hoodie_is_deleted": deleted}


def keyed(rows: Iterable[Row], *, batch_rows: int = 1000) -> Iterator[pa.RecordBatch]:
    """The rows as tasks get them."""
    for some in _batched(rows, batch_rows):
        data = pa.RecordBatch.from_pylist(list(some), schema=DATA)
        columns = [data.column("id"), data.column("city"), *data.columns]
        names = [*KEY_COLUMNS, *DATA.names]
        yield pa.RecordBatch.from_arrays(columns, names=names)


def _batched(rows: Iterable[Row], size: int) -> Iterator[list[Row]]:
    ordered = list(rows)
    for start in range(0, len(ordered), size):
        yield ordered[start : start + size]


def keys_to_delete(keys: Iterable[str], *, city: str = PARTITION) -> Iterator[pa.RecordBatch]:
    texts = list(keys)
    columns = [pa.array(texts, pa.string()), pa.array([city] * len(texts), pa.string())]
    yield pa.RecordBatch.from_arrays(columns, names=list(KEY_COLUMNS))


@dataclass(slots=True)
class _Record:
    """A key in the model: what its base file says, and the log records on top of it."""

    home: str
    base: Version | None
    logs: list[Version] = field(default_factory=list)


class HandleTable:
    """See the module's text."""

    def __init__(
        self,
        store: Store,
        *,
        version: int = 9,
        merge_on_read: bool = False,
        event_time: bool = True,
        settings: FileSettings | None = None,
    ) -> None:
        self.store = store
        self.merge_on_read = merge_on_read
        self.settings = settings or FileSettings(base=SMALL)
        mode = MergeMode.EVENT_TIME if event_time else MergeMode.COMMIT_TIME
        config = TableConfig(
            name="trips",
            table_type=TableType.MERGE_ON_READ if merge_on_read else TableType.COPY_ON_WRITE,
            version=TableVersion(version),
            record_key_fields=("id",),
            partitioning=PartitionScheme(fields=(PartitionField("city"),)),
            key_generator=KeyGenerator.SIMPLE,
            merge_rule=MergeRule(mode, ("ts",) if event_time else ()),
        )
        written = table_properties.create(store, config.to_properties())
        self.config = TableConfig.from_properties(written)
        self.schema = avro_schema.with_meta_columns(DATA)
        self.records: dict[str, _Record] = {}
        self._moment = FIRST_MOMENT
        self._tries = 0
        self._groups = 0

    # -- writes ---------------------------------------------------------------------------------

    def tick(self) -> str:
        self._moment += 1_001
        return format_instant_time(self._moment)

    def context(self, **changes: Any) -> WriteContext:
        context = WriteContext(
            config=self.config,
            time=self.tick(),
            epoch=1,
            schema=self.schema,
            avro_schema=avro_schema.from_arrow(self.schema, table_name="trips"),
            settings=self.settings,
            combine=True,
        )
        return dataclasses.replace(context, **changes)

    def next_try(self) -> Try:
        self._tries += 1
        return Try(self._tries, 0)

    def new_prefix(self) -> str:
        self._groups += 1
        return f"0000000{self._groups % 10}-0000-5000-8000-{self._groups:012}"

    def task(self, work: GroupWork, file_id: str) -> GroupTask:
        """A task on the group as it is now."""
        (part,) = [one for one in Table.over(self.store).slices() if one.file_id == file_id]
        return GroupTask(
            work,
            part.partition,
            file_id,
            part,
            base_instant=part.base_instant,
            log_version=len(part.log_files) + 1 if self.config.version < 8 else 1,
        )

    def write(
        self, context: WriteContext, tasks: list[tuple[GroupTask, Iterator[pa.RecordBatch]]]
    ) -> list[WriteStat]:
        """Stage, promote and commit; answers travel as JSON, as they do from real tasks."""
        answers = [
            one.to_json()
            for task, rows in tasks
            for one in write_group(self.store, context, task, rows, self.next_try())
        ]
        return self.commit(context, [WrittenFile.from_json(one) for one in answers])

    def commit(self, context: WriteContext, files: list[WrittenFile]) -> list[WriteStat]:
        stats: dict[str, tuple[WriteStat, ...]] = {}
        for one in files:
            assert staging.promote(self.store, one.staged) is PromoteOutcome.WRITTEN
            assert one.staged.final == one.stat.path
            held = self.store.head(one.staged.final)
            assert held is not None
            assert held.size == one.stat.file_size_in_bytes
            partition = one.stat.partition_path or ""
            stats[partition] = (*stats.get(partition, ()), one.stat)
        metadata = CommitMetadata(
            partition_to_write_stats=stats,
            extra_metadata={SCHEMA_KEY: avro_schema.from_arrow(DATA, table_name="trips")},
            operation_type="DELETE" if context.is_deletion else "UPSERT",
        )
        action = Action.DELTA_COMMIT if self.merge_on_read else Action.COMMIT
        self._state(Instant(context.time, action, State.REQUESTED), b"")
        self._state(Instant(context.time, action, State.INFLIGHT), b"")
        completion = None if self.config.layout == 1 else self.tick()
        done = Instant(context.time, action, State.COMPLETED, completion)
        self._state(done, commit_metadata.encode(metadata, version=int(self.config.version)))
        return [stat for of_one in stats.values() for stat in of_one]

    def _state(self, instant: Instant, content: bytes) -> None:
        name = instant_names.file_name(instant, self.config.layout)
        self.store.put_new(f"{self.config.timeline_path}/{name}", content)

    # -- with the model -------------------------------------------------------------------------

    def upsert(self, rows: list[Row]) -> list[WriteStat]:
        """Known keys go home; the others make a new file group."""
        groups: dict[str, list[Row]] = {}
        for one in rows:
            known = self.records.get(one["id"])
            groups.setdefault("" if known is None else known.home, []).append(one)
        context = self.context()
        tasks = []
        prefix = self.new_prefix()
        for home, some in groups.items():
            if home:
                tasks.append((self.task(self._known_work, home), keyed(some)))
            else:
                created = GroupTask(GroupWork.CREATE, PARTITION, prefix)
                tasks.append((created, keyed(some)))
        stats = self.write(context, tasks)
        for home, some in groups.items():
            self._apply(some, home or f"{prefix}-0", is_new=not home)
        return stats

    @property
    def _known_work(self) -> GroupWork:
        return GroupWork.APPEND if self.merge_on_read else GroupWork.MERGE

    def _apply(self, rows: list[Row], home: str, *, is_new: bool) -> None:
        rule = self.config.merge_rule
        for key in dict.fromkeys(one["id"] for one in rows):
            of_key = [one for one in rows if one["id"] == key]
            last = of_key[-1]
            if rule.orders_log:
                last = max(reversed(of_key), key=lambda one: one["ts"])
            version = Version(None if last["_hoodie_is_deleted"] else last, (last["ts"],))
            record = self.records.get(key)
            if is_new:
                if not version.is_delete:
                    self.records[key] = _Record(home, version)
            elif self.merge_on_read:
                assert record is not None
                self._log(record, version)
            else:
                assert record is not None
                assert record.base is not None and record.base.ordering is not None
                if rule.uses_ordering and record.base.ordering > (last["ts"],):
                    continue
                if version.is_delete:
                    del self.records[key]
                else:
                    record.base = version

    def _log(self, record: _Record, version: Version) -> None:
        """A delete entry after a natural delete is not looked at: the key is gone already."""
        stands = merge(self.config.merge_rule, None, record.logs)
        gone = stands is not None and stands.is_delete and stands.ordering is None
        if not (gone and version.is_delete):
            record.logs.append(version)

    def delete(self, keys: list[str]) -> list[WriteStat]:
        known = [key for key in dict.fromkeys(keys) if key in self.records]
        context = self.context(is_deletion=True)
        homes: dict[str, list[str]] = {}
        for key in known:
            homes.setdefault(self.records[key].home, []).append(key)
        tasks = [
            (self.task(self._known_work, home), keys_to_delete(some))
            for home, some in homes.items()
        ]
        stats = self.write(context, tasks)
        for key in known:
            if self.merge_on_read:
                self.records[key].logs.append(Version(None))
            else:
                del self.records[key]
        return stats

    @property
    def model(self) -> dict[str, tuple[int, str]]:
        """What every reader has to return: ts and value by key."""
        rule = self.config.merge_rule
        found = {}
        for key, record in self.records.items():
            stands = merge(rule, record.base, record.logs)
            if stands is not None and stands.record is not None:
                found[key] = (stands.record["ts"], stands.record["value"])
        return found


def read_back(table: pa.Table) -> dict[str, tuple[int, str]]:
    """What a reader returned, as the model has it. A key that comes twice is a fault."""
    rows = table.select(["_hoodie_record_key", "ts", "value"]).to_pylist()
    found = {one["_hoodie_record_key"]: (one["ts"], one["value"]) for one in rows}
    assert len(found) == len(rows)
    return found
