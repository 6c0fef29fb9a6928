"""The parent of the contention tests: keeps a crowd of workers at one table, and is cruel to it.

A seed decides everything that can be decided: each worker's jobs, the store call at which it kills
or stops itself, and whom the parent kills or stops when it hears a line. The machine decides the
rest. Stopped workers sleep until a successor has ended their instant, or, some of them, until the
table has been settled and audited; then they wake up as zombies, and it is audited again.
"""

from __future__ import annotations

import json
import os
import random
import select
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import contention_guards

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

CHILD = Path(__file__).with_name("contention_worker.py")
WORKERS = 16
MOST_SLEEPERS = 6
CALLS = ("put_new", "put_new", "promote", "promote", "delete", "discard")
"""Calls before which a stop is worst: an append, a promotion, a removal."""
MOMENTS = (
    "",
    "claiming",
    "claimed",
    "began",
    "prepared",
    "promoted",
    "rolling back",
    "cleaning",
    "decided",
)
DRAIN_S = 180.0
PATIENCE_S = 120.0
"""How much longer a crowd may take until it has done something of everything."""


class Nursery:
    """The process that workers are forked from; it has everything imported."""

    def __init__(self, without: str = "") -> None:
        """Start it, without the named guard of the protocol."""
        self._process = subprocess.Popen(
            [sys.executable, str(CHILD)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, contention_guards.VARIABLE: without},
        )

    def order(self, **order: Any) -> int:
        """Let it do one thing, and return its answer."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())

    def end(self) -> None:
        """End it."""
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()
        self._process.wait()


@dataclass
class Sleeper:
    """A stopped worker, and what wakes it."""

    pid: int
    time: str | None
    since: float
    waits_for_end: bool
    is_by_parent: bool


@dataclass
class Cruelty:
    """How often fate strikes."""

    struck: float = 0.4
    """The share of workers that kill or stop themselves some time."""
    stopped: float = 0.5
    """The share of those that stop."""
    by_parent: float = 0.03
    """The chance, at every line that is heard, that the parent strikes somebody."""
    nap_s: float = 1.5
    """The longest that a stopped worker sleeps, unless it waits for the end."""
    until_end: float = 0.25
    """The share of stopped workers that wait for the end."""
    most_until_end: int = 4
    fates: tuple[dict[str, Any], ...] = ()
    """Fates to draw from, instead of any."""


@dataclass
class Crowd:
    """Workers at one table, and all that they told."""

    nursery: Nursery
    task: dict[str, Any]
    seed: int
    cruelty: Cruelty = field(default_factory=Cruelty)
    history: list[dict[str, Any]] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.dice = random.Random(self.seed)
        self.living: dict[int, str] = {}
        self.sleepers: dict[int, Sleeper] = {}
        self.counts: Counter[str] = Counter()
        self.stoppable: set[int] = set()
        """Those that will not stop themselves: two stops at once would need two awakenings."""
        self._number = 0
        self._buffer = b""

    def __enter__(self) -> Crowd:
        with tempfile.TemporaryDirectory(prefix="lakehand-crowd-") as folder:
            telling, ending = f"{folder}/telling", f"{folder}/ending"
            os.mkfifo(telling)
            os.mkfifo(ending)
            self._hearing = os.open(telling, os.O_RDONLY | os.O_NONBLOCK)
            self.nursery.order(telling=telling, ending=ending)
            self._ending = os.open(ending, os.O_WRONLY)
        self._is_told = False
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._hearing, selectors.EVENT_READ)
        return self

    def __exit__(self, *_: object) -> None:
        for pid in list(self.living):
            os.kill(pid, signal.SIGKILL)
            self._await_end(pid)
        self._tell_all_to_end()
        self._selector.close()
        os.close(self._hearing)

    def _start(self) -> None:
        self._number += 1
        name = f"w{self._number}"
        task = {
            **self.task,
            "name": name,
            "seed": self.dice.getrandbits(32),
            "fate": self._fate(),
        }
        pid = self.nursery.order(fork=task)
        assert pid > 1, "the nursery's answers are out of step; signals would hit others"
        self.living[pid] = name
        if task["fate"]["kind"] != "stop":
            self.stoppable.add(pid)
        self.counts["workers"] += 1

    def _fate(self) -> dict[str, Any]:
        """Draw what becomes of a worker: at the how-many-th call, of which kind, after what."""
        if self.dice.random() >= self.cruelty.struck:
            return {"kind": "none", "after": "", "call": "", "at": 0}
        if self.cruelty.fates:
            return self.dice.choice(self.cruelty.fates)
        call = self.dice.choice(CALLS) if self.dice.random() < 0.5 else ""
        after = self.dice.choice(MOMENTS)
        return {
            "kind": "stop" if self.dice.random() < self.cruelty.stopped else "kill",
            "after": after,
            "call": call,
            "at": self.dice.randint(1, 3 if call else 40 if after else 300),
        }

    def _await_end(self, pid: int) -> int:
        """Wait until a worker has ended, and return its exit code."""
        os.kill(pid, signal.SIGCONT)
        status = self.nursery.order(wait=pid, options=0)
        del self.living[pid]
        self.sleepers.pop(pid, None)
        return os.waitstatus_to_exitcode(status)

    # Hearing

    def _lines(self, until: float) -> Iterator[dict[str, Any] | None]:
        """Yield what workers tell, and None when nothing was told for a moment."""
        while time.monotonic() < until:
            if not self._selector.select(min(0.1, max(0.0, until - time.monotonic()))):
                yield None
                continue
            self._buffer += os.read(self._hearing, 1 << 16)
            *lines, self._buffer = self._buffer.split(b"\n")
            for line in lines:
                heard = json.loads(line)
                self.history.append(heard)
                yield heard

    def run(self, seconds: float, at_least: Mapping[str, int]) -> None:
        """Let the crowd work, and strike it, for so long; then let all but the sleepers end.

        It goes on until what ``at_least`` names has happened, if that takes longer.
        """
        for _ in range(WORKERS):
            self._start()
        enough = time.monotonic() + seconds
        has_all = False
        for heard in self._lines(enough + PATIENCE_S):
            if heard is not None:
                self._hear(heard)
                if self.dice.random() < self.cruelty.by_parent:
                    self._strike()
            self._wake_those_who_slept_enough()
            has_all = all(self.counts[what] >= count for what, count in at_least.items())
            if self.problems or (has_all and time.monotonic() > enough):
                break
        if not has_all and not self.problems:
            self.problems.append(f"the crowd did not get to {dict(at_least)}: {self.counts}")
        self._tell_all_to_end()
        if self.problems:
            return
        for sleeper in list(self.sleepers.values()):
            if not sleeper.waits_for_end:
                self._wake(sleeper)
        self._drain(keep_sleepers=True)

    def wake_zombies(self) -> int:
        """Let those go on that slept while the table was settled; return how many there were."""
        zombies = list(self.sleepers.values())
        for sleeper in zombies:
            self._wake(sleeper)
        self._drain(keep_sleepers=False)
        return len(zombies)

    def _drain(self, *, keep_sleepers: bool) -> None:
        for heard in self._lines(time.monotonic() + DRAIN_S):
            if heard is not None:
                self._hear(heard)
                if heard["did"] == "stopping" and not keep_sleepers:
                    self._wake(self.sleepers[heard["pid"]])
            if self.living.keys() <= (self.sleepers.keys() if keep_sleepers else set()):
                return
        late = self.living.keys() - self.sleepers.keys()
        states = {pid: Path(f"/proc/{pid}/stat").read_text().split()[2] for pid in late}
        for pid in late:
            os.kill(pid, signal.SIGUSR1)  # its threads' stacks go to the standard error
        select.select([], [], [], 1.0)  # before they are killed
        self.problems.append(f"workers did not end when they were told to: {states}")

    def _hear(self, heard: dict[str, Any]) -> None:
        pid, did = heard["pid"], heard["did"]
        self.counts[f"refused: {heard['error']}" if did == "refused" else did] += 1
        match did:
            case "stopping":
                self._fall_asleep(pid, heard.get("time"))
            case "dying":
                self._reap(pid, -signal.SIGKILL)
            case "done":
                self._reap(pid, 0)
            case "unexpected":
                self.problems.append(f"{heard['worker']}: {heard['says']}")
            case "committed" | "aborted" | "rolled back" | "already" | "cleaned":
                self._wake_successors_of(heard.get("time"))

    def _fall_asleep(self, pid: int, its_time: str | None) -> None:
        if pid not in self.living:
            return  # the parent killed it after it told that
        self.nursery.order(wait=pid, options=os.WUNTRACED)
        self.stoppable.add(pid)
        waiting = sum(one.waits_for_end for one in self.sleepers.values())
        waits = self.dice.random() < self.cruelty.until_end
        self.sleepers[pid] = Sleeper(
            pid,
            its_time,
            time.monotonic(),
            waits_for_end=waits and waiting < self.cruelty.most_until_end,
            is_by_parent=False,
        )
        if not self._is_told:
            self._start()

    def _reap(self, pid: int, expected: int) -> None:
        if pid not in self.living:
            return  # the parent struck it after it told that
        got = self._await_end(pid)
        if got not in (expected, -signal.SIGKILL):
            self.problems.append(f"process {pid} ended with {got}")
        if not self._is_told:
            self._start()

    # Cruelty

    def _strike(self) -> None:
        """Kill or stop some worker at whatever it does now."""
        awake = [pid for pid in self.living if pid not in self.sleepers]
        pid = self.dice.choice(awake)
        if self.dice.random() < 0.5:
            os.kill(pid, signal.SIGKILL)
            self.counts["killed by the parent"] += 1
            self._await_end(pid)
            self._start()
        elif len(self.sleepers) < MOST_SLEEPERS and pid in self.stoppable:
            os.kill(pid, signal.SIGSTOP)
            self.counts["stopped by the parent"] += 1
            self.sleepers[pid] = Sleeper(pid, None, time.monotonic(), False, True)

    def _wake(self, sleeper: Sleeper) -> None:
        with suppress(KeyError):
            del self.sleepers[sleeper.pid]
            os.kill(sleeper.pid, signal.SIGCONT)
            self.counts["woken"] += 1

    def _wake_successors_of(self, its_time: str | None) -> None:
        for sleeper in list(self.sleepers.values()):
            if its_time is not None and sleeper.time == its_time and not sleeper.waits_for_end:
                self.counts["woken after a successor ended its instant"] += 1
                self._wake(sleeper)

    def _wake_those_who_slept_enough(self) -> None:
        now = time.monotonic()
        for sleeper in list(self.sleepers.values()):
            if not sleeper.waits_for_end and now - sleeper.since > self.cruelty.nap_s:
                self._wake(sleeper)

    def _tell_all_to_end(self) -> None:
        if not self._is_told:
            self._is_told = True
            os.close(self._ending)
