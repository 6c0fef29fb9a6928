"""Instant times are text that sorts as time does; instants move only along the table."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehand.core.instants import (
    FIRST_STATES,
    LEGAL_MOVES,
    Action,
    State,
    completed_action,
    format_instant_time,
    next_instant_time,
    parse_instant_time,
)
from lakehand.errors import Invalid

MILLISECONDS = st.integers(min_value=0, max_value=253_402_300_799_999)


@given(MILLISECONDS)
def test_a_time_survives_being_written_and_read(epoch_ms):
    text = format_instant_time(epoch_ms)
    assert len(text) == 17
    assert parse_instant_time(text) == epoch_ms


@given(MILLISECONDS, MILLISECONDS)
def test_text_sorts_as_time_does(one, other):
    assert (one < other) == (format_instant_time(one) < format_instant_time(other))


@given(MILLISECONDS.filter(lambda value: value < 253_402_300_799_999))
def test_the_next_time_is_one_millisecond_later(epoch_ms):
    text = format_instant_time(epoch_ms)
    assert parse_instant_time(next_instant_time(text)) == epoch_ms + 1


def test_a_legacy_time_counts_as_the_last_millisecond_of_its_second():
    assert parse_instant_time("20240102030405") == parse_instant_time("20240102030405999")


@pytest.mark.parametrize(
    "text", ["", "2024", "20241301000000000", "2024010203040", "2024010203040506x", "٢" * 17]
)
def test_what_is_no_time_is_refused_with_the_form_that_is(text):
    with pytest.raises(Invalid, match="is not an instant time"):
        parse_instant_time(text)


def test_nothing_leaves_an_end_state():
    assert LEGAL_MOVES[State.COMPLETED] == frozenset()
    assert LEGAL_MOVES[State.ABORTED] == frozenset()
    assert set(LEGAL_MOVES) == set(State)


def test_every_pending_action_completes_as_an_action_that_readers_know():
    assert {completed_action(action) for action in Action}.isdisjoint(
        {Action.COMPACTION, Action.LOG_COMPACTION, Action.CLUSTERING}
    )


def test_only_a_savepoint_begins_without_a_plan():
    inflight_first = [action for action, state in FIRST_STATES.items() if state is State.INFLIGHT]
    assert inflight_first == [Action.SAVEPOINT]
