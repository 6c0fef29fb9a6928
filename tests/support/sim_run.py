"""One run of a scenario from its start: by a recorded schedule, or by a chooser.

A recorded schedule is a list of steps. A step that is not possible where it stands is left out,
and when the list is over the run goes on without surprises to its end. So any part of a schedule
is a schedule too, which is what the shrinker needs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from sim_calls import OK, Event, Step
from sim_machine import Machine
from sim_state import Option, State, Violation, is_end

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sim_scenario import Scenario

ENDLESS = 1_000_000
"""A budget that never ends: a recorded schedule may do whatever it did."""

SURROUNDINGS = {
    ("time", "pass"),
    ("process-clock", "rate"),
    ("store-clock", "jump"),
    ("healing", "begins"),
}


@dataclass(frozen=True, slots=True)
class Run:
    """What happened in one run."""

    scenario: Scenario
    background: bool
    events: tuple[Event, ...]
    violation: Violation | None
    end: State

    @property
    def steps(self) -> list[Step]:
        """The schedule of the run."""
        return [event.step for event in self.events]

    def trace(self) -> str:
        """Return the run as text, the same for the same run."""
        lines = [
            f"{number} {event.step} | {event.call!r} | {event.reply!r}"
            for number, event in enumerate(self.events, 1)
        ]
        return "\n".join([*lines, f"= {self.violation!r}"])


class Chooser(Protocol):
    """Decides what happens next."""

    def choose(self, state: State, options: list[Option]) -> Option | None:
        """Return one of the options, or None: the run is over."""


def run(machine: Machine, chooser: Chooser, first: State) -> tuple[State, Violation | None]:
    """Run until the chooser or the scenario ends it, or a checker protests."""
    state = first
    violation = machine.problem_after(state)
    while violation is None:
        options = machine.options(state, every_crash=True)
        option = chooser.choose(state, options)
        if option is None:
            violation = machine.problem_at_end(state)
            break
        state = machine.take(state, option)
        violation = machine.problem_after(state)
    return state, violation


class Recorded:
    """Follows a recorded schedule as far as it is possible."""

    def __init__(self, machine: Machine, steps: Sequence[Step]) -> None:
        self._machine = machine
        self._steps = list(steps)
        self._at = 0

    def choose(self, state: State, options: list[Option]) -> Option | None:
        by_step = {option.step: option for option in options}
        while self._at < len(self._steps):
            step = self._steps[self._at]
            self._at += 1
            option = by_step.get(step) or self._whenever(state, step)
            if option is not None:
                return option
        if is_end(state, options):
            return None
        return without_surprise(options)

    def _whenever(self, state: State, step: Step) -> Option | None:
        """Steps that the options of this moment may not name: they are a chooser's own idea."""
        if (step.who, step.what.partition(" ")[0]) in SURROUNDINGS:
            return Option(step, -1, 0, ())
        if step.what == "start":
            for process in self._machine.successors(state):
                if self._machine.programs[process].name == step.who:
                    return self._machine.start(process, ())
        return None


def without_surprise(options: list[Option]) -> Option | None:
    """Return the step that is no fault: the current actor goes on, or the next one."""
    for option in options:
        usual = option.step.what in {OK, "start"} or option.step.who == "time"
        if usual and not option.spends:
            return option
    return None


def finished(machine: Machine, end: State, violation: Violation | None) -> Run:
    """Return the record of a run that reached ``end``."""
    events = tuple(after.world.last for after in end.path()[1:])
    return Run(machine.scenario, machine.background, events, violation, end)


def unlimited(state: State) -> State:
    """Let everything go wrong that a recorded schedule asks for."""
    state.budget = (ENDLESS,) * len(state.budget)
    return state


def follow(machine: Machine, steps: Sequence[Step]) -> Run:
    """Run a recorded schedule on a machine that may have run others before."""
    return finished(machine, *run(machine, Recorded(machine, steps), unlimited(machine.initial())))


def replay(scenario: Scenario, steps: Sequence[Step], *, background: bool) -> Run:
    """Run a recorded schedule from scratch."""
    machine = Machine(scenario, background=background)
    try:
        return follow(machine, steps)
    finally:
        machine.close()
