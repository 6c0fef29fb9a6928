"""Ctrl-C at any moment: nothing half done, the lock released, and the next run finishes it."""

from __future__ import annotations

import signal
import threading
from contextlib import suppress

import pytest

import lakehand.table
from cli_runs import run
from kernel_tables import Kernel, compaction_request
from lakehand.cli.interrupts import InterruptibleClock, InterruptibleLock, Interrupts
from lakehand.core.journal_moves import Standing
from lakehand.locks.in_process import InProcessLock
from lakehand.locks.leases import LeaseTerms, Surroundings
from lakehand.locks.storage import storage_lock
from lakehand.process import Threads
from lakehand.protocol import planning
from lakehand.store.memory import MemoryStore

CALLS = ("get", "list", "names", "put", "put_new", "put_if", "delete", "promote", "discard", "now")
LIMIT = 300


class SignallingStore(MemoryStore):
    """Sends the process a signal right after one of its calls."""

    def __init__(self, number: int) -> None:
        super().__init__("memory://trips")
        self.at = 0
        self.number = number
        self.calls = 0

    def __getattribute__(self, name):
        found = super().__getattribute__(name)
        if name not in CALLS:
            return found

        def called(*arguments, **options):
            result = found(*arguments, **options)
            if threading.current_thread() is threading.main_thread():
                self.calls += 1
                if self.calls == self.at:
                    signal.raise_signal(self.number)
            return result

        return called


def _planned(monkeypatch, *, at, number):
    store = SignallingStore(number)
    kernel = Kernel(store, locks=lambda _name: storage_lock(store))
    bench = kernel.worker("planner")
    time = planning.schedule(bench, compaction_request("f1", cancellable=True))
    store.calls, store.at = 0, at
    monkeypatch.setattr(lakehand.table, "open_store", lambda *_arguments: store)
    return store, bench, time


def _cancel(time):
    return run("cancel", "memory://trips", time, "--no-foreign-writers", "-o", "json")


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)], ids=["INT", "TERM"]
)
def test_a_signal_after_any_store_call_leaves_nothing_half_done(monkeypatch, number, code):
    standings = set()
    for at in range(1, LIMIT):
        store, bench, time = _planned(monkeypatch, at=at, number=number)
        ran = _cancel(time)
        if store.calls < at:
            break
        assert ran.code == code, (at, ran.both)
        assert ran.error["kind"] == "Interrupted"
        assert storage_lock(store).holder() is None, at
        assert store.names(".hoodie/.heartbeat") == (), at
        standings.add(bench.journal.refresh().standing(time))
        store.at = 0
        again = _cancel(time)
        assert (again.code, again.record["outcome"]) == (0, "aborted"), at
    else:
        pytest.fail("the command never came to its end")
    assert at > 30
    assert standings == {Standing.REQUESTED, Standing.CANCELLED, Standing.ABORTED}


def _interrupted_while_waiting(interrupts):
    store = MemoryStore()
    terms = LeaseTerms(lease_s=600.0, renew_every_s=100.0)
    held = storage_lock(store, terms=terms).acquire("spark-7", timeout_s=1)
    clock = InterruptibleClock(interrupts)
    strikes = iter([signal.SIGINT])

    def before_sleeping():
        for number in strikes:
            signal.raise_signal(number)
        return 0.5

    surroundings = Surroundings(clock=clock, background=Threads(), jitter=before_sleeping)
    lock = InterruptibleLock(storage_lock(store, surroundings=surroundings), interrupts)
    return held, lock


def test_a_signal_ends_the_wait_for_a_lock_that_another_holds():
    interrupts = Interrupts()
    held, lock = _interrupted_while_waiting(interrupts)
    with interrupts.handled(), pytest.raises(KeyboardInterrupt), interrupts.whole():
        lock.acquire("me", timeout_s=1)
    assert held.left_s() > 0
    assert lock.holder().owner == "spark-7"
    held.release()


class StruckLock(InProcessLock):
    """A signal comes while it is being taken for the ``at``-th time."""

    def __init__(self, at):
        super().__init__(f"struck {at}")
        self.left = at

    def acquire(self, owner, *, timeout_s):
        self.left -= 1
        if self.left == 0:
            signal.raise_signal(signal.SIGINT)
        return super().acquire(owner, timeout_s=timeout_s)


@pytest.mark.parametrize(("at", "taken"), [(1, 0), (2, 2), (9, 2)])
def test_work_that_has_begun_goes_on_and_other_work_does_not_begin(at, taken):
    interrupts = Interrupts()
    struck = StruckLock(at)
    lock = InterruptibleLock(struck, interrupts)
    count = 0
    with interrupts.handled(), suppress(KeyboardInterrupt), interrupts.whole():
        for _ in range(2):
            lock.acquire("me", timeout_s=1).release()
            count += 1
    assert count == taken
    assert struck.holder() is None
    assert (interrupts.number is None) is (at == 9)


def test_a_second_signal_does_not_wait():
    interrupts = Interrupts()
    reached = []

    def work():
        with interrupts.whole():
            for name in ("first", "second"):
                signal.raise_signal(signal.SIGINT)
                reached.append(f"after the {name}")

    with interrupts.handled(), pytest.raises(KeyboardInterrupt):
        work()
    assert reached == ["after the first"]


def test_outside_of_decisions_a_signal_strikes_at_once():
    interrupts = Interrupts()
    with interrupts.handled(), pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGTERM)
    assert interrupts.number == signal.SIGTERM


def test_handlers_are_put_back_and_ignored_signals_stay_ignored():
    before = signal.getsignal(signal.SIGINT)
    try:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        with Interrupts().handled():
            signal.raise_signal(signal.SIGINT)
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)
