"""``request_cancel``: by anybody, at any moment before the commit, and never taken back."""

from __future__ import annotations

import pytest

from kernel_scripts import (
    Killed,
    WatchedStore,
    begin_ingestion,
    begin_plan,
    cancellable,
    clustering_request,
    count_calls,
    files_of,
    has_cancel_file,
    on_store,
    outcome,
    run_plan,
    scene,
    sleep_at,
    state,
)
from kernel_tables import compaction_request, ingest
from lakehand.core.instants import Action, State
from lakehand.core.journal_moves import MOVES, Standing
from lakehand.core.table_kinds import TableVersion
from lakehand.errors import (
    AlreadyCommitted,
    Conflict,
    ForeignExecutor,
    LakehandError,
    NotCancellable,
    PlanCancelled,
    PlanNotFound,
)
from lakehand.protocol import cancelling, claiming, planning, publishing, rolling_back
from lakehand.store.local import LocalStore

NINE = TableVersion.NINE
VERSIONS = pytest.mark.parametrize("version", [TableVersion.SIX, TableVersion.EIGHT, NINE])


def service(*groups: str, **options: object):
    return compaction_request(*groups, action=Action.LOG_COMPACTION, **options)


def request(table, time: str) -> None:
    cancelling.request_cancel(table.worker("other"), time, reason="in the way")


@VERSIONS
@pytest.mark.req("B-14")
def test_anybody_cancels_a_plan_at_every_store_call_of_its_executor(version):
    """The executor sleeps; somebody else asks, waits for nobody, and learns that it is so."""
    calls = count_executor_calls(version)
    committed_first = [asked_during(version, number) for number in range(1, calls + 1)]
    assert 0 < sum(committed_first) < calls


def asked_during(version: TableVersion, number: int) -> bool:
    """Ask while the executor sleeps in this call; tell whether it had committed before."""
    table = scene(version)
    time = cancellable(table, service("f1"))
    answers: list[object] = []

    def ask() -> None:
        holder = table.worker().locks.holder()
        if holder is not None:  # the sleeper's lease ran out
            table.worker().locks.break_lock(holder)
        answers.append(outcome(lambda: request(table, time)))

    bench = table.worker("asleep")
    outcome(lambda: sleep_at(bench, lambda b: run_plan(b, time, ("f1",)), number, ask))
    if isinstance(answers[0], AlreadyCommitted):
        assert state(table, time) is State.COMPLETED
        return True
    assert answers[0] is None
    assert state(table, time) is not State.COMPLETED
    assert table.view().fold.standing(time) is not Standing.COMMITTED
    return False


def count_executor_calls(version: TableVersion) -> int:
    table = scene(version)
    time = cancellable(table, service("f1"))
    return count_calls(table.worker(), lambda bench: run_plan(bench, time, ("f1",)))


@pytest.mark.req("B-14")
def test_a_compaction_that_java_may_have_begun_is_reported_instead_of_promised():
    """An inflight file without a claim: its executor knows no journal, and looks nowhere."""
    table = scene(NINE)
    for plan, begun in (
        (compaction_request("f1"), "compaction.inflight"),
        (clustering_request("f2"), "clustering.inflight"),
    ):
        time = cancellable(table, plan)
        table.store.put_new(f"{table.kernel.config.timeline_path}/{time}.{begun}", b"")
        with pytest.raises(ForeignExecutor, match="knows no journal"):
            request(table, time)
        assert not has_cancel_file(table, time)
        assert table.view().fold.standing(time) is Standing.REQUESTED


@VERSIONS
@pytest.mark.req("B-15")
def test_a_request_makes_the_cancel_file_of_a_pending_plan(version):
    """In each state before the commit, and only once however often it is asked."""
    for stage in ("requested", "executing", "prepared"):
        table = scene(version)
        time = cancellable(table, service("f1"))
        if stage == "executing":
            claiming.claim(table.worker(), time)
        elif stage == "prepared":
            begin_plan(table.worker(), time, ("f1",))
        before = files_of(table, time)
        request(table, time)
        tail = table.view().fold.tail
        assert has_cancel_file(table, time)
        assert files_of(table, time) == before
        for _ in range(3):
            request(table, time)
        assert table.view().fold.tail == tail


@VERSIONS
@pytest.mark.req("B-15")
def test_a_request_makes_no_file_where_there_is_nothing_to_cancel(version):
    table = scene(version)
    committed = cancellable(table, service("f1"))
    run_plan(table.worker(), committed, ("f1",))
    aborted = cancellable(table, service("f1"))
    request(table, aborted)
    cancelling.execute_cancel(table.worker(), aborted)
    firm = planning.schedule(table.worker(), service("f1"))
    removable = planning.schedule(table.worker(), service("f2", removable=True))
    write = begin_ingestion(table.worker(), "f5").time
    expected = {
        committed: AlreadyCommitted,
        firm: NotCancellable,
        removable: NotCancellable,
        write: NotCancellable,
        "20010101000000000": PlanNotFound,
    }
    tail = table.view().fold.tail
    for time, error in expected.items():
        with pytest.raises(error):
            request(table, time)
    request(table, aborted)
    for time in (*expected, aborted):
        assert not has_cancel_file(table, time)
    assert table.view().fold.tail == tail


@pytest.mark.req("B-15")
def test_a_request_decides_on_what_is_there_after_the_lock():
    """The commit comes between the caller's own look and its transaction."""
    table = scene(NINE)
    time = cancellable(table, service("f1"))
    work = begin_plan(table.worker(), time, ("f1",))
    asker = table.worker()
    asker.journal.refresh()
    work.commit()
    with pytest.raises(AlreadyCommitted):
        cancelling.request_cancel(asker, time, reason="too late")
    assert not has_cancel_file(table, time)


@VERSIONS
@pytest.mark.req("B-16")
def test_after_the_request_returned_the_plan_never_commits(version):
    """Not its executor, not a later attempt, not a repeated one: its one way on is the abort."""
    table = scene(version)
    time = cancellable(table, service("f1"))
    work = begin_plan(table.worker(), time, ("f1",))
    request(table, time)
    for _ in range(3):
        with pytest.raises(PlanCancelled):
            work.commit()
        with pytest.raises(PlanCancelled):
            claiming.claim(table.worker(), time)
        table.clock.advance(1000)
    assert state(table, time) is State.INFLIGHT
    table.clean()
    with pytest.raises(LakehandError):
        work.commit()
    assert state(table, time) is State.ABORTED
    assert files_of(table, time) == [f"{time}.logcompaction.aborted"]


@pytest.mark.req("B-16")
def test_no_chain_of_moves_leads_from_cancelled_to_committed():
    reached, todo = set(), [Standing.CANCELLED]
    while todo:
        standing = todo.pop()
        if standing not in reached:
            reached.add(standing)
            todo.extend(MOVES[standing].values())
    assert reached == {
        Standing.CANCELLED,
        Standing.ABORTING,
        Standing.ABORTED,
        Standing.SUPERSEDED,
    }


@pytest.mark.req("B-17")
@pytest.mark.parametrize("place", ["memory", "local"])
def test_a_request_cannot_be_taken_back(place, tmp_path):
    """Not by removing the file, not by a rollback, not by trimming the journal."""
    store = LocalStore(str(tmp_path / "t")) if place == "local" else None
    table = scene(NINE, store=store, checkpoint_every=3)
    time = cancellable(table, service("f1"))
    work = begin_plan(table.worker(), time, ("f1",))
    request(table, time)
    table.store.delete(publishing.cancel_path(time))
    with pytest.raises(Conflict):
        rolling_back.schedule_rollback(table.worker(), time)
    for number in range(8):
        ingest(table.worker(), f"g{number}")
    assert table.view().fold.checkpoint > 0
    assert "000000000001" not in table.store.names(".hoodie/.lakehand/journal")
    with pytest.raises(PlanCancelled):
        work.commit()
    with pytest.raises(PlanCancelled):
        claiming.claim(table.worker(), time)
    assert table.view().fold.standing(time) is Standing.CANCELLED


@pytest.mark.req("B-17")
def test_nothing_that_the_package_offers_takes_a_request_back():
    public = {name for name in dir(cancelling) if not name.startswith("_")}
    assert not any("un" in name.split("_") or "revoke" in name for name in public)
    assert [
        (standing, move.value)
        for standing in (Standing.CANCELLED, Standing.ABORTING)
        for move, after in MOVES[standing].items()
        if after not in (Standing.ABORTING, Standing.ABORTED, Standing.SUPERSEDED)
    ] == []


@pytest.mark.req("B-14")
def test_a_request_needs_nothing_from_the_executor():
    """It may be killed, live or unreachable: its heartbeat is neither read nor written."""
    table = scene(NINE)
    time = cancellable(table, service("f1"))
    begin_plan(table.worker(), time, ("f1",))
    touched: list[str] = []

    class Looking(WatchedStore):
        def _call(self, call, name, *args, **named):
            touched.extend(str(one) for one in args)
            return super()._call(call, name, *args, **named)

    bench = table.worker()
    watched = Looking(bench.store, lambda _n: None, lambda _n: None)
    cancelling.request_cancel(on_store(bench, watched), time, reason="now")
    assert touched
    assert not [one for one in touched if ".heartbeat" in one]


def test_a_killed_worker_does_nothing_more():
    """Of these tests' own tool: a dead worker's ``finally`` does not reach the store."""
    table = scene(NINE)
    bench = table.worker()
    watched = WatchedStore(bench.store, lambda _n: None, lambda _n: None)
    dead = on_store(bench, watched)
    watched.is_dead = True
    with pytest.raises(Killed):
        dead.store.put("x", b"")
    assert table.store.head("x") is None
