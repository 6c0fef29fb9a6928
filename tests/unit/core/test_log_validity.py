"""The blocks that count are those of committed instants that nobody rolled back or merged."""

from hypothesis import given
from hypothesis import strategies as st

from lakehand.core.instants import Action, Instant, State
from lakehand.core.log_validity import BlockHeader, BlockKind, select_blocks
from lakehand.core.timeline import Timeline


def at(number: int) -> str:
    return f"20240101{number:09d}"


def data(number: int) -> BlockHeader:
    return BlockHeader(BlockKind.DATA, at(number))


def merged(number: int, *originals: int) -> BlockHeader:
    times = tuple(at(original) for original in originals)
    return BlockHeader(BlockKind.DATA, at(number), compacted_times=times)


def rollback(target: int) -> BlockHeader:
    return BlockHeader(BlockKind.ROLLBACK, at(99), target=at(target))


def timeline_of(*completed: int, pending: tuple[int, ...] = ()) -> Timeline:
    return Timeline.of(
        [
            *(Instant(at(number), Action.DELTA_COMMIT, State.COMPLETED) for number in completed),
            *(Instant(at(number), Action.DELTA_COMMIT, State.INFLIGHT) for number in pending),
        ]
    )


ALL = timeline_of(*range(1, 20))


def test_before_version_8_only_blocks_of_committed_instants_count():
    blocks = [data(3), data(5), data(6), data(1), data(4)]
    timeline = timeline_of(3, 6, pending=(5,))
    selection = select_blocks(blocks, timeline, 6)
    # 1 is older than the timeline, 4 is a hole in it.
    assert selection.read == (0, 2, 3)
    assert selection.uncommitted == (1, 4)


def test_from_version_8_on_the_file_has_answered_for_its_blocks():
    assert select_blocks([data(3), data(4)], timeline_of(3), 9).read == (0, 1)


def test_a_rollback_removes_every_block_of_its_target_wherever_it_stands():
    blocks = [data(1), rollback(2), data(2), BlockHeader(BlockKind.DELETE, at(2)), data(3)]
    for version in (6, 9):
        selection = select_blocks(blocks, ALL, version)
        assert (selection.read, selection.rolled_back) == ((0, 4), (2, 3))


def test_time_travel_ends_at_the_time_it_is_asked_for():
    for version in (6, 9):
        selection = select_blocks([data(1), data(5), data(3)], ALL.as_of(at(3)), version)
        assert (selection.read, selection.uncommitted) == ((0, 2), (1,))


def test_corrupt_and_change_blocks_are_left_out_and_counted():
    blocks = [BlockHeader(BlockKind.CORRUPT), data(1), BlockHeader(BlockKind.CDC, at(1))]
    selection = select_blocks(blocks, ALL, 6)
    assert (selection.read, selection.corrupt, selection.cdc) == ((1,), (0,), (2,))


def test_a_merged_block_takes_the_place_of_the_newest_block_it_stands_for():
    # 1 and 3 were merged at 5; 2 was pending then, 4 came between.
    blocks = [data(1), data(2), data(3), data(4), merged(5, 3, 1), data(6)]
    selection = select_blocks(blocks, ALL, 6)
    assert selection.read == (1, 4, 3, 5)
    assert selection.compacted == (0, 2)


def test_both_blocks_of_a_log_compaction_take_the_place():
    blocks = [data(1), data(2), merged(3, 1), BlockHeader(BlockKind.DELETE, at(3), None, (at(1),))]
    assert select_blocks(blocks, ALL, 6).read == (2, 3, 1)


def test_a_merge_of_a_merge_stands_for_all_that_went_into_it():
    blocks = [data(1), data(2), data(3), merged(4, 2, 1), merged(6, 4)]
    # 3 was in neither, and it is newer than what they hold.
    assert select_blocks(blocks, ALL, 6).read == (4, 2)


def test_a_merge_that_is_later_than_the_query_leaves_its_originals_in():
    blocks = [data(1), data(2), merged(3, 1, 2)]
    assert select_blocks(blocks, ALL.as_of(at(2)), 6).read == (0, 1)
    assert select_blocks(blocks, ALL, 6).read == (2,)


def test_a_merge_that_was_rolled_back_leaves_its_originals_in():
    assert select_blocks([data(1), merged(3, 1), rollback(3)], ALL, 6).read == (0,)


def test_a_merge_whose_originals_are_gone_stays_where_it_is():
    assert select_blocks([data(2), merged(3, 1), data(4)], ALL, 6).read == (0, 1, 2)


def test_a_block_that_claims_itself_or_what_came_later_stands_all_the_same():
    blocks = [data(1), merged(2, 3, 1), merged(3, 2, 3)]
    assert select_blocks(blocks, ALL, 6).read == (2,)
    assert select_blocks([merged(3, 3, 4), data(4)], ALL, 6).read == (0, 1)


BLOCKS = st.lists(
    st.one_of(
        st.builds(data, st.integers(1, 8)),
        st.builds(rollback, st.integers(1, 8)),
        st.builds(lambda one, others: merged(one, *others), st.integers(1, 8),
                  st.lists(st.integers(1, 8), max_size=3)),
        st.sampled_from([BlockHeader(BlockKind.CORRUPT), BlockHeader(BlockKind.CDC, at(1))]),
    ),
    max_size=12,
)  # fmt: skip


@given(BLOCKS, st.sets(st.integers(1, 8)), st.integers(0, 9), st.sampled_from([6, 9]))
def test_every_block_is_read_or_left_out_for_one_reason(blocks, completed, limit, version):
    selection = select_blocks(blocks, timeline_of(*completed).as_of(at(limit)), version)
    reasons = [
        selection.read,
        selection.corrupt,
        selection.cdc,
        selection.uncommitted,
        selection.rolled_back,
        selection.compacted,
    ]
    told = sorted(index for reason in reasons for index in reason)
    commands = [i for i, block in enumerate(blocks) if block.kind is BlockKind.ROLLBACK]
    assert sorted([*told, *commands]) == list(range(len(blocks)))
