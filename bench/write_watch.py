"""Runs a child of the write benchmark and watches its process tree while it works.

The child is told a step on its standard input, and says on a pipe, as JSON lines, when it begins
and what came out. Meanwhile the tree below it (driver, JVM, Python workers) is sampled from
``/proc``: the largest sum of resident memory, and the processor time used, both per step. A page
that several processes share counts once, in equal parts (proportional set size).
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Self

CHILD = Path(__file__).with_name("write_child.py")
SAMPLE_S = 0.5
_TICKS = os.sysconf("SC_CLK_TCK")


class StepFailed(RuntimeError):
    """A child could not do its step."""


@dataclass(frozen=True, slots=True)
class Measured:
    """One run of one step."""

    seconds: float
    cpu_seconds: float
    peak_bytes: int
    result: Any


@dataclass(slots=True)
class _Watch:
    root: int
    peak: int = 0
    ended: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        is_over = False
        while not is_over:
            self.peak = max(self.peak, usage(self.root)[0])
            is_over = self.ended.wait(SAMPLE_S)


def usage(root: int) -> tuple[int, float]:
    """Return the resident bytes and the processor seconds of a process and all below it."""
    parents: dict[int, int] = {}
    used: dict[int, int] = {}
    for name in os.listdir("/proc"):
        if not name.isdecimal():
            continue
        try:
            text = Path("/proc", name, "stat").read_text()
        except OSError:
            continue
        fields = text[text.rindex(")") + 2 :].split()
        parents[int(name)] = int(fields[1])
        used[int(name)] = sum(map(int, fields[11:15]))
    below = [pid for pid in used if _is_below(pid, root, parents)]
    return sum(map(_resident, below)), sum(used[pid] for pid in below) / _TICKS


def _resident(pid: int) -> int:
    try:
        lines = Path("/proc", str(pid), "smaps_rollup").read_text().splitlines()
    except OSError:
        return 0  # it has ended
    return sum(int(line.split()[1]) for line in lines if line.startswith("Pss:")) * 1024


def _is_below(pid: int, root: int, parents: Mapping[int, int]) -> bool:
    while pid and pid != root:
        pid = parents.get(pid, 0)
    return pid == root


class Child:
    """A process of one peer, which does the steps that it is told to, one after the other."""

    def __init__(self, setup: Mapping[str, object], environment: Mapping[str, str]) -> None:
        """Start it."""
        reading, writing = os.pipe()
        self._process = subprocess.Popen(
            [sys.executable, "-W", "ignore", str(CHILD), str(writing), json.dumps(setup)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            pass_fds=(writing,),
            env={**os.environ, **environment},
            start_new_session=True,
        )
        os.close(writing)
        self._answers = os.fdopen(reading)
        self._said: list[bytes] = []
        self._listener = threading.Thread(
            target=lambda: self._said.extend(self._process.stdout or ()), daemon=True
        )
        self._listener.start()

    def do(self, step: str) -> Measured:
        """Let it do a step; return what that took."""
        self._tell(step)
        self._next("begin")
        pid = self._process.pid
        watch = _Watch(pid)
        thread = threading.Thread(target=watch.run, daemon=True)
        cpu_before = usage(pid)[1]
        thread.start()
        try:
            answer = self._next("end")
        finally:
            watch.ended.set()
            thread.join()
        return Measured(
            seconds=answer["seconds"],
            cpu_seconds=usage(pid)[1] - cpu_before,
            peak_bytes=watch.peak,
            result=answer["result"],
        )

    def _tell(self, step: str) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # its last words say more
            self._process.stdin.write(step.encode() + b"\n")
            self._process.stdin.flush()

    def _next(self, kind: str) -> dict[str, Any]:
        """Return the child's next answer, which must be of this kind."""
        line = self._answers.readline()
        answer: dict[str, Any] = json.loads(line) if line else {}
        if kind not in answer:
            self._process.kill()
            self._listener.join(timeout=5)
            raise StepFailed(b"".join(self._said[-60:]).decode(errors="replace"))
        return answer

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Let it end by itself: a profile is written then."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=60)
        _end(self._process)
        self._answers.close()


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the session that we started: the JVM is a grandchild."""
    deadline = time.monotonic() + 10
    while process.poll() is None and time.monotonic() < deadline:
        try:
            os.killpg(process.pid, signal.SIGTERM)
        except ProcessLookupError:
            break
        time.sleep(0.2)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
