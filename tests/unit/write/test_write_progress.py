"""The progress line: one per step, rewritten in place, and only on a terminal."""

import io

import pytest

from lakehand.write.progress import Progress


class Terminal(io.StringIO):
    def isatty(self):
        return True


class Clock:
    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


def lines(stream):
    """What a person sees: the last drawing of each line."""
    assert stream.getvalue().count("\r") == stream.getvalue().count("\x1b[K")
    return [
        line.rpartition("\r")[2].removesuffix("\x1b[K") for line in stream.getvalue().split("\n")
    ]


def test_each_step_ends_as_a_line_with_its_counts(clock):
    stream = Terminal()
    progress = Progress(stream, clock)
    progress.step("reading")
    clock.now += 2
    progress.advance(rows=3_000)
    progress.step("writing")
    clock.now += 4
    progress.advance(rows=1_000, files=2, size=3 << 20)
    progress.done()
    progress.done()
    assert lines(stream) == [
        "reading: 3,000 rows 1,500 rows/s 2 s",
        "writing: 1,000 rows 2 files 3.0 MB 250 rows/s 4 s",
        "",
    ]


def test_many_advances_are_drawn_a_few_times_a_second_and_none_is_lost(clock):
    stream = Terminal()
    progress = Progress(stream, clock)
    progress.step("writing")
    for _ in range(1_000):
        clock.now += 0.001
        progress.advance(rows=1)
    assert stream.getvalue().count("\r") <= 6
    progress.done()
    assert "1,000 rows " in lines(stream)[0]


def test_a_line_never_wraps(clock):
    stream = Terminal()
    progress = Progress(stream, clock, columns=20)
    progress.step("a step with a long description")
    progress.done()
    assert [len(line) for line in lines(stream)] == [19, 0]


def test_nothing_is_written_where_nobody_watches(clock):
    stream = io.StringIO()
    progress = Progress(stream, clock)
    progress.step("writing")
    clock.now += 9
    progress.advance(rows=5)
    progress.done()
    assert stream.getvalue() == ""
