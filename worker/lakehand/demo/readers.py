"""The readers that must agree: Lakehand on Arrow, Lakehand on Spark, and hudi-rs."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

    from lakehand.table import Table

COLUMNS = ["id", "city", "status", "amount"]


def readers(table: Table, spark: SparkSession | None) -> dict[str, Callable[[], pa.Table]]:
    """Return those that this machine has, by name."""
    found: dict[str, Callable[[], pa.Table]] = {"lakehand": lambda: table.to_arrow(columns=COLUMNS)}
    if spark is not None:
        found["lakehand on Spark"] = lambda: _by_spark(table, spark)
    if find_spec("hudi") is not None:
        found["hudi-rs"] = lambda: _by_hudi_rs(table)
    return found


def _by_spark(table: Table, spark: SparkSession) -> pa.Table:
    rows = table.read(spark).snapshot(columns=COLUMNS).collect()
    return pa.table({name: [row[name] for row in rows] for name in COLUMNS})


def _by_hudi_rs(table: Table) -> pa.Table:
    from hudi import HudiTableBuilder

    batches = HudiTableBuilder.from_base_uri(table.store.uri).build().read()
    return pa.Table.from_batches(batches).select(COLUMNS)
