"""Killed at any store call of the two calls of cancellation, then repeated by somebody else.

Each call is cut off before and after its effect, with the plan in every state that it can be in.
The end is the same as without a death: timeline, data, marks, heartbeats, and the journal's word.
"""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING

import pytest

from kernel_scripts import (
    EXPIRED_S,
    Scene,
    begin_plan,
    cancellable,
    count_calls,
    data_of,
    files_of,
    has_cancel_file,
    kill_at,
    outcome,
    scene,
    sleep_at,
    state,
)
from kernel_tables import compaction_request, stage_data
from lakehand.core.instants import Action, State
from lakehand.core.table_kinds import TableVersion
from lakehand.errors import Conflict, Fenced, LockLost, OutcomeUnknown
from lakehand.protocol import cancelling, claiming
from lakehand.protocol.journal import FOLDER as JOURNAL
from lakehand.store.local import LocalStore

if TYPE_CHECKING:
    from pathlib import Path

GROUPS = ("f1", "f2")
SIX, NINE = TableVersion.SIX, TableVersion.NINE
CASES = pytest.mark.parametrize(
    ("version", "stage"),
    [
        (NINE, "requested"),
        (NINE, "claimed"),
        (NINE, "half staged"),
        (NINE, "promoted"),
        (SIX, "promoted"),
    ],
)


def start(version: TableVersion, stage: str, store=None) -> tuple[Scene, str]:
    """A plan whose executor, if there was one, is dead."""
    table = scene(version, store=store)
    request = compaction_request(*GROUPS, action=Action.LOG_COMPACTION)
    time = cancellable(table, request)
    bench = table.worker("executor")
    match stage:
        case "claimed":
            claiming.claim(bench, time)
        case "half staged":
            attempt = claiming.claim(bench, time)
            assert isinstance(attempt, claiming.Attempt)
            stage_data(bench, attempt, "f1")
        case "promoted":
            begin_plan(bench, time, GROUPS)
    table.clock.advance(EXPIRED_S)
    return table, time


def ask(bench, time: str) -> None:
    cancelling.request_cancel(bench, time, reason="in the way")


def abort(bench, time: str) -> None:
    cancelling.execute_cancel(bench, time)


def both(bench, time: str) -> None:
    ask(bench, time)
    abort(bench, time)


def picture(table: Scene, time: str) -> object:
    """All that can be seen of the table, but the journal's own files; and what it says."""
    paths = sorted(
        one.path.replace(time, "T")
        for one in table.store.walk("")
        if not one.path.startswith(JOURNAL)
    )
    return paths, table.view().fold.standing(time)


def settled(table: Scene, time: str) -> object:
    """The end after one clean, which sweeps what only tells of the past."""
    table.clock.advance(EXPIRED_S)
    table.clean()
    return picture(table, time)


@pytest.mark.req("B-20")
@CASES
def test_a_request_that_was_killed_anywhere_is_repeated_by_anybody(version, stage):
    table, time = start(version, stage)
    calls = count_calls(table.worker(), partial(ask, time=time))
    expected = picture(table, time)
    expected_end = settled(table, time)
    for number in range(1, calls + 1):
        for done in (False, True):
            table, time = start(version, stage)
            assert kill_at(table.worker(), partial(ask, time=time), number, done=done)
            ask(table.worker(), time)
            assert picture(table, time) == expected, (number, done)
            assert settled(table, time) == expected_end, (number, done)


@pytest.mark.req("B-20", "B-23")
@CASES
def test_an_abort_that_was_killed_anywhere_is_repeated_by_anybody(version, stage):
    """``.aborted`` is never there before the last file is gone."""
    table, time = start(version, stage)
    ask(table.worker(), time)
    calls = count_calls(table.worker(), partial(abort, time=time))
    expected_end = settled(table, time)
    for number in range(1, calls + 1):
        for done in (False, True):
            table, time = start(version, stage)
            ask(table.worker(), time)
            assert kill_at(table.worker(), partial(abort, time=time), number, done=done)
            if state(table, time) is State.ABORTED:
                assert data_of(table, time) == []
            table.clock.advance(EXPIRED_S)
            abort(table.worker(), time)
            assert files_of(table, time) == [f"{time}.logcompaction.aborted"], (number, done)
            assert not has_cancel_file(table, time)
            assert settled(table, time) == expected_end, (number, done)


@pytest.mark.req("B-20")
def test_a_repetition_that_is_killed_too_is_repeated_again():
    """The second death at another call than the first; the third worker finishes."""
    table, time = start(NINE, "promoted")
    calls = count_calls(table.worker(), partial(both, time=time))
    expected = settled(table, time)
    for number in range(1, calls + 1):
        table, time = start(NINE, "promoted")
        assert kill_at(table.worker(), partial(both, time=time), number, done=True)
        table.clock.advance(EXPIRED_S)
        kill_at(table.worker(), partial(both, time=time), (number * 7) % calls + 1, done=False)
        table.clock.advance(EXPIRED_S)
        both(table.worker(), time)
        assert settled(table, time) == expected, number


@pytest.mark.req("B-20")
def test_a_death_on_a_real_disk_is_made_good_too(tmp_path):
    """Every third call: renames, side files and folders of a local table."""
    table, time = start(NINE, "half staged", _disk(tmp_path / "whole"))
    _age_heartbeats(tmp_path / "whole")
    calls = count_calls(table.worker(), partial(both, time=time))
    for number in range(1, calls + 1, 3):
        folder = tmp_path / str(number)
        table, time = start(NINE, "half staged", _disk(folder))
        _age_heartbeats(folder)
        assert kill_at(table.worker(), partial(both, time=time), number, done=number % 2 == 0)
        _age_heartbeats(folder)
        both(table.worker(), time)
        assert files_of(table, time) == [f"{time}.logcompaction.aborted"]
        assert data_of(table, time) == []
        assert not has_cancel_file(table, time)


def _disk(folder: Path) -> LocalStore:
    return LocalStore(str(folder))


def _age_heartbeats(folder: Path) -> None:
    """What the settable clock does in memory."""
    for beat in (folder / ".hoodie" / ".heartbeat").glob("*"):
        before = beat.stat().st_mtime - EXPIRED_S - 60
        os.utime(beat, (before, before))


@pytest.mark.req("B-21")
@pytest.mark.parametrize("sleeper", [ask, abort, both])
@pytest.mark.parametrize("other", [ask, abort])
def test_no_cancel_file_is_left_whatever_calls_raced(sleeper, other):
    """One call sleeps at each store call, lock lost and heartbeat expired, while others finish."""
    table, time = _cancelled()
    calls = count_calls(table.worker(), partial(sleeper, time=time))
    for number in range(1, calls + 1):
        table, time = _cancelled()
        bench = table.worker("asleep")

        def meanwhile(table=table, time=time, bench=bench) -> None:
            table.clock.advance(EXPIRED_S)
            holder = bench.locks.holder()
            if holder is not None:
                bench.locks.break_lock(holder)
            both(table.worker(), time)
            other(table.worker(), time)
            assert state(table, time) is State.ABORTED

        ended = outcome(partial(sleep_at, bench, partial(sleeper, time=time), number, meanwhile))
        assert ended is True or isinstance(ended, Conflict | Fenced | LockLost | OutcomeUnknown)
        assert files_of(table, time) == [f"{time}.logcompaction.aborted"]
        assert data_of(table, time) == []
        assert not has_cancel_file(table, time), number


def _cancelled() -> tuple[Scene, str]:
    table, time = start(NINE, "promoted")
    ask(table.worker(), time)
    return table, time
