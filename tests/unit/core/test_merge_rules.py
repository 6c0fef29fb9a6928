"""Which rule a table's settings mean, and which version of a record wins by it."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehand.core.merge_rules import (
    COMMIT_TIME_STRATEGY,
    DEFAULT_PAYLOAD,
    EVENT_TIME_PAYLOAD,
    EVENT_TIME_STRATEGY,
    OVERWRITE_PAYLOAD,
    PAYLOAD_STRATEGY,
    Dialect,
    MergeMode,
    MergeRule,
    MergeSettings,
    Version,
    infer,
    merge,
    winner,
)
from lakehand.errors import Unsupported

EVENT, COMMIT = MergeMode.EVENT_TIME, MergeMode.COMMIT_TIME
CUSTOM_PAYLOAD = "org.apache.hudi.common.model.PartialUpdateAvroPayload"
BY_TIME = MergeRule(EVENT, ("ts",))
BY_COMMIT = MergeRule(COMMIT, ("ts",))


@pytest.mark.parametrize(
    ("settings", "mode"),
    [
        (MergeSettings(6), COMMIT),
        (MergeSettings(6, ("ts",)), EVENT),
        (MergeSettings(6, ("ts",), payload_class=DEFAULT_PAYLOAD), EVENT),
        (MergeSettings(6, payload_class=EVENT_TIME_PAYLOAD), EVENT),
        # Version 6 names the event-time strategy whatever the payload: the payload outweighs it.
        (
            MergeSettings(
                6, ("ts",), payload_class=OVERWRITE_PAYLOAD, strategy_id=EVENT_TIME_STRATEGY
            ),
            COMMIT,
        ),
        (MergeSettings(6, strategy_id=COMMIT_TIME_STRATEGY), COMMIT),
        (MergeSettings(8, ("ts",), strategy_id=COMMIT_TIME_STRATEGY), COMMIT),
        (
            MergeSettings(8, payload_class=DEFAULT_PAYLOAD, strategy_id=COMMIT_TIME_STRATEGY),
            COMMIT,
        ),
        (MergeSettings(8, payload_class=OVERWRITE_PAYLOAD), COMMIT),
        (MergeSettings(8, ("ts",), mode="COMMIT_TIME_ORDERING"), COMMIT),
        (MergeSettings(9, ("ts",), mode="EVENT_TIME_ORDERING"), EVENT),
        (MergeSettings(9, mode="event_time_ordering"), EVENT),
        (MergeSettings(9, ("ts",)), EVENT),
    ],
)
def test_settings_of_every_generation_come_down_to_one_rule(settings, mode):
    rule = infer(settings)
    assert rule.mode is mode
    rule.require_supported()


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        (MergeSettings(6, payload_class=CUSTOM_PAYLOAD, strategy_id=EVENT_TIME_STRATEGY),
         CUSTOM_PAYLOAD),
        (MergeSettings(8, payload_class=CUSTOM_PAYLOAD, strategy_id=PAYLOAD_STRATEGY,
                       mode="CUSTOM"), CUSTOM_PAYLOAD),
        (MergeSettings(9, mode="CUSTOM", strategy_id="1897ef5f-18bc-4557-939c-9d6a8afd1519"),
         "1897ef5f"),
        (MergeSettings(9, ("ts",), mode="EVENT_TIME_ORDERING",
                       partial_update_mode="IGNORE_DEFAULTS"), "IGNORE_DEFAULTS"),
    ],
)  # fmt: skip
def test_what_runs_code_of_its_own_is_refused_by_name_once_records_must_be_merged(settings, named):
    rule = infer(settings)
    with pytest.raises(Unsupported, match=named):
        winner(rule, Version({}), Version({}))


def test_an_unknown_mode_is_refused_at_once():
    with pytest.raises(Unsupported, match="'NEWEST'"):
        infer(MergeSettings(9, mode="NEWEST"))


def test_a_delete_marker_needs_its_field_and_its_value():
    whole = infer(MergeSettings(9, delete_field="op", delete_marker="D"))
    assert (whole.delete_field, whole.delete_marker) == ("op", "D")
    half = infer(MergeSettings(9, delete_field="op"))
    assert (half.delete_field, half.delete_marker) == (None, None)


@pytest.mark.parametrize(
    ("record", "is_delete"),
    [
        ({"_hoodie_is_deleted": True}, True),
        ({"_hoodie_is_deleted": False, "op": "U"}, False),
        ({"_hoodie_is_deleted": None, "op": None}, False),
        ({"_hoodie_operation": "D"}, True),
        ({"_hoodie_operation": "I"}, False),
        ({"op": "D"}, True),
        ({}, False),
    ],
)
def test_a_record_says_in_three_ways_that_it_is_a_delete(record, is_delete):
    assert replace(BY_TIME, delete_field="op", delete_marker="D").is_delete(record) is is_delete


def row(name: str, ordering: int | None) -> Version:
    return Version({"name": name}, None if ordering is None else (ordering,))


def delete(ordering: object = None) -> Version:
    return Version(None, None if ordering is None else (ordering,))


@pytest.mark.parametrize(
    ("rule", "base", "logs", "expected"),
    [
        (BY_TIME, row("base", 5), [row("a", 4), row("b", 3)], "base"),
        (BY_TIME, row("base", 5), [row("a", 9), row("b", 7), row("c", 3)], "a"),
        (BY_TIME, row("base", 5), [row("tie", 5)], "tie"),
        (BY_TIME, row("base", None), [row("a", 1)], "a"),
        (BY_TIME, row("base", 1), [row("null", None)], "base"),
        (BY_TIME, row("base", 5), [delete()], None),
        (BY_TIME, row("base", 5), [delete(4)], "base"),
        (BY_TIME, row("base", 5), [delete(5)], None),
        (BY_TIME, row("base", 5), [delete("4")], None),  # of another type: it always wins
        (BY_TIME, row("base", 5), [delete(), row("again", 6)], "again"),
        (BY_TIME, row("base", 5), [delete(), row("older", 4)], "base"),
        (BY_TIME, None, [delete(7), row("late", 6)], None),
        (BY_COMMIT, row("base", 5), [row("a", 9), row("b", 3)], "b"),
        (BY_COMMIT, row("base", 5), [row("a", 9), delete(3)], None),
        (MergeRule(EVENT), row("base", 5), [row("a", 9), row("b", 3)], "b"),
        (BY_TIME, row("base", 5), [], "base"),
        (BY_TIME, None, [], None),
    ],
)
def test_the_version_that_hudi_1_lets_win(rule, base, logs, expected):
    stands = merge(rule, base, logs)
    if expected is None:
        assert stands is None or stands.is_delete
    else:
        assert stands.record == {"name": expected}


def test_older_releases_compare_log_records_by_ordering_in_commit_time_mode_too():
    older = replace(BY_COMMIT, dialect=Dialect.PAYLOADS)
    logs = [row("a", 9), row("b", 7), row("c", 3)]
    assert merge(older, row("base", 5), logs).record == {"name": "a"}
    assert merge(older, row("base", 5), [row("late", 3)]).record == {"name": "late"}


VERSIONS = st.lists(
    st.builds(row, st.text("abc", min_size=1), st.integers(1, 5))
    | st.builds(delete, st.integers(1, 5)),
    min_size=1,
    max_size=6,
)


@given(VERSIONS)
def test_by_event_time_the_last_of_the_greatest_wins_however_the_log_is_cut(versions):
    greatest = max(version.ordering for version in versions)
    expected = [version for version in versions if version.ordering == greatest][-1]
    assert merge(BY_TIME, None, versions) is expected
    assert merge(BY_TIME, versions[0], versions[1:]) is expected


@given(VERSIONS)
def test_by_commit_time_the_newest_wins(versions):
    assert merge(BY_COMMIT, versions[0], versions[1:]) is versions[-1]


def test_several_ordering_fields_compare_one_after_another():
    rule = MergeRule(EVENT, ("ts", "seq"))
    older, newer = Version({"n": 1}, (5, 2)), Version({"n": 2}, (5, 1))
    assert winner(rule, older, newer) is older
