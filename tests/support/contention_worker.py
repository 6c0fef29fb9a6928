"""A worker process of the contention tests: it does the real recipes until it is told to end.

Started once as a nursery, which has everything imported and forks a worker for each line on its
standard input; so a killed worker is replaced within milliseconds. Workers tell what they do as
JSON lines on one shared pipe, which keeps the order of small writes. They end when the other pipe
is closed. Their store counts calls, and at the call that its seeded fate names the process kills
or stops itself: a real signal, heartbeat threads and lock renewals included.
"""

from __future__ import annotations

import ctypes
import faulthandler
import json
import logging
import os
import random
import select
import signal
import sys
import threading
import traceback
from typing import TYPE_CHECKING, Any, NoReturn

import contention_guards
from contention_jobs import Worker, open_bench
from lakehand.store import s3  # noqa: F401 - imported before the forks, not in each
from lakehand.store.open import open_store

if TYPE_CHECKING:
    from collections.abc import Callable

    from lakehand.core.journal_entries import Entry
    from lakehand.ports import Store
    from lakehand.protocol.workbench import Workbench


class FatefulStore:
    """The real store; the call that fate has chosen is the last one for now, or for ever.

    A process stops itself between calls of all its threads: stopped inside one, it would keep the
    local store's own lock (of a few system calls), and nobody could work until it goes on.
    """

    def __init__(self, store: Store, fate: dict[str, Any], tell: Callable[..., None]) -> None:
        self._store = store
        self._fate = fate
        self._tell = tell
        self._calls = 0
        self._under_way = 0
        self._quiet = threading.Condition()
        self._is_armed = fate["after"] == ""

    @property
    def uri(self) -> str:
        return self._store.uri

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._store, name)

        def counted(*args: Any, **kwargs: Any) -> Any:
            with self._quiet:
                if self._is_armed and self._fate["call"] in ("", name):
                    self._calls += 1
                    if self._calls == self._fate["at"]:
                        self._strike(name)
                self._under_way += 1
            try:
                return call(*args, **kwargs)
            finally:
                with self._quiet:
                    self._under_way -= 1
                    self._quiet.notify_all()

        return counted

    def heard(self, did: str) -> None:
        """Begin to count when the worker tells what its fate waits for."""
        self._is_armed = self._is_armed or did == self._fate["after"]

    def _strike(self, name: str) -> None:
        match self._fate["kind"]:
            case "kill":
                self._tell("dying", call=name, number=self._calls)
                os.kill(os.getpid(), signal.SIGKILL)
            case "stop":
                self._quiet.wait_for(lambda: self._under_way == 0)
                self._tell("stopping", call=name, number=self._calls)
                os.kill(os.getpid(), signal.SIGSTOP)


def work(task: dict[str, Any], telling: int, ending: int) -> NoReturn:
    """Be a worker until told to end; never return."""
    pid, name = os.getpid(), task["name"]
    now: dict[str, Any] = {}

    def tell(did: str, **fields: Any) -> None:
        line = json.dumps({"did": did, "pid": pid, "worker": name, **now, **fields})
        os.write(telling, f"{line[:3500]}\n".encode())
        store.heard(did)

    def is_told(patience_s: float) -> bool:
        return bool(select.select([ending], [], [], patience_s)[0])

    def unexpected(error: BaseException | None) -> None:
        tell("unexpected", error=type(error).__name__, says="".join(_last_lines(error)))

    faulthandler.register(signal.SIGUSR1)  # a worker that hangs shows where
    threading.excepthook = lambda args: unexpected(args.exc_value)
    status = 1
    store = FatefulStore(open_store(task["uri"], task["options"]), task["fate"], tell)
    try:
        bench = open_bench(task, store, name)
        _tell_decisions(bench, tell)
        Worker(task, bench, tell, is_told, random.Random(task["seed"]), now).run()
        tell("done")
        status = 0
    except BaseException as error:  # noqa: BLE001 - whatever it is, the test has to hear of it
        unexpected(error)
    os._exit(status)


def _tell_decisions(bench: Workbench, tell: Callable[..., None]) -> None:
    """Tell of each journal entry that counts as appended."""
    append = bench.journal.append

    def told(*args: Any, **named: Any) -> Entry:
        entry = append(*args, **named)
        tell("decided", seq=entry.seq, id=entry.id)
        return entry

    bench.journal.append = told  # type: ignore[method-assign]


def _last_lines(error: BaseException | None) -> str:
    return "".join(traceback.format_exception(error))[-2000:]


def nursery() -> None:
    """Do what each line says: open the pipes of a crowd, fork a worker, wait for one."""
    logging.getLogger("lakehand").addHandler(logging.NullHandler())
    logging.getLogger("lakehand").propagate = False
    contention_guards.take_out(os.environ.get(contention_guards.VARIABLE, ""))
    pipes: list[int] = []
    for line in sys.stdin:
        match json.loads(line):
            case {"telling": telling, "ending": ending}:
                for pipe in pipes:
                    os.close(pipe)
                pipes = [
                    os.open(telling, os.O_WRONLY),
                    os.open(ending, os.O_RDONLY | os.O_NONBLOCK),
                ]
                answer = 0
            case {"wait": pid, "options": options}:
                answer = os.waitpid(pid, options)[1]
            case {"fork": task}:
                answer = os.fork()
                if answer == 0:
                    _die_with_the_nursery()
                    work(task, *pipes)
        sys.stdout.write(f"{answer}\n")
        sys.stdout.flush()


def _die_with_the_nursery() -> None:
    """A stopped process would outlive a test run that is interrupted."""
    if sys.platform == "linux":
        set_death_signal = 1
        ctypes.CDLL(None).prctl(set_death_signal, signal.SIGKILL)


if __name__ == "__main__":
    nursery()
