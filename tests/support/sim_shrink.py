"""Makes a failing schedule small: fewest faults, then fewest switches, then fewest steps.

Delta debugging: parts are left out, faults are undone, steps of one actor are moved together; what
still fails with the same checker, and is smaller, is the new schedule.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from sim_calls import OK, Step
from sim_machine import Machine
from sim_run import Run, follow
from sim_swarm import is_fault

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


def cost(steps: Sequence[Step]) -> tuple[int, int, int]:
    """Return what makes a schedule hard to read: faults, switches, steps."""
    switches = sum(one.who != other.who for one, other in pairwise(steps))
    return (sum(map(is_fault, steps)), switches, len(steps))


def shrink(failing: Run, *, tries: int = 3_000) -> Run:
    """Return the smallest run found that fails with the same checker."""
    if failing.violation is None:
        return failing
    machine = Machine(failing.scenario, background=failing.background)
    best, left = failing, tries
    try:
        improved = True
        while improved and left > 0:
            improved = False
            for candidate in _smaller(best.steps):
                left -= 1
                if left <= 0:
                    break
                result = follow(machine, candidate)
                if (
                    result.violation is not None
                    and result.violation.checker == failing.violation.checker
                    and cost(result.steps) < cost(best.steps)
                ):
                    best, improved = result, True
                    break
    finally:
        machine.close()
    return best


def _smaller(steps: list[Step]) -> Iterator[list[Step]]:
    size = len(steps)
    while size >= 1:
        for start in range(0, len(steps), size):
            yield steps[:start] + steps[start + size :]
        size //= 2
    for place, step in enumerate(steps):
        if is_fault(step):
            yield [*steps[:place], Step(step.who, OK), *steps[place + 1 :]]
    yield from _moved_together(steps)


def _moved_together(steps: list[Step]) -> Iterator[list[Step]]:
    """Move each block of one actor's steps back to its steps before."""
    start = 0
    while start < len(steps):
        end = start + 1
        while end < len(steps) and steps[end].who == steps[start].who:
            end += 1
        earlier = [place for place in range(start) if steps[place].who == steps[start].who]
        if earlier:
            to = earlier[-1] + 1
            yield steps[:to] + steps[start:end] + steps[to:start] + steps[end:]
        start = end
