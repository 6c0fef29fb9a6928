"""What the interop tests do inside the JVM's child process: batches, so that a call costs little.

Each function takes the child's ``Session`` first. A job that fails becomes a sentence in the
answer, so that one table's fault does not hide the others.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq

if TYPE_CHECKING:
    from jvm_worker import Session


def _sentence(error: BaseException) -> str:
    java = getattr(error, "java_exception", None)
    messages = [str(error).splitlines()[0]] if str(error) else [type(error).__name__]
    while java is not None:
        messages.append(str(java.toString()).splitlines()[0][:400])
        java = java.getCause()
    return " <- ".join(dict.fromkeys(messages))


def read_many(session: Session, jobs: list[dict[str, Any]], workers: int = 2) -> list[str | None]:
    """Read each ``{path, target, as_of}`` into a Parquet file; None, or what went wrong."""

    def read(job: dict[str, Any]) -> str | None:
        try:
            pq.write_table(
                session.read_arrow(job["path"], job.get("as_of"), job.get("options")),
                job["target"],
            )
        except Exception as error:  # noqa: BLE001 - the parent judges it
            return _sentence(error)
        return None

    with ThreadPoolExecutor(workers) as pool:
        return list(pool.map(read, jobs))


def write_many(session: Session, jobs: list[dict[str, Any]], workers: int = 2) -> list[str]:
    """Write the rows of each ``{path, rows, options, operation}`` by the data source.

    Jobs on one table run in their order, tables side by side; returned are the problems.
    """

    def write(job: dict[str, Any]) -> None:
        frame = session.spark.read.parquet(job["rows"])
        writer = frame.write.format("hudi").options(**job["options"])
        writer.option("hoodie.datasource.write.operation", job["operation"])
        writer.mode("append").save(job["path"])

    def write_all(path: str) -> str:
        for job in jobs:
            if job["path"] == path:
                try:
                    write(job)
                except Exception as error:  # noqa: BLE001 - the parent judges it
                    return f"{job['operation']} on {path}: {_sentence(error)}"
        return ""

    with ThreadPoolExecutor(workers) as pool:
        answers = pool.map(write_all, dict.fromkeys(job["path"] for job in jobs))
        return [answer for answer in answers if answer]


def call_many(session: Session, statements: list[str], workers: int = 2) -> list[str | None]:
    """Run each SQL statement; None, or what went wrong."""

    def call(statement: str) -> str | None:
        try:
            session.spark.sql(statement).collect()
        except Exception as error:  # noqa: BLE001 - the parent judges it
            return _sentence(error)
        return None

    with ThreadPoolExecutor(workers) as pool:
        return list(pool.map(call, statements))
