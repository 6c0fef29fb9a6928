"""What clean does for cancellable plans, and who else may do it."""

from __future__ import annotations

import pytest

from kernel_scripts import (
    EXPIRED_S,
    HOUR_S,
    begin_plan,
    cancellable,
    count_calls,
    data_of,
    has_cancel_file,
    kill_at,
    outcome,
    run_plan,
    scene,
    staged_places,
    state,
    traces_of,
)
from kernel_tables import compaction_request, ingest
from lakehand.core.instants import Action, State
from lakehand.core.journal_entries import CancellationPolicy
from lakehand.core.journal_moves import Standing
from lakehand.core.table_kinds import TableVersion
from lakehand.errors import PlanAborted, PlanBusy, PlanCancelled
from lakehand.protocol import cancelling, failed_writes, planning
from lakehand.protocol.transaction import transaction

NINE = TableVersion.NINE
TWO_HOURS = CancellationPolicy(hours=2.0)
THREE_WRITES = CancellationPolicy(hours=None, completed_writes=3)


def service(*groups: str, **options: object):
    return compaction_request(*groups, action=Action.LOG_COMPACTION, **options)


@pytest.fixture(params=[TableVersion.SIX, TableVersion.EIGHT, NINE], ids=["v6", "v8", "v9"])
def table(request):
    return scene(request.param)


def request(table, time: str) -> None:
    cancelling.request_cancel(table.worker("other"), time, reason="in the way")


def dead_attempt(table, *groups: str, **options: object):
    """A plan whose executor died after it promoted its files."""
    time = cancellable(table, service(*groups), **options)
    work = begin_plan(table.worker(), time, groups)
    table.clock.advance(EXPIRED_S)
    return time, work


# -- the policy -----------------------------------------------------------------------------------


@pytest.mark.req("B-28")
def test_clean_cancels_plans_past_their_hours_and_no_younger_one(table):
    old = cancellable(table, service("f1"), policy=TWO_HOURS)
    firm = planning.schedule(table.worker(), service("f3"))
    table.clock.advance(HOUR_S)
    young = cancellable(table, service("f2"), policy=TWO_HOURS)
    table.clock.advance(HOUR_S - 1)
    assert table.clean().aborted == ()
    table.clock.advance(1)
    assert table.clean().aborted == (old,)
    found = {time: state(table, time) for time in (old, young, firm)}
    assert found == {old: State.ABORTED, young: State.REQUESTED, firm: State.REQUESTED}
    table.clock.advance(1000 * HOUR_S)
    assert table.clean().aborted == (young,)
    assert state(table, firm) is State.REQUESTED


@pytest.mark.req("B-28")
def test_clean_counts_completed_writes_since_the_plan_too(table):
    ingest(table.worker(), "g0")
    time = cancellable(table, service("f1"), policy=THREE_WRITES)
    for group in ("g1", "g2"):
        ingest(table.worker(), group)
        assert table.clean().aborted == ()
    table.clock.advance(1000 * HOUR_S)
    assert table.clean().aborted == ()
    ingest(table.worker(), "g3")
    assert table.clean().aborted == (time,)


@pytest.mark.req("B-28")
def test_clean_aborts_what_anybody_cancelled_whatever_its_policy(table):
    asked, _ = dead_attempt(table, "f1")
    by_commit = cancellable(table, service("f2"))
    ingest(table.worker(), "f2")
    untouched = cancellable(table, service("f3"))
    request(table, asked)
    assert set(table.clean().aborted) == {asked, by_commit}
    assert state(table, untouched) is State.REQUESTED
    for time in (asked, by_commit):
        assert state(table, time) is State.ABORTED
        assert data_of(table, time) == []
        assert not has_cancel_file(table, time)


@pytest.mark.req("B-29")
def test_clean_does_so_when_there_is_nothing_to_clean(table):
    """No write was ever made: there is no instant but the plan."""
    time = cancellable(table, service("f1"), policy=TWO_HOURS)
    table.clock.advance(2 * HOUR_S)
    done = table.clean()
    assert (done.aborted, dict(done.rolled_back)) == ((time,), {})
    assert state(table, time) is State.ABORTED


@pytest.mark.req("B-30")
def test_past_its_policy_a_live_plan_is_cancelled_at_once_and_cleaned_up_when_dead(table):
    time = cancellable(table, service("f1"), policy=TWO_HOURS)
    table.clock.advance(2 * HOUR_S - 1)
    work = begin_plan(table.worker(), time, ("f1",))
    table.clock.advance(1)
    done = table.clean()
    assert table.view().fold.standing(time) is Standing.CANCELLED
    assert has_cancel_file(table, time)
    assert done.aborted == ()
    assert time in done.left
    assert data_of(table, time) != []
    with pytest.raises(PlanCancelled):
        work.commit()
    table.clock.advance(EXPIRED_S)
    assert table.clean().aborted == (time,)
    assert data_of(table, time) == []


@pytest.mark.req("B-30")
def test_a_dead_attempt_within_its_policy_is_left_to_the_next_one(table):
    time, _work = dead_attempt(table, "f1", policy=TWO_HOURS)
    table.clean()
    assert state(table, time) is State.INFLIGHT
    assert data_of(table, time) != []
    assert run_plan(table.worker(), time, ("f1",)) is not None


# -- with nobody left -----------------------------------------------------------------------------


@pytest.mark.req("B-33")
def test_with_no_executor_left_the_plan_is_gone_after_its_policy_and_one_clean():
    """Wherever its executor was killed: one clean past the policy ends it, without a trace."""

    def work(bench, time):
        return run_plan(bench, time, ("f1", "f2"))

    probe = scene(NINE)
    time = cancellable(probe, service("f1", "f2"), policy=TWO_HOURS)
    calls = count_calls(probe.worker(), lambda bench: work(bench, time))
    ends = []
    for number in range(1, calls + 1):
        for done in (False, True):
            ends.append(_killed_and_cleaned(work, number, done=done))
    assert set(ends) == {State.ABORTED, State.COMPLETED}


def _killed_and_cleaned(work, number: int, *, done: bool) -> State | None:
    table = scene(NINE)
    time = cancellable(table, service("f1", "f2"), policy=TWO_HOURS)
    bench = table.worker()
    assert kill_at(bench, lambda dying: work(dying, time), number, done=done)
    table.clock.advance(2 * HOUR_S)
    table.clean()
    assert table.view().timeline.pending == ()
    assert table.view().fold.open == ()
    table.clean()
    assert traces_of(table, time) == []
    assert len(data_of(table, time)) == (2 if state(table, time) is State.COMPLETED else 0)
    if state(table, time) is State.ABORTED:
        assert not has_cancel_file(table, time)
    return state(table, time)


def test_a_clean_that_is_killed_anywhere_is_finished_by_the_next():
    def start():
        table = scene(NINE)
        time = cancellable(table, service("f1", "f2"), policy=TWO_HOURS)
        bench = table.worker()
        begin_plan(bench, time, ("f1",))
        table.clock.advance(2 * HOUR_S)
        return table, time

    table, _time = start()
    calls = count_calls(table.worker(), failed_writes.clean_up)
    for number in range(1, calls + 1):
        table, time = start()
        assert kill_at(table.worker(), failed_writes.clean_up, number, done=number % 2 == 0)
        table.clock.advance(EXPIRED_S)
        table.clean()
        table.clean()
        assert state(table, time) is State.ABORTED
        assert not has_cancel_file(table, time)
        assert data_of(table, time) == traces_of(table, time) == staged_places(table) == []


def test_what_waits_for_pending_instants_does_not_wait_for_an_aborted_one(table):
    """The part of B-34 that is there: nothing that is pending, open or failed is left."""
    time, _work = dead_attempt(table, "f1")
    request(table, time)
    table.clean()
    for number in range(40):
        ingest(table.worker(), f"g{number}")
    view = table.view()
    assert view.timeline.pending == ()
    assert view.fold.open == ()
    assert [one.time for one in view.timeline.aborted] == [time]


# -- who else may ---------------------------------------------------------------------------------


@pytest.mark.req("B-31")
def test_a_failed_plan_is_cleaned_up_at_once_by_its_own_worker(table):
    """Long before its policy, with its heartbeat still beating: it hands that over."""
    time = cancellable(table, service("f1"))
    bench = table.worker()
    work = begin_plan(bench, time, ("f1",))
    cancelling.request_cancel(bench, time, reason="out of memory")
    cancelling.execute_cancel(bench, time, own=work.attempt.heartbeat)
    assert state(table, time) is State.ABORTED
    assert traces_of(table, time) == []
    assert data_of(table, time) == []


@pytest.mark.req("B-31")
def test_a_person_cancels_and_aborts_before_the_policy_asks_for_it(table):
    time, _work = dead_attempt(table, "f1")
    assert not failed_writes.is_overdue(table.view(), table.view().fold.record(time))
    person = table.worker("person")
    cancelling.request_cancel(person, time, reason="archival waits for it")
    cancelling.execute_cancel(person, time)
    assert state(table, time) is State.ABORTED


@pytest.mark.req("B-32")
def test_clean_and_the_next_attempt_may_both_abort_and_keep_apart(table):
    """Each sleeps at its every store call while the other tries: one works, the other is busy."""
    time, _work = dead_attempt(table, "f1")
    request(table, time)
    claim_abort = cancelling._claim
    first = table.worker("first")
    with transaction(first) as tx:
        tx.decide(lambda view: claim_abort(first, view, time, None))
    with pytest.raises(PlanBusy):
        cancelling.execute_cancel(table.worker(), time)
    cleaned = table.clean()
    assert cleaned.aborted == ()
    assert time in cleaned.left
    with pytest.raises(PlanBusy):
        run_plan(table.worker(), time, ("f1",))
    table.clock.advance(EXPIRED_S)
    assert table.clean().aborted == (time,)
    assert isinstance(outcome(lambda: run_plan(table.worker(), time, ("f1",))), PlanAborted)


@pytest.mark.req("B-32")
def test_clean_waits_its_extra_delay_and_the_next_attempt_does_not():
    table = scene(NINE, cancel_clean_delay_s=600.0)
    times = []
    for group in ("f1", "f2"):
        time, _work = dead_attempt(table, group)
        times.append(time)
        request(table, time)
    table.clock.advance(EXPIRED_S)
    assert table.clean().aborted == ()
    assert run_plan(table.worker(), times[0], ("f1",)) is None
    assert state(table, times[0]) is State.ABORTED
    table.clock.advance(600)
    assert table.clean().aborted == (times[1],)
