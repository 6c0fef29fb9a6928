"""One state of everything, as a value, and the words for what can happen in it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum, unique
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from sim_calls import Step
    from sim_process import Node
    from sim_world import World


@unique
class Status(IntEnum):
    """Where a process is in its life. WAITING: a healer or successor that was not started yet."""

    WAITING = 0
    RUNNING = 1
    PAUSED = 2
    CRASHED = 3
    ENDED = 4


class Violation(NamedTuple):
    """What is wrong, and which checker says so."""

    checker: str
    problem: str


class Option(NamedTuple):
    """A possible step; ``spends`` are the places of the budget vector that it counts down."""

    step: Step
    process: int
    thread: int
    spends: tuple[int, ...]


@dataclass(slots=True, eq=False)
class State:
    """One state of everything."""

    world: World
    nodes: tuple[Node, ...]
    """The local state of each process."""
    status: tuple[Status, ...]
    current: tuple[int, int] | None
    """The process and thread that ran last, if it still runs."""
    budget: tuple[int, ...]
    """What may still happen (``FaultBudget.vector``)."""
    checks: int
    """What the checkers remember (``Machine.memories``)."""
    healing: int
    """The depth at which healing began; 0: not yet."""
    parent: State | None
    depth: int

    def key(self) -> int:
        """Return a fingerprint of all that decides the future, budgets aside."""
        numbers = tuple(node.number for node in self.nodes)
        return hash(
            (self.world.key(), numbers, self.status, self.current, bool(self.healing), self.checks)
        )

    def steps(self) -> list[Step]:
        """Return the schedule that led here."""
        return [state.world.last.step for state in self.path()[1:]]

    def path(self) -> list[State]:
        """Return every state from the first to this one."""
        path = [self]
        while path[-1].parent is not None:
            path.append(path[-1].parent)
        return path[::-1]


def is_end(state: State, options: list[Option]) -> bool:
    """Tell whether everybody is done: only late requests may still arrive, or zombies wake up."""
    return all(
        option.spends
        or option.step.who == "network"
        or (option.process >= 0 and state.status[option.process] is Status.PAUSED)
        for option in options
    )
