"""Spark's Python daemon, with every worker under cProfile (``bench_write.py --profile``).

Spark starts it as ``spark.python.daemon.module``; each worker leaves what it found in the folder
that ``LAKEHAND_BENCH_PROFILE`` names.
"""

from __future__ import annotations

import cProfile
import os
import time
from pathlib import Path
from typing import Any

from pyspark import daemon

_work = daemon.worker_main


def _profiled(infile: Any, outfile: Any) -> None:
    profile = cProfile.Profile(time.process_time)
    profile.enable()
    try:
        _work(infile, outfile)
    finally:
        profile.disable()
        folder = Path(os.environ["LAKEHAND_BENCH_PROFILE"])
        profile.dump_stats(folder / f"worker-{os.getpid()}-{time.monotonic_ns()}.stats")


if __name__ == "__main__":
    daemon.worker_main = _profiled
    daemon.manager()
