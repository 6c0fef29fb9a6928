"""docs/cli.md says what the commands do: its examples are run, its tables compared."""

from __future__ import annotations

import re

import click
import pytest

from cli_examples import BLOCK, PAGE, written
from lakehand.cli.main import commands
from lakehand.locks.open import OPTIONS

HOW = "docs/cli.md is stale: run tests/support/cli_examples.py"


@pytest.fixture
def page():
    return PAGE.read_text(encoding="utf-8")


def test_the_examples_and_exit_codes_are_what_the_commands_answer(page):
    assert len(BLOCK.findall(page)) == 8
    assert written(page) == page, HOW


def test_every_command_has_a_chapter_and_every_option_a_place(page):
    assert isinstance(commands, click.Group)
    for name, command in commands.commands.items():
        assert f"## `lakehand {name}`" in page
        for parameter in command.params:
            longest = max(parameter.opts, key=len)
            if isinstance(parameter, click.Option) and longest != "--help":
                assert f"`{longest}" in page or f"`-o`, `{longest}" in page, longest


def test_every_lock_and_its_options_are_listed(page):
    rows = dict(re.findall(r"^\| `([a-z-]+)` \| (.*) \|$", page, re.MULTILINE))
    for kind, options in OPTIONS.items():
        named = set(re.findall(r"`([a-z_]+)`", rows[kind.value].rpartition("|")[0]))
        if kind.value != "config-map":
            assert named == set(options), kind
    assert "as `kubernetes-lease`" in rows["config-map"]
