"""The entries of a table's journal as they lie there, each judged by itself.

An entry that cannot be read is shown with the reason, and with a later entry that repeats it, if
there is one: entries repeat those since the newest checkpoint.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from lakehand.cli.options import looking_bench
from lakehand.errors import Corrupt, Invalid, NotFound
from lakehand.formats import journal_document
from lakehand.protocol import journal

if TYPE_CHECKING:
    from lakehand.formats.journal_document import JournalDocument
    from lakehand.protocol.workbench import Workbench
    from lakehand.table import Table


@dataclass(frozen=True, slots=True)
class EntryReport:
    """One file of the journal."""

    file: str
    problem: str | None = None
    """Why it cannot be read."""
    repeated_in: str | None = None
    """If it cannot: a later file that repeats it."""
    seq: int | None = None
    kind: str | None = None
    at: str | None = None
    writer: str | None = None
    lock: str | None = None
    decided_on: int | None = None
    body: dict[str, Any] | None = None
    """The decision as it stands in the file."""


@dataclass(frozen=True, slots=True)
class JournalReport:
    """A table's journal."""

    table: str
    entries: tuple[EntryReport, ...]

    @property
    def torn(self) -> tuple[EntryReport, ...]:
        """The entries that cannot be read."""
        return tuple(one for one in self.entries if one.problem is not None)


def gather(table: Table, *, limit: int | None) -> JournalReport:
    """Report the newest ``limit`` entries; None: all that were not trimmed."""
    bench = looking_bench(table)
    names = sorted(table.store.names(journal.FOLDER))
    if limit is not None:
        names = names[len(names) - min(limit, len(names)) :]
    repeats: dict[int, str] = {}
    found = [one for one in (_entry(bench, name, repeats) for name in names) if one is not None]
    return JournalReport(table.store.uri, tuple(_with_repeat(one, repeats) for one in found))


def _entry(bench: Workbench, name: str, repeats: dict[int, str]) -> EntryReport | None:
    """Return one file; None if it was trimmed meanwhile. Notes which entries it repeats."""
    path = f"{journal.FOLDER}/{name}"
    if not name.isdecimal() or journal.path_of(int(name)) != path:
        return EntryReport(name, problem="not the name of a journal entry")
    try:
        document = bench.journal.read(int(name))
        if document is None:
            return None
        content = bench.store.get(path).content
    except NotFound:
        return None
    except (Corrupt, Invalid) as problem:
        return EntryReport(name, problem=str(problem), seq=int(name))
    for one in document.since:
        repeats[one.seq] = name
    return _readable(name, document, json.loads(content)["entry"]["body"])


def _readable(name: str, document: JournalDocument, body: dict[str, Any]) -> EntryReport:
    entry = document.entry
    return EntryReport(
        file=name,
        seq=entry.seq,
        kind=journal_document.kind_of(entry.body),
        at=moment(entry.at_ms),
        writer=entry.writer,
        lock=entry.lock.provider if entry.lock.token else None,
        decided_on=entry.decided_on.seq,
        body=body,
    )


def _with_repeat(entry: EntryReport, repeats: dict[int, str]) -> EntryReport:
    if entry.problem is None or entry.seq is None:
        return entry
    return EntryReport(entry.file, entry.problem, seq=entry.seq, repeated_in=repeats.get(entry.seq))


def moment(epoch_ms: int) -> str:
    """Return a time of the store's clock as people read it, in UTC."""
    seconds, millis = divmod(epoch_ms, 1000)
    try:
        return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{millis:03d}Z"
    except (OverflowError, ValueError, OSError):
        return str(epoch_ms)
