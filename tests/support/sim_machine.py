"""What a step leads to: a scenario, ready to be run any number of times.

The explorers (exhaustive, swarm, replay) differ only in which of the possible steps
(``sim_options``) they take.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import sim_calls as fates
from lakehand.errors import LockTimeout, Unavailable
from sim_calls import WRITES, Call, Event, Outcome, Raised, Step
from sim_contests import Contests
from sim_effects import begin_listing, do, torn_listing
from sim_options import options
from sim_ports import ActorPorts, Direct, ports_of
from sim_process import Node, Program
from sim_state import Option, State, Status, Violation
from sim_world import Late, World

if TYPE_CHECKING:
    from sim_scenario import Checker, Scenario


def direct_ports(world: World, name: str = "builder") -> ActorPorts:
    """Return ports whose calls are carried out at once, for ``Scenario.build`` and checkers."""
    return ports_of(Direct(partial(do, world), name), number=0, background=False)


class Machine:
    """A scenario, ready to be run any number of times."""

    def __init__(self, scenario: Scenario, *, background: bool | None = None) -> None:
        self.scenario = scenario
        self.checkers: list[Checker] = [make() for make in scenario.checkers]
        self._remembers = [hasattr(checker, "state") for checker in self.checkers]
        self.memories: list[tuple] = []
        """Every combination of what the checkers remembered, told apart by equality: a hash could
        take two for one (that of -1 is that of -2)."""
        self._memory_numbers: dict[tuple, int] = {}
        self._first_memory = self._memory_number(
            tuple(getattr(checker, "state", None) for checker in self.checkers)
        )
        self.background = scenario.background if background is None else background
        bodies = [*scenario.actors.items()]
        bodies += [(f"{name}.2", body) for name, body in scenario.actors.items()]
        self.healers_from = len(bodies)
        bodies += scenario.healers.items()
        self.programs = [
            Program(name, body, number=number, background=self.background)
            for number, (name, body) in enumerate(bodies, 1)
        ]
        self.actors = len(scenario.actors)
        self.contests = Contests()

    def options(self, state: State, *, every_crash: bool = False) -> list[Option]:
        """Return what may happen next (``sim_options``)."""
        return options(self, state, every_crash=every_crash)

    def close(self) -> None:
        """End all greenlets."""
        for program in self.programs:
            program.close()

    # --- the first state

    def initial(self) -> State:
        world = World(lease_ms=int(self.scenario.lease_s * 1000))
        self.scenario.build(world)
        nodes = [program.root for program in self.programs]
        status = [Status.WAITING] * len(nodes)
        for process in range(self.actors):
            status[process] = Status.RUNNING
            nodes[process] = self._settle(world, process, nodes[process])
            if nodes[process].outcome is not None:
                status[process] = Status.ENDED
                world.results[self.programs[process].name] = nodes[process].outcome
        return State(
            world=world,
            nodes=tuple(nodes),
            status=tuple(status),
            current=None,
            budget=self.scenario.faults.vector(),
            checks=self._first_memory,
            healing=0,
            parent=None,
            depth=0,
        )

    def _settle(self, world: World, process: int, node: Node) -> Node:
        """Answer what a process asks of itself (its clock, its lease), which is no step."""
        program = self.programs[process]
        while node.local is not None:
            self.contests.looked_at_itself(node.parent)
            thread, call = node.local
            node = program.advance(node, thread, do(world, program.name, call))
        return node

    # --- what a step leads to

    def take(self, state: State, option: Option) -> State:
        """Return the state after one step."""
        world = state.world.copy()
        after = State(
            world=world,
            nodes=state.nodes,
            status=state.status,
            current=(option.process, option.thread),
            budget=_spend(state.budget, option.spends),
            checks=state.checks,
            healing=state.healing,
            parent=state,
            depth=state.depth + 1,
        )
        if option.process < 0:
            after.current = state.current
            self._surroundings_do(after, option.step)
        elif option.step.what == "start":
            self._start(after, option)
        else:
            self._process_does(after, option)
        return after

    def _surroundings_do(self, after: State, step: Step) -> None:
        world = after.world
        what, _, amount = step.what.partition(" ")
        call, reply = None, None
        match what:
            case "deliver":
                late = world.network[int(amount)]
                world.network = tuple(entry for entry in world.network if entry is not late)
                call, reply = late.call, do(world, late.process, late.call)
            case "pass":
                world.real_ms += int(amount)
            case "jump":
                world.skew_ms += int(amount)
            case "begins":
                self._heal(after)
            case "rate":
                name, rate = amount.rsplit(" ", 1)
                world.rates = {**world.rates, name: float(rate)}
        world.last = Event(step, call, reply)

    def _start(self, after: State, option: Option) -> None:
        process = option.process
        if process >= self.healers_from:
            self._heal(after)
            if process == self.healers_from:
                after.world.real_ms += self.scenario.heal_after_ms
        self._set_status(after, process, Status.RUNNING)
        node = self._settle(after.world, process, self.programs[process].root)
        after.world.last = Event(option.step, None, None)
        self._moved(after, process, node)

    def _heal(self, after: State) -> None:
        """From here on nothing new goes wrong."""
        if not after.healing:
            after.healing = after.depth
            if not self.scenario.late_trouble:
                after.world.network = ()

    def _process_does(self, after: State, option: Option) -> None:
        process, thread, world = option.process, option.thread, after.world
        program, node = self.programs[process], after.nodes[process]
        call, fate = node.pending[thread], option.step.what
        if after.status[process] is Status.PAUSED:
            self._set_status(after, process, Status.RUNNING)
            world.process_goes_on(program.name)
        reply: object = None
        match fate:
            case fates.CRASH | fates.CRASH_AFTER:
                if fate == fates.CRASH_AFTER:
                    reply = do(world, program.name, call)
                world.process_stops(program.name)
                world.results[program.name] = Outcome("crashed")
                world.changed = True
                self._set_status(after, process, Status.CRASHED)
                after.nodes = _replaced(after.nodes, process, program.root)
            case fates.PAUSE:
                world.process_stops(program.name)
                if not self.background:  # else the others' heartbeats would all stop with it
                    world.real_ms += self.scenario.pause_ms
                self._set_status(after, process, Status.PAUSED)
            case _:
                reply = perform(world, program.name, call, fate)
        world.last = Event(option.step, call, reply)
        if world.changed and call.method in WRITES:
            self.contests.wrote(process, call.path)
        if after.status[process] is Status.RUNNING:
            self._moved(
                after, process, self._settle(world, process, program.advance(node, thread, reply))
            )

    def _moved(self, after: State, process: int, node: Node) -> None:
        after.nodes = _replaced(after.nodes, process, node)
        if node.outcome is not None:
            name = self.programs[process].name
            self._set_status(after, process, Status.ENDED)
            after.world.results[name] = node.outcome
            after.world.process_stops(name)
            after.world.changed = True

    def _set_status(self, after: State, process: int, status: Status) -> None:
        after.status = _replaced(after.status, process, status)
        if status is not Status.RUNNING:
            after.current = None

    def start(self, process: int, spends: tuple[int, ...]) -> Option:
        """Return the step that starts a healer or a successor."""
        return Option(Step(self.programs[process].name, "start"), process, 0, spends)

    def successors(self, state: State) -> list[int]:
        """Return the successors of crashed actors that were not started yet."""
        return [
            process + self.actors
            for process in range(self.actors)
            if state.status[process] is Status.CRASHED
            and state.status[process + self.actors] is Status.WAITING
        ]

    # --- what is wrong

    def problem_after(self, state: State) -> Violation | None:
        """Ask the checkers after a step."""
        last = state.world.last
        if state.depth > self.scenario.max_steps:
            return Violation("progress", f"not over after {self.scenario.max_steps} steps")
        if state.healing and state.depth - state.healing > self.scenario.heal_steps:
            return Violation("progress", f"not healed after {self.scenario.heal_steps} steps")
        if not state.world.changed:
            return None
        for name, outcome in state.world.results.items():
            if outcome.kind == "bug":
                return Violation("no bug", f"{name} died at step {last}:\n{outcome.value}")
        return self._ask(state, "after_step")

    def problem_at_end(self, state: State) -> Violation | None:
        """Ask the checkers when nobody can go on."""
        for process, status in enumerate(state.status):
            if status is Status.RUNNING:
                waits = [call for call in state.nodes[process].pending if call is not None]
                name = self.programs[process].name
                return Violation("deadlock", f"{name} waits for ever: {waits}")
        return self._ask(state, "at_end")

    def _memory_number(self, memory: tuple) -> int:
        number = self._memory_numbers.setdefault(memory, len(self.memories))
        if number == len(self.memories):
            self.memories.append(memory)
        return number

    def _ask(self, state: State, question: str) -> Violation | None:
        checks = list(self.memories[state.checks])
        found = None
        for number, checker in enumerate(self.checkers):
            if self._remembers[number]:
                checker.state = checks[number]
            problem = getattr(checker, question)(state.world)
            if self._remembers[number]:
                checks[number] = checker.state
            if problem is not None:
                found = Violation(checker.name, problem)
                break
        state.checks = self._memory_number(tuple(checks))
        return found


def perform(world: World, process: str, call: Call, fate: str) -> object:
    """Carry out a call with this fate, and return the reply that its caller sees."""
    match fate:
        case fates.OK:
            return do(world, process, call)
        case fates.LOST_APPLIED:
            do(world, process, call)
            if call.method == "acquire":
                world.abandon(call.path)
            return fates.lost_reply(call)
        case fates.LOST_DROPPED:
            if call.method == "release":
                world.abandon(call.path)
            return fates.lost_reply(call)
        case fates.LATE:
            world.network += (Late(process, call),)
            return fates.lost_reply(call)
        case fates.UNAVAILABLE:
            return Raised(Unavailable, (f"503 for {call.method} {call.path}",))
        case fates.EXPIRE | fates.EXPIRE_TOLD:
            world.expire(call.path, holder_knows=fate == fates.EXPIRE_TOLD)
            return do(world, process, call)
        case fates.TIMEOUT:
            owner = world.locks[call.path].owner
            waited = call.args[2]
            named = (("holder", owner), ("age_s", waited), ("waited_s", waited))
            return Raised(LockTimeout, (), named)
        case fates.TORN:
            return begin_listing(world, call)
    first, _, count = fate.partition("-first ")
    return torn_listing(world, call, first=first, count=int(count))


def _spend(budget: tuple[int, ...], places: tuple[int, ...]) -> tuple[int, ...]:
    if not places:
        return budget
    left = list(budget)
    for place in places:
        left[place] -= 1
    return tuple(left)


def _replaced(values: tuple, place: int, value: object) -> tuple:
    return (*values[:place], value, *values[place + 1 :])
