"""All interleavings of a scenario, with bounded preemptions and faults.

Depth first over states. A state that was seen with at least the budget that is left now is not
explored again: whatever could follow did. What one actor does is remembered (``sim_process``), so
a step costs a copy of a small world and a few lookups, not a run from the start. A violation is
replayed from the start before it is reported: what cannot be replayed is a bug of the scenario.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sim_machine import Machine
from sim_run import Run, replay
from sim_state import State, Violation, is_end

if TYPE_CHECKING:
    from sim_scenario import Scenario


@dataclass(frozen=True, slots=True)
class Exploration:
    """What an exhaustive exploration did."""

    scenario: str
    schedules: int
    """Runs that reached their end; the others ran into a state that was explored before."""
    pruned: int
    states: int
    steps: int
    depth: int
    seconds: float
    complete: bool
    """Whether all was explored: no violation, no limit."""
    failure: Run | None

    def __str__(self) -> str:
        verdict = "all explored" if self.complete else "stopped early"
        if self.failure is not None and self.failure.violation is not None:
            verdict = f"VIOLATION of {self.failure.violation.checker}"
        rate = (self.schedules + self.pruned) / max(self.seconds, 1e-9)
        return (
            f"{self.scenario}: {self.schedules} schedules to their end, {self.pruned} joined a "
            f"known state, {self.states} states, {self.steps} steps, depth {self.depth}, "
            f"{self.seconds:.2f} s, {rate:.0f} schedules/s, "
            f"{self.steps / max(self.seconds, 1e-9):.0f} steps/s: {verdict}"
        )


class Seen:
    """The states that were explored, each with the budgets that it was explored with.

    Budgets are kept as numbers: there are few different ones, and millions of states.
    """

    def __init__(self) -> None:
        self._explored: dict[int, int | tuple[int, ...]] = {}
        self._numbers: dict[tuple[int, ...], int] = {}
        self._vectors: list[tuple[int, ...]] = []
        self._covers: dict[tuple[int, int], bool] = {}

    def __len__(self) -> int:
        return len(self._explored)

    def add(self, key: int, budget: tuple[int, ...]) -> bool:
        """Tell whether this has to be explored, and remember that it is."""
        number = self._numbers.get(budget)
        if number is None:
            number = self._numbers[budget] = len(self._vectors)
            self._vectors.append(budget)
        known = self._explored.get(key)
        if known is None:
            self._explored[key] = number
            return True
        if known == number:
            return False
        several = known if type(known) is tuple else (known,)
        if any(self._is_covered(number, by=other) for other in several):
            return False
        kept = [other for other in several if not self._is_covered(other, by=number)]
        self._explored[key] = (*kept, number) if kept else number
        return True

    def _is_covered(self, number: int, *, by: int) -> bool:
        covered = self._covers.get((number, by))
        if covered is None:
            pairs = zip(self._vectors[number], self._vectors[by], strict=True)
            covered = self._covers[number, by] = all(left <= had for left, had in pairs)
        return covered


def explore(
    scenario: Scenario,
    *,
    seconds: float | None = None,
    states: int | None = None,
    every_preemption: bool = False,
) -> Exploration:
    """Explore a scenario until a violation, the end, or a limit.

    ``every_preemption`` also preempts before reads that nobody else's writes touch.
    """
    started = time.perf_counter()
    until = None if seconds is None else started + seconds
    machine = Machine(scenario)
    try:
        complete, search = _passes(machine, until, states, every_preemption=every_preemption)
        spent = time.perf_counter() - started
    finally:
        machine.close()
    failure = None
    if search.found is not None:
        failure = replay(scenario, search.found[0].steps(), background=scenario.background)
        if failure.violation is None or failure.violation.checker != search.found[1].checker:
            raise AssertionError(
                f"{scenario.name}: {search.found[1]} was found but its replay ended with "
                f"{failure.violation}: an actor or a checker has hidden state"
            )
    return Exploration(
        scenario=scenario.name,
        schedules=search.schedules,
        pruned=search.pruned,
        states=len(search.seen),
        steps=search.steps,
        depth=search.depth,
        seconds=spent,
        complete=complete and search.found is None,
        failure=failure,
    )


def _passes(
    machine: Machine, until: float | None, states: int | None, *, every_preemption: bool
) -> tuple[bool, _Search]:
    """Learn from cheap passes who contests what; then pass until nothing new is learnt."""
    bound = machine.scenario.faults.preemptions
    if not every_preemption:
        for few in (0, 1):
            if few < bound:
                search = _Search(machine, preemptions=few)
                if not search.run(until=until, most_states=states):
                    return False, search
                machine.contests.use()
    while True:
        known = machine.contests.known
        search = _Search(machine, preemptions=bound)
        complete = search.run(until=until, most_states=states)
        if every_preemption or not complete or machine.contests.known == known:
            return complete, search
        machine.contests.use()


class _Search:
    def __init__(self, machine: Machine, *, preemptions: int) -> None:
        self.machine = machine
        self.preemptions = preemptions
        self.seen = Seen()
        self.schedules = 0
        self.pruned = 0
        self.steps = 0
        self.depth = 0
        self.found: tuple[State, Violation] | None = None

    def run(self, *, until: float | None, most_states: int | None) -> bool:
        machine, seen = self.machine, self.seen
        first = machine.initial()
        first.budget = (self.preemptions, *first.budget[1:])
        if self._wrong(first, machine.problem_after(first)):
            return False
        seen.add(first.key(), first.budget)
        stack = [(first, iter(self._options(first)))]
        while stack and self.found is None:
            state, options = stack[-1]
            option = next(options, None)
            if option is None:
                stack.pop()
                continue
            after = machine.take(state, option)
            self.steps += 1
            if self._wrong(after, machine.problem_after(after)):
                return False
            if not seen.add(after.key(), after.budget):
                self.pruned += 1
                continue
            self.depth = max(self.depth, after.depth)
            stack.append((after, iter(self._options(after))))
            if most_states is not None and len(seen) >= most_states:
                return False
            if until is not None and self.steps % 256 == 0 and time.perf_counter() > until:
                return False
        return self.found is None

    def _options(self, state: State) -> list:
        options = self.machine.options(state)
        if is_end(state, options):
            self.schedules += 1
            self._wrong(state, self.machine.problem_at_end(state))
        return options

    def _wrong(self, state: State, violation: Violation | None) -> bool:
        if violation is not None and self.found is None:
            self.found = (state, violation)
        return self.found is not None
