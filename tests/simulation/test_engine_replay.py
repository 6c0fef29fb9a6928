"""Runs are repeatable: by seed, by schedule, from a file, in another process; and made small."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import sim
import sim_scenarios_toys as toys
from sim import FaultBudget, Machine, Scenario, Step
from sim_shrink import cost
from sim_swarm import is_fault

RUN = Path(__file__).with_name("run.py")
SUPPORT = Path(sim.__file__).parent


def _stormy(**more):
    kinds = ("crashes", "pauses", "lost", "late", "unavailable", "expiries", "timeouts", "torn")
    faults = FaultBudget(**dict.fromkeys((*kinds, "clock_jumps"), 1))
    return Scenario(
        name="stormy counter",
        actors=dict.fromkeys(("worker-1", "worker-2", "worker-3"), toys.increment),
        build=lambda world: world.put("counter", b"0"),
        checkers=[toys.NoIncrementIsLost],
        faults=faults,
        **more,
    )


def _trace(seed, scenario=None):
    machine = Machine(scenario or _stormy(), background=True)
    try:
        return sim.run_seed(machine, seed).trace()
    finally:
        machine.close()


def test_one_seed_is_one_run():
    for seed in range(40):
        assert _trace(seed) == _trace(seed)
    assert len({_trace(seed) for seed in range(40)}) > 30


def test_a_seeds_run_does_not_depend_on_the_seeds_before_it():
    machine = Machine(_stormy(), background=True)
    together = [sim.run_seed(machine, seed).trace() for seed in range(40)]
    machine.close()
    assert together == [_trace(seed) for seed in range(40)]


TRACES = """
import sys
sys.path.insert(0, sys.argv[1])
import sim, sim_scenarios_toys as toys
scenario = toys.journal_of(2, lost=1, late=1, crashes=1, torn=1, pauses=1)
machine = sim.Machine(scenario, background=True)
print("".join(sim.run_seed(machine, seed).trace() for seed in range(30)))
print(str(sim.explore(toys.journal_of(1, preemptions=2, lost=1))).split(", depth")[0])
"""


def test_one_seed_is_one_run_in_every_process():
    said = [
        subprocess.run(
            [sys.executable, "-c", TRACES, str(SUPPORT)],
            env={**os.environ, "PYTHONHASHSEED": hashing},
            check=True,
            capture_output=True,
        ).stdout
        for hashing in ("1", "4711")
    ]
    assert said[0] == said[1]
    assert len(said[0]) > 10_000


def test_a_schedule_says_everything_about_a_run():
    for seed in range(30):
        machine = Machine(_stormy(), background=True)
        run = sim.run_seed(machine, seed)
        machine.close()
        again = sim.replay(_stormy(), run.steps, background=True)
        if run.violation is not None:
            assert again.trace() == run.trace()
        assert again.steps[: len(run.steps)] == run.steps


def test_the_swarm_stops_at_the_first_failing_seed_and_names_it():
    report = sim.swarm(_stormy(), range(2_000))
    assert report.failure is not None
    assert _trace(report.failing_seed) == report.failure.trace()
    assert f"seed {report.failing_seed}" in str(report)


def test_no_fault_happens_that_the_budget_does_not_name():
    for kind, fates in {
        "crashes": {"crash", "crash-after"},
        "lost": {"lost-applied", "lost-dropped"},
        "late": {"late"},
        "unavailable": {"unavailable"},
        "pauses": {"pause"},
    }.items():
        scenario = toys.journal_of(2, **{kind: 1})
        machine = Machine(scenario, background=True)
        what = {
            event.step.what
            for seed in range(150)
            for event in sim.run_seed(machine, seed).events
            if is_fault(event.step)
        }
        machine.close()
        assert what == fates


def test_an_exploration_keeps_its_budgets():
    worst: dict[str, int] = {}

    class Counts:
        name = "counts"
        state = (0, 0)

        def after_step(self, world):
            return None

        def at_end(self, world):
            return None

    class Steps(Counts):
        name = "counts faults"

        def after_step(self, world):
            crashed, unknown = self.state
            if world.last is not None:
                crashed += world.last.step.what == "crash"
                unknown += world.last.step.what.startswith("lost")
            self.state = (crashed, unknown)
            worst["crashed"] = max(worst.get("crashed", 0), crashed)
            worst["unknown"] = max(worst.get("unknown", 0), unknown)
            worst["both"] = max(worst.get("both", 0), crashed + unknown)

    scenario = Scenario(
        name="counted",
        actors=dict.fromkeys(("a", "b", "c"), lambda ports: ports.store.put_new("x", b"1")),
        checkers=[Steps],
        faults=FaultBudget(crashes=2, lost=2, total=3),
    )
    assert sim.explore(scenario).complete
    assert worst == {"crashed": 2, "unknown": 2, "both": 3}


# --- healing


def test_healing_starts_successors_and_healers_and_nothing_goes_wrong_any_more():
    def heal(ports):
        return ports.store.get("counter").content

    scenario = _stormy(healers={"reader": heal})
    machine = Machine(scenario, background=True)
    replaced = 0
    for seed in range(60):
        run = sim.run_seed(machine, seed)
        if run.violation is not None:
            continue
        steps = run.steps
        healed = steps.index(Step("healing", "begins"))
        assert not any(is_fault(step) for step in steps[healed:])
        assert run.end.world.results["reader"].kind == "returned"
        crashed = {step.who for step in steps if step.what.startswith("crash")}
        for name in crashed - {n for n in crashed if n.endswith(".2")}:
            assert Step(f"{name}.2", "start") in steps
            replaced += 1
    machine.close()
    assert replaced > 5


def test_time_waits_for_the_heartbeats_of_those_who_live():
    """A pause stops one process; the others' background goes on beating meanwhile."""

    def worker(ports):
        def beat():
            ports.store.put(f"beat/{ports.name}", b"1")
            return True

        ports.store.put(f"beat/{ports.name}", b"0")
        task = ports.background.every(60, beat, name="beat")
        for _ in range(6):
            ports.store.head("x")
        task.stop()

    scenario = Scenario(
        name="beating", actors={"a": worker, "b": worker}, faults=FaultBudget(pauses=1)
    )
    machine = Machine(scenario, background=True)
    long_pauses = 0
    for seed in range(300):
        paused, beaten = set(), {}
        for state in sim.run_seed(machine, seed).end.path()[1:]:
            step, call, _ = state.world.last
            name = step.who.partition("/")[0]
            (paused.add if step.what == "pause" else paused.discard)(name)
            if call is not None and call.method == "put":
                beaten[name] = state.world.real_ms
            for alive in beaten.keys() - paused - state.world.results.keys():
                if step.who == "time":
                    assert state.world.real_ms - beaten[alive] <= 70_000
            for asleep in paused & beaten.keys():
                long_pauses += state.world.real_ms - beaten[asleep] > 120_000
        assert machine.scenario.faults.pauses == 1
    machine.close()
    assert long_pauses > 100


def test_healers_run_at_the_end_of_every_explored_schedule():
    def clean(ports):
        ports.store.delete("leader")

    class Clean:
        name = "clean"

        def after_step(self, _world):
            return None

        def at_end(self, world):
            return "not healed" if "leader" in world.objects else None

    election = toys.election()
    scenario = Scenario(
        name="healed",
        actors=election.actors,
        checkers=[Clean],
        faults=FaultBudget(crashes=2, pauses=1),
        healers={"clean": clean},
    )
    failure = sim.explore(scenario).failure
    assert failure is not None, "a zombie wakes up after the healing"
    assert [str(step) for step in failure.steps if step.what == "pause"]
    sober = Scenario(
        name="healed",
        actors=election.actors,
        checkers=[Clean],
        faults=FaultBudget(crashes=2, late=1),
        healers={"clean": clean},
    )
    late = sim.explore(sober).failure
    assert late is not None, "so does a late request"
    assert late.steps[-1] == Step("network", "deliver 0")
    calm = replace(sober, faults=FaultBudget(crashes=2, late=1, pauses=1), late_trouble=False)
    result = sim.explore(calm)
    assert (result.failure, result.complete) == (None, True)


def test_healing_has_a_deadline():
    def never(ports):
        while ports.store.head("counter"):
            pass

    scenario = _stormy(healers={"never": never}, heal_steps=40)
    assert sim.explore(scenario, states=10_000).failure.violation.checker in {
        "progress",
        "no increment is lost",
    }
    quiet = Scenario(name="quiet", actors={}, healers={"never": never}, heal_steps=40,
                     build=lambda world: world.put("counter", b"0"))  # fmt: skip
    assert sim.explore(quiet).failure.violation.checker == "progress"


# --- small, told, kept


def test_a_failure_is_shrunk_to_what_it_needs():
    report = sim.swarm(_stormy(), range(2_000))
    small = sim.shrink(report.failure)
    assert small.violation.checker == report.failure.violation.checker
    assert cost(small.steps) <= cost(report.failure.steps)
    faults = [step for step in small.steps if is_fault(step)]
    assert len(faults) == 1
    assert len(small.steps) <= 13


def test_the_story_can_be_read():
    with sim.without("toy lock"):
        small = sim.shrink(sim.explore(toys.counter()).failure)
    assert sim.story(small).splitlines()[:2] == [
        "1. worker-1: get counter -> '0'",
        "2. worker-1: put counter ('1') -> done",
    ]
    assert "=> no increment is lost: 3 increments, the counter says 2" in sim.story(small)


def _kept(tmp_path):
    file = tmp_path / "lost-update.txt"
    with sim.without("toy lock"):
        small = sim.shrink(sim.explore(toys.counter()).failure)
        sim.keep(file, small, title="Two read the same count.", without="toy lock")
    return file, small


def test_a_scenario_file_tells_the_same_story_again(tmp_path):
    file, small = _kept(tmp_path)
    run = sim.check(file)
    assert run.violation == small.violation
    assert run.steps == small.steps
    text = file.read_text()
    assert text.startswith("Two read the same count.\n\nscenario: toy counter\nwithout: toy lock\n")


def test_a_scenario_file_that_is_not_true_any_more_fails_until_it_is_written_again(tmp_path):
    file, _ = _kept(tmp_path)
    true = file.read_text()
    file.write_text(true.replace("counter says 2", "counter says 3"))
    with pytest.raises(AssertionError, match="tells another story"):
        sim.check(file, rewrite=False)
    sim.check(file, rewrite=True)
    assert file.read_text() == true


def test_a_kept_schedule_does_no_harm_when_the_guard_is_there(tmp_path):
    file, _ = _kept(tmp_path)
    file.write_text(file.read_text().replace("without: toy lock", "without: nothing"))
    assert sim.parse(file.read_text()).replayed().violation is None


# --- the command


def _command(*words):
    done = subprocess.run(
        [sys.executable, str(RUN), *words], check=False, capture_output=True, text=True
    )
    return done.returncode, done.stdout + done.stderr


def test_the_command_explores_mutates_keeps_and_replays(tmp_path):
    code, said = _command("--scenario", "toy counter", "--seeds", "50")
    assert (code, "no violation" in said) == (0, True)
    words = ("--scenario", "toy counter", "--mutate", "toy lock", "--exhaustive")
    code, said = _command(*words, "--keep", str(tmp_path))
    assert (code, "VIOLATION of no increment is lost" in said) == (0, True)
    (kept,) = tmp_path.iterdir()
    code, said = _command("--replay", str(kept))
    assert (code, "the counter says 2" in said) == (0, True)
    code, said = _command("--scenario", "toy election", "--mutate", "toy lock", "--seeds", "50")
    assert (code, "0 scenario(s) fail" in said) == (1, True)
