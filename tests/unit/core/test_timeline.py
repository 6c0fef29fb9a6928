"""A timeline folds the files of its folder, and answers as a slow look at every entry would."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehand.core.instants import (
    FIRST_STATES,
    LEGAL_MOVES,
    WRITE_ACTIONS,
    Action,
    Instant,
    State,
    completed_action,
)
from lakehand.core.timeline import Timeline, check_move
from lakehand.errors import InvariantBroken


def at(number: int) -> str:
    return f"20240101{number:09d}"


def files(number: int, action: Action, state: State, *, end: int | None = None) -> list[Instant]:
    """The timeline files of one instant that has come as far as ``state``."""
    entries = [Instant(at(number), action, State.REQUESTED)]
    if state in {State.INFLIGHT, State.COMPLETED}:
        entries.append(Instant(at(number), action, State.INFLIGHT))
    if state is State.COMPLETED:
        moment = None if end is None else at(end)
        entries.append(Instant(at(number), completed_action(action), state, moment))
    if state is State.ABORTED:
        entries.append(Instant(at(number), action, state))
    return entries


HISTORIES = st.dictionaries(
    st.integers(1, 15),
    st.tuples(
        st.sampled_from([action for action in Action if action is not Action.SAVEPOINT]),
        st.sampled_from(State),
        st.none() | st.integers(1, 40),
    ),
)


@given(HISTORIES, st.randoms())
def test_the_files_of_an_instant_fold_into_its_furthest_state(history, random):
    entries = [
        entry
        for number, (action, state, end) in history.items()
        for entry in files(number, action, state, end=end)
    ]
    random.shuffle(entries)
    timeline = Timeline.of(entries)
    assert [one.time for one in timeline.instants] == [at(number) for number in sorted(history)]
    for instant in timeline.instants:
        action, state, _ = history[int(instant.time[8:])]
        is_done = state is State.COMPLETED
        assert instant.state is state
        assert instant.action is (completed_action(action) if is_done else action)
    assert set(timeline.completed) | set(timeline.pending) | set(timeline.aborted) == set(
        timeline.instants
    )


@given(HISTORIES, st.integers(0, 16), st.none() | st.integers(0, 16))
def test_committed_is_what_completed_or_is_older_than_every_active_write(history, number, limit):
    timeline = Timeline.of(
        entry
        for key, (action, state, end) in history.items()
        for entry in files(key, action, state, end=end)
    )
    writes = {
        key: state
        for key, (action, state, _) in history.items()
        if completed_action(action) in WRITE_ACTIONS
    }
    aborted = {key for key, (_, state, _) in history.items() if state is State.ABORTED}
    if number in writes:
        expected = writes[number] is State.COMPLETED
    elif State.COMPLETED in writes.values():
        expected = number < min(writes.keys() - aborted) and number not in aborted
    else:
        expected = False
    if limit is not None:
        timeline = timeline.as_of(at(limit))
        expected = expected and number <= limit
    assert timeline.is_committed(at(number)) == expected


def committed_among(timeline: Timeline, last: int) -> list[int]:
    return [number for number in range(1, last + 1) if timeline.is_committed(at(number))]


def test_a_pending_write_holds_the_start_of_the_timeline_and_an_aborted_one_does_not():
    timeline = Timeline.of(
        [
            *files(2, Action.DELTA_COMMIT, State.ABORTED),
            *files(4, Action.COMPACTION, State.REQUESTED),
            *files(6, Action.COMMIT, State.COMPLETED),
        ]
    )
    assert timeline.start == at(4)
    assert committed_among(timeline, 7) == [1, 3, 6]


def test_time_travel_to_before_the_active_timeline_sees_what_was_archived_by_then():
    timeline = Timeline.of(files(6, Action.COMMIT, State.COMPLETED))
    assert committed_among(timeline.as_of(at(3)), 7) == [1, 2, 3]
    assert committed_among(timeline.as_of(at(6)), 7) == [1, 2, 3, 4, 5, 6]


def test_a_savepointed_write_left_behind_by_archival_does_not_hold_the_start_back():
    timeline = Timeline.of(
        [
            *files(2, Action.COMMIT, State.COMPLETED),
            Instant(at(2), Action.SAVEPOINT, State.COMPLETED),
            *files(8, Action.COMMIT, State.COMPLETED),
        ]
    )
    assert timeline.start == at(8)
    assert timeline.is_committed(at(5))  # archived, between the two
    assert timeline.find(at(2)).action is Action.COMMIT
    assert timeline.find(at(2), Action.SAVEPOINT).action is Action.SAVEPOINT


def test_nothing_is_committed_before_the_first_write_completes():
    timeline = Timeline.of(files(5, Action.COMMIT, State.INFLIGHT))
    assert not timeline.is_committed(at(1))
    assert timeline.start is None


def test_of_two_completions_of_one_instant_the_first_stands():
    entries = [
        Instant(at(1), Action.COMMIT, State.COMPLETED, at(9)),
        Instant(at(1), Action.COMMIT, State.COMPLETED, at(4)),
        Instant(at(1), Action.COMMIT, State.COMPLETED),
    ]
    assert Timeline.of(entries).completion_time(at(1)) == at(4)
    assert Timeline.of(reversed(entries)).completion_time(at(1)) == at(4)


def test_an_instant_without_a_known_completion_completed_at_its_request():
    timeline = Timeline.of(
        files(5, Action.COMMIT, State.COMPLETED), archived_completions={at(2): at(3)}
    )
    assert timeline.completion_time(at(5)) == at(5)
    assert timeline.completion_time(at(2)) == at(3)
    assert timeline.completion_time(at(1)) == at(1)
    assert timeline.completion_time(at(6)) is None


def test_history_is_contiguous_up_to_the_first_pending_write():
    timeline = Timeline.of(
        [
            *files(1, Action.COMMIT, State.COMPLETED),
            *files(2, Action.CLEAN, State.INFLIGHT),
            *files(3, Action.DELTA_COMMIT, State.COMPLETED),
            *files(4, Action.CLUSTERING, State.REQUESTED),
            *files(5, Action.COMMIT, State.COMPLETED, end=7),
        ]
    )
    assert [one.time for one in timeline.contiguous_completed_writes] == [at(1), at(3)]
    assert timeline.first_pending_write.time == at(4)
    assert timeline.last_completed_write.time == at(5)
    assert [one.time for one in timeline.pending_replaces] == [at(4)]
    assert timeline.latest_time == at(7)


def test_the_pending_services_are_told_apart_from_their_completed_form():
    timeline = Timeline.of(
        [
            *files(1, Action.COMPACTION, State.COMPLETED),
            *files(2, Action.COMPACTION, State.INFLIGHT),
            *files(3, Action.LOG_COMPACTION, State.REQUESTED),
            *files(4, Action.LOG_COMPACTION, State.COMPLETED),
            *files(5, Action.CLUSTERING, State.COMPLETED),
        ]
    )
    assert timeline.pending_compaction_times == {at(2)}
    assert [one.time for one in timeline.pending_log_compactions] == [at(3)]
    assert [one.time for one in timeline.completed_replaces] == [at(5)]
    assert timeline.find(at(2), Action.COMMIT).action is Action.COMPACTION


@given(HISTORIES, st.integers(0, 16), st.integers(0, 16))
def test_the_past_of_the_past_is_the_earlier_past(history, one, other):
    timeline = Timeline.of(
        entry
        for key, (action, state, end) in history.items()
        for entry in files(key, action, state, end=end)
    )
    twice = timeline.as_of(at(one)).as_of(at(other))
    once = timeline.as_of(at(min(one, other)))
    assert (twice, twice.start) == (once, once.start)


@given(st.sampled_from(Action), st.none() | st.sampled_from(State), st.sampled_from(State))
def test_an_instant_moves_as_the_table_of_moves_says(action, before, after):
    held = None if before is None else Instant(at(1), action, before)
    reached = completed_action(action) if after is State.COMPLETED else action
    timeline = Timeline() if held is None else Timeline((held,))
    is_legal = after is FIRST_STATES[action] if held is None else after in LEGAL_MOVES[before]
    if before is State.COMPLETED or not is_legal:
        with pytest.raises(InvariantBroken):
            timeline.advance(Instant(at(1), reached, after))
    else:
        moved = timeline.advance(Instant(at(1), reached, after))
        assert moved.instants == (Instant(at(1), reached, after),)


def test_an_instant_cannot_become_another():
    with pytest.raises(InvariantBroken, match="not one instant"):
        check_move(
            Instant(at(1), Action.COMPACTION, State.INFLIGHT),
            Instant(at(1), Action.DELTA_COMMIT, State.COMPLETED),
        )
