"""Where the time of our steps goes (``bench_write.py --profile``): stages, driver, workers.

Spark's own status store says what each stage took; cProfile counts the processor time of the driver
and, through ``write_profile_daemon``, of the Python workers. Profiling slows everything down: the
shares count, not the seconds.
"""

from __future__ import annotations

import cProfile
import io
import pstats
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

LINES = 18


def driver(folder: str, name: str, spark: SparkSession, work: Callable[[], Any]) -> Any:
    """Do the work under a profile of the driver; write down the stages that it took."""
    before = len(_stages(spark))
    profile = cProfile.Profile(time.perf_counter)
    result = profile.runcall(work)
    profile.dump_stats(Path(folder, f"driver-{name}.stats"))
    stages = _stages(spark)
    Path(folder, f"stages-{name}.txt").write_text("\n".join(stages[: len(stages) - before]) + "\n")
    return result


def _stages(spark: SparkSession) -> list[str]:
    """Return a line for each stage, the newest first."""
    context: Any = spark.sparkContext._jsc
    gateway: Any = spark.sparkContext._gateway
    store = context.sc().statusStore()
    none = gateway.jvm.java.util.ArrayList()
    quantiles = gateway.new_array(gateway.jvm.double, 0)
    found = store.stageList(none, False, False, quantiles, none)
    return [_line(found.apply(number)) for number in range(found.size())]


def _line(stage: Any) -> str:
    def at(moment: Any) -> float:
        return moment.get().getTime() / 1000 if moment.isDefined() else 0.0

    begun, ended = at(stage.firstTaskLaunchedTime()), at(stage.completionTime())
    return (
        f"{stage.stageId():4d} {stage.numTasks():3d} tasks {ended - begun:7.2f} s  "
        f"run {stage.executorRunTime() / 1e3:7.2f} s  "
        f"jvm cpu {stage.executorCpuTime() / 1e9:6.2f} s  gc {stage.jvmGcTime() / 1e3:5.2f} s  "
        f"shuffled {stage.shuffleWriteBytes() / 1e6:7.1f} MB  {stage.name()[:50]}"
    )


def report(folder: Path) -> str:
    """Return what all runs into a folder found."""
    parts = []
    for path in sorted(folder.glob("stages-*.txt")):
        parts += [f"== stages of {path.stem[7:]}, the newest first", path.read_text()]
    for path in sorted(folder.glob("driver-*.stats")):
        parts += [f"== driver, {path.stem[7:]}: elapsed", _top([path], "cumulative")]
    if workers := sorted(folder.glob("worker-*.stats")):
        parts += ["== Python workers, all: processor time", _top(workers, "tottime")]
    return "\n".join(parts)


def _top(paths: list[Path], order: str) -> str:
    text = io.StringIO()
    stats = pstats.Stats(str(paths[0]), stream=text)
    for path in paths[1:]:
        stats.add(str(path))
    stats.strip_dirs().sort_stats(order).print_stats(LINES)
    return "\n".join(text.getvalue().splitlines()[4:])
