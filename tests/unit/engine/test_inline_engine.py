"""The engine in this process: what is held is dealt out, row by row, as the driver says."""

from __future__ import annotations

import json
import threading

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehand.engine.inline import InlineEngine
from lakehand.errors import Invalid


def numbers(count: int) -> pa.Table:
    return pa.table({"n": pa.array(range(count), pa.int64())})


def as_they_are(batches):
    yield from batches


def rows_as_json(turn, target, batches):
    rows = [value for batch in batches for value in batch.column(0).to_pylist()]
    yield json.dumps([target, turn.task, turn.attempt, rows]).encode()


@given(
    st.lists(st.integers(-1, 4), max_size=200),
    st.integers(1, 4),
)
def test_every_row_reaches_its_target_in_order_and_no_other(wanted, threads):
    engine = InlineEngine(threads)
    with engine.hold(numbers(len(wanted)), as_they_are, lambda _: b"") as held:
        ends = np.cumsum([parcel.rows for parcel in held.parcels])
        routes = np.split(np.array(wanted, dtype=np.int32), ends[:-1]) if len(ends) else []
        answers = [json.loads(one) for one in held.scatter(routes, rows_as_json)]
    got = {target: rows for target, _, _, rows in answers}
    expected: dict[int, list[int]] = {}
    for row, target in enumerate(wanted):
        if target >= 0:
            expected.setdefault(target, []).append(row)
    assert got == expected
    assert len({(task, attempt) for _, task, attempt, _ in answers}) == len(answers)


@given(st.integers(0, 500), st.integers(1, 4))
def test_a_pass_over_the_rows_sees_each_once(count, threads):
    def rows(turn, batches):
        found = [value for batch in batches for value in batch.column(0).to_pylist()]
        yield json.dumps(found).encode()

    answers = InlineEngine(threads).consume(numbers(count), rows)
    assert sorted(row for one in answers for row in json.loads(one)) == list(range(count))


def test_the_digest_tells_of_each_parcel_what_it_holds():
    with InlineEngine().hold(
        numbers(10), as_they_are, lambda batch: str(batch.num_rows).encode()
    ) as held:
        assert [(one.rows, one.digest) for one in held.parcels] == [(10, b"10")]


def test_a_stream_is_taken_as_it_comes():
    table = numbers(10)
    reader = pa.RecordBatchReader.from_batches(table.schema, table.to_batches(max_chunksize=3))
    with InlineEngine(2).hold(reader, as_they_are, lambda _: b"") as held:
        assert sum(parcel.rows for parcel in held.parcels) == 10


def test_rows_of_another_kind_are_refused_with_the_way_out():
    with pytest.raises(Invalid, match=r"list.*table\.writer\(spark\)"):
        InlineEngine().schema_of([1, 2])


def test_with_several_threads_tasks_run_side_by_side():
    both_are_here = threading.Barrier(2, timeout=20)

    def work(task: int) -> bytes:
        both_are_here.wait()
        return str(task).encode()

    assert InlineEngine(2).each([1, 2], work) == [b"1", b"2"]


def test_rows_are_sorted_when_asked():
    table = pa.table({"a": ["b", "a", "b"], "n": [2, 3, 1]})
    ordered = InlineEngine().ordered(table, ["a", "n"], within_tasks=False)
    assert ordered.column("n").to_pylist() == [3, 1, 2]
