"""What may become of a call: each fate does to the world and to its caller what it says."""

from __future__ import annotations

import pytest

import sim
from lakehand.errors import LockTimeout, NotFound, Unavailable
from lakehand.ports import PromoteOutcome, PutOutcome
from sim import FaultBudget, Scenario, Step

AREA = ".hoodie/.temp/1/.staging/1"


def _run(steps, build=lambda _world: None, background=False, **actors):
    scenario = Scenario(name="one", actors=actors, build=build)
    lines = [Step(*line.split(" ", 1)) for line in steps]
    return sim.replay(scenario, lines, background=background)


def _ends(run):
    return {name: outcome.value for name, outcome in run.end.world.results.items()}


@pytest.mark.parametrize(
    ("fate", "there"), [("lost-applied", b"1"), ("lost-dropped", None), ("late", None)]
)
def test_a_lost_reply_is_unknown_to_a_conditional_write(fate, there):
    run = _run([f"a {fate}"], a=lambda ports: ports.store.put_new("x", b"1"))
    assert _ends(run) == {"a": PutOutcome.UNKNOWN}
    assert run.end.world.content("x") == there


def test_a_late_request_arrives_after_its_caller_went_on():
    def a(ports):
        return ports.store.put_new("x", b"1"), ports.store.head("x")

    run = _run(["a late", "a ok", "network deliver 0"], a=a)
    assert _ends(run) == {"a": (PutOutcome.UNKNOWN, None)}
    assert run.end.world.content("x") == b"1"


def test_a_late_conditional_write_meets_its_condition_when_it_arrives():
    def a(ports):
        return ports.store.put_new("x", b"late"), ports.store.put_new("x", b"second")

    run = _run(["a late", "a ok", "network deliver 0"], a=a)
    assert run.end.world.content("x") == b"second"


@pytest.mark.parametrize("fate", ["lost-applied", "lost-dropped", "unavailable"])
def test_other_calls_raise_unavailable(fate):
    def a(ports):
        try:
            ports.store.delete("x")
        except Unavailable as error:
            return str(error)

    run = _run([f"a {fate}"], build=lambda world: world.put("x", b"1"), a=a)
    assert "x" in _ends(run)["a"]
    assert run.end.world.content("x") == (None if fate == "lost-applied" else b"1")


def test_unavailable_has_no_effect_also_on_conditional_writes():
    run = _run(["a unavailable"], a=lambda ports: ports.store.put_new("x", b"1"))
    assert run.end.world.results["a"].kind == "raised"
    assert run.end.world.objects == {}


@pytest.mark.parametrize(("fate", "there"), [("crash", None), ("crash-after", b"1")])
def test_a_crash_ends_the_actor_before_or_after_the_effect(fate, there):
    reached = []

    def a(ports):
        try:
            ports.store.put("x", b"1")
            reached.append("after")
        finally:
            ports.store.put("cleanup", b"1")

    run = _run([f"a {fate}"], a=a)
    assert run.end.world.results["a"].kind == "crashed"
    assert run.end.world.content("x") == there
    assert run.end.world.content("cleanup") is None, "a dead process cleans nothing up"
    assert reached == []


def _stage(ports):
    with ports.store.stage("final", area=AREA) as writer:
        writer.write(b"content")
    return writer.staged


def test_a_zombies_promotion_answers_gone():
    """It is paused before it promotes; its successor discards what it staged."""

    def zombie(ports):
        staged = _stage(ports)
        ports.store.put("marker", staged.to_json().encode())
        return ports.store.promote(staged)

    def successor(ports):
        marker = ports.store.get("marker").content.decode()
        ports.store.discard(type(_stage(ports)).from_json(marker, where="marker"))

    run = _run(
        ["zombie ok", "zombie ok", "zombie ok", "zombie pause", *["successor ok"] * 4, "zombie ok"],
        zombie=zombie,
        successor=successor,
    )
    assert _ends(run)["zombie"] is PromoteOutcome.GONE
    assert run.end.world.content("final") is None
    assert run.end.world.real_ms - sim.START_MS == run.scenario.pause_ms


def test_a_promotion_happens_once_and_consumes_what_was_staged():
    def a(ports):
        staged = _stage(ports)
        first = ports.store.promote(staged)
        ports.store.delete("final")
        other = _stage(ports)
        ports.store.put("final", b"theirs")
        return first, ports.store.promote(staged), ports.store.promote(other)

    run = _run([], a=a)
    assert _ends(run)["a"] == (PromoteOutcome.WRITTEN, PromoteOutcome.GONE, PromoteOutcome.EXISTS)
    assert run.end.world.staged == {}


# --- listings


def _list(ports):
    return ports.store.names("f")


def _writer(ports):
    for name in ("b", "c", "d"):
        ports.store.put(f"f/{name}", b"1")


@pytest.mark.parametrize(
    ("ends", "seen"),
    [
        ("ok", ("a", "b", "c", "d")),
        ("old-first 1", ("a", "c", "d")),
        ("new-first 1", ("a", "b")),
        ("new-first 2", ("a", "b", "c")),
    ],
)
def test_a_torn_listing_sees_part_of_what_changed_and_all_of_what_was_there(ends, seen):
    run = _run(
        ["lister torn", *["writer ok"] * 3, f"lister {ends}"],
        build=lambda world: world.put("f/a", b"1"),
        lister=_list,
        writer=_writer,
    )
    assert _ends(run)["lister"] == seen


# --- locks


def _locked(ports):
    held = ports.locks.acquire(ports.name, timeout_s=5)
    ports.store.put("work", b"1")
    left = held.left_s()
    held.release()
    return left


@pytest.mark.parametrize(("fate", "left"), [("expire", 60.0), ("expire-told", 0.0)])
def test_a_lease_that_ends_under_its_holder(fate, left):
    run = _run(["a ok", f"b {fate}", "a ok"], a=_locked, b=_locked)
    assert _ends(run) == {"a": left, "b": 60.0}
    assert run.end.world.locks == {}


def test_a_wait_for_a_lock_may_take_too_long():
    run = _run(["a ok", "b timeout"], a=_locked, b=_locked)
    error = run.end.world.results["b"].error
    assert isinstance(error, LockTimeout)
    assert error.holder == "a"


def test_a_dead_holders_lease_ends_by_itself():
    run = _run(["a ok", "a crash"], a=_locked, b=_locked)
    assert Step("time", "pass 60000") in run.steps
    assert _ends(run)["b"] == 60.0


def test_a_paused_holder_that_slept_over_its_lease_is_told_so():
    run = _run(["a ok", "a pause", "a ok"], a=_locked, b=_locked)
    assert _ends(run) == {"a": 0.0, "b": 60.0}


@pytest.mark.parametrize("fate", ["lost-applied", "unavailable"])
def test_a_lock_taken_without_a_reply_is_free_again_after_its_lease(fate):
    run = _run([f"a {fate}"], a=_locked, b=_locked)
    assert run.end.world.results["a"].kind == "raised"
    assert _ends(run)["b"] == 60.0
    passed = [step for step in run.steps if step.who == "time"]
    assert len(passed) == (fate == "lost-applied")


def test_locks_of_other_names_exclude_nobody():
    def b(ports):
        return _locked(ports.with_lock("other", provider="other"))

    run = _run(["a ok", "b ok", "b ok", "b ok"], a=_locked, b=b)
    assert run.steps[:4] == [Step("a", "ok"), *[Step("b", "ok")] * 3]


def test_a_lock_can_be_broken_and_seen():
    def b(ports):
        holder = ports.locks.holder()
        return holder.owner, ports.locks.break_lock(holder), ports.locks.holder()

    run = _run(["a ok", "b ok", "b ok", "b ok", "a ok"], a=_locked, b=b)
    assert _ends(run) == {"a": 0.0, "b": ("a", True, None)}


# --- time


def test_the_stores_clock_jumps_and_the_processes_clock_does_not():
    def a(ports):
        first = ports.store.now(), ports.clock.monotonic()
        second = ports.store.now(), ports.clock.monotonic()
        return second[0] - first[0], second[1] - first[1]

    run = _run(["a ok", "store-clock jump -86400000", "a ok"], a=a)
    assert _ends(run) == {"a": (-86_400_000, 0.0)}


def test_a_sleeper_wakes_when_its_own_clock_says_so():
    def a(ports):
        ports.clock.sleep(10)
        return ports.clock.monotonic()

    run = _run(["process-clock rate a 2.0"], a=a)
    assert _ends(run) == {"a": 10.0}
    assert Step("time", "pass 5000") in run.steps


def test_background_steps_run_beside_the_work_until_they_are_stopped():
    def a(ports):
        beats = []

        def beat():
            ports.store.put("beat", str(len(beats)).encode())
            beats.append(1)
            return True

        task = ports.background.every(10, beat, name="beat")
        ports.clock.sleep(35)
        task.stop()
        ports.store.put("done", b"1")
        return len(beats)

    run = _run([], background=True, a=a)
    assert _ends(run) == {"a": 3}
    assert Step("a/beat", "ok") in run.steps
    assert _ends(_run([], background=False, a=a)) == {"a": 0}


def test_stop_waits_for_a_step_that_is_under_way():
    def a(ports):
        def beat():
            ports.store.put("beat", b"1")
            ports.store.put("beat", b"2")
            return True

        task = ports.background.every(10, beat, name="beat")
        ports.clock.sleep(10)
        task.stop()
        return ports.store.get("beat").content

    run = _run(["time pass 10000", "a/beat ok", "a/beat ok", "a ok", "a ok"], background=True, a=a)
    assert _ends(run) == {"a": b"2"}


# --- the run as a whole


def test_a_foreign_exception_is_a_bug_of_the_run():
    def a(ports):
        ports.store.head("x")
        raise ZeroDivisionError("oops")

    violation = sim.explore(Scenario(name="bug", actors={"a": a})).failure.violation
    assert violation.checker == "no bug"
    assert "oops" in violation.problem


def test_two_who_wait_for_each_other_are_found():
    def first(ports):
        ports.locks.acquire("first", timeout_s=1)
        ports.with_lock("other", provider="x").locks.acquire("first", timeout_s=1)

    def second(ports):
        ports.with_lock("other", provider="x").locks.acquire("second", timeout_s=1)
        ports.locks.acquire("second", timeout_s=1)

    scenario = Scenario(name="deadlock", actors={"a": first, "b": second})
    assert sim.explore(scenario).failure.violation.checker == "deadlock"


def test_a_run_that_never_ends_fails():
    def a(ports):
        while True:
            ports.store.head("x")

    scenario = Scenario(name="endless", actors={"a": a}, max_steps=50)
    assert sim.explore(scenario).failure.violation.checker == "progress"


def test_an_actor_that_is_not_deterministic_is_refused():
    calls = iter("abcdefgh")

    def a(ports):
        ports.store.head(next(calls))
        ports.store.put("x", b"1")

    def b(ports):
        ports.store.put("y", b"1")

    with pytest.raises(sim.InvariantBroken, match="not deterministic"):
        sim.explore(Scenario(name="odd", actors={"a": a, "b": b}, faults=FaultBudget(lost=2)))


def test_missing_objects_are_not_found():
    run = _run([], a=lambda ports: ports.store.get("x"))
    assert isinstance(run.end.world.results["a"].error, NotFound)


class _NobodyCrashed:
    name = "nobody but a crashes"

    def after_step(self, world):
        crashed = [name for name, outcome in world.results.items() if outcome.kind == "crashed"]
        return ", ".join(crashed) if set(crashed) - {"a"} else None

    def at_end(self, world):
        return self.after_step(world)


@pytest.mark.parametrize(("may_fail", "is_clean"), [(None, False), (frozenset({"a"}), True)])
def test_only_those_fail_that_may(may_fail, is_clean):
    scenario = Scenario(
        name="two puts",
        actors={name: lambda ports: ports.store.put(ports.name, b"") for name in "ab"},
        checkers=[_NobodyCrashed],
        faults=FaultBudget(crashes=1),
        may_fail=may_fail,
    )
    assert (sim.explore(scenario).failure is None) is is_clean
    assert (sim.swarm(scenario, range(100)).failure is None) is is_clean
