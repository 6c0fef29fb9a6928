"""``execute_cancel``: the one place that takes a cancelled plan to ``.aborted``."""

from __future__ import annotations

import ast
import base64
import json
from functools import partial
from pathlib import Path

import pytest

import lakehand.protocol
from kernel_scripts import (
    EXPIRED_S,
    begin_plan,
    cancellable,
    data_of,
    files_of,
    has_cancel_file,
    run_plan,
    scene,
    staged_places,
    state,
    traces_of,
)
from kernel_tables import compaction_request, execute, ingest, stage_data
from lakehand.core.instants import Action, State
from lakehand.core.table_kinds import TableVersion
from lakehand.errors import (
    AlreadyCommitted,
    Fenced,
    Invalid,
    LakehandError,
    PlanAborted,
    PlanBusy,
    PlanCancelled,
)
from lakehand.ports import PromoteOutcome
from lakehand.protocol import (
    cancelling,
    claiming,
    heartbeats,
    publishing,
    staging,
)

NINE = TableVersion.NINE


def service(*groups: str, **options: object):
    return compaction_request(*groups, action=Action.LOG_COMPACTION, **options)


@pytest.fixture(params=[TableVersion.SIX, TableVersion.EIGHT, NINE], ids=["v6", "v8", "v9"])
def table(request):
    return scene(request.param)


def request(table, time: str) -> None:
    cancelling.request_cancel(table.worker("other"), time, reason="in the way")


def dead_attempt(table, *groups: str):
    """A plan whose executor died after it promoted its files."""
    time = cancellable(table, service(*groups))
    work = begin_plan(table.worker(), time, groups)
    table.clock.advance(EXPIRED_S)
    return time, work


# -- the first transaction ------------------------------------------------------------------------


@pytest.mark.req("B-18")
def test_on_an_aborted_instant_it_removes_a_left_over_cancel_file_and_returns(table):
    time = cancellable(table, service("f1"))
    request(table, time)
    cancelling.execute_cancel(table.worker(), time)
    files, tail = files_of(table, time), table.view().fold.tail
    table.store.put(publishing.cancel_path(time), b"left over")
    cancelling.execute_cancel(table.worker(), time)
    assert not has_cancel_file(table, time)
    assert (files_of(table, time), table.view().fold.tail) == (files, tail)


@pytest.mark.req("B-18")
def test_without_a_request_it_is_an_error_and_changes_nothing(table):
    committed = cancellable(table, service("f1"))
    execute(table.worker(), committed, ("f1",))
    time, _work = dead_attempt(table, "f2")
    before = sorted(one.path for one in table.store.walk(""))
    with pytest.raises(Invalid, match="request it first"):
        cancelling.execute_cancel(table.worker(), time)
    with pytest.raises((AlreadyCommitted, Invalid)):
        cancelling.execute_cancel(table.worker(), committed)
    assert sorted(one.path for one in table.store.walk("")) == before


@pytest.mark.req("B-18", "B-27")
def test_while_the_executor_lives_it_refuses_and_changes_nothing(table):
    """The request is taken at once; deleting waits for the heartbeat, however old the plan is."""
    time = cancellable(table, service("f1"))
    work = begin_plan(bench := table.worker("executor"), time, ("f1",))
    request(table, time)
    before = sorted(one.path for one in table.store.walk(""))
    for _ in range(3):
        table.clock.advance(100)
        assert work.attempt.heartbeat.beat()
        with pytest.raises(PlanBusy) as busy:
            cancelling.execute_cancel(table.worker(), time)
        assert (busy.value.owner, busy.value.epoch) == (bench.worker, 1)
        assert table.clean().aborted == ()
    after = sorted(one.path for one in table.store.walk(""))
    assert after == before
    assert state(table, time) is State.INFLIGHT
    table.clock.advance(EXPIRED_S)
    cancelling.execute_cancel(table.worker(), time)
    assert state(table, time) is State.ABORTED


@pytest.mark.req("B-27")
def test_an_attempt_beats_from_its_claim_until_it_ends(table):
    """Commit, abort and giving up each end it; only its own heartbeat is removed."""
    time = cancellable(table, service("f1"))
    beat = heartbeats.path_of(time)
    assert table.store.head(beat) is None
    work = begin_plan(table.worker(), time, ("f1",))
    assert table.store.head(beat) is not None
    work.commit()
    assert table.store.head(beat) is None
    time, work = dead_attempt(table, "f2")
    request(table, time)
    cancelling.execute_cancel(table.worker(), time)
    assert table.store.head(heartbeats.path_of(time)) is None
    assert not work.attempt.heartbeat.beat()
    assert table.store.head(heartbeats.path_of(time)) is None


# -- outside the lock, and the second transaction -------------------------------------------------


class _Recording:
    """Tells what was promoted, discarded and deleted, and whether the lock was held."""

    def __init__(self, table, time: str, steps: list[str]) -> None:
        self._table, self._time, self._steps = table, time, steps

    def __getattr__(self, name: str):
        found = getattr(self._table.store, name)
        return partial(self._call, found, name) if callable(found) else found

    def _call(self, call, name: str, *args, **named):
        result = call(*args, **named)
        if name in ("promote", "delete", "discard") and result is not PromoteOutcome.GONE:
            target = args[0] if name == "delete" else args[0].final
            where = "under" if self._table.worker().locks.holder() else "outside"
            self._steps.append(f"{where} {name} {target.replace(self._time, 'T')}")
        return result


@pytest.mark.req("B-19")
def test_it_removes_stages_and_files_keeps_the_plan_and_then_says_aborted(table):
    """The plan is there until ``.aborted`` is; ``.cancel`` goes last. All outside the lock."""
    time = cancellable(table, service("f1", "f2"))
    bench = table.worker()
    work = begin_plan(bench, time, ("f1",))
    stage_data(bench, work.attempt, "f2")
    assert len(staged_places(table)) == 1
    request(table, time)
    table.clock.advance(EXPIRED_S)
    steps: list[str] = []
    recorder = table.worker()
    recorder.store = _Recording(table, time, steps)
    cancelling.execute_cancel(recorder, time)
    timeline = table.kernel.config.timeline_path
    assert [one for one in steps if one.startswith("under")] == [
        f"under promote {timeline}/T.logcompaction.aborted",
        f"under delete {timeline}/T.logcompaction.inflight",
        f"under delete {timeline}/T.logcompaction.requested",
        "under delete .hoodie/.cancel/T",
    ]
    first_file = min(n for n, one in enumerate(steps) if "outside delete p/" in one)
    aborted = steps.index(f"under promote {timeline}/T.logcompaction.aborted")
    assert first_file < aborted
    assert any(n < first_file for n, one in enumerate(steps) if "discard p/f2" in one)
    assert staged_places(table) == []
    assert data_of(table, time) == []
    assert files_of(table, time) == [f"{time}.logcompaction.aborted"]


@pytest.mark.req("B-19")
def test_aborted_holds_the_plan_and_says_who_cancelled_it_and_why(table):
    time = cancellable(table, service("f1"))
    folder = table.kernel.config.timeline_path
    plan = table.store.get(f"{folder}/{time}.logcompaction.requested").content
    cancelling.request_cancel(table.worker("person"), time, reason="the cluster is full")
    cancelling.execute_cancel(table.worker(), time)
    path = f"{folder}/{time}.logcompaction.aborted"
    said = json.loads(table.store.get(path).content)
    assert said["by"].startswith("person")
    assert said["reason"] == "the cluster is full"
    assert base64.b64decode(said["plan"]) == plan


@pytest.mark.req("B-23")
def test_aborted_means_that_none_of_its_files_is_left(table):
    """After several attempts, promoted and staged ones; a late promotion finds nothing."""
    time = cancellable(table, service("f1", "f2"))
    works = []
    for _ in range(3):
        bench = table.worker()
        work = begin_plan(bench, time, ("f1",))
        works.append((bench, work, stage_data(bench, work.attempt, "f2")))
        table.clock.advance(EXPIRED_S)
    request(table, time)
    assert state(table, time) is State.INFLIGHT  # cancelled without .aborted: work remains
    assert data_of(table, time) != []
    table.clean()
    assert state(table, time) is State.ABORTED
    for bench, _work, staged in works:
        assert staging.promote(bench.store, staged).value == "gone"
    assert data_of(table, time) == []
    assert traces_of(table, time) == []


@pytest.mark.req("B-22")
def test_aborted_is_terminal(table):
    time, work = dead_attempt(table, "f1")
    request(table, time)
    cancelling.execute_cancel(table.worker(), time)
    with pytest.raises(PlanAborted):
        claiming.claim(table.worker(), time)
    with pytest.raises(LakehandError):
        work.commit()
    cancelling.request_cancel(table.worker(), time, reason="again")
    cancelling.execute_cancel(table.worker(), time)
    for number in range(40):  # past a checkpoint, the timeline alone speaks for it
        ingest(table.worker(), f"g{number}")
    assert time not in table.view().fold.instants
    with pytest.raises(PlanAborted):
        claiming.claim(table.worker(), time)
    with pytest.raises(LakehandError):
        work.commit()
    cancelling.request_cancel(table.worker(), time, reason="again")
    cancelling.execute_cancel(table.worker(), time)
    assert files_of(table, time) == [f"{time}.logcompaction.aborted"]
    assert not has_cancel_file(table, time)


@pytest.mark.req("B-22")
def test_completed_is_terminal_too(table):
    time = cancellable(table, service("f1"))
    run_plan(table.worker(), time, ("f1",))
    before = files_of(table, time)
    with pytest.raises(AlreadyCommitted):
        request(table, time)
    with pytest.raises(LakehandError):
        cancelling.execute_cancel(table.worker(), time)
    assert files_of(table, time) == before


# -- who triggers it ------------------------------------------------------------------------------


@pytest.mark.req("B-24")
def test_the_executor_looks_inside_its_commit_transaction(table):
    """The request comes after all its other steps: it has prepared and promoted everything."""
    time = cancellable(table, service("f1"))
    work = begin_plan(table.worker(), time, ("f1",))
    request(table, time)
    with pytest.raises(PlanCancelled):
        work.commit()
    other = cancellable(table, service("f2"))
    work = begin_plan(table.worker(), other, ("f2",))
    ingest(table.worker(), "f9")
    work.commit()
    with pytest.raises(AlreadyCommitted):
        request(table, other)
    assert not has_cancel_file(table, other)


@pytest.mark.req("B-25")
def test_the_next_attempt_on_a_cancelled_plan_executes_nothing_and_finishes_the_abort(table):
    time, _work = dead_attempt(table, "f1")
    request(table, time)
    before = table.view().fold.record(time)
    bench = table.worker()
    assert run_plan(bench, time, ("f1",)) is None
    assert state(table, time) is State.ABORTED
    assert data_of(table, time) == []
    entries = [table.worker().journal.read(n) for n in range(before.since + 1, 99)]
    bodies = [type(one.entry.body).__name__ for one in entries if one is not None]
    assert bodies == ["Claim", "Abort"]


@pytest.mark.req("B-25")
def test_the_next_attempt_leaves_the_abort_to_a_live_executor(table):
    time = cancellable(table, service("f1"))
    begin_plan(table.worker(), time, ("f1",))
    request(table, time)
    with pytest.raises(PlanBusy):
        run_plan(table.worker(), time, ("f1",))
    assert data_of(table, time) != []


@pytest.mark.req("B-26")
def test_an_executor_that_finds_itself_cancelled_only_ends_its_transaction(table):
    time = cancellable(table, service("f1"))
    work = begin_plan(table.worker(), time, ("f1",))
    request(table, time)
    before = sorted(one.path for one in table.store.walk(""))
    with pytest.raises(PlanCancelled):
        work.commit()
    assert sorted(one.path for one in table.store.walk("")) == before


@pytest.mark.req("B-26")
def test_one_place_of_the_code_aborts():
    """``Abort`` entries and abort claims are made in ``cancelling``, by one function each."""
    made: dict[str, set[str]] = {"Abort": set(), "ABORT": set()}
    package = Path(lakehand.protocol.__file__).parent
    for path in sorted(package.glob("*.py")):
        for function in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(function, ast.FunctionDef):
                continue
            for node in ast.walk(function):
                if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Abort":
                    made["Abort"].add(f"{path.stem}.{function.name}")
                if isinstance(node, ast.Attribute) and node.attr == "ABORT":
                    made["ABORT"].add(f"{path.stem}.{function.name}")
    assert len(made["Abort"]) == 1
    assert len(made["ABORT"]) == 1
    assert {name.partition(".")[0] for names in made.values() for name in names} == {"cancelling"}


def test_a_fenced_executor_cannot_abort_with_its_old_heartbeat(table):
    """It handed over nothing: another attempt lives."""
    time, work = dead_attempt(table, "f1")
    begin_plan(table.worker(), time, ("f1",))
    request(table, time)
    with pytest.raises((PlanBusy, Fenced)):
        cancelling.execute_cancel(work.bench, time, own=work.attempt.heartbeat)
    assert data_of(table, time) != []
