"""What a writer of Apache Hudi completed, removed or rolled back wins over what we decided.

In every state of ours: requested, at work, prepared, committed but not published, cancelled. It is
recorded in the journal, nothing is published twice, and nothing of the attempt stays.
"""

from __future__ import annotations

from functools import partial

import pytest

from foreign_writers import Java
from kernel_scripts import (
    EXPIRED_S,
    HOUR_S,
    Killed,
    Scene,
    WatchedStore,
    begin_ingestion,
    begin_plan,
    cancellable,
    data_of,
    files_of,
    has_cancel_file,
    on_store,
    outcome,
    scene,
    stage_and_prepare,
    state,
    traces_of,
)
from kernel_tables import compaction_request, execute, ingest, stage_data
from lakehand.core.instants import Action, State
from lakehand.core.journal_moves import Standing
from lakehand.core.table_kinds import TableVersion
from lakehand.errors import Conflict, Fenced, LakehandError, PlanNotFound
from lakehand.protocol import cancelling, claiming, committing, planning, writing
from lakehand.protocol.planning import PlanRequest

VERSIONS = [TableVersion.SIX, TableVersion.EIGHT, TableVersion.NINE]
STATES = ["requested", "claimed", "prepared", "unpublished", "cancelled", "aborting"]
ENDS = ["completed", "removed", "rolled back"]


class _DiesPublishing(WatchedStore):
    """Its worker decides a commit and dies before anybody can see it."""

    def _call(self, call, name, *args, **named):
        final = getattr(args[0], "final", "") if args else ""
        is_completed = final.endswith(("commit", ".compaction")) and "/.temp" not in final
        if name == "promote" and is_completed and ".hoodie" in final:
            self.is_dead = True
            raise Killed
        return super()._call(call, name, *args, **named)


def dying(bench):
    return on_store(bench, _DiesPublishing(bench.store, lambda _n: None, lambda _n: None))


def plan_in(table: Scene, stage: str, action: Action) -> str:
    """A plan of ours, brought to a state, whose worker is gone."""
    request = compaction_request("f1", action=action)
    if action is Action.COMPACTION and table.kernel.version is TableVersion.SIX:
        assert stage not in ("cancelled", "aborting")
        time = planning.schedule(table.worker(), request)
    else:
        time = cancellable(table, request)
    match stage:
        case "claimed":
            claiming.claim(table.worker(), time)
        case "prepared":
            begin_plan(table.worker(), time, ("f1",))
        case "unpublished":
            with pytest.raises(Killed):
                execute(dying(table.worker()), time, ("f1",))
        case "cancelled" | "aborting":
            begin_plan(table.worker(), time, ("f1",))
            cancelling.request_cancel(table.worker(), time, reason="in the way")
    if stage == "aborting":
        _half_abort(table, time)
    return time


def _half_abort(table: Scene, time: str) -> None:
    table.clock.advance(EXPIRED_S)
    bench = table.worker()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("lakehand.protocol.leftovers.remove", partial(_die, Killed))
        with pytest.raises(Killed):
            cancelling.execute_cancel(bench, time)


def _die(error: type[BaseException], *_args: object) -> None:
    raise error


def end_by_java(table: Scene, java: Java, time: str, action: Action, end: str) -> str | None:
    """Java ends our instant; return the file that its completion names."""
    match end:
        case "removed":
            java.remove(time)
        case "rolled back":
            java.roll_back(time, action)
        case _:
            if state(table, time) is State.REQUESTED:
                java.state(time, action, State.INFLIGHT)
            path = java.base_file(time, "f1")
            java.complete(time, action, java.metadata(path, operation="COMPACT"))
            return path
    return None


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("stage", STATES)
def test_a_plan_that_java_ended_is_recorded_as_ended_and_leaves_nothing(version, stage, end):
    table = scene(version)
    ingest(table.worker(), "f1")
    java = Java(table)
    action = Action.LOG_COMPACTION
    time = plan_in(table, stage, action)
    theirs = end_by_java(table, java, time, action, end)
    ingest(table.worker(), "f9")  # any transaction records it
    assert not table.view().fold.open
    for work in (claiming.claim, partial(cancelling.request_cancel, reason="x")):
        answer = outcome(partial(work, table.worker(), time))
        assert isinstance(answer, LakehandError | claiming.AlreadyCompleted | None), answer
    table.clock.advance(30 * HOUR_S)
    for _ in range(2):
        done = table.clean()
        assert (done.aborted, dict(done.left)) == ((), {})
    assert traces_of(table, time) == []
    assert not has_cancel_file(table, time)
    assert data_of(table, time) == ([theirs] if theirs else [])
    completed = [one for one in table.view().timeline.completed if one.time == time]
    assert len(completed) == (1 if theirs else 0)
    assert table.view().timeline.find(time) is None or theirs


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("end", ENDS)
def test_a_worker_of_ours_learns_at_its_commit_that_java_ended_its_plan(version, end):
    table = scene(version)
    ingest(table.worker(), "f1")
    java = Java(table)
    time = cancellable(table, compaction_request("f1", action=Action.LOG_COMPACTION))
    work = begin_plan(table.worker(), time, ("f1",))
    theirs = end_by_java(table, java, time, Action.LOG_COMPACTION, end)
    with pytest.raises((Conflict, Fenced)):
        work.commit()
    table.clock.advance(EXPIRED_S)
    table.clean()
    table.clean()
    assert data_of(table, time) == ([theirs] if theirs else [])
    assert not table.view().fold.open
    if end != "completed":
        assert isinstance(outcome(lambda: claiming.claim(table.worker(), time)), PlanNotFound)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("stage", ["requested", "inflight", "prepared", "unpublished"])
@pytest.mark.parametrize("end", ["removed", "rolled back"])
def test_an_ingestion_write_that_java_rolled_back_is_recorded_and_swept(version, stage, end):
    """Java's lazy clean thinks it dead, as it is; our next transaction knows."""
    table = scene(version)
    java = Java(table)
    bench = table.worker()
    match stage:
        case "requested":
            begun = writing.begin_write(bench, PlanRequest(action=Action.DELTA_COMMIT))
            assert isinstance(begun, claiming.Attempt)
            time = begun.time
        case "inflight":
            time = begin_ingestion(bench, "f1").time
        case "prepared":
            attempt = begin_ingestion(bench, "f1")
            time = stage_and_prepare(bench, attempt, ("f1",)).attempt.time
        case _:
            with pytest.raises(Killed):
                ingest(dying(bench), "f1")
            time = max(table.view().fold.instants)
    table.clock.advance(EXPIRED_S)
    if end == "removed":  # and its rollback is archived
        for path in data_of(table, time):
            table.store.delete(path)
    end_by_java(table, java, time, Action.DELTA_COMMIT, end)
    ingest(table.worker(), "f9")
    assert time not in {one.time for one in table.view().fold.open}
    table.clean()
    table.clean()
    assert data_of(table, time) == []
    assert traces_of(table, time) == []
    assert files_of(table, time) == []
    assert not table.view().fold.open


@pytest.mark.parametrize("version", VERSIONS)
def test_a_file_promoted_after_javas_rollback_is_swept(version):
    """Our worker slept between prepare and promote; its commit is refused, its file goes."""
    table = scene(version)
    ingest(table.worker(), "f0")
    java = Java(table)
    bench = table.worker()
    attempt = begin_ingestion(bench, "f1")
    files = (stage_data(bench, attempt, "f1"),)
    manifest = committing.prepare(bench, attempt, files)
    table.clock.advance(EXPIRED_S)
    java.roll_back(attempt.time, Action.DELTA_COMMIT)
    committing.promote_outputs(bench, attempt, manifest)
    assert data_of(table, attempt.time) != []
    with pytest.raises((Conflict, Fenced)):
        committing.commit(bench, attempt, lambda _time: java.metadata(files[0].final))
    table.clean()
    assert data_of(table, attempt.time) == traces_of(table, attempt.time) == []


@pytest.mark.parametrize("version", VERSIONS)
def test_after_javas_rollback_was_recorded_nothing_of_ours_can_appear(version):
    """The stage goes with the record: a worker that wakes up later promotes nothing."""
    table = scene(version)
    ingest(table.worker(), "f0")
    java = Java(table)
    bench = table.worker()
    attempt = begin_ingestion(bench, "f1")
    manifest = committing.prepare(bench, attempt, (stage_data(bench, attempt, "f1"),))
    table.clock.advance(EXPIRED_S)
    java.roll_back(attempt.time, Action.DELTA_COMMIT)
    table.clean()
    with pytest.raises(Fenced):
        committing.promote_outputs(bench, attempt, manifest)
    assert data_of(table, attempt.time) == []


# -- overtaken between the decision and its publication -------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("dies", [False, True], ids=["awake", "killed"])
def test_a_foreign_completion_before_we_publish_voids_our_commit_and_loses_nothing(version, dies):
    """Two held the lock. Our plan's files go, Java's write stays, and the plan runs again."""
    table = scene(version)
    ingest(table.worker(), "f1")
    java = Java(table)
    time = planning.schedule(table.worker(), compaction_request("f1", action=Action.LOG_COMPACTION))
    theirs = _commit_beside(table, java, time, dies=dies)
    standing = table.view().fold.standing(time)
    assert standing is Standing.VOIDED
    assert state(table, time) is State.INFLIGHT
    assert data_of(table, theirs) != []
    with pytest.raises(Conflict):
        claiming.claim(table.worker(), time)
    table.clock.advance(EXPIRED_S)
    rolled_back = table.clean().rolled_back
    assert [end.value for end in rolled_back.values()] == ["plan kept"]
    assert data_of(table, time) == []
    assert data_of(table, theirs) != []
    again = outcome(lambda: execute(table.worker(), time, ("f1",)))
    assert state(table, theirs) is State.COMPLETED
    assert isinstance(again, Conflict) or state(table, time) is State.COMPLETED


def _commit_beside(table: Scene, java: Java, time: str, *, dies: bool) -> str:
    """Java's write completes after our entry is appended and before its file is promoted."""
    theirs = java.begin("f7")
    wrote: list[str] = []

    class Overtaken(WatchedStore):
        is_decided = False

        def _call(self, call, name, *args, **named):
            if name == "names" and self.is_decided and not wrote:
                wrote.append(java.base_file(theirs, "f7"))
                java.complete(theirs, Action.DELTA_COMMIT, java.metadata(*wrote))
                if dies:
                    self.is_dead = True
                    raise Killed
            return super()._call(call, name, *args, **named)

    bench = table.worker()
    store = Overtaken(bench.store, lambda _n: None, lambda _n: None)
    watched = on_store(bench, store)
    work = begin_plan(watched, time, ("f1",))
    append = watched.journal.append

    def appended(*args, **named):
        entry = append(*args, **named)
        store.is_decided = True
        return entry

    watched.journal.append = appended
    try:
        ended = outcome(work.commit)
    except Killed:
        ended = None
    assert wrote
    assert ended is None if dies else isinstance(ended, Conflict)
    if dies:
        ingest(table.worker(), "f8")
    return theirs


@pytest.mark.parametrize("version", VERSIONS)
def test_an_ingestion_commit_that_was_voided_is_rolled_back_whole(version):
    table = scene(version)
    java = Java(table)
    theirs = java.begin("f7")
    with pytest.raises(Killed):
        ingest(dying(table.worker()), "f1")
    path = java.base_file(theirs, "f7")
    java.complete(theirs, Action.DELTA_COMMIT, java.metadata(path))
    ours = max(table.view().fold.instants)
    ingest(table.worker(), "f8")
    assert table.view().fold.standing(ours) is Standing.VOIDED
    table.clock.advance(EXPIRED_S)
    assert [end.value for end in table.clean().rolled_back.values()] == ["removed"]
    assert data_of(table, ours) == files_of(table, ours) == traces_of(table, ours) == []
    assert data_of(table, theirs) == [path]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_foreign_file_under_our_requested_name_is_not_ours(version):
    """The same millisecond: nothing of the other's is touched, and the next try gets a new time."""
    table = scene(version)
    taken: list[str] = []

    class Taken(WatchedStore):
        def _call(self, call, name, *args, **named):
            final = getattr(args[0], "final", "") if args else ""
            if name == "promote" and final.endswith(".requested") and not taken:
                taken.append(final)
                table.store.put_new(final, b"a plan of somebody else's")
            return super()._call(call, name, *args, **named)

    bench = table.worker()
    watched = on_store(bench, Taken(bench.store, lambda _n: None, lambda _n: None))
    first = outcome(lambda: planning.schedule(watched, compaction_request("f1")))
    theirs = taken[0].rpartition("/")[2].partition(".")[0]
    assert table.store.get(taken[0]).content == b"a plan of somebody else's"
    time = (
        first
        if isinstance(first, str)
        else planning.schedule(table.worker(), compaction_request("f1"))
    )
    assert isinstance(first, str | Conflict)
    assert time > theirs
    assert state(table, time) is State.REQUESTED
    assert table.view().fold.record(theirs).standing not in (
        Standing.REQUESTED,
        Standing.EXECUTING,
    )


def test_what_java_ended_cannot_be_cancelled_into_something_else():
    table = scene(TableVersion.NINE)
    java = Java(table)
    time = cancellable(table, compaction_request("f1"))
    java.state(time, Action.COMPACTION, State.INFLIGHT)
    path = java.base_file(time, "f1")
    java.complete(time, Action.COMPACTION, java.metadata(path, operation="COMPACT"))
    with pytest.raises(LakehandError):
        cancelling.request_cancel(table.worker(), time, reason="too late")
    outcome(lambda: cancelling.execute_cancel(table.worker(), time))
    assert state(table, time) is State.COMPLETED
    assert data_of(table, time) == [path]
