"""This process's own clock and threads, behind the ports ``Clock`` and ``Background``."""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING

from lakehand.errors import LakehandError

if TYPE_CHECKING:
    from collections.abc import Callable

_log = logging.getLogger(__name__)


class SystemClock:
    """The machine's monotonic clock."""

    def monotonic(self) -> float:
        """Return seconds that never go back."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Wait."""
        time.sleep(seconds)


class ThreadTask:
    """A step that a daemon thread repeats."""

    def __init__(self, interval_s: float, step: Callable[[], bool], name: str) -> None:
        self._interval_s = interval_s
        self._step = step
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End it, and wait for a step that is under way. A step may stop its own task."""
        self._stopped.set()
        if self._thread is not threading.current_thread():
            self._thread.join()

    def _run(self) -> None:
        while not self._stopped.wait(self._interval_s):
            try:
                if not self._step():
                    return
            except LakehandError as error:  # one failed step is not the end of the task
                _log.warning("%s: %s", self._thread.name, error)


class Threads:
    """Background work on daemon threads: a dying process is not held up by them."""

    def every(self, interval_s: float, step: Callable[[], bool], *, name: str) -> ThreadTask:
        """Call ``step`` every ``interval_s`` seconds until it returns False or is stopped."""
        return ThreadTask(interval_s, step, name)
