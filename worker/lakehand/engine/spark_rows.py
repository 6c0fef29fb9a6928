"""Rows of the driver as a DataFrame, in as many partitions as are wanted, in their order.

``createDataFrame`` would do, but passes a list through Python workers of the RDD kind on its way.
Spark starts those beside the workers of its DataFrames: half a second and a process per core, to
hand on what the driver has at hand.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame, SparkSession


def frame_of(
    spark: SparkSession, rows: Sequence[tuple[Any, ...]], schema: str, *, partitions: int
) -> DataFrame:
    """Return the rows, whose columns ``schema`` declares, as a DataFrame."""
    from pyspark.sql import DataFrame
    from pyspark.sql.types import _parse_datatype_string

    context: Any = spark.sparkContext
    pickled = context.parallelize(rows, partitions)._jrdd
    unpickled = context._jvm.SerDeUtil.toJavaArray(
        context._jvm.SerDeUtil.pythonToJava(pickled, True)
    )
    session: Any = spark._jsparkSession
    declared = _parse_datatype_string(schema).json()
    return DataFrame(session.applySchemaToPythonRDD(unpickled.rdd(), declared), spark)
