"""Imports that Spark's Arrow functions need in the driver, done while the driver waits for the JVM.

The first ``mapInArrow`` of a process imports pandas: a third of a second, in which the JVM has
nothing to do. A job that starts cold begins it earlier, beside what it asks of the JVM meanwhile.
"""

from __future__ import annotations

import contextlib
import sys
import threading


def begin() -> None:
    """Start to import, unless that was done."""
    if "pandas" not in sys.modules:
        threading.Thread(target=_import, name="lakehand-imports").start()


def _import() -> None:
    # Spark says in its own words what is missing, to whoever needs it.
    with contextlib.suppress(ImportError):
        import pandas  # noqa: F401
        import pyspark.sql.pandas.functions
        import pyspark.sql.pandas.map_ops
        import pyspark.sql.pandas.serializers  # noqa: F401
