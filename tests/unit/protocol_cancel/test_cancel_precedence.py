"""Who gives way to whom, through the whole path: journal, commit transaction, timeline files."""

from __future__ import annotations

import pytest

from kernel_scripts import (
    EXPIRED_S,
    begin_ingestion,
    begin_plan,
    cancellable,
    clustering_request,
    data_of,
    has_cancel_file,
    outcome,
    run_plan,
    scene,
    stage_and_prepare,
    state,
    traces_of,
)
from kernel_tables import compaction_request, execute, ingest, show_groups
from lakehand.core.instants import Action, State
from lakehand.core.journal_moves import Standing
from lakehand.core.table_kinds import TableVersion
from lakehand.errors import PlanAborted, PlanCancelled, WriteConflict
from lakehand.formats import commit_metadata
from lakehand.protocol import (
    cancelling,
    claiming,
    footprint_reader,
    heartbeats,
    planning,
    writing,
)
from lakehand.protocol.conflict_check import look
from lakehand.protocol.planning import PlanRequest
from lakehand.protocol.timeline_loader import instant_path
from lakehand.protocol.transaction import load_view

SIX, EIGHT, NINE = TableVersion.SIX, TableVersion.EIGHT, TableVersion.NINE


def plan_of(version: TableVersion, *groups: str) -> PlanRequest:
    """A plan that may be cancellable in this version."""
    if version is SIX:
        return compaction_request(*groups, action=Action.LOG_COMPACTION)
    return clustering_request(*groups)


@pytest.fixture(params=[SIX, EIGHT, NINE], ids=["v6", "v8", "v9"])
def table(request):
    made = scene(request.param)
    ingest(made.worker(), "f1")
    return made


def services_plan(table, *groups: str, **options: object) -> str:
    return cancellable(table, plan_of(table.kernel.version, *groups), **options)


def firm_plan(table, *groups: str) -> str:
    return planning.schedule(table.worker(), plan_of(table.kernel.version, *groups))


def assert_refused_and_cancelled(table, work) -> None:
    """The plan at its commit: refused, cancelled by itself, and then aborted."""
    time = work.attempt.time
    with pytest.raises(PlanCancelled, match="cancelled"):
        work.commit()
    assert state(table, time) is State.INFLIGHT
    assert has_cancel_file(table, time)
    cancelling.execute_cancel(work.bench, time, own=work.attempt.heartbeat)
    assert state(table, time) is State.ABORTED
    assert data_of(table, time) == []


# -- the plan gives way ---------------------------------------------------------------------------


@pytest.mark.req("B-04")
def test_a_plan_does_not_commit_after_ingestion_did_since_it_was_planned(table):
    """Also when the ingestion began before the plan, and when the plan's attempt began after."""
    running = begin_ingestion(worker := table.worker(), "f1")
    time = services_plan(table, "f1", "f2")
    stage_and_prepare(worker, running, ("f1",)).commit()
    assert table.view().fold.standing(time) is Standing.CANCELLED
    with pytest.raises(PlanCancelled):
        begin_plan(table.worker(), time, ("f1", "f2"))
    assert run_plan(table.worker(), time, ("f1", "f2")) is None
    assert state(table, time) is State.ABORTED


@pytest.mark.req("B-04")
def test_a_plan_that_looks_for_itself_is_refused_by_what_committed_since(table, monkeypatch):
    """Were the ingestion's commit not to cancel it, the plan's own judgement would do."""
    monkeypatch.setattr("lakehand.protocol.committing.require_no_conflict", lambda *_args: ())
    time = services_plan(table, "f1")
    work = begin_plan(table.worker(), time, ("f1",))
    ingest(table.worker(), "f1")
    monkeypatch.undo()
    assert_refused_and_cancelled(table, work)


@pytest.mark.req("B-04")
def test_a_plan_does_not_commit_after_a_firm_service_did(table, monkeypatch):
    monkeypatch.setattr("lakehand.protocol.committing.require_no_conflict", lambda *_args: ())
    firm = firm_plan(table, "f1")
    time = services_plan(table, "f1")
    work = begin_plan(table.worker(), time, ("f1",))
    execute(table.worker(), firm, ("f1",))
    monkeypatch.undo()
    assert_refused_and_cancelled(table, work)


@pytest.mark.req("B-04")
def test_what_committed_before_the_plan_was_made_or_on_other_groups_does_not_matter(table):
    time = services_plan(table, "f1")
    ingest(table.worker(), "f9")
    assert run_plan(table.worker(), time, ("f1",)) is not None
    assert state(table, time) is State.COMPLETED


@pytest.mark.req("B-05")
def test_a_plan_does_not_commit_while_ingestion_is_inflight(table):
    time = services_plan(table, "f1")
    work = begin_plan(table.worker(), time, ("f1",))
    running = begin_ingestion(worker := table.worker(), "f1")
    assert_refused_and_cancelled(table, work)
    stage_and_prepare(worker, running, ("f1",)).commit()
    assert state(table, running.time) is State.COMPLETED


@pytest.mark.req("B-05")
def test_a_plan_does_not_commit_while_a_firm_plan_on_its_groups_is_pending_at_all(table):
    """Requested is enough; on other groups it is nothing."""
    firm_plan(table, "f7")
    firm_plan(table, "f1")
    time = services_plan(table, "f1")
    work = begin_plan(table.worker(), time, ("f1",))
    assert_refused_and_cancelled(table, work)
    free = services_plan(table, "f2")
    assert run_plan(table.worker(), free, ("f2",)) is not None


@pytest.mark.req("B-05")
def test_an_inflight_write_whose_heartbeat_expired_holds_no_plan_back(table):
    begin_ingestion(table.worker(), "f1")
    table.clock.advance(EXPIRED_S)
    time = services_plan(table, "f1")
    assert run_plan(table.worker(), time, ("f1",)) is not None


@pytest.mark.req("B-06")
def test_a_refused_plan_ends_aborted_and_is_not_tried_for_ever(table):
    """By its own worker, by the next attempt, or by clean: whoever comes first."""

    def by_worker(work):
        cancelling.execute_cancel(work.bench, work.attempt.time, own=work.attempt.heartbeat)

    def by_next_attempt(work):
        table.clock.advance(EXPIRED_S)
        assert run_plan(table.worker(), work.attempt.time, ("f2",)) is None

    def by_clean(work):
        table.clock.advance(EXPIRED_S)
        assert table.clean().aborted == (work.attempt.time,)

    for finish in (by_worker, by_next_attempt, by_clean):
        time = services_plan(table, "f2")
        work = begin_plan(table.worker(), time, ("f2",))
        running = begin_ingestion(worker := table.worker(), "f2")
        assert data_of(table, time) != []
        with pytest.raises(PlanCancelled):
            work.commit()
        finish(work)
        assert state(table, time) is State.ABORTED
        assert data_of(table, time) == []
        table.clean()
        assert traces_of(table, time) == []
        with pytest.raises(PlanAborted):
            claiming.claim(table.worker(), time)
        table.clock.advance(EXPIRED_S)
        assert outcome(lambda r=running, w=worker: stage_and_prepare(w, r, ("f2",)))
        table.clean()


# -- ingestion goes first -------------------------------------------------------------------------


@pytest.mark.req("B-07")
def test_a_pending_plan_never_makes_ingestion_fail_and_is_cancelled_by_its_commit(table):
    """Requested, at work, prepared: whatever its state. One entry of the journal does both."""
    for stage in ("requested", "executing", "prepared"):
        time = services_plan(table, "f1")
        if stage == "executing":
            claiming.claim(table.worker(), time)
        elif stage == "prepared":
            begin_plan(table.worker(), time, ("f1",))
        done = ingest(worker := table.worker(), "f1")
        assert state(table, done.time) is State.COMPLETED
        assert table.view().fold.standing(time) is Standing.CANCELLED
        assert has_cancel_file(table, time)
        commit = worker.journal.read(worker.journal.fold.tail.seq).entry.body
        assert [one.time for one in commit.cancels] == [time]


@pytest.mark.req("B-07")
def test_a_refused_write_cancels_nothing(table):
    """It also conflicts with a write that committed meanwhile: the plan keeps its place."""
    loser = begin_ingestion(worker := table.worker(), "f1", "f2")
    prepared = stage_and_prepare(worker, loser, ("f1", "f2"))
    ingest(table.worker(), "f1")
    time = services_plan(table, "f2")
    with pytest.raises(WriteConflict):
        prepared.commit()
    assert table.view().fold.standing(time) is Standing.REQUESTED
    assert not has_cancel_file(table, time)
    assert run_plan(table.worker(), time, ("f2",)) is None  # the loser is inflight and live yet


@pytest.mark.req("B-08")
def test_the_commit_of_a_firm_service_cancels_pending_cancellable_plans_too(table):
    time = services_plan(table, "f1")
    work = begin_plan(table.worker(), time, ("f1",))
    firm = firm_plan(table, "f1")
    execute(table.worker(), firm, ("f1",))
    assert state(table, firm) is State.COMPLETED
    assert table.view().fold.standing(time) is Standing.CANCELLED
    with pytest.raises(PlanCancelled):
        work.commit()


@pytest.mark.req("B-09")
def test_ingestion_is_refused_when_the_plan_committed_since_it_started(table):
    """Before its inflight file as at its commit, in spite of its precedence."""
    time = services_plan(table, "f1")
    work = begin_plan(table.worker(), time, ("f1",))
    requested = writing.begin_write(
        worker := table.worker(), PlanRequest(action=Action.DELTA_COMMIT)
    )
    assert isinstance(requested, claiming.Attempt)
    work.commit()
    with pytest.raises(WriteConflict, match="precedence ends there"):
        show_groups(worker, requested, ("f1",))


@pytest.mark.req("B-09")
def test_ingestion_is_refused_at_its_commit_too(table):
    time = services_plan(table, "f1")
    running = begin_ingestion(worker := table.worker(), "f1")
    prepared = stage_and_prepare(worker, running, ("f1",))
    table.clock.advance(EXPIRED_S)  # its heartbeat: it holds nobody back any more
    assert run_plan(table.worker(), time, ("f1",)) is not None
    beat = heartbeats.path_of(running.time)
    table.store.put(beat, table.store.get(beat).content)  # and yet it was only slow
    with pytest.raises(WriteConflict, match="precedence ends there"):
        prepared.commit()


# -- steps of an ingestion write ------------------------------------------------------------------


@pytest.mark.req("B-10")
def test_ingestion_shows_its_groups_before_it_writes_data(table):
    """Requested; then an inflight file with the groups, after a first check; then the commit."""
    worker = table.worker()
    attempt = writing.begin_write(worker, PlanRequest(action=Action.DELTA_COMMIT))
    assert isinstance(attempt, claiming.Attempt)
    assert state(table, attempt.time) is State.REQUESTED
    show_groups(worker, attempt, ("f1", "f2"))
    view = table.view()
    instant = view.timeline.find(attempt.time)
    assert instant is not None
    assert instant.state is State.INFLIGHT
    assert data_of(table, attempt.time) == []
    inflight = table.store.get(instant_path(view.config, instant)).content
    shown = footprint_reader.of_metadata(commit_metadata.decode(inflight, where=attempt.time))
    assert {key.file_id for key in shown.groups} == {"f1", "f2"}
    assert set(view.fold.record(attempt.time).groups or ()) == {("p", "f1"), ("p", "f2")}
    stage_and_prepare(worker, attempt, ("f1", "f2")).commit()
    assert state(table, attempt.time) is State.COMPLETED


@pytest.mark.req("B-10")
def test_the_first_check_refuses_before_any_data_is_written(table):
    worker = table.worker()
    attempt = writing.begin_write(worker, PlanRequest(action=Action.DELTA_COMMIT))
    assert isinstance(attempt, claiming.Attempt)
    ingest(table.worker(), "f1")
    with pytest.raises(WriteConflict):
        show_groups(worker, attempt, ("f1",))
    assert state(table, attempt.time) is State.REQUESTED
    assert data_of(table, attempt.time) == []


@pytest.mark.req("B-11")
def test_a_write_that_is_only_requested_holds_no_plan_back(table):
    attempt = writing.begin_write(worker := table.worker(), PlanRequest(action=Action.DELTA_COMMIT))
    assert isinstance(attempt, claiming.Attempt)
    time = services_plan(table, "f1")
    assert run_plan(table.worker(), time, ("f1",)) is not None
    show_groups(worker, attempt, ("f2",))
    stage_and_prepare(worker, attempt, ("f2",)).commit()


@pytest.mark.req("B-12")
def test_an_attempt_may_look_while_it_works_and_stop_early(table):
    """Nothing changes by looking; what it finds is what its commit would find."""
    time = services_plan(table, "f1")
    bench = table.worker()
    work = begin_plan(bench, time, ("f1",))
    assert look(bench, load_view(bench), work.attempt).may_commit
    begin_ingestion(table.worker(), "f1")
    before = bench.journal.refresh().tail
    found = look(bench, load_view(bench), work.attempt)
    assert not found.may_commit
    assert "ingestion goes first" in found.refusals[0].reason
    assert bench.journal.refresh().tail == before
    cancelling.request_cancel(bench, time, reason=found.refusals[0].reason)
    cancelling.execute_cancel(bench, time, own=work.attempt.heartbeat)
    assert state(table, time) is State.ABORTED


# -- two plans, and freedom after -----------------------------------------------------------------


@pytest.mark.req("B-13")
def test_two_plans_on_one_group_ignore_each_other_until_one_committed(table):
    first, second = services_plan(table, "f1"), services_plan(table, "f1")
    mine, theirs = (begin_plan(table.worker(), one, ("f1",)) for one in (first, second))
    theirs.commit()
    assert table.view().fold.standing(first) is Standing.PREPARED
    assert_refused_and_cancelled(table, mine)
    assert state(table, second) is State.COMPLETED


@pytest.mark.req("B-35")
def test_the_groups_of_a_cancelled_plan_are_free_before_it_is_aborted(table):
    """While its executor still lives: for ingestion, for a firm and for a cancellable plan."""
    time = services_plan(table, "f1")
    work = begin_plan(table.worker(), time, ("f1",))
    cancelling.request_cancel(table.worker(), time, reason="no time")
    new = services_plan(table, "f1")
    assert run_plan(table.worker(), new, ("f1",)) is not None
    firm = firm_plan(table, "f1")
    execute(table.worker(), firm, ("f1",))
    ingest(table.worker(), "f1")
    for done in (new, firm):
        assert state(table, done) is State.COMPLETED
    assert state(table, time) is State.INFLIGHT
    with pytest.raises(PlanCancelled):
        work.commit()
