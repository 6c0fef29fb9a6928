"""Files of the journal: what was written is read back, and nothing is decided on anything else."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from journal_entries import (
    ANY_BODY,
    TABLE,
    TIMES,
    checkpoint_of,
    claim,
    entries_of,
    entry_on,
    plan,
    prepare,
)
from lakehand.core.journal import Fold, Run, fold_entries
from lakehand.core.journal_entries import Entry, Link, LockUse, RunKey
from lakehand.errors import Corrupt, Invalid, LakehandError, Unsupported
from lakehand.formats import journal_document
from lakehand.formats.journal_document import JournalDocument

WHERE = "memory://table/.hoodie/.lakehand/journal/000000000003"
ENTRIES = entries_of(plan(TIMES[0]), claim(TIMES[0], 1), prepare(TIMES[0], 1))
CONTENT = journal_document.encode(JournalDocument(ENTRIES[-1], tuple(ENTRIES[:-1])), table=TABLE)


def decode(content: bytes, *, seq: int = 3, table: str = TABLE) -> JournalDocument:
    return journal_document.decode(content, seq=seq, table=table, where=WHERE)


@given(ANY_BODY, st.integers(0, 2**40), st.text(max_size=10))
@settings(max_examples=80, deadline=None)
def test_every_body_comes_back_as_it_was_written(body, number, text):
    entry = Entry(
        seq=number + 1,
        id=text,
        writer=text,
        lock=LockUse(text, text),
        decided_on=Link(number, text),
        checkpoint=number,
        published=number,
        at_ms=number,
        body=body,
    )
    content = journal_document.encode(JournalDocument(entry, ()), table=text)
    found = journal_document.decode(content, seq=number + 1, table=text, where=WHERE)
    assert found == JournalDocument(entry, ())


def test_a_checkpoint_comes_back_with_its_whole_fold():
    fold = fold_entries(ENTRIES, Fold(table=TABLE))
    fold = Fold(
        **{name: getattr(fold, name) for name in fold.__dataclass_fields__}
        | {"runs": (Run(RunKey("app", "1"), TIMES[0]),)}
    )
    entry = entry_on(fold, checkpoint_of(fold))
    content = journal_document.encode(JournalDocument(entry, ()), table=TABLE)
    found = journal_document.decode(content, seq=4, table=TABLE, where=WHERE)
    assert found.entry == entry
    assert found.entry.body.fold == fold
    assert found.entry.body.fold.unpublished == tuple(ENTRIES[:2]) + tuple(ENTRIES[2:])


def test_the_entries_since_the_checkpoint_come_along():
    assert decode(CONTENT) == JournalDocument(ENTRIES[-1], tuple(ENTRIES[:-1]))


@pytest.mark.parametrize("keep", range(0, len(CONTENT), 37))
def test_a_torn_file_is_corrupt_and_named_with_a_way_out(keep):
    with pytest.raises(Corrupt) as broken:
        decode(CONTENT[:keep])
    assert WHERE in str(broken.value)
    assert "lakehand timeline --journal" in str(broken.value)


def test_a_flipped_bit_is_a_typed_error_or_says_what_a_valid_file_says():
    """JSON has no checksum: a bit inside of a text goes through, one in the structure does not."""
    refused = []
    for at in range(0, len(CONTENT), 2):
        for bit in (0, 6, 7):
            broken = bytearray(CONTENT)
            broken[at] ^= 1 << bit
            try:
                assert decode(bytes(broken)).entry.seq == 3
            except LakehandError as error:
                refused.append(str(error))
    assert len(refused) > len(CONTENT) // 2
    assert all(WHERE in one for one in refused)


def changed(**fields: object) -> bytes:
    return json.dumps({**json.loads(CONTENT), **fields}).encode()


def entry_changed(**fields: object) -> bytes:
    record = json.loads(CONTENT)
    return changed(entry={**record["entry"], **fields})


def test_a_newer_format_is_refused_by_its_number_with_a_way_out():
    with pytest.raises(Unsupported, match="format 2") as refused:
        decode(changed(format=2))
    assert WHERE in str(refused.value)
    assert "use the version that wrote it" in str(refused.value)


def test_a_kind_of_entry_that_is_not_known_is_refused_by_its_name():
    with pytest.raises(Unsupported, match="'teleport'") as refused:
        decode(entry_changed(kind="teleport"))
    assert WHERE in str(refused.value)


def test_another_tables_entry_is_refused_with_both_names_and_a_way_out():
    with pytest.raises(Invalid, match=r"db\.trips.*other\.trips") as refused:
        decode(CONTENT, table="other.trips")
    assert WHERE in str(refused.value)
    assert ".hoodie/.lakehand" in str(refused.value)


def test_an_entry_under_another_number_is_corrupt():
    with pytest.raises(Corrupt, match="says that it is entry 3"):
        decode(CONTENT, seq=4)


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"null", id="null"),
        pytest.param(b"[1]", id="a list"),
        pytest.param(b"[" * 100_000, id="deep"),
        pytest.param(b"\xff\xfe\x00", id="not text"),
        pytest.param(b"Obj\x01avro", id="an Avro file"),
        pytest.param(changed(format="1"), id="format is text"),
        pytest.param(changed(format=True), id="format is a truth value"),
        pytest.param(changed(entry=None), id="no entry"),
        pytest.param(changed(since=None), id="no list"),
        pytest.param(changed(since=[{}]), id="an empty entry before it"),
        pytest.param(changed(since=[]), id="entries left out"),
        pytest.param(changed(since=json.loads(CONTENT)["since"][::-1]), id="order"),
        pytest.param(entry_changed(seq="3"), id="a number as text"),
        pytest.param(entry_changed(seq=1 << 70), id="beyond a long"),
        pytest.param(entry_changed(body={}), id="an empty body"),
        pytest.param(entry_changed(decidedOn={"seq": 2, "id": "other"}), id="other predecessor"),
        pytest.param(
            entry_changed(
                kind="claim",
                body={**json.loads(CONTENT)["since"][1]["body"], "groups": [["p"]]},
            ),
            id="half a file group",
        ),
        pytest.param(
            entry_changed(
                kind="claim",
                body={**json.loads(CONTENT)["since"][1]["body"], "purpose": "destroy"},
            ),
            id="an unknown purpose",
        ),
    ],
)
def test_what_breaks_the_rules_is_corrupt_and_named(content):
    with pytest.raises(Corrupt) as broken:
        decode(content)
    assert WHERE in str(broken.value)


def test_a_checkpoint_with_a_broken_fold_is_corrupt():
    fold = fold_entries(ENTRIES, Fold(table=TABLE))
    entry = entry_on(fold, checkpoint_of(fold))
    record = json.loads(journal_document.encode(JournalDocument(entry, ()), table=TABLE))
    for broken in ({"fold": {}}, {"unpublished": {}}, {"covered": None}, {"first": "1"}):
        body = {**record["entry"]["body"], **broken}
        content = json.dumps({**record, "entry": {**record["entry"], "body": body}}).encode()
        with pytest.raises(Corrupt):
            decode(content, seq=4)
