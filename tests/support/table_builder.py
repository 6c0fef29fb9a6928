"""A table on a local folder, written by the shipped formats alone, and the model beside it.

One call is one write: it makes the data files, the instant's files and, once completed, the new
model. Writes have two halves, ``begin_…`` and ``complete``, so that a test can leave one pending,
roll it back, or let it straddle a compaction. Table services stand in ``table_builder_services``.

The builder remembers what it wrote (groups and slices by name, rows by key); it never reads its
own table, so a reader's answer is compared with something that no reader had a part in.
"""

from __future__ import annotations

import random
import uuid
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import table_builder_files as files
import table_builder_timeline as timeline
from lakehand.core.instants import Action, State, format_instant_time
from lakehand.core.key_generators import record_key
from lakehand.protocol import table_properties
from lakehand.store.local import LocalStore
from table_builder_rows import (
    COMMIT_TIME,
    PARTITION_PATH,
    RECORD_KEY,
    SEQUENCE,
    Row,
    Shape,
    key_of,
    make_row,
    path_of,
    paths,
)

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from lakehand.formats.base_file import BaseFileOptions
    from lakehand.formats.commit_metadata import WriteStat

FIRST_MOMENT = 1_704_067_200_000
"""2024-01-01 00:00:00 UTC: far enough from the clock of a Java writer that goes on."""


Winner = tuple[Row | None, int]
"""What stands for a key among a slice's log records (None: deleted), and its ordering value."""


@dataclass(slots=True)
class Slice:
    """One version of a group; ``base`` is None in log-only slices and before a compaction ran."""

    instant: str
    base: str | None
    logs: list[str] = field(default_factory=list)
    versions: int = 0
    """The last log version used (version 6 counts them within the slice)."""
    winners: dict[str, Winner] = field(default_factory=dict)
    log_times: list[str] = field(default_factory=list)
    """The instants of the blocks that count, oldest first."""

    @property
    def files(self) -> list[str]:
        return self.logs if self.base is None else [self.base, *self.logs]


@dataclass(slots=True)
class Group:
    partition: str
    file_id: str
    slices: list[Slice] = field(default_factory=list)
    rows: dict[str, Row] = field(default_factory=dict)
    deleted: set[str] = field(default_factory=set)
    """Keys whose deletion still stands in a log file: an index would send them back here."""
    replaced_by: str | None = None

    @property
    def latest(self) -> Slice:
        """The slice that writers add to: a planned compaction's counts."""
        return self.slices[-1]

    @property
    def visible(self) -> Slice:
        """The oldest slice that a reader of now needs."""
        with_base = [slice_ for slice_ in self.slices if slice_.base is not None]
        return with_base[-1] if with_base else self.slices[0]

    def path(self, name: str) -> str:
        return f"{self.partition}/{name}" if self.partition else name


@dataclass(slots=True)
class Change:
    """What one write does to one group when it completes."""

    group: Group
    puts: list[Row] = field(default_factory=list)
    removes: list[str] = field(default_factory=list)
    base: str | None = None
    log: str | None = None

    @property
    def file(self) -> str:
        made = self.log if self.base is None else self.base
        assert made is not None
        return made


@dataclass(slots=True)
class Write:
    instant: str
    action: Action
    operation: str
    changes: list[Change] = field(default_factory=list)
    stats: dict[str, list[WriteStat]] = field(default_factory=dict)
    replaces: list[Group] = field(default_factory=list)

    def add_stat(self, stat: WriteStat) -> None:
        self.stats.setdefault(stat.partition_path or "", []).append(stat)


class TableBuilder:
    """See the module's text. ``folder`` must not exist or be empty."""

    def __init__(
        self,
        folder: Path,
        shape: Shape,
        *,
        name: str = "built",
        seed: int = 1,
        base_file_options: BaseFileOptions = files.SMALL_BLOOM,
    ) -> None:
        self.folder = folder
        self.shape = shape
        self.name = name
        self.random = random.Random(seed)
        folder.mkdir(parents=True, exist_ok=True)
        self.store = LocalStore(str(folder))
        self.groups: list[Group] = []
        self.event_time = 0
        self.last_write = ""
        self.pinned: set[str] = set()
        self.pinned_times: set[str] = set()
        self.history: list[tuple[str, dict[str, Row]]] = []
        """After every completed write: a time at which it was the newest, and the model; a clean
        takes away what no savepoint pins."""
        self._moment = FIRST_MOMENT
        self._tasks = 0
        self.config = timeline.config_of(shape, name)
        self.base_file_options = base_file_options
        table_properties.create(self.store, self.config.to_properties())

    # -- time and identity ----------------------------------------------------------------------

    def tick(self) -> str:
        """The next time: every instant and every completion gets its own."""
        self._moment += 1_001
        return format_instant_time(self._moment)

    def new_file_id(self) -> str:
        return f"{uuid.UUID(int=self.random.getrandbits(128), version=4)}-0"

    def token(self) -> str:
        self._tasks += 1
        return f"{self._tasks % 7}-{self._tasks}-{self._tasks * 3}"

    def absolute(self, path: str) -> str:
        return f"{self.folder}/{path}"

    def size(self, path: str) -> int:
        info = self.store.head(path)
        assert info is not None
        return info.size

    @property
    def write_action(self) -> Action:
        return Action.DELTA_COMMIT if self.shape.merge_on_read else Action.COMMIT

    # -- the model ------------------------------------------------------------------------------

    @property
    def live(self) -> list[Group]:
        return [group for group in self.groups if group.replaced_by is None]

    @property
    def model(self) -> dict[str, Row]:
        rows = {}
        for group in self.live:
            assert not rows.keys() & group.rows.keys()
            rows.update(group.rows)
        return rows

    def make_rows(self, numbers: Iterable[int], *, late: bool = False) -> list[Row]:
        """New values for these keys; late ones lose against what is there by event time."""
        self.event_time += 1
        ts = -self.event_time if late else self.event_time
        rows = [make_row(self.shape, number, ts=ts) for number in numbers]
        for row in rows:
            self._check_identity(row)
        return rows

    def _check_identity(self, row: Row) -> None:
        """The shipped key generators say of the row what its shape says in so many words."""
        generator = self.config.key_generator
        assert generator is not None
        key = record_key(generator, self.config.record_key_fields, row)
        assert key == key_of(self.shape, row)
        assert self.config.partitioning.path_of(row) == path_of(self.shape, row)

    def _stamp(self, rows: list[Row], instant: str) -> list[Row]:
        """The rows with the meta values that a write at ``instant`` gives them."""
        self._tasks += 1
        return [
            row
            | {
                COMMIT_TIME: instant,
                SEQUENCE: f"{instant}_{self._tasks % 5}_{number}",
                RECORD_KEY: key_of(self.shape, row),
                PARTITION_PATH: path_of(self.shape, row),
            }
            for number, row in enumerate(rows)
        ]

    def wins(self, old: Row | None, new: Row) -> bool:
        return old is None or not self.shape.event_time or old["ts"] <= new["ts"]

    def merged(self, change: Change) -> dict[str, Row]:
        rows = dict(change.group.rows)
        for row in change.puts:
            if self.wins(rows.get(row[RECORD_KEY]), row):
                rows[row[RECORD_KEY]] = row
        for key in change.removes:
            rows.pop(key, None)
        return rows

    # -- writes ---------------------------------------------------------------------------------

    def insert(self, numbers: Iterable[int], *, to_logs: bool = False) -> Write:
        return self.complete(self.begin_insert(numbers, to_logs=to_logs))

    def upsert(self, numbers: Iterable[int], *, late: bool = False) -> Write:
        return self.complete(self.begin_upsert(self.make_rows(numbers, late=late)))

    def delete(self, numbers: Iterable[int]) -> Write:
        return self.complete(self.begin_delete(numbers))

    def begin_insert(self, numbers: Iterable[int], *, to_logs: bool = False) -> Write:
        """New groups, one for each partition; ``to_logs`` makes them log-only."""
        write = self._begin(self.write_action, "INSERT")
        self._insert_into_new_groups(write, self.make_rows(numbers), to_logs=to_logs)
        return self._inflight(write)

    def begin_upsert(self, rows: list[Row]) -> Write:
        """Updates go to the groups that hold the keys, other rows to new groups."""
        write = self._begin(self.write_action, "UPSERT")
        stamped = self._stamp(rows, write.instant)
        homeless = {row[RECORD_KEY] for row in stamped}
        for group in self.live:
            known = group.rows.keys() | group.deleted
            puts = [row for row in stamped if row[RECORD_KEY] in known]
            homeless.difference_update(known)
            if puts:
                self._update(write, Change(group, puts=puts))
        fresh = [row for row in rows if key_of(self.shape, row) in homeless]
        self._insert_into_new_groups(write, fresh, to_logs=False)
        return self._inflight(write)

    def begin_delete(self, numbers: Iterable[int]) -> Write:
        gone = {key_of(self.shape, make_row(self.shape, number, ts=0)) for number in numbers}
        write = self._begin(self.write_action, "DELETE")
        for group in self.live:
            removes = sorted(gone & group.rows.keys())
            if removes:
                self._update(write, Change(group, removes=removes))
        return self._inflight(write)

    def insert_overwrite(self, partition: str, numbers: Iterable[int]) -> Write:
        """Replace all groups of a partition by new ones."""
        write = self._begin(Action.REPLACE_COMMIT, "INSERT_OVERWRITE")
        rows = [row for row in self.make_rows(numbers) if path_of(self.shape, row) == partition]
        self._insert_into_new_groups(write, rows, to_logs=False)
        write.replaces = [group for group in self.live if group.partition == partition]
        return self.complete(self._inflight(write))

    def complete(self, write: Write) -> Write:
        """Publish the instant and move the model on."""
        for change in write.changes:
            self._apply(write, change)
        for group in write.replaces:
            group.replaced_by = write.instant
        completion = self.tick()
        timeline.write_completed(self, write, completion)
        self.last_write = max(self.last_write, write.instant)
        self.history.append((completion, self.model))
        return write

    # -- the parts of a write -------------------------------------------------------------------

    def _begin(self, action: Action, operation: str) -> Write:
        write = Write(self.tick(), action, operation)
        timeline.write_state(
            self, write.instant, action, State.REQUESTED, timeline.requested(write)
        )
        return write

    def _inflight(self, write: Write) -> Write:
        content = timeline.workload(self, write)
        timeline.write_state(self, write.instant, write.action, State.INFLIGHT, content)
        return write

    def _insert_into_new_groups(self, write: Write, rows: list[Row], *, to_logs: bool) -> None:
        stamped = self._stamp(rows, write.instant)
        for partition in paths(self.shape):
            puts = [row for row in stamped if row[PARTITION_PATH] == partition]
            if not puts:
                continue
            files.ensure_partition(self, partition, write.instant)
            group = Group(partition, self.new_file_id())
            change = Change(group, puts=puts)
            if to_logs:
                group.slices.append(Slice(write.instant, None))
                files.append_log(self, write, change)
            else:
                files.write_base(self, write, change, rows=puts)
            write.changes.append(change)

    def _update(self, write: Write, change: Change) -> None:
        if self.shape.merge_on_read:
            files.append_log(self, write, change)
        else:
            rows = list(self.merged(change).values())
            files.write_base(self, write, change, rows=rows)
        write.changes.append(change)

    def _apply(self, write: Write, change: Change) -> None:
        group = change.group
        group.rows = self.merged(change)
        if change.base is not None:
            group.slices.append(Slice(write.instant, change.base))
        if change.log is not None:
            self._apply_log(write, change, change.log)
            group.deleted = (group.deleted | set(change.removes)) - group.rows.keys()
        if group not in self.groups:
            self.groups.append(group)

    def _apply_log(self, write: Write, change: Change, log: str) -> None:
        """Version 6 counted the file when it was made; later versions when its write completed."""
        slice_ = change.group.latest
        if self.shape.version != 6:
            slice_.logs.append(log)
        slice_.log_times.append(write.instant)
        for row in change.puts:
            old = slice_.winners.get(row[RECORD_KEY])
            if old is None or not self.shape.event_time or old[1] <= row["ts"]:
                slice_.winners[row[RECORD_KEY]] = (row, row["ts"])
        for key in change.removes:
            slice_.winners[key] = (None, self.event_time)
