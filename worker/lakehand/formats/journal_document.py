"""Journal entries as JSON documents, judged strictly: nothing is decided on what is not understood.

::

    {"format": 1, "table": "<database>.<name>", "entry": {..., "kind": "claim", "body": {...}},
     "since": [ the entries after the newest checkpoint, in order ]}

An entry repeats those since the checkpoint, so that a journal is opened by three reads, whatever
its length: a listing, the tail, and the checkpoint. The format's number is raised by any change
that an older Lakehand would misread; a higher number is refused by name.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from lakehand.core import journal, journal_entries
from lakehand.core.journal import Fold
from lakehand.core.journal_entries import Body, Checkpoint, Entry
from lakehand.errors import Corrupt, Invalid, Unsupported
from lakehand.formats.document_values import RecordMapping

FORMAT = 1

_KINDS: dict[str, type[Any]] = {
    "plan": journal_entries.Plan,
    "claim": journal_entries.Claim,
    "prepare": journal_entries.Prepare,
    "commit": journal_entries.Commit,
    "cancel": journal_entries.Cancel,
    "abort": journal_entries.Abort,
    "rolled-back": journal_entries.RolledBack,
    "void": journal_entries.Void,
    "blank": journal_entries.Blank,
}
_CHECKPOINT = "checkpoint"
_MENDING = "look at it with `lakehand timeline --journal`, and restore the file from a backup"


@dataclass(frozen=True, slots=True)
class JournalDocument:
    """One file of the journal: an entry, and those between the newest checkpoint and it."""

    entry: Entry
    since: tuple[Entry, ...]


@dataclass(frozen=True, slots=True)
class _Header:
    """An entry without its body."""

    seq: int
    id: str
    writer: str
    lock: journal_entries.LockUse
    decided_on: journal_entries.Link
    checkpoint: int
    published: int
    at_ms: int


@dataclass(frozen=True, slots=True)
class _FoldDocument:
    """A fold without the entries that are not published yet."""

    tail: journal_entries.Link
    table: str
    checkpoint: int
    published: int
    provider: str | None
    last_time: str
    instants: tuple[journal.InstantRecord, ...]
    runs: tuple[journal.Run, ...]


@dataclass(frozen=True, slots=True)
class _Covered:
    first: int
    covered: tuple[str, ...]


_HEADERS = RecordMapping(_Header)
_FOLDS = RecordMapping(_FoldDocument)
_COVERED = RecordMapping(_Covered)
_BODIES = {kind: RecordMapping(body) for kind, body in _KINDS.items()}
_NAMES = {body: kind for kind, body in _KINDS.items()}


def kind_of(body: Body) -> str:
    """Return the word that entries with such a body bear."""
    return _CHECKPOINT if isinstance(body, Checkpoint) else _NAMES[type(body)]


def encode(document: JournalDocument, *, table: str) -> bytes:
    """Return the file of an entry of ``table``'s journal."""
    return _dump(
        {
            "format": FORMAT,
            "table": table,
            "entry": _entry_record(document.entry),
            "since": [_entry_record(one) for one in document.since],
        }
    )


def decode(content: bytes, *, seq: int, table: str, where: str) -> JournalDocument:
    """Read the file ``where`` that should hold entry ``seq`` of ``table``'s journal."""
    try:
        record = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise Corrupt(f"not a journal entry ({error}); {_MENDING}", where=where) from error
    if not isinstance(record, dict) or type(record.get("format")) is not int:
        raise Corrupt(f"not a journal entry: it names no format; {_MENDING}", where=where)
    if record["format"] != FORMAT:
        raise Unsupported(
            f"{where}: journal format {record['format']}, this Lakehand knows {FORMAT}; "
            "use the version that wrote it"
        )
    if record.get("table") != table:
        raise Invalid(
            f"{where} belongs to the table {str(record.get('table'))[:120]!r}, not to {table!r}: "
            "was the table copied or renamed? Move .hoodie/.lakehand away if no worker uses it"
        )
    entry = _entry(record.get("entry"), where)
    since = tuple(_entry(one, where) for one in _list(record.get("since"), where))
    if entry.seq != seq:
        raise Corrupt(f"it says that it is entry {entry.seq}; {_MENDING}", where=where)
    _require_chain((*since, entry), where)
    return JournalDocument(entry, since)


def _require_chain(entries: tuple[Entry, ...], where: str) -> None:
    first = entries[0]
    if not isinstance(first.body, Checkpoint) and first.seq != first.checkpoint + 1:
        raise Corrupt(f"it leaves entries out before {first.seq}; {_MENDING}", where=where)
    for before, after in pairwise(entries):
        if after.decided_on != before.link:
            raise Corrupt(f"entry {after.seq} does not follow its predecessor", where=where)


def _entry_record(entry: Entry) -> dict[str, Any]:
    header = _Header(
        seq=entry.seq,
        id=entry.id,
        writer=entry.writer,
        lock=entry.lock,
        decided_on=entry.decided_on,
        checkpoint=entry.checkpoint,
        published=entry.published,
        at_ms=entry.at_ms,
    )
    kind = kind_of(entry.body)
    if isinstance(entry.body, Checkpoint):
        body = _checkpoint_record(entry.body)
    else:
        body = _BODIES[kind].write(entry.body)
    return {**_HEADERS.write(header), "kind": kind, "body": body}


def _entry(record: object, where: str) -> Entry:
    header = _HEADERS.read(record, where=where)
    kind, body = (record.get("kind"), record.get("body")) if isinstance(record, dict) else (0, 0)
    if not isinstance(kind, str) or (kind != _CHECKPOINT and kind not in _BODIES):
        raise Unsupported(f"{where}: a journal entry of kind {str(kind)[:40]!r} is not known here")
    return Entry(
        seq=header.seq,
        id=header.id,
        writer=header.writer,
        lock=header.lock,
        decided_on=header.decided_on,
        checkpoint=header.checkpoint,
        published=header.published,
        at_ms=header.at_ms,
        body=_checkpoint(body, where)
        if kind == _CHECKPOINT
        else _require_groups(_BODIES[kind].read(body, where=where), where),
    )


def _require_groups(body: Any, where: str) -> Any:  # noqa: ANN401 - any kind of body
    for group in getattr(body, "groups", None) or ():
        if len(group) != 2:
            raise Corrupt(f"{group!r} is not a partition and a file id", where=where)
    return body


def _checkpoint_record(body: Checkpoint) -> dict[str, Any]:
    fold = body.fold
    document = _FoldDocument(
        tail=fold.tail,
        table=fold.table,
        checkpoint=fold.checkpoint,
        published=fold.published,
        provider=fold.provider,
        last_time=fold.last_time,
        instants=tuple(fold.instants[time] for time in sorted(fold.instants)),
        runs=fold.runs,
    )
    return {
        **_COVERED.write(_Covered(body.first, body.covered)),
        "fold": _FOLDS.write(document),
        "unpublished": [_entry_record(one) for one in fold.unpublished],
    }


def _checkpoint(record: object, where: str) -> Checkpoint:
    covered = _COVERED.read(record, where=where)
    inner: dict[str, Any] = record if isinstance(record, dict) else {}
    document = _FOLDS.read(inner.get("fold"), where=where)
    fold = Fold(
        tail=document.tail,
        table=document.table,
        checkpoint=document.checkpoint,
        published=document.published,
        provider=document.provider,
        last_time=document.last_time,
        instants={one.time: one for one in document.instants},
        unpublished=tuple(_entry(one, where) for one in _list(inner.get("unpublished"), where)),
        runs=document.runs,
    )
    return Checkpoint(fold, covered.first, covered.covered)


def _list(value: object, where: str) -> list[Any]:
    if not isinstance(value, list):
        raise Corrupt(f"{str(value)[:60]!r} is not a list", where=where)
    return value


def _dump(record: dict[str, Any]) -> bytes:
    return json.dumps(record, separators=(",", ":"), ensure_ascii=False).encode()
