"""Files of Apache Hudi's writers that we decide on: heartbeats, markers, inflight files."""

from __future__ import annotations

import pytest

from foreign_writers import JAVA_TOKEN, Java
from kernel_scripts import (
    EXPIRED_S,
    HOUR_S,
    begin_ingestion,
    begin_plan,
    cancellable,
    clustering_request,
    data_of,
    files_of,
    outcome,
    run_plan,
    scene,
    stage_and_prepare,
    state,
    traces_of,
)
from kernel_tables import compaction_request, execute, ingest
from lakehand.core.instants import Action, State
from lakehand.core.journal_moves import Standing
from lakehand.core.table_kinds import TableVersion
from lakehand.errors import (
    Corrupt,
    ForeignExecutor,
    PlanBusy,
    PlanCancelled,
    RestoreOpen,
    WriteConflict,
)
from lakehand.protocol import cancelling, claiming, heartbeats, planning

SIX, EIGHT, NINE = TableVersion.SIX, TableVersion.EIGHT, TableVersion.NINE
VERSIONS = pytest.mark.parametrize("version", [SIX, EIGHT, NINE])
SERVICE = Action.LOG_COMPACTION


def service(*groups: str, **options: object):
    return compaction_request(*groups, action=SERVICE, **options)


# -- heartbeats -----------------------------------------------------------------------------------


@VERSIONS
def test_an_empty_heartbeat_counts_by_its_age_alone(version):
    table = scene(version)
    java = Java(table)
    time = java.begin("f1")
    path = java.base_file(time, "f1")
    java.marker(time, path, "CREATE")
    for _ in range(3):
        table.clock.advance(119)
        assert table.clean().rolled_back == {}
        java.beat(time)
    table.clock.advance(EXPIRED_S)
    assert [end.value for end in table.clean().rolled_back.values()] == ["removed"]
    assert files_of(table, time) == data_of(table, time) == traces_of(table, time) == []


def test_a_write_of_java_without_a_heartbeat_has_failed():
    """Single writers of Hudi write none: no clean of another may run beside them."""
    table = scene(NINE)
    java = Java(table)
    time = java.begin("f1", live=False)
    assert len(table.clean().rolled_back) == 1
    assert files_of(table, time) == []


def test_a_heartbeat_that_java_is_about_to_follow_with_its_write_stays():
    """It is there before the requested file."""
    table = scene(NINE)
    java = Java(table)
    time = java.time()
    java.beat(time)
    table.clean()
    assert table.store.head(heartbeats.path_of(time)) is not None
    java.state(time, Action.DELTA_COMMIT, State.REQUESTED)
    assert table.clean().rolled_back == {}
    assert state(table, time) is State.REQUESTED


def test_a_heartbeat_that_is_nobodys_is_named_and_nothing_is_decided_on_it():
    table = scene(NINE)
    time = cancellable(table, service("f1"))
    table.store.put(heartbeats.path_of(time), b"\x00 not ours, not Java's")
    with pytest.raises(Corrupt, match=time):
        claiming.claim(table.worker(), time)
    assert state(table, time) is State.REQUESTED
    assert table.view().fold.standing(time) is Standing.REQUESTED


# -- markers --------------------------------------------------------------------------------------


def leave_write(table, java: Java, how: str) -> tuple[str, list[str], list[str]]:
    """A dead write with one base file, one merged file, and logs; what it made, and the logs."""
    time = java.begin("f1", live=False)
    created, merged = java.base_file(time, "f1"), java.base_file(time, "f2")
    if table.kernel.version is SIX:
        log = f"p/.f3_20200101000000000.log.2_{JAVA_TOKEN}"
        table.store.put(log, b"an older write's block, and this one's")
    else:
        log = java.log_file(time, "f3")
    kinds = [(created, "CREATE"), (merged, "MERGE"), (log, "APPEND")]
    if how == "direct":
        for path, kind in kinds:
            java.marker(time, path, kind)
    elif how == "lists":
        lines = [f"{path}.marker.{kind}" for path, kind in kinds]
        java.marker_list(time, 0, *lines[:2])
        java.marker_list(time, 7, lines[2])
    return time, [created, merged], [log]


@VERSIONS
@pytest.mark.parametrize("how", ["direct", "lists"])
def test_what_javas_markers_name_is_rolled_back(version, how):
    """Version 6: a log may hold another's blocks, so it stays and gets a command block."""
    table = scene(version)
    ingest(table.worker(), "f1")
    before = sorted(one.path for one in table.store.walk("p"))
    java = Java(table)
    time, files, logs = leave_write(table, java, how)
    unmarked = f"p/f9_{JAVA_TOKEN}_{time}.parquet"
    table.clean()
    left = sorted(one.path for one in table.store.walk("p"))
    assert not set(files) & set(left)
    assert unmarked not in left
    new = [path for path in left if path not in (*before, *logs)]
    if version is SIX:
        assert logs[0] in left
        (command,) = new
        assert command.startswith("p/.f3_20200101000000000.log.3_")
        content = table.store.get(command).content
        assert content.startswith(b"#HUDI#")
        assert time.encode() in content
    else:
        assert logs[0] not in left
        assert new == []
    assert traces_of(table, time) == files_of(table, time) == []


@VERSIONS
def test_without_any_marker_files_are_found_by_the_instant_in_their_names(version):
    """Markers may be switched off. Version 6's logs bear their slice's instant, not the write's."""
    table = scene(version)
    other = ingest(table.worker(), "f1")
    java = Java(table)
    time, files, logs = leave_write(table, java, "no")
    table.clean()
    left = {one.path for one in table.store.walk("p")}
    assert not set(files) & left
    assert (logs[0] in left) is (version is SIX)
    assert data_of(table, other.time) != []
    assert files_of(table, time) == []


@VERSIONS
@pytest.mark.parametrize("action", [Action.COMMIT, Action.DELTA_COMMIT, Action.REPLACE_COMMIT])
def test_every_kind_of_dead_write_is_rolled_back(version, action):
    table = scene(version)
    java = Java(table)
    time = java.begin("f1", action=action, live=False)
    path = java.base_file(time, "f1")
    java.marker(time, path, "CREATE")
    table.clean()
    assert files_of(table, time) == data_of(table, time) == []


@VERSIONS
def test_a_pending_table_service_of_java_is_never_rolled_back_by_clean(version):
    """An immutable plan: its next attempt does that."""
    table = scene(version)
    java = Java(table)
    times = []
    for action in (Action.COMPACTION, Action.LOG_COMPACTION):
        time = java.time()
        java.state(time, action, State.REQUESTED, b"")
        java.state(time, action, State.INFLIGHT)
        java.base_file(time, "f1")
        times.append(time)
    table.clock.advance(100 * HOUR_S)
    assert table.clean().rolled_back == {}
    for time in times:
        assert state(table, time) is State.INFLIGHT
        assert data_of(table, time) != []


def javas_clustering(table, java: Java, *groups: str) -> tuple[str, Action]:
    """A clustering plan of Java's; layout 1 calls it a replacecommit, and only its file tells."""
    action = Action.REPLACE_COMMIT if table.kernel.version is SIX else Action.CLUSTERING
    time = java.time()
    java.state(time, action, State.REQUESTED, clustering_request(*groups).content({}))
    return time, action


@VERSIONS
def test_a_pending_clustering_of_java_is_no_failed_write(version):
    table = scene(version)
    java = Java(table)
    time, action = javas_clustering(table, java, "f1")
    table.clock.advance(100 * HOUR_S)
    assert table.clean().rolled_back == {}
    java.state(time, action, State.INFLIGHT)
    table.clock.advance(100 * HOUR_S)
    assert table.clean().rolled_back == {}
    assert state(table, time) is State.INFLIGHT


@VERSIONS
@pytest.mark.parametrize("begun", [False, True], ids=["requested", "inflight"])
def test_our_ingestion_gives_way_to_a_pending_clustering_of_java(version, begun):
    """It would replace the group and lose our rows; other groups are free."""
    table = scene(version)
    java = Java(table)
    time, action = javas_clustering(table, java, "f1")
    if begun:
        java.state(time, action, State.INFLIGHT)
    with pytest.raises(WriteConflict, match=time):
        ingest(table.worker(), "f1")
    ingest(table.worker(), "f2")


@VERSIONS
def test_a_clustering_that_java_completed_meanwhile_is_judged_by_its_groups(version):
    for group, is_refused in (("f1", True), ("f2", False)):
        table = scene(version)
        java = Java(table)
        running = begin_ingestion(worker := table.worker(), group)
        work = stage_and_prepare(worker, running, (group,))
        time, action = javas_clustering(table, java, "f1")
        java.state(time, action, State.INFLIGHT)
        path = java.base_file(time, "f1")
        java.complete(time, action, java.metadata(path, operation="CLUSTER"))
        ended = outcome(work.commit)
        assert isinstance(ended, WriteConflict) is is_refused, ended


# -- an attempt of Java's at our plan -------------------------------------------------------------


@VERSIONS
def test_an_inflight_file_without_a_claim_is_another_executor(version):
    """Never taken over by itself, however old; nothing is changed by asking."""
    table = scene(version)
    java = Java(table)
    time = planning.schedule(table.worker(), service("f1"))
    java.state(time, SERVICE, State.INFLIGHT)
    path = java.base_file(time, "f1")
    for _ in range(2):
        with pytest.raises(ForeignExecutor, match="without a claim"):
            claiming.claim(table.worker(), time)
        table.clock.advance(1000 * HOUR_S)
    assert data_of(table, time) == [path]
    assert table.view().fold.standing(time) is Standing.REQUESTED
    assert table.store.head(heartbeats.path_of(time)) is None


@VERSIONS
def test_a_person_may_allow_the_takeover_after_a_while(version):
    table = scene(version)
    java = Java(table)
    time = planning.schedule(table.worker(), service("f1"))
    java.state(time, SERVICE, State.INFLIGHT)
    theirs = java.base_file(time, "f1")
    allowing = {"foreign_takeover_after_s": 2 * HOUR_S}
    table.clock.advance(2 * HOUR_S - 60)
    with pytest.raises(ForeignExecutor):
        claiming.claim(table.worker(**allowing), time)
    table.clock.advance(60)
    with pytest.raises(ForeignExecutor):
        claiming.claim(table.worker(), time)
    work = begin_plan(table.worker(**allowing), time, ("f1",))
    assert theirs not in data_of(table, time)
    work.commit()
    assert state(table, time) is State.COMPLETED
    assert len(data_of(table, time)) == 1


def test_a_takeover_waits_for_a_live_heartbeat_of_java():
    table = scene(NINE)
    java = Java(table)
    time = planning.schedule(table.worker(), service("f1"))
    java.state(time, SERVICE, State.INFLIGHT)
    table.clock.advance(2 * HOUR_S)
    java.beat(time)
    with pytest.raises(PlanBusy, match="Apache Hudi"):
        claiming.claim(table.worker(foreign_takeover_after_s=1.0), time)
    table.clock.advance(EXPIRED_S)
    assert run_plan(table.worker(foreign_takeover_after_s=1.0), time, ("f1",)) is not None


def test_clean_does_not_promise_to_cancel_what_java_executes():
    """Past its policy too: the plan stays Java's until Java, or a person, ends it."""
    table = scene(NINE)
    java = Java(table)
    time = cancellable(table, service("f1"))
    java.state(time, SERVICE, State.INFLIGHT)
    path = java.base_file(time, "f1")
    table.clock.advance(1000 * HOUR_S)
    done = table.clean()
    assert done.aborted == ()
    assert data_of(table, time) == [path]
    with pytest.raises(ForeignExecutor):
        cancelling.request_cancel(table.worker(), time, reason="now")


# -- writes of Java beside ours -------------------------------------------------------------------


@VERSIONS
def test_our_cancellable_plan_gives_way_to_javas_writes(version):
    """Java cancels nothing and looks at no flag: our own judgement finds its files."""
    for how in ("inflight", "completed"):
        table = scene(version)
        java = Java(table)
        time = cancellable(table, service("f1"))
        work = begin_plan(table.worker(), time, ("f1",))
        if how == "inflight":
            java.begin("f1")
        else:
            java.write("f1")
        with pytest.raises(PlanCancelled, match="ingestion goes first"):
            work.commit()
        cancelling.execute_cancel(work.bench, time, own=work.attempt.heartbeat)
        assert state(table, time) is State.ABORTED
        assert data_of(table, time) == []


@VERSIONS
def test_javas_workload_profile_names_groups_and_inserts_conflict_with_nothing(version):
    """Its inflight file has an entry without a file id for each partition."""
    table = scene(version)
    java = Java(table)
    java.begin("f2")
    java.begin("f1", live=False)  # it died: it holds nobody back
    time = cancellable(table, service("f1"))
    assert run_plan(table.worker(), time, ("f1",)) is not None
    ingest(table.worker(), "f4")


@VERSIONS
def test_our_ingestion_is_refused_by_a_write_of_java_that_completed_since(version):
    table = scene(version)
    java = Java(table)
    theirs = java.begin("f1")
    begun = outcome(lambda: ingest(table.worker(), "f2"))
    assert not isinstance(begun, Exception)
    running = begin_ingestion(worker := table.worker(), "f1")
    work = stage_and_prepare(worker, running, ("f1",))
    path = java.base_file(theirs, "f1")
    java.complete(theirs, Action.DELTA_COMMIT, java.metadata(path))
    with pytest.raises(WriteConflict, match=theirs):
        work.commit()
    assert state(table, running.time) is State.INFLIGHT


@VERSIONS
def test_an_open_restore_of_java_forbids_plans_claims_and_commits(version):
    table = scene(version)
    java = Java(table)
    time = planning.schedule(table.worker(), service("f1"))
    other = planning.schedule(table.worker(), service("f2"))
    work = begin_plan(table.worker(), time, ("f1",))
    restore = java.time()
    java.state(restore, Action.RESTORE, State.INFLIGHT)
    with pytest.raises(RestoreOpen):
        planning.schedule(table.worker(), service("f3"))
    with pytest.raises(RestoreOpen):
        claiming.claim(table.worker(), other)
    with pytest.raises(RestoreOpen):
        work.commit()
    with pytest.raises(RestoreOpen):
        ingest(table.worker(), "f4")
    assert state(table, time) is State.INFLIGHT


def test_a_compaction_of_java_on_our_plan_counts_as_done():
    """Its result is returned, whoever made it."""
    table = scene(NINE)
    java = Java(table)
    time = planning.schedule(table.worker(), compaction_request("f1"))
    java.state(time, Action.COMPACTION, State.INFLIGHT)
    path = java.base_file(time, "f1")
    java.complete(time, Action.COMPACTION, java.metadata(path, operation="COMPACT"))
    done = execute(table.worker(), time, ("f1",))
    assert (done.time, done.state) == (time, State.COMPLETED)
    assert data_of(table, time) == [path]
    assert table.view().fold.record(time).standing in (Standing.SUPERSEDED, Standing.FOREIGN)
