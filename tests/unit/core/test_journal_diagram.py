"""The state diagram in the docs is the one that the code has."""

from __future__ import annotations

import journal_diagram


def test_the_documented_states_and_moves_are_those_of_the_code():
    text = journal_diagram.PATH.read_text()

    assert journal_diagram.replaced(text) == text, "run: make docs"
