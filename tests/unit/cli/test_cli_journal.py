"""`lakehand timeline --journal`: the entries as they lie there, torn ones too."""

from __future__ import annotations

import json

import pytest

from cli_runs import run
from kernel_tables import ingest


@pytest.fixture
def journal(disk_table):
    ingest(disk_table.worker(), "f1")
    disk_table.plan()
    return disk_table.folder / ".hoodie/.lakehand/journal"


def _entries(table, *options):
    ran = run("timeline", table.uri, "--journal", "-o", "json", *options)
    return ran.code, ran.record["entries"]


def test_every_entry_is_shown_in_order_as_its_file_says(disk_table, journal):
    code, entries = _entries(disk_table)
    assert code == 0
    assert [one["kind"] for one in entries] == ["plan", "claim", "prepare", "commit", "plan"]
    assert [one["seq"] for one in entries] == [1, 2, 3, 4, 5]
    assert [one["decided_on"] for one in entries] == [0, 1, 2, 3, 4]
    assert [one["lock"] for one in entries] == ["storage", "storage", None, "storage", "storage"]
    for one in entries:
        assert one["body"] == json.loads((journal / one["file"]).read_bytes())["entry"]["body"]


def test_limit_keeps_the_newest_entries(disk_table, journal):
    assert [one["seq"] for one in _entries(disk_table, "--limit", "2")[1]] == [4, 5]


@pytest.mark.parametrize("torn", [b"", b"{", b"[1]", b'{"format": 1, "table": ".trips"}', b"\xff"])
def test_a_torn_entry_is_named_and_found_again_in_a_later_one(disk_table, journal, torn):
    (journal / "000000000003").write_bytes(torn)
    code, entries = _entries(disk_table)
    assert code == 5
    assert [one["seq"] for one in entries if one["problem"] is None] == [1, 2, 4, 5]
    assert "000000000003" in entries[2]["problem"]
    assert entries[2]["repeated_in"] == "000000000005"


def test_people_see_which_entry_is_torn(disk_table, journal):
    (journal / "000000000003").write_bytes(b"{")
    ran = run("timeline", disk_table.uri, "--journal")
    line = next(line for line in ran.out.splitlines() if line.startswith("000000000003"))
    assert line.split() == [
        "000000000003", "-", "torn", "-", "-", "-",
        "cannot", "be", "read;", "000000000005", "repeats", "it",
    ]  # fmt: skip
    assert ran.err.startswith("note: ") and "000000000003" in ran.err


def test_entries_of_a_newer_lakehand_or_another_table_are_told_apart(disk_table, journal):
    newer = json.loads((journal / "000000000002").read_bytes()) | {"format": 9}
    (journal / "000000000002").write_text(json.dumps(newer))
    other = json.loads((journal / "000000000003").read_bytes()) | {"table": "db.other"}
    (journal / "000000000003").write_text(json.dumps(other))
    code, entries = _entries(disk_table)
    assert code == 5
    assert "format 9" in entries[1]["problem"]
    assert "db.other" in entries[2]["problem"]


def test_a_stray_file_in_the_journal_is_shown(disk_table, journal):
    (journal / "notes.txt").write_bytes(b"")
    code, entries = _entries(disk_table)
    assert code == 5
    assert entries[-1]["problem"] == "not the name of a journal entry"


def test_journal_and_pending_exclude_each_other(disk_table):
    ran = run("timeline", disk_table.uri, "--journal", "--pending")
    assert ran.code == 2
    assert ran.err.startswith("error: --journal and --pending do not go together\n")
