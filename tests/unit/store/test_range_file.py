"""A file over ranges reads like a file over bytes, by few and bounded requests."""

from __future__ import annotations

import io

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from lakehand.store import ranges
from lakehand.store.ranges import RangeFile

MOVES = st.lists(
    st.one_of(
        st.tuples(st.just("read"), st.integers(-1, 60)),
        st.tuples(st.just("seek"), st.integers(0, 120), st.just(0)),
        st.tuples(st.just("seek"), st.integers(-120, 0), st.just(2)),
        st.tuples(st.just("tell")),
    ),
    max_size=20,
)


@given(content=st.binary(max_size=100), moves=MOVES, window=st.integers(1, 40))
def test_it_reads_like_a_file_in_memory(content, moves, window):
    first, ranges._FIRST_WINDOW = ranges._FIRST_WINDOW, window
    try:
        model, file = io.BytesIO(content), RangeFile(len(content), lambda a, b: content[a:b])
        for name, *arguments in moves:
            if arguments[1:] == [2] and len(content) + arguments[0] < 0:
                continue
            assert getattr(file, name)(*arguments) == getattr(model, name)(*arguments)
    finally:
        ranges._FIRST_WINDOW = first


def test_small_reads_in_sequence_become_few_requests():
    size = 40_000_000
    requests = []

    def fetch(start, end):
        requests.append(end - start)
        return bytes(end - start)

    file = RangeFile(size, fetch)
    while file.read(20_000):
        pass
    assert size <= sum(requests) < 1.01 * size
    assert len(requests) < 15
    assert max(requests) <= 8 * 1024 * 1024


def test_scattered_reads_fetch_little_more_than_was_asked_for():
    requests = []

    def fetch(start, end):
        requests.append(end - start)
        return bytes(end - start)

    file = pa.PythonFile(RangeFile(100_000_000, fetch), mode="r")
    for place in (99_000_000, 5_000_000, 70_000_000):
        file.seek(place)
        assert len(file.read(1000)) == 1000
    assert max(requests) <= 64 * 1024
