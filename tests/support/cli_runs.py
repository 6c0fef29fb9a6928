"""Running the command as its users do: in this process, or in one of its own."""

from __future__ import annotations

import json
import subprocess
import sysconfig
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from click.testing import CliRunner

from lakehand.cli.main import commands

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PROGRAM = Path(sysconfig.get_path("scripts")) / "lakehand"


@dataclass(frozen=True)
class Ran:
    code: int
    out: str
    err: str
    both: str

    @property
    def record(self) -> Any:
        """The result of ``--output json``."""
        return json.loads(self.out)

    @property
    def said(self) -> list[Any]:
        """What ``--output json`` said beside it."""
        return [json.loads(line) for line in self.err.splitlines()]

    @property
    def error(self) -> Any:
        return next(one["error"] for one in self.said if "error" in one)


def run(*arguments: str, answer: str = "") -> Ran:
    result = CliRunner().invoke(commands, [str(one) for one in arguments], input=answer)
    return Ran(result.exit_code, result.stdout, result.stderr, result.output)


@contextmanager
def started(*arguments: str, **options: Any) -> Iterator[subprocess.Popen[str]]:
    """Start the installed command, and leave nothing of it behind."""
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "stdin": subprocess.DEVNULL}
    with subprocess.Popen(
        [str(PROGRAM), *map(str, arguments)], text=True, **{**pipes, **options}
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def finish(process: subprocess.Popen[str]) -> Ran:
    out, err = process.communicate(timeout=60)
    return Ran(process.returncode, out or "", err or "", "")


def run_program(*arguments: str, **options: Any) -> Ran:
    """Run the installed command to its end."""
    with started(*arguments, **options) as process:
        return finish(process)


@dataclass
class FakeTime:
    """Stands in for the module ``time``: sleeping passes no time, and lets others act."""

    now: float = 0.0
    on_sleep: Callable[[], object] = field(default=lambda: None)

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.on_sleep()


def tree(folder: Path) -> dict[str, tuple[bytes, int]]:
    """Every file below a folder: its content, and when it was written."""
    return {
        str(path.relative_to(folder)): (path.read_bytes(), path.stat().st_mtime_ns)
        for path in folder.rglob("*")
        if path.is_file()
    }
