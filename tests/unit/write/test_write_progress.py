"""What a person at a terminal sees of a write, and that nobody else sees anything."""

from __future__ import annotations

import io
import os
import sys
import threading

import pyarrow as pa
import pytest

from lakehand import Table
from lakehand.write.progress import Progress

ROWS = pa.table({"id": ["a", "b", "c"], "n": [1, 2, 3]})


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class ByHand:
    """A clock, and a ticker that ticks when it is told to."""

    now = 0.0
    step = None

    def monotonic(self):
        return self.now

    def every(self, _interval_s, step, *, name):
        self.step = step
        return self

    def stop(self):
        self.step = None

    def tick(self, seconds):
        self.now += seconds
        assert self.step()


@pytest.fixture
def by_hand():
    return ByHand()


def lines(terminal):
    """What stays on the screen: of each line what was written last."""
    return [line.rpartition("\r")[2] for line in terminal.getvalue().split("\n")]


def test_each_slow_step_keeps_a_line_with_its_own_counts(by_hand):
    terminal, rows = Terminal(), iter([0, 500, 1_200_000, 1_200_000, 1_300_000, 1_300_000])
    progress = Progress(terminal, by_hand, by_hand, what="trips")
    progress.step("reading", lambda: next(rows))
    by_hand.tick(1)
    by_hand.now = 4
    progress.step("writing", lambda: next(rows))
    progress.made(files=3, size=5 << 19)
    by_hand.tick(2)
    progress.end()
    assert lines(terminal) == [
        "trips: reading: 1,200,000 rows 300,000 rows/s 4 s\x1b[K",
        "trips: writing: 100,000 rows 3 files 2.5 MB 50,000 rows/s 2 s\x1b[K",
        "",
    ]


def test_a_step_that_is_over_at_once_leaves_no_line(by_hand):
    terminal = Terminal()
    progress = Progress(terminal, by_hand, by_hand, what="trips")
    progress.step("reading", lambda: 5)
    progress.step("writing", lambda: 5)
    progress.end()
    assert not terminal.getvalue()


def test_no_line_is_as_wide_as_the_terminal(by_hand):
    terminal = Terminal()
    progress = Progress(terminal, by_hand, by_hand, what="trips", columns=20)
    progress.step("looking the keys up", lambda: 0)
    by_hand.tick(1)
    progress.end()
    assert lines(terminal)[0] == "trips: looking the \x1b[K"


class SlowRows:
    """Rows of which the last come when the terminal has shown something, or at once."""

    def __init__(self, shown: threading.Event | None):
        self.shown = shown

    def reader(self):
        return pa.RecordBatchReader.from_batches(ROWS.schema, self._batches())

    def _batches(self):
        first, last = ROWS.slice(0, 2), ROWS.slice(2)
        yield from first.to_batches()
        assert self.shown is None or self.shown.wait(30)
        yield from last.to_batches()


@pytest.fixture
def table(tmp_path):
    return Table.create(str(tmp_path / "t"), ROWS.schema, key=["id"], name="trips")


def watched(monkeypatch, until=b"2 rows"):
    """Put a real terminal in the place of stderr; return it, what it got, and when it got that."""
    ours, theirs = os.openpty()
    got, shown = bytearray(), threading.Event()

    def read():
        try:
            while chunk := os.read(ours, 1000):
                got.extend(chunk)
                if until in got:
                    shown.set()
        except OSError:  # the other end is closed
            os.close(ours)

    reader = threading.Thread(target=read)
    reader.start()
    terminal = os.fdopen(theirs, "w")
    monkeypatch.setattr(sys, "stderr", terminal)
    return terminal, got, shown, reader


def test_a_terminal_shows_rows_while_they_come(monkeypatch, table):
    terminal, got, shown, reader = watched(monkeypatch)
    table.writer().bulk_insert(SlowRows(shown).reader())
    terminal.close()
    reader.join()
    (line,) = [one for one in got.decode().split("\n") if "writing new files" in one]
    assert "trips: writing new files: 2 rows" in line
    assert "trips: writing new files: 3 rows 1 file " in line


@pytest.mark.parametrize("options", [{"progress": False}, {}])
def test_whoever_does_not_watch_gets_nothing(monkeypatch, table, options):
    quiet = io.StringIO() if not options else Terminal()
    monkeypatch.setattr(sys, "stderr", quiet)
    table.writer(**options).upsert(ROWS)
    assert not quiet.getvalue()


def test_a_terminal_that_is_gone_fails_no_write(monkeypatch, table):
    class Gone(Terminal):
        written = threading.Event()

        def write(self, _text):
            self.written.set()
            raise BrokenPipeError

    monkeypatch.setattr(sys, "stderr", Gone())
    assert table.writer().bulk_insert(SlowRows(Gone.written).reader()).inserts == 3


def test_an_interrupted_write_closes_its_line_and_its_ticker(monkeypatch, table):
    terminal, got, shown, reader = watched(monkeypatch, until=b"3 rows")

    def interrupted():
        yield from ROWS.to_batches()
        assert shown.wait(30)
        raise KeyboardInterrupt

    rows = pa.RecordBatchReader.from_batches(ROWS.schema, interrupted())
    with pytest.raises(KeyboardInterrupt):
        table.writer().bulk_insert(rows)
    terminal.close()
    reader.join()
    assert got.endswith(b"\n")
    assert not [one for one in threading.enumerate() if one.name == "lakehand-progress"]
