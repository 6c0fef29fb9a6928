"""Errors of the command: one line and a remedy, an exit code from one table, and no secrets."""

from __future__ import annotations

import json
import re

import pytest

from cli_runs import run
from lakehand import errors
from lakehand.cli import timeline_report
from lakehand.cli.exit_codes import FAILURES, MEANINGS, ExitCode, failure_of
from lakehand.cli.masking import Mask
from lakehand.errors import (
    Conflict,
    Corrupt,
    Fenced,
    Invalid,
    InvariantBroken,
    LakehandError,
    OutcomeUnknown,
    PlanBusy,
    PlanCancelled,
    Unavailable,
    WrongLockProvider,
)

SECRET = "s3cr3t/Value+1"


@pytest.fixture
def failing(disk_table, monkeypatch):
    """Let the command meet an error."""

    def meet(error):
        def gather(*_arguments, **_options):
            raise error

        monkeypatch.setattr(timeline_report, "gather", gather)
        return disk_table.uri

    return meet


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (Invalid("x"), 2),
        (WrongLockProvider("x"), 2),
        (Conflict("x"), 3),
        (PlanBusy("1", owner="a", epoch=1, age_s=1, retry_after_s=1), 3),
        (Unavailable("x"), 4),
        (OutcomeUnknown("x"), 4),
        (Corrupt("x", where="file"), 5),
        (Fenced("x"), 6),
        (PlanCancelled("x"), 6),
        (InvariantBroken("x"), 1),
        (RuntimeError("x"), 1),
    ],
    ids=lambda one: type(one).__name__,
)
def test_the_kind_of_an_error_is_its_exit_code(failing, error, code):
    ran = run("timeline", failing(error))
    assert ran.code == code
    assert re.fullmatch(r"error: .+\nremedy: .+\n", ran.err)
    assert ran.out == ""


def test_every_kind_of_error_has_a_row_and_every_code_a_meaning():
    kinds = [one for one in vars(errors).values() if isinstance(one, type)]
    for kind in kinds:
        rows = [row for row in FAILURES if issubclass(kind, row.kind)]
        assert rows[0].kind is not LakehandError or kind is LakehandError, kind
    assert set(MEANINGS) == set(ExitCode)


def test_no_row_hides_behind_a_wider_one():
    for number, row in enumerate(FAILURES):
        assert not any(issubclass(row.kind, before.kind) for before in FAILURES[:number]), row


def test_an_error_of_python_is_no_kind_of_ours():
    assert failure_of(KeyError("x")).code is ExitCode.UNEXPECTED


def test_json_errors_are_json(failing):
    ran = run("timeline", failing(Conflict("first\nsecond  line")), "-o", "json")
    assert json.loads(ran.err) == {
        "error": {
            "kind": "Conflict",
            "message": "first second line",
            "remedy": failure_of(Conflict()).remedy,
            "code": 3,
        }
    }


def test_a_traceback_is_shown_only_when_asked_for(failing):
    uri = failing(RuntimeError("boom"))
    assert run("timeline", uri).err.startswith("error: RuntimeError: boom\n")
    assert "Traceback" in run("timeline", uri, "-v").err
    assert "Traceback" in run("timeline", failing(Conflict("x")), "--verbose").err


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["timeline"], "URI"),
        (["timeline", "x", "--limit", "0"], "--limit"),
        (["timeline", "x", "--ouput", "json"], "--ouput"),
        (["timeline", "x", "-o", "xml"], "xml"),
        (["timeline", "x", "--storage-option", "key"], "KEY=VALUE"),
        (["timeline", "x", "--storage-option", "=v"], "KEY=VALUE"),
        (["timeline", "x", "--storage-option", "a=1", "--storage-option", "a=2"], "twice"),
        (["timeline", "x", "--storage-option", "token={"], "JSON"),
        (["cancel", "x"], "INSTANT"),
        (["abort", "x"], "abort"),
    ],
)
def test_a_wrong_command_line_is_a_usage_error_in_one_line(arguments, word):
    ran = run(*arguments)
    assert ran.code == 2
    assert word in ran.err.splitlines()[0]
    assert ran.err.splitlines()[1].startswith("remedy: see lakehand")
    assert len(ran.err.splitlines()) == 2


def test_usage_errors_are_json_too_wherever_the_option_stands():
    ran = run("timeline", "x", "--limit", "none", "--output", "json")
    assert (ran.code, ran.error["kind"]) == (2, "Usage")


def test_without_a_command_the_help_is_shown():
    ran = run()
    assert ran.code == 2
    assert "timeline" in ran.err and "unlock" in ran.err and "cancel" in ran.err


def test_help_and_version_answer():
    assert run("--version").out.startswith("lakehand 0.")
    assert run("unlock", "--help").code == 0


def test_a_place_without_a_table_is_named(tmp_path):
    ran = run("timeline", tmp_path / "nothing", "-o", "json")
    assert (ran.code, ran.error["kind"]) == (2, "NotFound")
    assert "nothing" in ran.error["message"]


@pytest.mark.parametrize(
    "arguments",
    [
        ["timeline", f"s3://AKIAKEY:{SECRET}@bucket/table"],
        ["timeline", "s3://bucket/table", "--storage-option", f"sceret={SECRET}"],
        ["timeline", "s3://bucket/table", f"secret={SECRET}"],
        ["timeline", "s3://bucket/table", "--storage-option", "a=b", f"secret={SECRET}"],
        ["timeline", "s3://bucket/table", "--storage-option", f"a={SECRET}={{"],
        ["unlock", "x", "--lock-option", f"password={SECRET}", "--lock", "etcdd"],
        ["cancel", "x", f"T={SECRET}"],
        ["timeline", "x", f"secret=(a b) {SECRET}"],
        [f"secret={SECRET}"],
    ],
)
@pytest.mark.parametrize("form", ["table", "json"])
def test_no_secret_is_ever_echoed(arguments, form, disk_table):
    arguments = [disk_table.uri if one == "x" else one for one in arguments]
    ran = run(*arguments, "-v", "-o", form)
    assert ran.code == 2
    assert SECRET not in ran.both
    assert "AKIAKEY" not in ran.both


def test_a_secret_in_a_foreign_message_and_its_traceback_is_hidden(failing):
    uri = failing(RuntimeError(f"signature of {SECRET} is wrong"))
    ran = run("timeline", uri, "-v")
    assert SECRET in ran.err  # nobody said that it is one
    with_option = run("cancel", uri, SECRET, "--lock-option", f"password={SECRET}", "-v")
    assert SECRET not in with_option.both


def test_masking_leaves_what_is_no_secret():
    mask = Mask()
    mask.hide("true")
    kept = (
        "true s3://bucket/a@b abfs://box@account.dfs.core.windows.net/t hdfs://node:8020/a@b "
        "file:///a/b 12:30@home"
    )
    assert mask(kept) == kept
    assert mask("https://user:pw@host/x?a=1") == "https://***@host/x?a=1"
    assert mask("abfs://box:key@account/t") == "abfs://***@account/t"
    assert mask("s3://AKIA:ab/c+d@bucket/t") == "s3://***@bucket/t"
    assert mask("etcd at http://root@node:2379, down") == "etcd at http://***@node:2379, down"


def test_a_longer_secret_is_hidden_before_one_that_it_contains():
    mask = Mask()
    mask.hide("abcdef")
    mask.hide("abcdef-123456")
    assert mask("<abcdef-123456> <abcdef>") == "<***> <***>"
