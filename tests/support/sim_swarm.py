"""Random runs of a scenario: one seed, one run, the same every time.

Each seed draws its own mix (swarm testing): which kinds of fault occur at all, how often, how
eagerly the scheduler switches, how fast time passes and how wrong clocks are. Faults come first;
then healing begins: nothing new goes wrong, successors of the dead start, zombies may still wake
up, and within a bounded number of steps all must be over and well.
"""

from __future__ import annotations

import random
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sim_calls import FAULT_KINDS, KIND_INDEX, OK, PAUSE, Step
from sim_machine import Machine
from sim_run import Run, finished, run, unlimited
from sim_state import Option, State, Status, is_end

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sim_scenario import Scenario


@dataclass(frozen=True, slots=True)
class SwarmReport:
    """What a series of seeds did."""

    scenario: str
    seeds: int
    steps: int
    faults: int
    seconds: float
    failing_seed: int | None
    failure: Run | None

    def __str__(self) -> str:
        verdict = "no violation"
        if self.failure is not None and self.failure.violation is not None:
            verdict = f"seed {self.failing_seed}: VIOLATION of {self.failure.violation.checker}"
        return (
            f"{self.scenario}: {self.seeds} seeds, {self.steps} steps, {self.faults} faults, "
            f"{self.seconds:.1f} s, {self.seeds / max(self.seconds, 1e-9):.0f} schedules/s, "
            f"{self.steps / max(self.seconds, 1e-9):.0f} steps/s: {verdict}"
        )


def swarm(scenario: Scenario, seeds: Iterable[int], *, seconds: float | None = None) -> SwarmReport:
    """Run seed after seed until one fails, or the time is over."""
    started = time.perf_counter()
    machine = Machine(scenario, background=True)
    done = steps = faults = 0
    failing_seed, failure = None, None
    try:
        for seed in seeds:
            result = run_seed(machine, seed)
            done += 1
            steps += len(result.events)
            faults += sum(is_fault(event.step) for event in result.events)
            if result.violation is not None:
                failing_seed, failure = seed, result
                break
            if seconds is not None and time.perf_counter() - started > seconds:
                break
            if done % SEEDS_PER_MACHINE == 0:  # what was learnt about the actors takes memory
                machine.close()
                machine = Machine(scenario, background=True)
    finally:
        machine.close()
    spent = time.perf_counter() - started
    return SwarmReport(scenario.name, done, steps, faults, spent, failing_seed, failure)


SEEDS_PER_MACHINE = 200
LONG_MS = 1_200_000
"""A pause that nobody's heartbeat has to survive."""


def _passes(milliseconds: int) -> Option:
    return Option(Step("time", f"pass {milliseconds}"), -1, 0, ())


def run_seed(machine: Machine, seed: int) -> Run:
    """Run one seed."""
    chooser = Dice(machine, seed)
    return finished(machine, *run(machine, chooser, chooser.first()))


def is_fault(step: Step) -> bool:
    """Tell whether a step is something that went wrong."""
    if step.who in {"time", "healing", "network"}:
        return False
    return step.what not in {OK, "start"} and not step.what.startswith(("old-first", "new-first"))


class Dice:
    """Chooses by the numbers of one seed."""

    def __init__(self, machine: Machine, seed: int) -> None:
        self._machine = machine
        scenario = machine.scenario
        self._random = dice = random.Random(f"{scenario.name}:{seed}")
        allowed = scenario.faults.vector()
        kinds = [kind for kind in FAULT_KINDS if allowed[KIND_INDEX[kind]] > 0]
        self._rates = {
            kind: dice.choice((0.005, 0.02, 0.08)) for kind in kinds if dice.random() < 0.6
        }
        self._switch = dice.choice((0.02, 0.1, 0.3, 0.7))
        self._wake = dice.choice((0.01, 0.1, 0.5))
        self._tick_ms = dice.choice((0, 1, 50, 5_000))
        self._fault_steps = dice.choice((30, 100, 300))
        self._hops = 0
        """How many times time passes, after a pause, up to the next moment somebody waits for."""
        self._opening = list(self._clocks()) if scenario.faults.clock_jumps else []

    def first(self) -> State:
        """Return the state to begin with: kinds that this seed does without are out of budget."""
        state = unlimited(self._machine.initial())
        budget = list(state.budget)
        for kind in FAULT_KINDS:
            if kind not in self._rates:
                budget[KIND_INDEX[kind]] = 0
        state.budget = tuple(budget)
        return state

    def _clocks(self) -> Iterable[Option]:
        """Processes' clocks that run fast or slow, for the whole run."""
        for name in self._machine.scenario.actors:
            if self._random.random() < 0.3:
                rate = self._random.choice((0.5, 0.9, 1.1, 2.0))
                yield Option(Step("process-clock", f"rate {name} {rate}"), -1, 0, ())

    def choose(self, state: State, options: list[Option]) -> Option | None:
        """Return what happens next."""
        if self._opening:
            return self._opening.pop(0)
        ended = is_end(state, options)
        over = ended or state.depth >= self._fault_steps
        over |= any(option.process >= self._machine.healers_from for option in options)
        if over and not state.healing:
            return Option(Step("healing", "begins"), -1, 0, ())
        if state.healing and self._machine.scenario.successors:
            for process in self._machine.successors(state):
                return self._machine.start(process, ())
        if ended and (not options or self._random.random() < 0.3):
            return None
        timer = self._timer(state, options)
        if self._hops:
            return timer or self._hop(state)
        if not (timer or state.healing) and self._tick_ms and self._random.random() < 0.2:
            return _passes(self._random.randint(1, 2 * self._tick_ms))
        if timer:
            options = [option for option in options if option.step.who != "time"]
        chosen = self._fault(options) or self._step(state, options)
        if chosen is not None and chosen.step.what == PAUSE:
            self._hops = self._random.choice((0, 1, 3, 6))
        return chosen

    def _timer(self, state: State, options: list[Option]) -> Option | None:
        """Return the background work of a live process that is due: time waits for it.

        Else a live worker's heartbeat would expire by the scheduler's neglect alone.
        """
        timers = [
            option
            for option in options
            if option.thread > 0
            and option.step.what == OK
            and state.status[option.process] is Status.RUNNING
        ]
        return self._random.choice(timers) if timers else None

    def _hop(self, state: State) -> Option:
        self._hops -= 1
        dues = [
            state.world.real_ms_of(self._machine.programs[process].name, call.args[0])
            for process, node in enumerate(state.nodes)
            if state.status[process] is Status.RUNNING
            for call in node.pending
            if call is not None and call.method == "due"
        ]
        if not dues:
            self._hops = 0
            return _passes(LONG_MS)
        return _passes(max(1, min(dues) - state.world.real_ms))

    def _fault(self, options: list[Option]) -> Option | None:
        for kind, rate in self._rates.items():
            if self._random.random() < rate:
                index = KIND_INDEX[kind]
                possible = [option for option in options if index in option.spends]
                if possible:
                    return self._random.choice(possible)
        return None

    def _step(self, state: State, options: list[Option]) -> Option | None:
        usual = [option for option in options if 1 not in option.spends]
        if not usual:
            return None
        first = usual[0]
        goes_on = (first.process, first.thread) == state.current
        if goes_on and self._random.random() >= self._switch:
            same = [o for o in usual if (o.process, o.thread) == state.current]
            return self._random.choice(same)
        awake = [
            option
            for option in usual
            if option.process < 0 or state.status[option.process] is not Status.PAUSED
        ]
        if awake and self._random.random() >= self._wake:
            return self._random.choice(awake)
        return self._random.choice(usual)
