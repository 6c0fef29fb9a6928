"""The installed command as a process: exit codes, signals, pipes."""

from __future__ import annotations

import json
import os
import signal

import pytest

from cli_runs import PROGRAM, finish, run_program, started
from kernel_tables import ingest
from lakehand.core.journal_moves import Standing
from lakehand.locks.leases import LeaseTerms
from lakehand.locks.storage import storage_lock

LONG = LeaseTerms(lease_s=600.0, renew_every_s=100.0)


def test_the_command_is_installed():
    assert PROGRAM.exists()


def test_results_go_to_stdout_and_errors_to_stderr(disk_table):
    time = disk_table.plan()
    shown = run_program("timeline", disk_table.uri, "-o", "json")
    assert (shown.code, shown.err) == (0, "")
    assert [one["time"] for one in shown.record["instants"]] == [time]
    missing = run_program("timeline", disk_table.folder / "no", "-o", "json")
    assert (missing.code, missing.out, missing.error["kind"]) == (2, "", "NotFound")


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)], ids=["INT", "TERM"]
)
def test_a_signal_while_it_waits_for_the_lock_changes_nothing(disk_table, number, code):
    time = disk_table.plan()
    held = storage_lock(disk_table.kernel.store, terms=LONG).acquire("spark-7", timeout_s=1)
    with started("cancel", disk_table.uri, time, "--no-foreign-writers", "-v") as process:
        first = process.stderr.readline()
        process.send_signal(number)
        ran = finish(process)
    assert "taking the storage lock" in first
    assert (ran.code, ran.out) == (code, "")
    assert ran.err == "error: interrupted\nremedy: run it again to go on\n"
    assert storage_lock(disk_table.kernel.store).holder().owner == "spark-7"
    held.release()
    journal = disk_table.worker("looker").journal
    assert journal.refresh().standing(time) is Standing.REQUESTED


def test_a_signal_while_it_watches_a_holder_changes_nothing(disk_table):
    held = storage_lock(disk_table.kernel.store, terms=LONG).acquire("spark-7", timeout_s=1)
    with started("unlock", disk_table.uri, "--yes", "-o", "json") as process:
        said = [json.loads(process.stderr.readline())["note"] for _ in range(2)]
        process.send_signal(signal.SIGINT)
        ran = finish(process)
    assert "held by spark-7" in said[0] and "watching" in said[1]
    assert (ran.code, ran.out, ran.error["kind"]) == (130, "", "Interrupted")
    assert held.left_s() > 0
    held.release()


@pytest.mark.parametrize("form", ["table", "json"])
def test_a_reader_that_goes_away_is_no_error_to_talk_about(disk_table, form):
    for number in range(3):
        ingest(disk_table.worker(), f"f{number}")
    reader, writer = os.pipe()
    os.close(reader)
    ran = run_program("timeline", disk_table.uri, "--journal", "-o", form, stdout=writer)
    os.close(writer)
    assert (ran.code, ran.err) == (141, "")


def test_a_terminal_without_utf_8_is_no_reason_to_fail(disk_table, monkeypatch):
    monkeypatch.setenv("PYTHONIOENCODING", "latin-1")
    ingest(disk_table.worker("wŏrker-7"), "f1")
    ran = run_program("timeline", disk_table.uri, "--journal")
    assert (ran.code, ran.err) == (0, "")
    assert "w?rker-7" in ran.out


def test_a_fault_of_our_own_is_one_line(disk_table, tmp_path):
    fault = "import lakehand.cli.timeline_report as r\nr.gather = lambda *a, **k: 1 / 0\n"
    (tmp_path / "sitecustomize.py").write_text(fault)
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    ran = run_program("timeline", disk_table.uri, env=environment)
    assert ran.code == 1
    assert ran.err.startswith("error: ZeroDivisionError: division by zero\nremedy: ")
    assert "Traceback" not in ran.err
