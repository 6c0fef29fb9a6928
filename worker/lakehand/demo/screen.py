"""What the demo prints: numbered steps in plain words, small tables, the table's timeline."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lakehand.cli import journal_report, timeline_report
from lakehand.cli.rendering import Grid, Output, render, seconds

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lakehand.cli.journal_report import EntryReport
    from lakehand.cli.timeline_report import InstantReport
    from lakehand.ports import Clock
    from lakehand.table import Table


@dataclass(slots=True)
class Screen:
    """Prints, and counts the steps."""

    clock: Clock
    _steps: int = 0
    _began: float = field(init=False)

    def __post_init__(self) -> None:
        """Start the watch."""
        self._began = self.clock.monotonic()

    def step(self, title: str) -> None:
        """Begin a step."""
        self._steps += 1
        passed = self.clock.monotonic() - self._began
        self.say(f"\n{self._steps}. {title}  ({passed:.0f} s)")

    def say(self, *lines: str) -> None:
        """Print lines of a step."""
        for line in lines:
            sys.stdout.write(f"{line}\n")
        sys.stdout.flush()

    def table(self, header: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> None:
        """Print a small table."""
        text = render({}, Grid(header, rows, "nothing"), Output.TABLE)
        self.say(*(f"   {line}" for line in text.splitlines()))

    def timeline(self, table: Table) -> None:
        """Print the instants of a table."""
        report = timeline_report.gather(table, limit=None, only_pending=False)
        rows = [_row(one) for one in report.instants]
        self.table(("INSTANT", "ACTION", "STATE", "HEARTBEAT"), rows)

    def journal(self, table: Table, names: Mapping[int, str], *, after: int) -> int:
        """Print what the journal decided after an entry; return the last one's number.

        ``names`` says who the processes are.
        """
        report = journal_report.gather(table, limit=None)
        found = [one for one in report.entries if one.seq is not None and one.seq > after]
        rows = [
            (one.file.lstrip("0"), one.kind or "", _instant(one), _named(one.writer or "", names))
            for one in found
        ]
        self.table(("ENTRY", "DECISION", "INSTANT", "DECIDED BY"), rows)
        return max((one.seq or 0 for one in found), default=after)


def _instant(entry: EntryReport) -> str:
    return str((entry.body or {}).get("time", ""))


def _row(one: InstantReport) -> tuple[str, ...]:
    beat = one.heartbeat
    return (
        one.time,
        one.action,
        one.state or "",
        "" if beat is None else f"{'live' if beat.live else 'dead'}, {seconds(beat.age_s)}",
    )


def _named(worker: str, names: Mapping[int, str]) -> str:
    """Return who a worker is: its name in the journal is ``<host>-<process>-<random>``."""
    process = worker.rpartition("-")[0].rpartition("-")[2]
    return names.get(int(process), worker) if process.isdecimal() else worker
