"""Real processes on one lock on a local disk, some of which are killed or stopped inside."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import lock_child
from lakehand.locks.leases import LeaseTerms
from lakehand.store.open import open_store

if TYPE_CHECKING:
    from collections.abc import Iterator

CHILD = Path(lock_child.__file__)
TERMS = {
    "lease_s": 1.0,
    "renew_every_s": 0.1,
    "first_pause_s": 0.005,
    "longest_pause_s": 0.05,
}
TURNS = 6


@dataclass
class Crowd:
    """Processes that share one lock, and the pipe on which they tell what they do."""

    uri: str
    lock: str
    processes: dict[int, subprocess.Popen[str]] = field(default_factory=dict)
    fates: dict[int, str] = field(default_factory=dict)
    history: list[list[str]] = field(default_factory=list)

    def start(self, stack: ExitStack, fates: list[str]) -> Iterator[list[str]]:
        """Start one process for each fate, all at once; yield what they tell, in order."""
        reading, writing = os.pipe()
        for fate in fates:
            task = {
                "lock": self.lock,
                "uri": self.uri,
                "terms": TERMS,
                "pipe": writing,
                "turns": TURNS,
                "fate": fate,
            }
            child = subprocess.Popen(
                [sys.executable, str(CHILD), json.dumps(task)],
                stdin=subprocess.PIPE,
                text=True,
                pass_fds=(writing,),
            )
            stack.callback(_end, child)
            self.processes[child.pid] = child
            self.fates[child.pid] = fate
        os.close(writing)
        lines = stack.enter_context(os.fdopen(reading))
        for _ in fates:
            assert next(lines).startswith("ready")
        for pid in self.processes:
            self.tell(pid)
        for line in lines:
            self.history.append(line.split())
            yield self.history[-1]

    def tell(self, pid: int) -> None:
        """Let a process go on that waits for a line."""
        pipe = self.processes[pid].stdin
        assert pipe is not None
        pipe.write("\n")
        pipe.flush()


def _end(child: subprocess.Popen[str]) -> None:
    child.kill()
    assert child.stdin is not None
    child.stdin.close()
    child.wait()


def judge(history: list[list[str]], killed: set[int]) -> list[str]:
    """Return where two were inside at once and both believed to hold the lock."""
    problems = []
    inside: dict[str, int] = {}
    overtaken: set[str] = set()
    for what, pid, *rest in history:
        match what:
            case "enter":
                overtaken |= {token for token, other in inside.items() if other not in killed}
                inside = {rest[0]: int(pid)}
            case "leave":
                if rest[0] in overtaken and float(rest[1]) > 0:
                    problems.append(f"{pid} was overtaken and believed to hold the lock")
                inside.pop(rest[0], None)
    return problems


@pytest.mark.parametrize("lock", sorted(lock_child.MAKERS))
def test_eight_processes_of_which_three_are_killed_inside_and_one_is_stopped(lock, tmp_path):
    crowd = Crowd(str(tmp_path / "table"), lock)
    killed: set[int] = set()
    stopped: int | None = None
    enters: dict[int, int] = {}
    is_sleeper_done = is_over = False
    with ExitStack() as stack:
        fates = ["hang"] * 3 + ["stop"] + ["live"] * 4
        for what, word, *_ in crowd.start(stack, fates):
            pid = int(word)
            fate = crowd.fates[pid]
            if what == "done" and fate == "stop":
                is_sleeper_done = True
            if what == "enter":
                enters[pid] = enters.get(pid, 0) + 1
                if stopped is not None and pid != stopped:
                    crowd.processes[stopped].send_signal(signal.SIGCONT)
                    crowd.tell(stopped)
                    stopped = None
                if enters[pid] == 2 and fate == "hang":
                    crowd.processes[pid].kill()
                    killed.add(pid)
                if enters[pid] == 2 and fate == "stop":
                    crowd.processes[pid].send_signal(signal.SIGSTOP)
                    stopped = pid
            if is_sleeper_done and len(killed) == 3 and not is_over:
                is_over = True
                for each, fate_of_each in crowd.fates.items():
                    if fate_of_each == "live":
                        crowd.tell(each)
        for pid, child in crowd.processes.items():
            assert child.wait(timeout=30) == (-signal.SIGKILL if pid in killed else 0)
    assert len(killed) == 3
    assert judge(crowd.history, killed) == []
    done = {int(word) for what, word, *_ in crowd.history if what == "done"}
    assert done == set(crowd.processes) - killed
    (sleeper,) = [pid for pid, fate in crowd.fates.items() if fate == "stop"]
    lefts = [
        float(rest[1])
        for what, word, *rest in crowd.history
        if what == "leave" and int(word) == sleeper
    ]
    assert lefts[1] == 0, "the stopped process did not know that it had lost the lock"
    tokens = [rest[0] for what, _, *rest in crowd.history if what == "enter"]
    assert len(tokens) == len(set(tokens)) >= 5 * TURNS + 3 * 2
    last = lock_child.MAKERS[lock](open_store(crowd.uri), terms=LeaseTerms(**TERMS))
    assert last.holder() is None
    last.acquire("the next", timeout_s=0).release()


def test_the_judge_sees_two_inside():
    history = [["enter", "1", "a"], ["enter", "2", "b"], ["leave", "1", "a", "0.5"]]
    assert judge(history, set()) == ["1 was overtaken and believed to hold the lock"]
    assert judge([*history[:2], ["leave", "1", "a", "0.0"]], set()) == []
    assert judge(history[:2], {1}) == []
