"""`lakehand timeline`: what is published, what was decided, and who is at work."""

from __future__ import annotations

import os

import pytest
import yaml

import golden
from cli_runs import run, tree
from kernel_tables import execute, ingest
from lakehand.core.journal_entries import RollbackTarget
from lakehand.formats.plans import rollback
from lakehand.protocol import cancelling, claiming, planning
from lakehand.protocol.transaction import transaction
from lakehand.table import Table

FAR = 2_000_000_000


def _instants(uri, *options):
    ran = run("timeline", uri, "-o", "json", *options)
    assert ran.code == 0, ran.err
    return ran.record["instants"]


def _one(uri, time):
    return next(one for one in _instants(uri) if one["time"] == time)


def test_a_completed_write_is_shown_with_both_times(disk_table):
    instant = ingest(disk_table.worker(), "f1")
    shown = _one(disk_table.uri, instant.time)
    assert (shown["action"], shown["state"]) == ("deltacommit", "completed")
    assert shown["completion_time"] == instant.completion_time
    assert shown["heartbeat"] is None


def test_a_plan_is_shown_as_the_journal_knows_it(any_disk_table):
    cancellable = any_disk_table.kernel.version >= 8
    time = any_disk_table.plan("f1", cancellable=cancellable)
    shown = _one(any_disk_table.uri, time)
    assert (shown["action"], shown["state"]) == ("compaction", "requested")
    assert shown["decision"]["standing"] == "requested"
    assert shown["decision"]["cancellable"] is cancellable
    assert shown["decision"]["to_be_published"] is False


def test_an_executor_is_named_and_its_heartbeat_is_judged(disk_table):
    time = disk_table.plan()
    claiming.claim(disk_table.worker("spark-7"), time)
    shown = _one(disk_table.uri, time)
    assert shown["decision"] | {"entry": 0} == {
        "standing": "executing",
        "entry": 0,
        "to_be_published": False,
        "epoch": 1,
        "owner": "spark-7",
        "purpose": "execute",
        "cancellable": True,
        "removable": False,
    }
    assert shown["heartbeat"]["live"] is True
    beat = disk_table.folder / ".hoodie" / ".heartbeat" / time
    os.utime(beat, (beat.stat().st_mtime - 500,) * 2)
    shown = _one(disk_table.uri, time)
    assert shown["heartbeat"]["live"] is False
    assert shown["heartbeat"]["age_s"] >= 500
    assert (shown["heartbeat"]["owner"], shown["heartbeat"]["epoch"]) == ("spark-7", 1)


def test_a_heartbeat_of_a_replaced_attempt_is_not_live(disk_table):
    time = disk_table.plan()
    claiming.claim(disk_table.worker("spark-7"), time)
    beat = disk_table.folder / ".hoodie" / ".heartbeat" / time
    first = beat.read_bytes()
    os.utime(beat, (beat.stat().st_mtime - 500,) * 2)
    claiming.claim(disk_table.worker("spark-8"), time)
    beat.write_bytes(first)
    assert _one(disk_table.uri, time)["heartbeat"]["live"] is False


def test_a_cancelled_plan_says_by_whom_and_why_before_and_after_its_abort(disk_table):
    time = disk_table.plan()
    cancelling.request_cancel(disk_table.worker("ops"), time, reason="wrong size")
    shown = _one(disk_table.uri, time)
    assert shown["decision"]["standing"] == "cancelled"
    assert (shown["cancelled_by"], shown["cancel_reason"]) == ("ops", "wrong size")
    cancelling.execute_cancel(disk_table.worker("ops"), time)
    disk_table.plan("f2")  # the end is published: the journal has forgotten it
    disk_table.plan("f3")
    shown = _one(disk_table.uri, time)
    assert (shown["state"], shown["decision"]) == ("aborted", None)
    assert (shown["cancelled_by"], shown["cancel_reason"]) == ("ops", "wrong size")


def test_a_decided_commit_that_a_crash_left_is_shown_as_to_be_published(disk_table):
    instant = ingest(disk_table.worker(), "f1")
    timeline = disk_table.folder / ".hoodie" / "timeline"
    (timeline / f"{instant.time}_{instant.completion_time}.deltacommit").unlink()
    shown = _one(disk_table.uri, instant.time)
    assert shown["state"] == "inflight"
    assert shown["decision"]["standing"] == "committed"
    assert shown["decision"]["to_be_published"] is True


def _schedule_rollback(bench, target):
    plan = rollback.RollbackPlan(
        instant_to_rollback=rollback.InstantInfo(commit_time=target, action="compaction")
    )
    with transaction(bench) as tx:
        return planning.request_rollback(
            tx, RollbackTarget(target, 1, keeps_plan=True), rollback.encode_plan(plan)
        )


def test_a_pending_rollback_is_shown_at_both_ends(disk_table):
    time = disk_table.plan()
    bench = disk_table.worker("cleaner")
    rolling = _schedule_rollback(bench, time)
    assert _one(disk_table.uri, time)["rolled_back_by"] == [rolling]
    assert _one(disk_table.uri, rolling)["rolls_back"] == [time]
    for entry in (disk_table.folder / ".hoodie/.lakehand/journal").iterdir():
        entry.unlink()  # a foreign writer's rollback: only its plan says what it is about
    assert _one(disk_table.uri, time)["rolled_back_by"] == [rolling]


def test_limit_keeps_the_newest_and_pending_leaves_out_what_has_ended(disk_table):
    bench = disk_table.worker()
    first = ingest(bench, "f1").time
    plan = disk_table.plan("f1")
    last = ingest(bench, "f2").time
    assert [one["time"] for one in _instants(disk_table.uri)] == [first, plan, last]
    assert [one["time"] for one in _instants(disk_table.uri, "--limit", "2")] == [plan, last]
    assert [one["time"] for one in _instants(disk_table.uri, "--limit", "9")] == [first, plan, last]
    assert [one["time"] for one in _instants(disk_table.uri, "--pending")] == [plan]


def test_looking_takes_no_lock_and_changes_nothing(disk_table):
    claiming.claim(disk_table.worker(), disk_table.plan())
    held = disk_table.worker("holder").locks.acquire("holder", timeout_s=1)
    try:
        before = tree(disk_table.folder)
        assert run("timeline", disk_table.uri).code == 0
        assert run("timeline", disk_table.uri, "--journal").code == 0
        assert tree(disk_table.folder) == before
    finally:
        held.release()


def test_a_torn_journal_hides_decisions_but_not_the_timeline(disk_table):
    ingest(disk_table.worker(), "f1")
    time = disk_table.plan()
    last = max((disk_table.folder / ".hoodie/.lakehand/journal").iterdir())
    last.write_bytes(last.read_bytes()[:50])
    ran = run("timeline", disk_table.uri, "-o", "json")
    assert ran.code == 5
    assert last.name in ran.record["journal_problem"]
    assert ran.said == [{"note": ran.record["journal_problem"]}]
    assert [one["state"] for one in ran.record["instants"]] == ["completed", "requested"]
    assert ran.record["instants"][1]["time"] == time


@pytest.mark.parametrize(
    ("place", "content"),
    [(".heartbeat/{}", b"not a heartbeat"), ("timeline/{}.compaction.aborted", b"{")],
)
def test_a_torn_file_is_named_and_the_rest_is_shown(disk_table, place, content):
    time, other = disk_table.plan("f1"), disk_table.plan("f2")
    path = disk_table.folder / ".hoodie" / place.format(time)
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content)
    ran = run("timeline", disk_table.uri, "-o", "json")
    assert ran.code == 5
    torn, whole = ran.record["instants"]
    assert path.name in torn["problems"][0]
    assert (whole["time"], whole["problems"]) == (other, [])


def test_the_table_for_people_is_aligned_and_complete(disk_table):
    write = ingest(disk_table.worker(), "f1")
    plan = disk_table.plan("f1")
    ran = run("timeline", disk_table.uri)
    done = f"{write.time}  deltacommit  completed  {write.completion_time}"
    assert ran.out == (
        "INSTANT            ACTION       STATE      COMPLETED          DECIDED    EPOCH  OWNER"
        "  HEARTBEAT  NOTES\n"
        f"{done}  -          -      -      -          -\n"
        f"{plan}  compaction   requested  -                  requested  -      -      -"
        "          cancellable\n"
    )
    assert ran.err == ""


def test_json_and_yaml_say_the_same(disk_table):
    ingest(disk_table.worker(), "f1")
    disk_table.plan()
    as_json = run("timeline", disk_table.uri, "-o", "json").record
    assert yaml.safe_load(run("timeline", disk_table.uri, "--output", "yaml").out) == as_json


def test_an_empty_table_has_no_instants(disk_table):
    assert run("timeline", disk_table.uri).out == "No instants.\n"
    assert run("timeline", disk_table.uri, "--journal").out == "No journal.\n"


def test_what_others_wrote_cannot_move_the_cursor(disk_table):
    time = disk_table.plan()
    cancelling.request_cancel(disk_table.worker("ops"), time, reason="\x1b[2Jgone\nnext line")
    out = run("timeline", disk_table.uri).out
    assert "\x1b" not in out
    assert len(out.splitlines()) == 2
    assert _one(disk_table.uri, time)["cancel_reason"] == "\x1b[2Jgone\nnext line"


@pytest.mark.parametrize("name", golden.golden_names()[::4])
def test_tables_that_java_made_are_shown_as_they_are(tmp_path, name):
    table = golden.unpack(name, tmp_path)
    before = tree(table.path)
    ran = run("timeline", table.path, "-o", "json")
    if ran.code == 2:
        assert ran.error["kind"] == "Unsupported"
        return
    timeline = Table.open(str(table.path)).timeline()
    shown = [(one["time"], one["state"], one["action"]) for one in ran.record["instants"]]
    assert ran.code == 0
    assert shown == [(one.time, one.state.value, one.action.value) for one in timeline.instants]
    assert {one["decision"] is None for one in ran.record["instants"]} <= {True}
    assert tree(table.path) == before


@pytest.mark.parametrize("name", ["v6_mor_killed", "v8_cow_killed", "v9_mor_killed"])
def test_a_killed_java_writer_shows_by_its_heartbeat(tmp_path, name):
    table = golden.unpack(name, tmp_path)
    beat = next(
        one for one in (table.path / ".hoodie/.heartbeat").iterdir() if not one.name.startswith(".")
    )
    os.utime(beat, (FAR, FAR))
    shown = _one(table.path, beat.name)
    assert shown["state"] == "inflight"
    assert shown["heartbeat"] | {"age_s": 0} == {
        "owner": "a writer of Apache Hudi",
        "epoch": 0,
        "age_s": 0,
        "live": True,
    }
    os.utime(beat, (1_000_000_000, 1_000_000_000))
    assert _one(table.path, beat.name)["heartbeat"]["live"] is False


def test_an_executed_plan_completes_under_its_name(disk_table):
    time = disk_table.plan()
    execute(disk_table.worker(), time, ("f1",))
    assert _one(disk_table.uri, time)["action"] == "commit"
