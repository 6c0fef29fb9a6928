"""Slices hold what their rule says: single facts, and a slow, obvious model beside them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehand.core.file_slices import (
    FileEntry,
    build_file_groups,
    latest_slices,
    replaced_groups,
    unsettled_instants,
)
from lakehand.core.instants import Action, Instant, State
from lakehand.core.timeline import Timeline
from lakehand.errors import Corrupt

ID = "aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee-0"


def at(number: int) -> str:
    return f"20240101{number:09d}"


def base(number: int, *, attempt: str = "0-1-0", extension: str = ".parquet") -> FileEntry:
    return FileEntry(f"{ID}_{attempt}_{at(number)}{extension}", 100)


def log(number: int, version: int = 1, suffix: str = "") -> FileEntry:
    return FileEntry(f".{ID}_{at(number)}.log.{version}_0-1-0{suffix}", 10)


def done(number: int, action: Action = Action.DELTA_COMMIT, *, end: int | None = None) -> Instant:
    return Instant(at(number), action, State.COMPLETED, None if end is None else at(end))


def pending(number: int, action: Action = Action.DELTA_COMMIT) -> Instant:
    return Instant(at(number), action, State.INFLIGHT)


def shape(groups) -> list[tuple[str, str | None, list[str]]]:
    assert len(groups) == 1
    return [
        (
            one.base_instant,
            one.base_file and one.base_file.name,
            [log.name for log in one.log_files],
        )
        for one in groups[0].slices
    ]


def test_before_version_8_a_log_goes_to_the_slice_that_its_name_says():
    timeline = Timeline.of([done(1), done(2), done(3)])
    groups = build_file_groups("p", [log(2), base(1), log(1, 2), base(2), log(1)], timeline, 6)
    assert shape(groups) == [
        (at(1), base(1).name, [log(1).name, log(1, 2).name]),
        (at(2), base(2).name, [log(2).name]),
    ]


def test_from_version_8_on_a_log_goes_to_the_slice_that_was_open_when_it_completed():
    timeline = Timeline.of([done(1, end=2), done(5, end=9), done(7, Action.COMMIT, end=8)])
    groups = build_file_groups("p", [base(1), base(7), log(5)], timeline, 9)
    assert shape(groups) == [(at(1), base(1).name, []), (at(7), base(7).name, [log(5).name])]


def test_an_archived_straddling_commit_needs_its_completion_time_from_the_history():
    files = [base(1), base(7), log(5)]
    entries = [done(20, end=21)]
    unaware = Timeline.of(entries)
    assert unsettled_instants([file.name for file in files], unaware) == {at(5)}
    aware = Timeline.of(entries, archived_completions={at(5): at(9)})
    assert not unsettled_instants([file.name for file in files], aware)
    assert shape(build_file_groups("", files, unaware, 9))[1][2] == []
    assert shape(build_file_groups("", files, aware, 9))[1][2] == [log(5).name]


def test_files_of_unfinished_and_of_removed_instants_are_hidden():
    timeline = Timeline.of([done(1, end=1), pending(3)])
    files = [base(1), base(3), log(3), log(4), base(2)]
    assert shape(build_file_groups("", files, timeline, 9)) == [(at(1), base(1).name, [])]


def test_files_older_than_the_active_timeline_count_as_committed():
    timeline = Timeline.of([done(5, end=5)])
    assert shape(build_file_groups("", [base(1), log(2)], timeline, 9)) == [
        (at(1), base(1).name, [log(2).name])
    ]


def test_a_group_of_logs_alone_opens_its_slice_at_its_first_commit():
    timeline = Timeline.of([done(2, end=3), done(4, end=5)])
    groups = build_file_groups("", [log(4), log(2)], timeline, 9)
    assert shape(groups) == [(at(2), None, [log(2).name, log(4).name])]


def test_an_upgraded_group_keeps_its_old_logs_with_the_base_that_they_name():
    # The old commit 1 completed (by its file's date) after the base file 3 was begun.
    timeline = Timeline.of([done(1, end=4), done(3, end=5), done(6, end=7)])
    groups = build_file_groups("", [base(1), log(1), base(3), log(6)], timeline, 9)
    assert shape(groups) == [
        (at(1), base(1).name, [log(1).name]),
        (at(3), base(3).name, [log(6).name]),
    ]


@pytest.mark.parametrize("version", [6, 9])
def test_a_pending_compaction_opens_a_slice_that_readers_see_merged(version):
    timeline = Timeline.of([done(1, end=1), pending(3, Action.COMPACTION), done(4, end=5)])
    after = log(3) if version == 6 else log(4)
    before = log(1)
    (group,) = build_file_groups(
        "", [base(1), before, after], timeline, version, pending_compactions={ID: at(3)}
    )
    assert [one.base_instant for one in group.slices] == [at(1), at(3)]
    assert group.slices[1].base_file is None
    (merged,) = latest_slices([group])
    assert (merged.base_instant, merged.base_file) == (at(1), base(1))
    assert merged.log_files == (before, after)
    without_plan = build_file_groups("", [base(1), before, after], timeline, version)
    assert latest_slices(without_plan) == [merged]


def test_a_planned_compaction_opens_its_slice_before_anything_is_written_to_it():
    timeline = Timeline.of([done(1), pending(3, Action.COMPACTION)])
    (group,) = build_file_groups("", [base(1)], timeline, 6, pending_compactions={ID: at(3)})
    assert [one.base_instant for one in group.slices] == [at(1), at(3)]
    assert group.latest_slice.base_file == base(1)


def test_a_plan_that_is_no_longer_pending_opens_nothing():
    timeline = Timeline.of([done(1), done(3, Action.COMMIT)])
    (group,) = build_file_groups(
        "", [base(1), base(3)], timeline, 6, pending_compactions={ID: at(3)}
    )
    assert group.pending_compaction is None
    assert group.latest_slice.base_file == base(3)


def test_the_base_file_of_a_pending_compaction_is_hidden():
    timeline = Timeline.of([done(1), pending(3, Action.COMPACTION)])
    (group,) = build_file_groups(
        "", [base(1), base(3), log(3)], timeline, 6, pending_compactions={ID: at(3)}
    )
    assert group.latest_slice.base_file == base(1)
    assert group.latest_slice.log_files == (log(3),)


def test_change_logs_side_files_and_foreign_files_are_no_part_of_a_slice():
    timeline = Timeline.of([done(1, end=1)])
    files = [
        base(1),
        log(1, 1, ".cdc"),
        FileEntry(f".{base(1).name}.crc", 8),
        FileEntry(f".{log(1).name}.crc", 8),
        FileEntry(".hoodie_partition_metadata", 8),
        base(1, extension=".orc"),
        FileEntry("_SUCCESS", 0),
    ]
    assert shape(build_file_groups("", files, timeline, 9)) == [(at(1), base(1).name, [])]


def test_two_base_files_of_one_committed_instant_are_named_and_refused():
    timeline = Timeline.of([done(1)])
    with pytest.raises(Corrupt, match="two base files") as error:
        build_file_groups("day=1", [base(1), base(1, attempt="9-9-9")], timeline, 6)
    assert error.value.where == "day=1"
    assert "0-1-0" in str(error.value)
    assert "9-9-9" in str(error.value)


def test_two_attempts_of_a_pending_instant_disturb_nobody():
    timeline = Timeline.of([done(1), pending(2)])
    files = [base(1), base(2), base(2, attempt="9-9-9")]
    assert len(shape(build_file_groups("", files, timeline, 6))) == 1


def test_replaced_groups_are_hidden_from_the_completion_of_their_replacement_on():
    timeline = Timeline.of([done(1), done(3, Action.REPLACE_COMMIT), done(4)])
    replacements = [(at(3), {"p": [ID]}), (at(9), {"p": ["other"]})]
    groups = build_file_groups("p", [base(1)], timeline, 6)
    assert latest_slices(groups, replaced_groups(timeline, replacements)) == []
    before = timeline.as_of(at(2))
    assert replaced_groups(before, replacements) == frozenset()
    still = latest_slices(build_file_groups("p", [base(1)], before, 6), frozenset())
    assert [one.base_instant for one in still] == [at(1)]


# -- the model ------------------------------------------------------------------------------------

NUMBERS = st.integers(1, 12)
FILES = st.lists(
    st.builds(base, NUMBERS) | st.builds(log, NUMBERS, st.integers(1, 3)), unique=True, max_size=14
)


@st.composite
def timelines(draw) -> Timeline:
    entries = []
    for number in sorted(draw(st.sets(NUMBERS, min_size=1))):
        action = draw(st.sampled_from([Action.DELTA_COMMIT, Action.COMMIT, Action.COMPACTION]))
        if action is Action.COMPACTION or draw(st.integers(0, 3)) == 0:
            entries.append(pending(number, action))
        else:
            entries.append(done(number, action, end=number + draw(st.integers(0, 6))))
    return Timeline.of(entries)


def modelled(files, timeline: Timeline, version: int, plan: str | None):
    """The rules as they are told, one file after another."""
    plan = plan if plan in timeline.pending_compaction_times else None
    bases, logs = {}, []
    for entry in files:
        name = entry.name
        if not name.startswith("."):
            instant = name.split("_")[2].split(".")[0]
            if timeline.is_committed(instant):
                bases[instant] = entry
            continue
        instant = name.split("_")[1].split(".")[0]
        over_pending = version < 8 and instant in timeline.pending_compaction_times
        if timeline.is_committed(instant) or over_pending:
            logs.append((instant, name, entry))
    slices = {instant: [] for instant in bases}
    if (bases or logs) and plan is not None:
        slices.setdefault(plan, [])
    for instant, _, entry in sorted(logs):
        place = instant
        if version >= 8 and instant not in slices:
            end = timeline.completion_time(instant)
            open_then = [opener for opener in slices if opener <= end]
            place = max(open_then, default=instant)
        slices.setdefault(place, []).append(entry)
    return [(one, bases.get(one), tuple(slices[one])) for one in sorted(slices)]


@given(FILES, timelines(), st.sampled_from([6, 8, 9]), st.none() | NUMBERS.map(at))
def test_the_fast_slicing_agrees_with_the_told_rules(files, timeline, version, plan):
    groups = build_file_groups(
        "p", files, timeline, version, pending_compactions={ID: plan} if plan else {}
    )
    built = [
        (one.base_instant, one.base_file, one.log_files) for group in groups for one in group.slices
    ]
    assert built == modelled(files, timeline, version, plan)


@given(FILES, timelines(), st.sampled_from([6, 9]), st.randoms())
def test_the_order_of_a_listing_changes_nothing(files, timeline, version, random):
    shuffled = list(files)
    random.shuffle(shuffled)
    assert build_file_groups("", shuffled, timeline, version) == build_file_groups(
        "", files, timeline, version
    )


@given(FILES, timelines(), NUMBERS, NUMBERS)
def test_time_travel_further_ahead_never_hides_a_file(files, timeline, one, other):
    def visible(number: int) -> set[FileEntry]:
        groups = build_file_groups("", files, timeline.as_of(at(number)), 9)
        slices = [each for group in groups for each in group.slices]
        logs = {entry for each in slices for entry in each.log_files}
        return logs | {each.base_file for each in slices if each.base_file}

    earlier, later = sorted((one, other))
    assert visible(earlier) <= visible(later)
