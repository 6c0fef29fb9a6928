"""What the fuzzer calls for the kernel's own documents: bytes in, and what parses goes round."""

from __future__ import annotations

import json

from lakehand.core.journal import Fold, fold_entries
from lakehand.errors import Corrupt, InvariantBroken
from lakehand.formats import heartbeat_document, journal_document, manifest_document
from lakehand.ports import Staged

TABLE = "db.trips"


def journal(content: bytes) -> None:
    """A file of the journal; what it says is folded too, as a worker would."""
    try:
        seq = json.loads(content)["entry"]["seq"]
    except (ValueError, TypeError, KeyError, RecursionError):
        seq = 3
    found = journal_document.decode(content, seq=seq, table=TABLE, where="fuzz")
    again = journal_document.encode(found, table=TABLE)
    assert journal_document.decode(again, seq=seq, table=TABLE, where="fuzz") == found
    try:
        fold_entries((*found.since, found.entry), Fold(table=TABLE))
    except InvariantBroken:
        return


def heartbeat(content: bytes) -> None:
    """A heartbeat file."""
    found = heartbeat_document.decode(content, where="fuzz")
    if content:
        again = heartbeat_document.encode(found)
        assert heartbeat_document.decode(again, where="fuzz") == found


def manifest(content: bytes) -> None:
    """A manifest."""
    found = manifest_document.decode(content, where="fuzz")
    assert manifest_document.decode(manifest_document.encode(found), where="fuzz") == found


def marker(content: bytes) -> None:
    """What a begin marker holds."""
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        raise Corrupt("not text", where="fuzz") from error
    found = Staged.from_json(text, where="fuzz")
    assert Staged.from_json(found.to_json(), where="fuzz") == found
