"""The demo, step by step; each step says in plain words what it did, and shows it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow.parquet as pq

from lakehand.demo import session
from lakehand.demo.orders import SCHEMA, Change, Truth, counts_of
from lakehand.demo.readers import readers
from lakehand.demo.writers import WriterProcess
from lakehand.table import Table

if TYPE_CHECKING:
    from contextlib import ExitStack
    from pathlib import Path

    from pyspark.sql import SparkSession

    from lakehand.demo.screen import Screen
    from lakehand.write.job import WriteResult

_HEARTBEAT_S = 1.0
"""How often the last writer expects others to be heard; in earnest it is a minute."""
_NEW = Change("new", 0, 60_000, changed=1)
_PAID = Change("paid", 0, 30_000, changed=2)
_SHIPPED = Change("shipped", 20_000, 50_000, changed=3)
_LOST = Change("lost", 0, 60_000, changed=9)
_RETURNED = Change("returned", 25_000, 35_000, changed=4)
_HUDI_RS_MISSING = "   (hudi-rs is not installed: pip install hudi, to let it read as well)"


@dataclass(slots=True)
class Story:
    """What the steps share."""

    screen: Screen
    folder: Path
    ending: ExitStack
    """Ends what was started, however the story ends."""
    is_kept: bool
    """Whether the folder is there afterwards."""
    spark: SparkSession | None = None
    truth: Truth = field(default_factory=Truth)
    names: dict[int, str] = field(default_factory=dict)
    """Who the processes are."""
    wrong: int = 0
    shown: int = 0
    """The last entry of the journal that was shown."""

    def tell(self) -> bool:
        """Tell all of it; return whether every row was right, for every reader."""
        table = self._make_the_lake()
        self._collide(table)
        self._read(table)
        self._kill(table)
        self._clean_up(table)
        self._read(table)
        self.screen.step("The end")
        uri = table.store.uri
        if self.wrong:
            self.screen.say(f"   {self.wrong} rows are WRONG. Please report it, with {uri}")
            return False
        self.screen.say(
            "   Nothing was lost, nothing came twice, and nobody had to repair anything."
        )
        if self.is_kept:
            self.screen.say(f"   Look for yourself:  lakehand timeline {uri} [--journal]")
        else:
            self.screen.say("   The lake is removed now; --folder FOLDER keeps it to look at.")
        return True

    @property
    def place(self) -> Path:
        """Where the table is."""
        return self.folder / "orders"

    def _make_the_lake(self) -> Table:
        lacking = session.missing()
        self.screen.step("A small lake" if lacking else "A small lake, by Spark")
        if lacking is None:
            self.spark = session.start(self.folder / "spark")
            self.ending.callback(self.spark.stop)
        else:
            self.screen.say(f"   Without Spark: {lacking}. Everything is done on Arrow data.")
        table = Table.create(
            str(self.place),
            SCHEMA,
            key=["id"],
            partition_by=["city"],
            ordering=["changed"],
            table_type="mor",
        )
        done = self._write(table, _NEW, operation="bulk_insert")
        self.screen.say(
            f"   {table.store.uri}",
            f"   A Hudi table (merge on read, version 9): {done.inserts:,} orders in {done.files} "
            "files, all of them new.",
        )
        self._journal(table)
        return table

    def _collide(self, table: Table) -> None:
        self.screen.step("Two writers collide")
        shipped, paid = (one.save(self.folder / "incoming") for one in (_SHIPPED, _PAID))
        slow = self._start("writer A", shipped, retries=3, stop_before=0)
        slow.wait_until_stopped()
        first_try = table.timeline().pending[-1].time
        self.screen.say(
            f"   A marks {_size(_SHIPPED)} orders as shipped. In the middle the demo pauses A,",
            "   as a long garbage collection would:",
        )
        self.screen.timeline(table)
        said = self._start("writer B", paid).result()
        self.truth.apply(_PAID)
        both = _PAID.end - _SHIPPED.first
        self.screen.say(
            f"   Meanwhile B marks {said.rows:,} orders as paid, {both:,} of A's among them, and "
            "commits. A goes on:"
        )
        slow.go_on()
        said = slow.result()
        self.truth.apply(_SHIPPED)
        self.screen.say(
            f"   A finds B's commit on the same files, gives {first_try} up, and does the whole",
            f"   write again as {said.time}, on top of B's. The journal is where all of that was",
            "   decided, one entry after the other:",
        )
        self._journal(table)

    def _kill(self, table: Table) -> None:
        self.screen.step("A writer is killed")
        rows = _LOST.save(self.folder / "incoming")
        victim = self._start("writer C", rows, stop_before=2)
        victim.wait_until_stopped()
        victim.kill()
        self.screen.say(
            f"   C marks all {_size(_LOST)} orders as lost, and dies by kill -9 when it has "
            "written two of",
            "   its three files:",
        )
        self.screen.timeline(table)
        self._journal(table)
        self.screen.say("   What it wrote is staged: no reader sees any of it.")
        self._read(table, is_step=False)

    def _clean_up(self, table: Table) -> None:
        self.screen.step("The next write cleans up")
        self.screen.clock.sleep(3 * _HEARTBEAT_S)
        done = self._write(table, _RETURNED, operation="upsert")
        self.screen.say(
            f"   C's heart has not beaten for {2 * _HEARTBEAT_S:.0f} s, so the next writer rolls "
            "its write back",
            f"   before its own: {done.updates + done.inserts:,} orders were returned.",
        )
        self._journal(table)
        self.screen.timeline(table)

    def _read(self, table: Table, *, is_step: bool = True) -> None:
        """Let all readers read, and compare every row with what it must be."""
        if is_step:
            self.screen.step("All read the same")
        found = {name: read() for name, read in readers(table, self.spark).items()}
        expected = self.truth.counts()
        counts = {name: counts_of(rows) for name, rows in found.items()}
        wrong = {name: self.truth.wrong(rows) for name, rows in found.items()}
        self.wrong += sum(wrong.values())
        states = sorted(set(expected).union(*counts.values()))
        rows = [
            (state, f"{expected[state]:,}", *(f"{one[state]:,}" for one in counts.values()))
            for state in states
        ]
        rows.append(("wrong rows", "", *(str(number) for number in wrong.values())))
        self.screen.table(("ORDERS", "MUST BE", *found), rows)
        if "hudi-rs" not in found:
            self.screen.say(_HUDI_RS_MISSING)

    def _journal(self, table: Table) -> None:
        self.shown = self.screen.journal(table, self.names, after=self.shown)

    def _write(self, table: Table, change: Change, *, operation: str) -> WriteResult:
        """Write in this process: through Spark, if it is here."""
        path = change.save(self.folder / "incoming")
        writer = table.writer(self.spark, heartbeat_s=_HEARTBEAT_S)
        rows = pq.read_table(path) if self.spark is None else self.spark.read.parquet(str(path))
        write = writer.bulk_insert if operation == "bulk_insert" else writer.upsert
        done = write(rows)
        self.truth.apply(change)
        return done

    def _start(
        self, name: str, rows: Path, *, retries: int = 0, stop_before: int = -1
    ) -> WriterProcess:
        started = WriterProcess.start(self.place, rows, retries=retries, stop_before=stop_before)
        self.ending.callback(started.kill)
        self.names[started.process.pid] = name
        return started


def _size(change: Change) -> str:
    return f"{change.end - change.first:,}"
