"""Broken neighbours of the kernel's own documents: a typed error or a value, never a crash."""

from __future__ import annotations

import pytest

from fuzz_targets_journal import TABLE
from fuzzing import assert_survives
from journal_entries import (
    ROLLBACKS,
    TIMES,
    abort,
    checkpoint_of,
    claim,
    commit,
    entries_of,
    entry_on,
    plan,
    prepare,
    rolled_back,
    staged,
)
from lakehand.core.instants import Action
from lakehand.core.journal import fold_entries
from lakehand.core.journal_entries import (
    Purpose,
    RollbackEnd,
    RollbackTarget,
    RunKey,
)
from lakehand.formats import heartbeat_document, journal_document, manifest_document
from lakehand.formats.heartbeat_document import BeatContent
from lakehand.formats.journal_document import JournalDocument
from lakehand.formats.manifest_document import Manifest
from lakehand.ports import Staged

HISTORY = entries_of(
    plan(TIMES[0], cancellable=True, run=RunKey("app", "1"), groups=(("p", "f"),)),
    plan(TIMES[1]),
    claim(TIMES[1], 1, inflight=staged("i"), groups=(("p", "f"),)),
    plan(ROLLBACKS[0], Action.ROLLBACK, target=RollbackTarget(TIMES[1], 1, keeps_plan=True)),
    claim(TIMES[1], 2, Purpose.ROLL_BACK),
    rolled_back(TIMES[1], 2, RollbackEnd.PLAN_KEPT, ROLLBACKS[0]),
    claim(TIMES[1], 3),
    prepare(TIMES[1], 3),
    commit(TIMES[1], 3, cancels=(TIMES[0],)),
    claim(TIMES[0], 1, Purpose.ABORT),
    abort(TIMES[0], 1),
)
CHECKPOINT = entry_on(fold_entries(HISTORY[:10]), checkpoint_of(fold_entries(HISTORY[:10])))
CORPUS = {
    "journal": [
        journal_document.encode(JournalDocument(HISTORY[-1], tuple(HISTORY[:-1])), table=TABLE),
        journal_document.encode(JournalDocument(CHECKPOINT, ()), table=TABLE),
        journal_document.encode(JournalDocument(HISTORY[0], ()), table=TABLE),
    ],
    "heartbeat": [heartbeat_document.encode(BeatContent("worker-1", 3, 17)), b""],
    "manifest": [
        manifest_document.encode(Manifest(TIMES[0], 2, (staged("p/f.parquet"), staged("g")))),
        manifest_document.encode(Manifest(TIMES[0], 1, ())),
    ],
    "marker": [Staged("p/f.parquet", "place", ("1", "2")).to_json().encode()],
}


@pytest.mark.parametrize("target", sorted(CORPUS))
def test_broken_documents_of_the_kernel_give_typed_errors(target, tmp_path):
    assert_survives(f"fuzz_targets_journal:{target}", CORPUS[target], tmp_path)
