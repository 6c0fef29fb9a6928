"""Writers in processes of their own, of which the demo pauses one and kills another.

A paused process (SIGSTOP) is what a long garbage collection or a frozen machine looks like to the
others; a killed one (SIGKILL) cannot clean up after itself. So that it always happens in the middle
of a write, the writer stops itself before its n-th file; the demo then wakes it up, or kills it.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import pyarrow.parquet as pq

from lakehand.engine.inline import InlineEngine
from lakehand.errors import LakehandError
from lakehand.table import Table

if TYPE_CHECKING:
    from pathlib import Path

    from lakehand.engine.engine import Turn

_PATIENCE_S: Final = 100.0


class WriterFailed(Exception):
    """A writer did not do what the demo is about."""


@dataclass(slots=True)
class StoppingEngine(InlineEngine):
    """Does the work in this process, and stops it before the work of one file group."""

    stop_before: int = -1

    def turn(self, task: int) -> Turn:
        """Begin a task, or stop first."""
        if task == self.stop_before:
            self.stop_before = -1
            os.kill(os.getpid(), signal.SIGSTOP)
        return InlineEngine.turn(self, task)


def write(uri: str, rows: Path, *, retries: int, stop_before: int) -> int:
    """Upsert a file and say on stdout, as JSON, what came of it. The process's whole life."""
    try:
        writer = Table.open(uri).writer(retries=retries)
        writer = replace(writer, engine=StoppingEngine(stop_before=stop_before))
        done = writer.upsert(pq.ParquetFile(rows).read())
    except LakehandError as error:
        sys.stdout.write(json.dumps({"error": str(error)}))
        return 1
    sys.stdout.write(json.dumps({"time": done.time, "rows": done.inserts + done.updates}))
    return 0


@dataclass(frozen=True, slots=True)
class Said:
    """What a writer said at its end."""

    time: str
    rows: int


@dataclass(frozen=True, slots=True)
class WriterProcess:
    """One running writer."""

    process: subprocess.Popen[bytes]

    @classmethod
    def start(
        cls, table: Path, rows: Path, *, retries: int = 0, stop_before: int = -1
    ) -> WriterProcess:
        """Start a writer of the rows in a file; ``stop_before`` a file group, counted from 0."""
        process = subprocess.Popen(  # noqa: S603 - this very program
            [
                sys.executable,
                *("-P", "-W", "ignore", "-m", "lakehand.demo"),
                *("--write", str(rows), "--retries", str(retries)),
                *("--stop-before", str(stop_before), str(table)),
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C reaches the demo alone, which then ends this
        )
        return cls(process)

    def wait_until_stopped(self) -> None:
        """Wait until it stands still, in the middle of its write."""
        found = os.waitid(os.P_PID, self.process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
        if found is None or found.si_code != os.CLD_STOPPED:
            raise WriterFailed(f"a writer ended before the middle of its write: {self.result()}")

    def go_on(self) -> None:
        """Wake it up."""
        self.process.send_signal(signal.SIGCONT)

    def result(self) -> Said:
        """Wait for its end and return what it said."""
        output, _ = self.process.communicate(timeout=_PATIENCE_S)
        said = json.loads(output or b'{"error": "it said nothing"}')
        if "error" in said:
            raise WriterFailed(said["error"])
        return Said(said["time"], said["rows"])

    def kill(self) -> None:
        """End it at once (SIGKILL), if it is there."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()
