"""The vectorised merge against a model that reads like the rules: one event at a time."""

from dataclasses import dataclass

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehand.core.merge_rules import Dialect, MergeMode, MergeRule
from lakehand.read.log_events import DeletedKeys, WrittenRows
from lakehand.read.merge_stream import MergeMemory, merge_slice

SCHEMA = pa.schema(
    [
        ("_hoodie_record_key", pa.string()),
        ("ts", pa.int64()),
        ("ts2", pa.int64()),
        ("value", pa.string()),
        ("_hoodie_is_deleted", pa.bool_()),
        ("op", pa.string()),
    ]
)


def commit_time(**marker):
    return MergeRule(MergeMode.COMMIT_TIME, **marker)


def event_time(*fields, **marker):
    return MergeRule(MergeMode.EVENT_TIME, fields, **marker)


def by_payload(mode, *fields):
    return MergeRule(mode, fields, dialect=Dialect.PAYLOADS)


TINY = MergeMemory(limit_bytes=3)
ROOMY = MergeMemory()


@dataclass(frozen=True)
class Row:
    key: str
    ts: int | None
    ts2: int | None
    value: str
    is_deleted: bool | None = None
    op: str | None = None

    @property
    def tuple(self):
        return (self.key, self.ts, self.ts2, self.value, self.is_deleted, self.op)


@dataclass(frozen=True)
class Delete:
    key: str
    natural: bool
    ts: int | None = None
    ts2: int | None = None


def batch_of(rows):
    columns = list(zip(*(row.tuple for row in rows), strict=True)) or [[]] * len(SCHEMA)
    arrays = [pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


def events_of(log, fields):
    """Blocks of neighbouring events of one kind, as a log file has them."""
    run = []
    for event in [*log, None]:
        if run and type(run[-1]) is not type(event):
            if isinstance(run[0], Row):
                yield WrittenRows(batch_of(run))
            else:
                ordering = [pa.array([getattr(d, f) for d in run], pa.int64()) for f in fields]
                yield DeletedKeys(
                    keys=pa.array([d.key for d in run]),
                    natural=pa.array([d.natural for d in run]),
                    ordering=tuple(ordering),
                )
            run = []
        if event is not None:
            run.append(event)


def merged(base_batches, log, rule, memory=ROOMY):
    stream = merge_slice(
        [batch_of(rows) for rows in base_batches],
        events_of(log, rule.ordering_fields),
        schema=SCHEMA,
        rule=rule,
        memory=memory,
    )
    table = pa.Table.from_batches(list(stream), schema=SCHEMA)
    return sorted((tuple(row.values()) for row in table.to_pylist()), key=repr)


class Model:
    """Java's buffer of log records and its final merge, one record at a time."""

    def __init__(self, rule):
        self.rule = rule
        self.by_payload = rule.dialect is Dialect.PAYLOADS

    def ordering(self, event):
        values = [getattr(event, name) for name in self.rule.ordering_fields]
        return tuple((value is not None, value or 0) for value in values)

    def deletes(self, event):
        if isinstance(event, Delete) or event.is_deleted:
            return True
        return self.rule.delete_field == "op" and event.op == self.rule.delete_marker

    def natural(self, event):
        if isinstance(event, Delete):
            return event.natural
        return self.deletes(event) and not any(there for there, _ in self.ordering(event))

    def keeps_newer(self, older, newer):
        if not self.rule.orders_log:
            return True
        if self.by_payload:
            if isinstance(older, Delete) or (isinstance(newer, Delete) and newer.natural):
                return True
            return self.ordering(newer) >= self.ordering(older)
        if isinstance(newer, Delete) and self.natural(older) and not newer.natural:
            return False
        if self.natural(older) or self.natural(newer):
            return True
        return self.ordering(newer) >= self.ordering(older)

    def fold(self, log):
        state = {}
        for event in log:
            held = state.get(event.key)
            if held is None or self.keeps_newer(held, event):
                state[event.key] = event
        return state

    def merge(self, base, log):
        state = self.fold(log)
        result = []
        for row in base:
            event = state.pop(row.key, None)
            if event is None or self.base_row_stays(row, event):
                result.append(row)
            elif not self.deletes(event):
                result.append(event)
        result += [event for event in state.values() if not self.deletes(event)]
        return sorted((row.tuple for row in result), key=repr)

    def base_row_stays(self, row, event):
        if not self.rule.uses_ordering:
            return False
        if isinstance(event, Delete) if self.by_payload else self.natural(event):
            return False
        return self.ordering(row) > self.ordering(event)


KEYS = st.sampled_from(["", "a", "b", "c", "d", "ë", "a long key 0123456789"])
TIMES = st.one_of(st.none(), st.integers(-2, 3))
VALUES = st.uuids().map(str)
ROWS = st.builds(
    Row,
    key=KEYS,
    ts=TIMES,
    ts2=TIMES,
    value=VALUES,
    is_deleted=st.sampled_from([None, False, False, True]),
    op=st.sampled_from([None, "I", "D"]),
)
PLAIN_ROWS = st.builds(Row, key=KEYS, ts=TIMES, ts2=TIMES, value=VALUES)
NATURAL_DELETES = st.builds(Delete, key=KEYS, natural=st.just(True))
ORDERED_DELETES = st.builds(
    Delete, key=KEYS, natural=st.just(False), ts=st.integers(-2, 3), ts2=st.integers(-2, 3)
)
LOGS = st.lists(st.one_of(ROWS, PLAIN_ROWS, NATURAL_DELETES, ORDERED_DELETES), max_size=30)
BASES = st.lists(st.lists(PLAIN_ROWS, max_size=8), max_size=4)
RULES = st.sampled_from(
    [
        commit_time(),
        commit_time(delete_field="op", delete_marker="D"),
        event_time("ts"),
        event_time("ts", delete_field="op", delete_marker="D"),
        event_time("ts", "ts2"),
        by_payload(MergeMode.EVENT_TIME, "ts"),
        by_payload(MergeMode.EVENT_TIME, "ts", "ts2"),
        by_payload(MergeMode.COMMIT_TIME, "ts"),
        by_payload(MergeMode.COMMIT_TIME),
    ]
)


@settings(max_examples=200, deadline=None)
@given(BASES, LOGS, RULES)
def test_the_merge_equals_the_rules_applied_one_event_at_a_time(base, log, rule):
    expected = Model(rule).merge([row for rows in base for row in rows], log)
    assert merged(base, log, rule) == expected


@settings(max_examples=30, deadline=None)
@given(BASES, LOGS, RULES)
def test_a_merge_that_spills_gives_the_same_rows(base, log, rule):
    expected = Model(rule).merge([row for rows in base for row in rows], log)
    assert merged(base, log, rule, TINY) == expected


@pytest.mark.parametrize("memory", [ROOMY, MergeMemory(limit_bytes=20_000)])
def test_many_keys_survive_a_merge_whatever_the_memory(memory):
    rule = event_time("ts")
    base = [[Row(f"k{n:05d}", 5, None, "old") for n in range(s, s + 500)] for s in (0, 500)]
    log = [Row(f"k{n:05d}", 4 + n % 3, None, "new") for n in range(0, 2000, 2)]
    log += [Delete(f"k{n:05d}", natural=True) for n in range(0, 1000, 5)]
    expected = Model(rule).merge([row for rows in base for row in rows], log)
    assert merged(base, log, rule, memory) == expected


def test_spill_files_are_gone_when_the_merge_ends_or_is_given_up(tmp_path):
    memory = MergeMemory(limit_bytes=3, spill_folder=str(tmp_path))
    rows = [Row(f"k{n}", 1, None, "v") for n in range(50)]
    assert len(merged([rows], rows, commit_time(), memory)) == 50
    assert list(tmp_path.iterdir()) == []
    stream = merge_slice(
        [batch_of(rows)],
        events_of(rows, ()),
        schema=SCHEMA,
        rule=commit_time(),
        memory=memory,
    )
    next(stream)
    assert list(tmp_path.iterdir())
    stream.close()
    assert list(tmp_path.iterdir()) == []


def test_rows_without_a_log_stay_as_they_are_and_in_order():
    rows = [Row(f"k{n % 7}", n, None, str(n)) for n in range(40)]
    stream = merge_slice([batch_of(rows)], [], schema=SCHEMA, rule=commit_time(), memory=ROOMY)
    assert [batch.to_pylist() for batch in stream] == [batch_of(rows).to_pylist()]
