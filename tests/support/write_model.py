"""A Hudi table as a dictionary, and random sequences of writes to it.

A ``Step`` is a write in so many words (an operation on slots) that means something in every state
of a table; so sequences can be drawn freely and shrunk by leaving steps out. ``Model.write_of``
makes of it what is really written; ``Model.commit`` says what that does.

A record is its base version and the versions that were logged on top of it; which of them shows is
said by ``core.merge_rules``, the scalar model of merging. What the model knows beside that is how
Hudi's writers place rows: updates of a merge-on-read table are logged with the record that the key
was found at, deletions included, and new keys go to base files, where their past is forgotten.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple

from hypothesis import strategies as st

from lakehand.core.merge_rules import Dialect, MergeMode, MergeRule, Version, merge
from write_rows import (
    CITIES,
    COLUMNS,
    COMMIT_TIME,
    IS_DELETED,
    KEYS,
    LATER_COLUMNS,
    PARTITION_PATH,
    RECORD_KEY,
    SLOTS,
    Id,
    Kind,
    Row,
    make_row,
    to_table,
)

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Iterable, Sequence

    import pyarrow as pa


class Operation(Enum):
    """The values are the names of the writer's methods."""

    UPSERT = "upsert"
    INSERT = "insert"
    BULK_INSERT = "bulk_insert"
    DELETE = "delete"
    OVERWRITE = "insert_overwrite"
    OVERWRITE_TABLE = "insert_overwrite_table"
    DELETE_PARTITION = "delete_partition"


class Touch(NamedTuple):
    """One row of a step: a slot, the event time, and whether the row says that it is deleted."""

    slot: int
    ts: int
    deletes: bool = False


@dataclass(frozen=True, slots=True)
class Step:
    operation: Operation
    touches: tuple[Touch, ...]
    later: int = 0
    """How many of the later columns its data has."""


class Write(NamedTuple):
    """What one step really writes."""

    operation: Operation
    rows: tuple[Row, ...]
    ids: tuple[Id, ...]
    """Where the rows belong."""
    partitions: tuple[str, ...]
    """What is overwritten or deleted."""
    later: int

    def data(self) -> pa.Table:
        return to_table(self.rows, later=self.later)

    def run(self, writer: Any, frame: Callable[[pa.Table], Any] = lambda data: data) -> Any:
        """Do it by a writer of ``Table.writer``, on what it takes; return its result."""
        method = getattr(writer, self.operation.value)
        if self.operation is Operation.DELETE_PARTITION:
            return method(list(self.partitions))
        return method(frame(self.data()))


@dataclass(slots=True)
class Record:
    """What the table's files hold of one key; ``base`` None while it has none."""

    base: Version | None = None
    logs: list[Version] = field(default_factory=list)

    def copy(self) -> Record:
        return Record(self.base, list(self.logs))


Visible = dict[Id, Row]
"""The rows of a query, each with its commit time."""


@dataclass(frozen=True, slots=True)
class Commit:
    """A write that was acknowledged (or several at once), and the table after it."""

    times: tuple[str, ...]
    completion_time: str | None
    """The last one's; up to table version 7 nothing that counts."""
    rows: Visible

    @property
    def time(self) -> str:
        return max(self.times)


@dataclass(slots=True)
class Model:
    """``row_deletions``: rows may say of themselves that they are deleted.

    Of a merge-on-read table that is only modelled where small files are not filled: a deletion that
    comes with new keys goes into the base file then, instead of standing in a log. And where the
    releases of Hudi disagree (``Kind.disputes_row_deletions``), judges of two camps cannot both be
    right.
    """

    kind: Kind
    row_deletions: bool = True
    records: dict[Id, Record] = field(default_factory=dict)
    commits: list[Commit] = field(default_factory=list)
    steps: int = 0

    @property
    def options(self) -> dict[str, Any]:
        """A writer's options; tables of sixty rows have small bloom filters."""
        fills = not (self.kind.merge_on_read and self.row_deletions)
        return {"bloom_entries": 100, "small_file_mb": 100 if fills else 0}

    # -- what a step writes -----------------------------------------------------------------------

    def write_of(self, step: Step) -> Write | None:
        """Return what the step writes in this state; None if that is nothing.

        Inserts are of keys that the table does not know: Hudi looks up none of them.
        """
        self.steps += 1
        touches = self.chosen(step)
        if not touches:
            return None
        rows = [
            make_row(self.kind, one.slot, self.steps, one.ts, later=step.later) for one in touches
        ]
        if step.operation is Operation.UPSERT:
            for row, touch in zip(rows, touches, strict=True):
                row[IS_DELETED] = (touch.deletes and self.row_deletions) or row[IS_DELETED]
        ids = tuple(self.kind.id_of(one.slot) for one in touches)
        return Write(
            step.operation,
            tuple(rows),
            ids,
            self._replaced(step.operation, ids),
            step.later,
        )

    def chosen(self, step: Step) -> list[Touch]:
        """The rows of the step that are written in this state."""
        combines = step.operation is Operation.UPSERT and self.kind.event_time
        touches = no_doubt(step.touches, _slot) if combines else one_each(step.touches, _slot)
        if step.operation in {Operation.INSERT, Operation.BULK_INSERT}:
            return [one for one in touches if self.kind.id_of(one.slot) not in self.records]
        return touches

    def slots_of(self, writer: int, writers: int) -> list[int]:
        """A share of the slots, none of which can be a record of another share."""
        return list(range(writer, SLOTS, writers))

    def known_slots(self) -> list[int]:
        """The slots of rows that any writer may write, because the table has them."""
        return [slot for slot in range(SLOTS) if self.kind.id_of(slot) in self.records]

    def _replaced(self, operation: Operation, ids: Sequence[Id]) -> tuple[str, ...]:
        if operation is Operation.OVERWRITE_TABLE:
            all_partitions = {self.kind.partition_of(slot) for slot in range(0, SLOTS, KEYS)}
            return tuple(sorted(all_partitions))
        if operation is Operation.OVERWRITE:
            return tuple(sorted({partition for partition, _ in ids}))
        if operation is Operation.DELETE_PARTITION:
            return (ids[0][0],)
        return ()

    # -- what a write does ------------------------------------------------------------------------

    def commit(self, write: Write, time: str, completion_time: str | None) -> None:
        """The write was acknowledged."""
        self.apply(write, time)
        self.commits.append(Commit((time,), completion_time, self.visible()))

    def apply(self, write: Write, time: str) -> None:
        for one in [id_ for id_ in self.records if id_[0] in write.partitions]:
            del self.records[one]
        match write.operation:
            case Operation.DELETE_PARTITION:
                pass
            case Operation.DELETE:
                for one in write.ids:
                    self.delete(one)
            case Operation.UPSERT:
                self.upsert(write, time)
            case _:
                for one, row in zip(write.ids, write.rows, strict=True):
                    self.records[one] = Record(self.version(one, row, time))

    def delete(self, one: Id) -> None:
        if one in self.records:
            self.meet(one, Version(None, None))

    def upsert(self, write: Write, time: str) -> None:
        for one, version in self._combined(write, time).items():
            if one in self.records:
                self.meet(one, version)
            elif not version.is_delete:
                self.records[one] = Record(version)

    def meet(self, one: Id, version: Version) -> None:
        record = self.records[one]
        if self.kind.merge_on_read:
            record.logs.append(version)
            return
        standing = merge(self.rule, record.base, [version])
        if standing is None or standing.is_delete:
            del self.records[one]
        else:
            record.base = standing

    def _combined(self, write: Write, time: str) -> dict[Id, Version]:
        """Of several rows of one key one counts, as if they had been written one by one."""
        versions: dict[Id, list[Version]] = {}
        for one, row in zip(write.ids, write.rows, strict=True):
            versions.setdefault(one, []).append(self.version(one, row, time))
        combined = {}
        for one, several in versions.items():
            standing = merge(self.rule, None, several)
            assert standing is not None
            combined[one] = standing
        return combined

    def version(self, one: Id, row: Row, time: str) -> Version:
        ordering = (row["ts"],) if self.kind.event_time else None
        if row[IS_DELETED]:
            return Version(None, ordering)
        meta = {COMMIT_TIME: time, PARTITION_PATH: one[0], RECORD_KEY: one[1]}
        return Version({**meta, **row}, ordering)

    @property
    def rule(self) -> MergeRule:
        mode = MergeMode.EVENT_TIME if self.kind.event_time else MergeMode.COMMIT_TIME
        # Old releases differ where they read logs; when they write base files, they do not.
        is_old = self.kind.version == 6 and self.kind.merge_on_read
        dialect = Dialect.PAYLOADS if is_old else Dialect.MODES
        return MergeRule(mode, ("ts",) if self.kind.event_time else (), dialect=dialect)

    # -- what queries return ----------------------------------------------------------------------

    def visible(self) -> Visible:
        """The rows of a snapshot query."""
        found = {}
        for one, record in self.records.items():
            version = merge(self.rule, record.base, record.logs)
            if version is not None and version.record is not None:
                found[one] = dict(version.record)
        return found

    def as_of(self, number: int) -> Visible:
        """The table as its first ``number`` commits made it."""
        return self.commits[number - 1].rows if number else {}

    def changed(self, begin: int, end: int) -> Visible:
        """The rows of an incremental query after ``begin`` and up to ``end`` commits."""
        times = {time for one in self.commits[begin:end] for time in one.times}
        return {one: row for one, row in self.as_of(end).items() if row[COMMIT_TIME] in times}

    def moment(self, number: int) -> str:
        """The time that stands for the state after ``number`` commits in incremental queries."""
        if not number:
            return "earliest"
        commit = self.commits[number - 1]
        if self.kind.version == 6:
            return commit.time
        assert commit.completion_time is not None
        return commit.completion_time

    def copy(self) -> Model:
        records = {one: record.copy() for one, record in self.records.items()}
        return Model(self.kind, self.row_deletions, records, list(self.commits), self.steps)


def differences(expected: Visible, found: list[Row]) -> list[str]:
    """What was found otherwise than expected, a few lines; empty if the rows are the same."""
    by_id: Visible = {}
    problems = []
    for row in found:
        one = (row[PARTITION_PATH], row[RECORD_KEY])
        if one in by_id:
            problems.append(f"{one} is there twice")
        by_id[one] = row
    problems += [f"{one} is lost" for one in sorted(expected.keys() - by_id.keys())[:5]]
    problems += [f"{one} should not be there" for one in sorted(by_id.keys() - expected.keys())[:5]]
    for one in sorted(expected.keys() & by_id.keys()):
        for name in (COMMIT_TIME, *COLUMNS):
            if expected[one][name] != by_id[one][name]:
                problems.append(
                    f"{one}.{name}: expected {expected[one][name]!r}, found {by_id[one][name]!r}"
                )
                break
    return problems[:10]


def serial_outcomes(model: Model, writes: Sequence[tuple[Write, str]]) -> list[Model]:
    """The model after the writes (each with its commit time), in every order."""
    outcomes = []
    for order in itertools.permutations(writes):
        after = model.copy()
        for write, time in order:
            after.apply(write, time)
        outcomes.append(after)
    return outcomes


def _slot(touch: Touch) -> int:
    return touch.slot


def one_each(touches: Iterable[Touch], name: Callable[[Touch], int]) -> list[Touch]:
    return list({name(one): one for one in touches}.values())


def no_doubt(touches: Iterable[Touch], name: Callable[[Touch], int]) -> list[Touch]:
    """Without rows of one key and one event time, between which Hudi may choose.

    Nor do deletions stand beside other rows of their key: releases differ in what that means.
    """
    kept: dict[tuple[int, int], Touch] = {(name(one), one.ts): one for one in touches}
    deleted = {name(one) for one in kept.values() if one.deletes}
    return [one for one in kept.values() if name(one) not in deleted] + one_each(
        (one for one in kept.values() if one.deletes), name
    )


# -- random steps ---------------------------------------------------------------------------------

_WEIGHTS = {
    Operation.UPSERT: 8,
    Operation.INSERT: 3,
    Operation.BULK_INSERT: 2,
    Operation.DELETE: 3,
    Operation.OVERWRITE: 1,
    Operation.OVERWRITE_TABLE: 1,
    Operation.DELETE_PARTITION: 1,
}
_WEIGHTED = [operation for operation, weight in _WEIGHTS.items() for _ in range(weight)]


def steps() -> st.SearchStrategy[Step]:
    """Any step; hypothesis shrinks towards few rows, and towards plain upserts."""
    touch = st.builds(
        Touch,
        slot=st.integers(0, SLOTS - 1),
        ts=st.integers(0, 5),
        deletes=st.sampled_from([False] * 7 + [True]),
    )
    return st.builds(
        Step,
        operation=st.sampled_from(_WEIGHTED),
        touches=st.lists(touch, min_size=1, max_size=16).map(tuple),
        later=st.sampled_from([0] * 8 + list(range(1, LATER_COLUMNS + 1))),
    )


def random_step(rng: random.Random, *, slots: Sequence[int] = range(SLOTS)) -> Step:
    """Any step on these slots, of a seed."""
    count = rng.choice((1, 3, 8, 20))
    touches = tuple(
        Touch(rng.choice(slots), rng.randrange(6), rng.random() < 0.1) for _ in range(count)
    )
    later = rng.randrange(LATER_COLUMNS + 1) if rng.random() < 0.15 else 0
    return Step(rng.choice(_WEIGHTED), touches, later)


def first_step(rng: random.Random) -> Step:
    """A table full of rows, to begin with."""
    touches = tuple(Touch(slot, rng.randrange(3)) for slot in range(SLOTS) if rng.random() < 0.7)
    return Step(Operation.BULK_INSERT, touches)


assert len(CITIES) * KEYS == SLOTS
