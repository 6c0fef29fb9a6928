import time
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehand.core.instants import Action, Instant, State
from lakehand.errors import Invalid
from lakehand.formats import instant_names

T, C = "20251118140000123", "20251118140002456"
LAYOUTS = st.sampled_from([1, 2])
TIMES = st.from_regex(r"[0-9]{14}([0-9]{3})?", fullmatch=True)


@pytest.mark.parametrize(
    ("name", "layout", "expected"),
    [
        (f"{T}.commit.requested", 1, Instant(T, Action.COMMIT, State.REQUESTED)),
        (f"{T}.inflight", 1, Instant(T, Action.COMMIT, State.INFLIGHT)),
        (f"{T}.inflight", 2, Instant(T, Action.COMMIT, State.INFLIGHT)),
        (f"{T}.commit", 1, Instant(T, Action.COMMIT, State.COMPLETED)),
        (f"{T}_{C}.commit", 2, Instant(T, Action.COMMIT, State.COMPLETED, C)),
        (f"{T}.commit", 2, Instant(T, Action.COMMIT, State.COMPLETED)),
        (f"{T}.deltacommit.inflight", 1, Instant(T, Action.DELTA_COMMIT, State.INFLIGHT)),
        (f"{T}.compaction.requested", 1, Instant(T, Action.COMPACTION, State.REQUESTED)),
        (f"{T}.logcompaction.inflight", 2, Instant(T, Action.LOG_COMPACTION, State.INFLIGHT)),
        (f"{T}.replacecommit.requested", 1, Instant(T, Action.REPLACE_COMMIT, State.REQUESTED)),
        (f"{T}.clustering.requested", 2, Instant(T, Action.CLUSTERING, State.REQUESTED)),
        (f"{T}.clustering.aborted", 2, Instant(T, Action.CLUSTERING, State.ABORTED)),
        (f"{T}.compaction.aborted", 1, Instant(T, Action.COMPACTION, State.ABORTED)),
        (f"{T}.savepoint.inflight", 1, Instant(T, Action.SAVEPOINT, State.INFLIGHT)),
        (f"{T}_{C}.schemacommit", 2, Instant(T, Action.SCHEMA_COMMIT, State.COMPLETED, C)),
        ("00000000000000010.deltacommit", 1, Instant("00000000000000010", Action.DELTA_COMMIT,
                                                     State.COMPLETED)),
    ],
)  # fmt: skip
def test_names_of_both_layouts_are_read_and_formatted_back(name, layout, expected):
    assert instant_names.parse(name, layout) == expected
    assert instant_names.file_name(expected, layout) == name


@pytest.mark.parametrize(
    ("name", "layout"),
    [
        ("hoodie.properties", 1),
        ("", 1),
        (".commit", 1),
        (f"{T}.commit.inflight", 1),
        (f"{T}.requested", 1),
        (f"{T}.clustering.requested", 1),
        (f"{T}.compaction", 1),
        (f"{T}_{C}.compaction", 2),
        (f"{T}_{C}.commit", 1),
        (f"{T}_{C}.commit.requested", 2),
        (f"{T}_{C}.inflight", 2),
        (f"{T}_{C}_{C}.commit", 2),
        (f"{T}_.commit", 2),
        (f"_{C}.commit", 2),
        (f"{T}.savepoint.requested", 2),
        (f"{T}.commit.12345", 2),
        (f"{T}.commit.crc", 1),
        (f".{T}.commit.crc", 1),
        (f"{T}.indexing.requested.tmp", 1),
        ("٢٠٢٥.commit", 1),
        (f"{T}_٢.commit", 2),
    ],
)
def test_other_names_are_no_instants(name, layout):
    assert instant_names.parse(name, layout) is None


@given(st.text("0123456789_.abcdefilmnoprstuvxghcqd", max_size=40) | TIMES, LAYOUTS)
def test_any_name_that_is_read_is_formatted_back_to_itself(name, layout):
    found = instant_names.parse(name, layout)
    assert found is None or instant_names.file_name(found, layout) == name


@given(
    TIMES, st.sampled_from(Action), st.sampled_from(State), st.none() | TIMES, LAYOUTS
)  # fmt: skip
def test_every_legal_instant_has_one_name_and_every_other_is_refused(
    start, action, state, completion, layout
):
    if state is not State.COMPLETED or layout == 1:
        completion = None
    instant = Instant(start, action, state, completion)
    pending_only = {Action.COMPACTION, Action.LOG_COMPACTION, Action.CLUSTERING}
    legal = not (
        (action in pending_only and state is State.COMPLETED)
        or (action is Action.SAVEPOINT and state is State.REQUESTED)
    )
    if not legal:
        with pytest.raises(Invalid, match=action.value):
            instant_names.file_name(instant, layout)
        return
    if action is Action.CLUSTERING and layout == 1:  # it has no word of its own for it
        instant = replace(instant, action=Action.REPLACE_COMMIT)
    assert instant_names.parse(instant_names.file_name(instant, layout), layout) == instant


def test_layout_1_has_no_room_for_a_completion_time_that_was_filled_in():
    filled = Instant(T, Action.COMMIT, State.COMPLETED, C)
    assert instant_names.file_name(filled, 1) == f"{T}.commit"


def test_thirty_thousand_names_are_read_in_a_tenth_of_a_second():
    names = [f"202511181400{number:05d}_20251118150000000.deltacommit" for number in range(10_000)]
    names += [f"202511181400{number:05d}.deltacommit.requested" for number in range(10_000)]
    names += [f"202511181400{number:05d}.inflight" for number in range(10_000)]
    took = []
    for _ in range(5):
        start = time.process_time()
        found = [instant_names.parse(name, 2) for name in names]
        took.append(time.process_time() - start)
    assert None not in found
    assert min(took) < 0.1
