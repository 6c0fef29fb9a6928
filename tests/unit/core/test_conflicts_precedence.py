"""Precedence under the default strategy, sentence by sentence, and what a new plan may take."""

import pytest

from conflict_cases import groups, is_cancellable, is_service, my, other, touching
from lakehand.core.conflicts import judge
from lakehand.core.footprints import (
    NO_FOOTPRINT,
    PENDING,
    UNKNOWN_FOOTPRINT,
    FileGroupKey,
    Kind,
    Standing,
    free_groups,
    is_held,
)
from lakehand.core.instants import Action

WRITES = (Kind.INGESTION, Kind.OVERWRITE)
CANCELLABLE = tuple(filter(is_cancellable, Kind))
FIRM = tuple(kind for kind in Kind if is_service(kind) and not is_cancellable(kind))
STOPPED = (Standing.CANCELLED, Standing.ROLLED_BACK)


def each(name, kinds):
    return pytest.mark.parametrize(name, kinds, ids=lambda one: one.value)


@pytest.mark.req("B-04")
@each("plan", CANCELLABLE)
@each("winner", (*WRITES, *FIRM))
def test_a_cancellable_plan_does_not_commit_after_a_conflicting_write_or_firm_service(plan, winner):
    done = {"standing": Standing.COMMITTED}
    assert not judge(my(plan, view=40), [other(winner, completed=41, **done)]).may_commit
    assert judge(my(plan, view=40), [other(winner, completed=40, **done)]).may_commit
    elsewhere = other(winner, completed=41, footprint=touching("b"), **done)
    assert judge(my(plan, view=40), [elsewhere]).may_commit
    undated = my(plan, 50, started_on=None)
    assert not judge(undated, [other(winner, completed=51, **done)]).may_commit
    assert judge(undated, [other(winner, completed=50, **done)]).may_commit


@pytest.mark.req("B-05")
@each("plan", CANCELLABLE)
@pytest.mark.parametrize("number", [45, 55])
def test_a_cancellable_plan_waits_for_inflight_writes_and_pending_firm_plans(plan, number):
    mine = my(plan)
    for winner in WRITES:
        assert not judge(mine, [other(winner, number)]).may_commit
        assert judge(mine, [other(winner, number, Standing.INFLIGHT_EXPIRED)]).may_commit
    for winner in FIRM:
        for standing in PENDING:
            assert not judge(mine, [other(winner, number, standing)]).may_commit
        for standing in STOPPED:
            assert judge(mine, [other(winner, number, standing)]).may_commit


@pytest.mark.req("B-07")
@each("write", WRITES)
@each("plan", CANCELLABLE)
@pytest.mark.parametrize("standing", sorted(PENDING, key=lambda one: one.value))
def test_a_write_that_commits_cancels_what_is_in_its_way_and_a_refused_one_nothing(
    write, plan, standing
):
    in_the_way = other(plan, 45, standing)
    apart = other(plan, 46, standing, footprint=touching("b"))
    assert judge(my(write), [in_the_way, apart]).refusals == ()
    assert judge(my(write), [in_the_way, apart]).cancels == (in_the_way.time,)
    rival = other(Kind.INGESTION, 47, Standing.COMMITTED)
    refused = judge(my(write), [in_the_way, apart, rival])
    assert [refusal.other for refusal in refused.refusals] == [rival]
    assert refused.cancels == ()


@pytest.mark.req("B-08")
@each("service", FIRM)
@each("plan", CANCELLABLE)
def test_a_firm_service_treats_cancellable_plans_as_a_write_does(service, plan):
    for standing in PENDING:
        in_the_way = other(plan, 45, standing)
        judgement = judge(my(service), [in_the_way])
        assert judgement.may_commit
        assert judgement.cancels == (in_the_way.time,)
    rival = other(Kind.COMPACTION, 47, Standing.COMMITTED)
    assert judge(my(service), [other(plan, 45), rival]).cancels == ()
    for standing in Standing:
        one = other(plan, 45, standing)
        as_a_write = judge(my(Kind.INGESTION), [one])
        as_a_service = judge(my(service), [one])
        assert (as_a_service.may_commit, as_a_service.cancels) == (
            as_a_write.may_commit,
            as_a_write.cancels,
        )


@pytest.mark.req("B-09")
@each("write", WRITES)
@each("plan", CANCELLABLE)
def test_a_write_is_refused_when_a_conflicting_cancellable_plan_committed_since_it_started(
    write, plan
):
    done = {"standing": Standing.COMMITTED}
    assert not judge(my(write, view=40), [other(plan, completed=41, **done)]).may_commit
    assert judge(my(write, view=40), [other(plan, completed=40, **done)]).may_commit


@pytest.mark.req("B-11")
@each("mine", Kind)
@each("write", WRITES)
@pytest.mark.parametrize("footprint", [NO_FOOTPRINT, UNKNOWN_FOOTPRINT, touching("a")])
def test_a_write_that_is_only_requested_holds_nobody_back(mine, write, footprint):
    for number in (45, 55):
        requested = other(write, number, Standing.REQUESTED, footprint=footprint)
        judgement = judge(my(mine), [requested])
        assert judgement.may_commit
        assert judgement.cancels == ()
        assert free_groups(groups("a"), [requested]) == groups("a")


@pytest.mark.req("B-13")
@each("mine", CANCELLABLE)
@each("plan", CANCELLABLE)
def test_two_cancellable_plans_ignore_each_other_until_one_committed(mine, plan):
    for standing in PENDING:
        judgement = judge(my(mine), [other(plan, 45, standing)])
        assert judgement.may_commit
        assert judgement.cancels == ()
    assert not judge(my(mine), [other(plan, 45, Standing.COMMITTED)]).may_commit


@pytest.mark.req("B-35")
@each("plan", CANCELLABLE)
def test_the_groups_of_a_cancelled_plan_are_free_for_writes_and_new_plans(plan):
    held = other(plan, footprint=touching("a", "b"))
    assert free_groups(groups("a", "b", "c"), [held]) == groups("c")
    cancelled = other(plan, standing=Standing.CANCELLED, footprint=touching("a", "b"))
    assert free_groups(groups("a", "b", "c"), [cancelled]) == groups("a", "b", "c")
    for mine in Kind:
        judgement = judge(my(mine), [cancelled])
        assert judgement.may_commit
        assert judgement.cancels == ()


@each("plan", tuple(filter(is_service, Kind)))
def test_a_pending_plan_holds_its_groups_and_one_that_cannot_be_read_all(plan):
    group = FileGroupKey("p", "a")
    for standing in Standing:
        assert is_held(group, [other(plan, standing=standing)]) is (standing in PENDING)
    unreadable = other(plan, standing=Standing.REQUESTED, footprint=UNKNOWN_FOOTPRINT)
    assert free_groups(groups("a", "z"), [unreadable]) == frozenset()
    assert free_groups(groups("a"), [other(Kind.INGESTION)]) == groups("a")
    indexing = other(plan, action=Action.INDEXING, footprint=UNKNOWN_FOOTPRINT)
    assert free_groups(groups("a"), [indexing]) == groups("a")


@each("plan", CANCELLABLE)
@pytest.mark.parametrize(
    "standing", [Standing.INFLIGHT_LIVE, Standing.INFLIGHT_EXPIRED], ids=lambda one: one.value
)
def test_a_plan_that_a_foreign_writer_executes_counts_as_one_that_cannot_be_cancelled(
    plan, standing
):
    firm = dict(zip(CANCELLABLE, FIRM, strict=True))[plan]
    for mine in Kind:
        taken = judge(my(mine), [other(plan, standing=standing, is_foreign=True)])
        assert taken.cancels == ()
        assert taken.may_commit is judge(my(mine), [other(firm, standing=standing)]).may_commit
    waiting = other(plan, standing=Standing.REQUESTED, is_foreign=True)
    assert judge(my(), [waiting]).cancels == (waiting.time,)
