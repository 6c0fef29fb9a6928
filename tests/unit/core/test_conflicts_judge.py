"""What is judged before any table is asked: undoing, schemas, views, footprints, and the whole."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conflict_cases import PENDING_ACTIONS, at, groups, is_service, my, other, touching
from lakehand.core.conflict_tables import Strategy
from lakehand.core.conflicts import RESTORED, ROLLED_BACK_MYSELF, SCHEMA_CLASH, judge
from lakehand.core.footprints import (
    NO_FOOTPRINT,
    UNKNOWN_FOOTPRINT,
    Footprint,
    Kind,
    Other,
    Standing,
)
from lakehand.core.instants import Action
from lakehand.errors import InvariantBroken

EVERY_STRATEGY = pytest.mark.parametrize("strategy", Strategy, ids=lambda one: one.value)
NEVER_COMMITS = (Standing.CANCELLED, Standing.ROLLED_BACK)


def rollback(standing, *, target=50, number=70, completed=80, epoch=None):
    return Other(
        time=at(number),
        action=Action.ROLLBACK,
        standing=standing,
        completion_time=at(completed) if standing is Standing.COMMITTED else None,
        rolls_back=at(target),
        rolls_back_epoch=epoch,
    )


def restore(standing, *, number=70, completed=80):
    return Other(
        time=at(number),
        action=Action.RESTORE,
        standing=standing,
        completion_time=at(completed) if standing is Standing.COMMITTED else None,
    )


def reasons(mine, others, strategy=Strategy.PREFER_INGESTION):
    return [refusal.reason for refusal in judge(mine, others, strategy).refusals]


# Undone from outside.


@EVERY_STRATEGY
@pytest.mark.parametrize("kind", Kind, ids=lambda one: one.value)
@pytest.mark.parametrize(
    "standing",
    [one for one in Standing if one not in NEVER_COMMITS],
    ids=lambda one: one.value,
)
def test_a_rollback_of_mine_and_a_restore_refuse_under_every_strategy(strategy, kind, standing):
    mine = my(kind)
    assert reasons(mine, [rollback(standing)], strategy) == [ROLLED_BACK_MYSELF]
    assert reasons(mine, [restore(standing)], strategy) == [RESTORED]


def test_a_rollback_of_another_instant_and_a_dropped_one_are_no_concern():
    assert judge(my(), [rollback(Standing.INFLIGHT_LIVE, target=49)]).may_commit
    for standing in NEVER_COMMITS:
        assert judge(my(), [rollback(standing), restore(standing)]).may_commit


def test_a_restore_that_my_view_has_seen_is_no_concern():
    assert judge(my(view=40), [restore(Standing.COMMITTED, number=30, completed=40)]).may_commit
    assert not judge(my(view=40), [restore(Standing.COMMITTED, number=30, completed=41)]).may_commit


def test_a_rollback_of_an_earlier_attempt_at_my_plan_does_not_stop_mine():
    mine = my(Kind.COMPACTION, epoch=3, claimed_on=at(75))
    for standing in (Standing.REQUESTED, Standing.INFLIGHT_EXPIRED, Standing.COMMITTED):
        assert judge(mine, [rollback(standing, epoch=2)]).may_commit
        assert reasons(mine, [rollback(standing, epoch=3)]) == [ROLLED_BACK_MYSELF]


def test_a_rollback_that_names_no_attempt_counts_unless_it_was_over_when_mine_began():
    mine = my(Kind.COMPACTION, epoch=2, claimed_on=at(75))
    assert judge(mine, [rollback(Standing.COMMITTED, completed=75)]).may_commit
    assert not judge(mine, [rollback(Standing.COMMITTED, completed=76)]).may_commit
    assert not judge(mine, [rollback(Standing.REQUESTED, number=60)]).may_commit


# Schemas.


@EVERY_STRATEGY
@pytest.mark.parametrize(
    ("before", "ours", "theirs", "clash"),
    [
        (None, "s1", "s1", False),
        (None, "s1", "s2", True),
        ("s1", "s1", "s1", False),
        ("s1", "s2", "s2", False),
        ("s1", "s1", "s2", False),
        ("s1", "s2", "s1", False),
        ("s1", "s2", "s3", True),
        ("s1", None, "s2", False),
        ("s1", "s2", None, False),
    ],
)
def test_two_different_new_schemas_clash_though_no_file_is_shared(
    strategy, before, ours, theirs, clash
):
    mine = my(footprint=touching("a", schema=ours), schema_at_start=before)
    evolver = other(standing=Standing.COMMITTED, footprint=touching("b", schema=theirs))
    assert reasons(mine, [evolver], strategy) == ([SCHEMA_CLASH] if clash else [])


def test_a_schema_change_without_data_clashes_too():
    change = Other(
        time=at(45),
        action=Action.SCHEMA_COMMIT,
        standing=Standing.COMMITTED,
        completion_time=at(60),
        footprint=Footprint(schema="s3"),
    )
    mine = my(footprint=touching("a", schema="s2"), schema_at_start="s1")
    assert reasons(mine, [change]) == [SCHEMA_CLASH]


def test_pending_schemas_and_the_schemas_of_services_do_not_clash():
    pending = other(footprint=touching("b", schema="s3"))
    done = other(standing=Standing.COMMITTED, footprint=touching("b", schema="s3"))
    two = touching("a", schema="s2")
    assert judge(my(footprint=two, schema_at_start="s1"), [pending]).may_commit
    for kind in filter(is_service, Kind):
        assert judge(my(kind, footprint=two, schema_at_start="s1"), [done]).may_commit


# What my view knew.


@EVERY_STRATEGY
def test_what_completed_before_my_view_is_no_news_and_one_moment_later_it_is(strategy):
    known = other(standing=Standing.COMMITTED, completed=40)
    news = other(standing=Standing.COMMITTED, completed=41)
    assert judge(my(view=40), [known], strategy).may_commit
    assert not judge(my(view=40), [news], strategy).may_commit


def test_without_completion_times_an_older_instant_is_news_if_it_was_pending_at_the_start():
    mine = my(version=6, pending_at_start=frozenset({at(30)}))

    def done(number):
        return other(number=number, standing=Standing.COMMITTED, version=6, completion_time=None)

    assert judge(mine, [done(31)]).may_commit
    assert not judge(mine, [done(30)]).may_commit
    assert not judge(mine, [done(41)]).may_commit


@pytest.mark.parametrize(("version", "pending"), [(6, None), (9, frozenset())])
def test_an_unknown_moment_of_completion_is_not_guessed(version, pending):
    done = other(standing=Standing.COMMITTED, version=version, completion_time=None)
    with pytest.raises(InvariantBroken, match="cannot be told"):
        judge(my(version=version, pending_at_start=pending), [done])


def test_cleans_and_the_like_are_not_asked_for_their_moment():
    for action in (Action.CLEAN, Action.SAVEPOINT, Action.INDEXING):
        one = Other(time=at(45), action=action, standing=Standing.COMMITTED)
        assert judge(my(version=6), [one]).may_commit


# Before version 8, a compaction that is planned over a log.


@EVERY_STRATEGY
@pytest.mark.parametrize("standing", [Standing.REQUESTED, Standing.COMMITTED])
def test_a_compaction_planned_after_my_view_leaves_my_log_behind_before_version_8(
    strategy, standing
):
    def verdicts(version):
        plan = {"standing": standing, "version": version}
        mine = my(version=version, pending_at_start=frozenset({at(44)}))
        return [
            judge(mine, [other(Kind.COMPACTION, number, **plan)], strategy).may_commit
            for number in (44, 45, 55)
        ]

    assert verdicts(6) == [True, False, False]
    late_in_hudi = strategy is Strategy.PREFER_WRITER and standing is Standing.COMMITTED
    assert verdicts(8) == ([True, False, False] if late_in_hudi else [True, True, True])


def test_a_write_is_later_by_its_time_alone_and_a_plan_also_if_it_was_not_there():
    mine = my(version=6, pending_at_start=frozenset())
    older = other(Kind.OVERWRITE, 45, version=6)
    assert judge(mine, [older], Strategy.SIMPLE).may_commit
    assert not judge(mine, [replace(older, time=at(55))], Strategy.SIMPLE).may_commit
    plan = other(Kind.COMPACTION, 45, version=6)
    assert not judge(mine, [plan], Strategy.SIMPLE).may_commit


# Footprints.


@EVERY_STRATEGY
def test_a_pending_footprint_that_cannot_be_read_may_be_any_group(strategy):
    mine = my(footprint=touching("a", "b"))
    plan = other(Kind.CLUSTERING, standing=Standing.REQUESTED, footprint=UNKNOWN_FOOTPRINT)
    judgement = judge(mine, [plan], strategy)
    if strategy is Strategy.PREFER_WRITER:
        assert judgement.may_commit
    else:
        assert judgement.refusals[0].groups == groups("a", "b")
    assert judge(my(footprint=NO_FOOTPRINT), [plan], strategy).may_commit


def test_the_same_file_id_in_another_partition_is_another_group():
    elsewhere = Footprint(frozenset(one._replace(partition="q") for one in groups("a")))
    assert judge(my(), [other(Kind.CLUSTERING, footprint=elsewhere)]).may_commit


def test_i_cannot_be_judged_without_my_own_footprint_or_as_what_changes_no_data():
    with pytest.raises(InvariantBroken, match="file groups"):
        judge(my(footprint=UNKNOWN_FOOTPRINT), [])
    with pytest.raises(InvariantBroken, match="changes no data"):
        judge(my(action=Action.CLEAN), [])


def test_i_am_no_conflict_of_mine():
    assert judge(my(), [other(number=50, standing=Standing.COMMITTED)]).may_commit


@pytest.mark.parametrize(
    ("action", "fields", "kind"),
    [
        (Action.REPLACE_COMMIT, {}, Kind.OVERWRITE),
        (Action.REPLACE_COMMIT, {"is_table_service": True}, Kind.CLUSTERING),
        (Action.COMMIT, {"is_table_service": True}, Kind.COMPACTION),
        (Action.DELTA_COMMIT, {"is_table_service": True}, Kind.LOG_COMPACTION),
        (Action.COMMIT, {"cancellable": True}, Kind.INGESTION),
        (Action.LOG_COMPACTION, {"cancellable": True}, Kind.CANCELLABLE_LOG_COMPACTION),
        (Action.INDEXING, {"is_table_service": True}, None),
        (Action.ROLLBACK, {}, None),
    ],
)
def test_a_kind_is_told_by_action_and_by_who_made_it(action, fields, kind):
    assert Other(time=at(1), action=action, standing=Standing.REQUESTED, **fields).kind is kind


# The whole.

FOOTPRINTS = st.builds(
    Footprint,
    groups=st.frozensets(st.sampled_from(sorted(groups(*"abcdef")))),
    schema=st.sampled_from([None, "s1", "s2", "s3"]),
    is_known=st.booleans(),
)


@st.composite
def others(draw, *, footprints=FOOTPRINTS):
    """Instants of every kind and standing, with times of their own, and undoing ones."""
    found = []
    for number in draw(st.sets(st.integers(20, 80).filter(lambda one: one != 50), max_size=6)):
        kind = draw(st.sampled_from([*Kind, None, None]))
        standing = draw(st.sampled_from(Standing))
        if kind is None:
            make = draw(st.sampled_from([rollback, restore]))
            found.append(make(standing, number=number, completed=number + 10))
            continue
        found.append(
            other(
                kind,
                number,
                standing,
                footprint=draw(footprints),
                completed=number + draw(st.integers(1, 30)),
                action=PENDING_ACTIONS[kind],
                is_foreign=draw(st.booleans()),
            )
        )
    return found


MINE = st.builds(
    my,
    st.sampled_from(Kind),
    version=st.sampled_from([6, 9]),
    footprint=FOOTPRINTS.filter(lambda one: one.is_known),
    schema_at_start=st.sampled_from([None, "s1"]),
)
STRATEGIES = st.sampled_from(Strategy)


@given(MINE, others(), STRATEGIES, st.randoms())
def test_the_order_in_which_others_are_met_does_not_matter(mine, seen, strategy, random):
    shuffled = list(seen)
    random.shuffle(shuffled)
    assert judge(mine, shuffled, strategy) == judge(mine, seen, strategy)


@given(MINE, others(), STRATEGIES)
def test_who_is_refused_cancels_nothing_and_who_may_commit_cancels_only_pending_cancellable_plans(
    mine, seen, strategy
):
    judgement = judge(mine, seen, strategy)
    assert not (judgement.refusals and judgement.cancels)
    for one in seen:
        if one.time in judgement.cancels:
            assert one.cancellable
            assert one.standing not in (*NEVER_COMMITS, Standing.COMMITTED)


@given(MINE, others(), STRATEGIES)
def test_without_a_shared_group_only_undoing_and_schemas_refuse(mine, seen, strategy):
    for refusal in judge(mine, seen, strategy).refusals:
        undoing = refusal.reason in (ROLLED_BACK_MYSELF, RESTORED, SCHEMA_CLASH)
        assert undoing is not bool(refusal.groups)
        assert refusal.groups <= mine.footprint.groups
        if not undoing and refusal.other.footprint.is_known:
            assert refusal.groups <= refusal.other.footprint.groups


@given(
    MINE,
    others(),
    others(footprints=st.just(touching("x", "y"))),
    STRATEGIES,
)
def test_an_other_that_shares_nothing_changes_nothing(mine, seen, more, strategy):
    strangers = [one for one in more if one.footprint == touching("x", "y")]
    assert judge(mine, seen + strangers, strategy) == judge(mine, seen, strategy)


@given(MINE, others(), STRATEGIES)
def test_one_more_other_never_turns_a_refusal_into_a_commit(mine, seen, strategy):
    whole = judge(mine, seen, strategy)
    for cut in range(len(seen)):
        part = judge(mine, seen[:cut], strategy)
        assert whole.refusals or part.may_commit
        assert set(part.refusals) <= set(whole.refusals)


@given(MINE, others(), STRATEGIES)
def test_what_never_commits_is_as_good_as_absent(mine, seen, strategy):
    alive = [one for one in seen if one.standing not in NEVER_COMMITS]
    assert judge(mine, alive, strategy) == judge(mine, seen, strategy)
