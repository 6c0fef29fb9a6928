"""Writers that are killed with ``SIGKILL`` at one of their store calls, in processes of their own.

::

    with KilledWriters() as killed:
        death = killed.run(uri, write, at=17)       # "promote oslo/…parquet", or None: it finished

The child is a nursery: it has everything imported and forks a writer for each line on its standard
input, so that a death costs milliseconds. A writer's table is opened on a store that counts calls;
the one with the number ``at`` is not made any more. Nothing of Python's runs after that: no
``finally``, no thread, no renewal.
"""

from __future__ import annotations

import base64
import contextlib
import ctypes
import json
import os
import pickle
import signal
import subprocess
import sys
import traceback
from typing import TYPE_CHECKING, Any, NoReturn, Self

import pyarrow as pa

import write_model  # noqa: F401 - before the forks, not in each: it takes seconds
from kernel_faults import TappedStore
from lakehand.store.open import open_store
from lakehand.table import Table

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kernel_faults import Call
    from write_model import Write


class KilledWriters:
    """The nursery, seen from the test."""

    def __enter__(self) -> Self:
        self._child = subprocess.Popen(
            [sys.executable, "-W", "ignore", __file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(one for one in sys.path if one)},
        )
        return self

    def __exit__(self, *_: object) -> None:
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        self._child.stdin.close()
        self._child.stdout.close()
        self._child.wait(60)

    def run(
        self,
        uri: str,
        write: Write,
        *,
        at: int,
        storage_options: Mapping[str, Any] | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> str | None:
        """Let a writer do the write and die before its store call number ``at`` (from 1).

        Return that call; None if it came to an end before.
        """
        task = {
            "uri": uri,
            "storage_options": dict(storage_options or {}),
            "options": dict(options or {}),
            "write": base64.b64encode(pickle.dumps(write)).decode(),
            "at": at,
        }
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        self._child.stdin.write(json.dumps(task) + "\n")
        self._child.stdin.flush()
        answer = json.loads(self._child.stdout.readline())
        assert answer["problem"] is None, answer["problem"]
        return answer["call"]


# -- in the child ---------------------------------------------------------------------------------


def _nursery() -> None:
    pa.Table.from_pylist([{"a": [1]}]).to_pylist()  # what Arrow imports on first use
    for line in sys.stdin:
        task = json.loads(line)
        reading, writing = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(reading)
            _be_a_writer(task, writing)
        os.close(writing)
        with os.fdopen(reading) as told:
            last_words = told.read()
        status = os.waitpid(pid, 0)[1]
        sys.stdout.write(json.dumps(_answer(last_words, status)) + "\n")
        sys.stdout.flush()


def _answer(last_words: str, status: int) -> dict[str, str | None]:
    died = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
    if died == bool(last_words) and (died or status == 0):
        return {"call": last_words or None, "problem": None}
    return {"call": None, "problem": f"the writer ended with {status}: {last_words}"}


def _be_a_writer(task: dict[str, Any], telling: int) -> NoReturn:
    _die_with_the_nursery()

    def tap(call: Call, run: Callable[[], Any]) -> Any:
        if call.number == task["at"]:
            os.write(telling, str(call).encode()[:4000])
            os.kill(os.getpid(), signal.SIGKILL)
        return run()

    status = 1
    try:
        store = TappedStore(open_store(task["uri"], task["storage_options"]), tap)
        write: Write = pickle.loads(base64.b64decode(task["write"]))  # noqa: S301 - the test's own
        write.run(Table.over(store).writer(**task["options"]))
        status = 0
    except BaseException:  # noqa: BLE001 - the test has to hear of it
        os.write(telling, traceback.format_exc()[-4000:].encode())
    os._exit(status)


def _die_with_the_nursery() -> None:
    if sys.platform == "linux":
        set_death_signal = 1
        ctypes.CDLL(None).prctl(set_death_signal, signal.SIGKILL)


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        _nursery()
