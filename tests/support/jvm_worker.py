"""The child process of `java_hudi`: one Spark session with one Hudi bundle, driven by JSON lines.

Started as `jvm_worker.py <answer file descriptor> <setup as JSON>`. Every line on stdin is one
call, every line on the answer descriptor its result or error. Functions named `module:function`
get a `Session` first; modules are found on the caller's `sys.path`.
"""

from __future__ import annotations

import importlib
import json
import os
import re
import sys
import traceback
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

QUIET = """
rootLogger.level = error
rootLogger.appenderRef.console.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %p %c{1}: %m%n%ex{short}
"""


@dataclass(slots=True)
class Session:
    """What a function in the child works with."""

    spark: SparkSession
    bundle: str
    scratch: Path
    keep: dict[str, Any] = field(default_factory=dict)
    """Whatever functions want to find again in their next call."""

    def read(
        self, path: str, as_of: str | None = None, options: dict[str, str] | None = None
    ) -> DataFrame:
        reader = self.spark.read.format("hudi").options(**(options or {}))
        if as_of is not None:
            reader = reader.option("as.of.instant", as_of)
        return reader.load(path)

    def read_arrow(
        self, path: str, as_of: str | None = None, options: dict[str, str] | None = None
    ) -> pa.Table:
        return to_arrow(self.read(path, as_of, options))


def to_arrow(frame: DataFrame) -> pa.Table:
    """The frame's rows with exact types (Spark 3.5 has no public `toArrow`)."""
    from lakehand.engine.spark import arrow_schema

    schema = arrow_schema(frame.schema)
    schema = pa.schema([_utc(column) for column in schema])
    batches = frame._collect_as_arrow()
    return pa.Table.from_batches([batch.cast(schema) for batch in batches], schema)


def _utc(column: pa.Field) -> pa.Field:
    if pa.types.is_timestamp(column.type) and column.type.tz is not None:
        return column.with_type(pa.timestamp("us", tz="UTC"))
    return column


def start(setup: dict[str, Any]) -> Session:
    scratch = Path(setup["scratch"])
    logging = scratch / "log4j2.properties"
    logging.write_text(QUIET)
    java_options = (
        f"-Duser.timezone=UTC -Dlog4j2.configurationFile={logging} -XX:+UseSerialGC "
        f"-XX:TieredStopAtLevel=1 -Xss4m -Dderby.system.home={scratch}"
    )
    settings = {
        "spark.master": f"local[{setup['cores']}]",
        "spark.driver.memory": setup["memory"],
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraJavaOptions": java_options,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.default.parallelism": "2",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.local.dir": str(scratch / "spark"),
        "spark.serializer": "org.apache.spark.serializer.KryoSerializer",
        "spark.kryo.registrator": "org.apache.spark.HoodieSparkKryoRegistrar",
        "spark.sql.extensions": "org.apache.spark.sql.hudi.HoodieSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.hudi.catalog.HoodieCatalog",
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
        # Tables of a few rows: compiling a query costs more than running it.
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        "spark.sql.adaptive.enabled": "false",
        **setup["settings"],
    }
    if all(Path(jar).exists() for jar in setup["jar"].split(",")):
        settings["spark.jars"] = setup["jar"]
    else:
        settings["spark.jars.packages"] = setup["coordinate"]
        settings["spark.jars.ivy"] = setup["ivy"]
    builder = SparkSession.builder.appName("lakehand-tests")
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return Session(spark, setup["bundle"], scratch)


def sql(session: Session, text: str) -> list[dict[str, Any]]:
    return [row.asDict(recursive=True) for row in session.spark.sql(text).collect()]


def read(
    session: Session, path: str, target: str, as_of: str | None, options: dict[str, str]
) -> None:
    pq.write_table(session.read_arrow(path, as_of, options), target)


def write(
    session: Session,
    *,
    path: str,
    rows_parquet: str,
    options: dict[str, str],
    operation: str,
    mode: str,
) -> None:
    frame = session.spark.read.parquet(rows_parquet)
    writer = frame.write.format("hudi").options(**options)
    writer.option("hoodie.datasource.write.operation", operation).mode(mode).save(path)


def _plain(value: object) -> object:
    if isinstance(value, datetime | date):
        return value.isoformat()
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, bytes | bytearray):
        return value.hex()
    return str(value)


def _java_message(error: BaseException) -> str:
    """The exception's own message and its deepest cause, without the stack."""
    java = getattr(error, "java_exception", None) or getattr(error, "_origin", None)
    if java is None:
        return str(error)
    messages = []
    while java is not None and len(messages) < 8:
        messages.append(re.sub(r"\s+", " ", str(java.toString()))[:600])
        java = java.getCause()
    return "\n  caused by: ".join(dict.fromkeys(messages))


def _call(session: Session, request: dict[str, Any]) -> Any:
    for entry in request["path"]:
        if entry not in sys.path:
            sys.path.append(entry)
    name = request["function"]
    if ":" in name:
        module, function = name.split(":")
        found = getattr(importlib.import_module(module), function)
    else:
        found = {"sql": sql, "read": read, "write": write}[name]
    return found(session, **request["arguments"])


def main() -> None:
    # A module that imports this one by name must see the same classes.
    sys.modules["jvm_worker"] = sys.modules["__main__"]
    answers = os.fdopen(int(sys.argv[1]), "w")

    def answer(value: dict[str, Any]) -> None:
        answers.write(json.dumps(value, default=_plain) + "\n")
        answers.flush()

    def fail(error: BaseException) -> None:
        kind = type(error).__name__
        answer({"error": _java_message(error), "kind": kind, "trace": traceback.format_exc()})

    try:
        session = start(json.loads(sys.argv[2]))
    except Exception as error:  # noqa: BLE001 (the parent raises it)
        fail(error)
        return
    answer({"result": "ready"})
    for line in sys.stdin:
        try:
            answer({"result": _call(session, json.loads(line))})
        except Exception as error:  # noqa: BLE001 (the parent raises it)
            fail(error)
    session.spark.stop()


if __name__ == "__main__":
    main()
