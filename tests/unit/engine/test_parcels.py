"""Rows are put into parcels and parcels are cut: none is lost, doubled or sent too often."""

from __future__ import annotations

from itertools import groupby

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from lakehand.engine import payloads, spark
from lakehand.engine.spark_tasks import PARCEL_ROWS

BATCHES = st.lists(st.lists(st.integers(0, 3), max_size=30), max_size=20)


def batches_of(kinds):
    """A batch for each list: the kind of each row, and its number."""
    number = 0
    for of_batch in kinds:
        numbers = range(number, number + len(of_batch))
        number += len(of_batch)
        yield pa.RecordBatch.from_pydict(
            {"kind": pa.array(of_batch, pa.int8()), "number": pa.array(numbers, pa.int64())}
        )


def by_kind(batch):
    for kind in dict.fromkeys(batch["kind"].to_pylist()):
        yield str(kind), batch.filter(pa.compute.equal(batch["kind"], kind))


@given(BATCHES, st.integers(1, 40), st.integers(1, 400))
def test_a_parcel_has_rows_of_one_kind_in_their_order(kinds, rows, held_back):
    size = 1 << 20
    gathered = payloads.gather_apart(
        batches_of(kinds), by_kind, rows=rows, size=size, held_back=held_back
    )
    found: dict[int, list[int]] = {}
    for parcel in gathered:
        (kind,) = set(parcel["kind"].to_pylist())
        assert parcel.num_rows < rows + 30
        found.setdefault(kind, []).extend(parcel["number"].to_pylist())
    flat = [kind for of_batch in kinds for kind in of_batch]
    assert found == {
        kind: [at for at, own in enumerate(flat) if own == kind] for kind in dict.fromkeys(flat)
    }


def test_no_more_waits_than_may_be_held_back():
    taken = 0

    def counting():
        nonlocal taken
        for batch in batches_of([[kind % 4 for kind in range(40)]] * 50):
            taken += batch.nbytes
            yield batch

    given_out = 0
    for parcel in payloads.gather_apart(
        counting(), by_kind, rows=10_000, size=1 << 20, held_back=1000
    ):
        assert taken - given_out < 1000 + 40 * 9
        given_out += parcel.nbytes


@given(BATCHES.filter(all))
def test_cuts_are_the_runs_of_rows_with_a_target(drawn):
    routes = [np.array(one, dtype=np.int32) - 1 for one in drawn]
    expected = []
    for parcel, route in enumerate(routes):
        start = 0
        for target, run in groupby(route.tolist()):
            rows = len(list(run))
            if target >= 0:
                expected.append((parcel, target, start, rows))
            start += rows
    assert spark.cut(routes) == expected


def test_parcels_whose_rows_go_everywhere_are_not_sent_whole():
    everywhere = np.arange(PARCEL_ROWS, dtype=np.int32) % 50
    assert spark.cut([everywhere]) is None
    in_halves = np.repeat(np.arange(2, dtype=np.int32), PARCEL_ROWS // 2)
    assert len(spark.cut([in_halves] * 20) or ()) == 40
    assert spark.cut([in_halves] * 20 + [everywhere]) is None


TEXT = st.lists(st.none() | st.text(max_size=3), min_size=4, max_size=4)
NUMBERS = st.lists(st.sampled_from([0.0, -0.0, None]), min_size=4, max_size=4)
COLUMNS = st.lists(
    TEXT.map(lambda values: pa.array(values, pa.string()))
    | TEXT.map(lambda values: pa.array(values, pa.large_string()))
    | NUMBERS.map(lambda values: pa.array(values, pa.float64())),
    min_size=1,
    max_size=4,
)


@given(COLUMNS, st.lists(st.integers(0, 3), max_size=6), st.integers(0, 2))
def test_a_payload_gives_back_what_was_packed(columns, again, start):
    chosen = [*columns, *(columns[number % len(columns)] for number in again)]
    fields = [
        pa.field("one name", column.type, metadata={"number": str(number)})
        for number, column in enumerate(chosen)
    ]
    schema = pa.schema(fields, metadata={"of": "the table"})
    batch = pa.RecordBatch.from_arrays(chosen, schema=schema).slice(start)
    found = payloads.from_bytes(payloads.to_bytes(batch))
    assert found.schema.equals(batch.schema, check_metadata=True)
    assert repr(found.to_pydict()) == repr(batch.to_pydict())
    assert list(map(str, found.columns)) == list(map(str, batch.columns))


def test_a_column_that_is_there_twice_is_packed_once():
    keys = pa.array([str(number * 7919 % 1_000_003) for number in range(20_000)])
    once = payloads.to_bytes(pa.record_batch([keys], names=["key"])).size
    others = [pa.array([f"{number}"] * 20_000) for number in range(300)]
    names = [str(number) for number in range(302)]
    many = pa.record_batch([keys, *others, keys], names=names)
    alone = payloads.to_bytes(pa.record_batch([keys, *others], names=names[:-1])).size
    assert payloads.to_bytes(many).size < alone + once // 2
    assert payloads.from_bytes(payloads.to_bytes(many)).equals(many)
