"""The production journal's append, over all interleavings with lost and late requests."""

from __future__ import annotations

import pytest

import sim


@pytest.mark.parametrize(
    ("scenario", "guard"),
    [
        ("journal, 1 appending", "the tail is read again after an append"),
        ("journal, 1 appending", "the tail is still the newest after it was read"),
        ("journal, 1 appending", "a slot of unknown outcome is closed by a blank"),
        ("journal, 1 appending", "entries are trimmed oldest first"),
        ("journal, 2 appending", "put-if-absent of an entry"),
    ],
)
def test_without_a_guard_an_appender_believes_what_is_not_so(scenario, guard):
    with sim.without(guard):
        found = sim.explore(sim.named(scenario), seconds=60)
    assert found.failure is not None
    assert found.failure.violation.checker == "appenders know the truth"


def test_an_appender_knows_whether_it_decided():
    found = sim.explore(sim.named("journal, 1 appending"), states=40_000)
    print(found)
    assert found.failure is None


def test_two_appenders_know_whether_they_decided():
    found = sim.explore(sim.named("journal, 2 appending"), states=20_000)
    print(found)
    assert found.failure is None
