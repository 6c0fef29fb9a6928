"""Which steps are possible in a state.

The one that needs no decision comes first: the actor that ran last goes on. Whatever else is
possible costs something: a preemption, when somebody else goes on instead, or a fault.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import sim_calls as fates
from sim_calls import COMMUTING, EFFECTS, KIND_INDEX, LISTINGS, LOCKING, WRITES, Call, Step
from sim_effects import changed_since
from sim_state import Option, State, Status

if TYPE_CHECKING:
    from sim_machine import Machine

PREEMPTION, ANY_FAULT = 0, 1
"""The first places of the budget vector; the kinds of fault follow."""


class Waiting(NamedTuple):
    """A thread that waits with a call."""

    process: int
    thread: int
    call: Call


def options(machine: Machine, state: State, *, every_crash: bool = False) -> list[Option]:
    """Return the possible steps.

    ``every_crash`` offers crashes before reads, and after effects, too. They lead to the same
    worlds as a crash before the next effect, so the exhaustive mode leaves them out.
    """
    return _Menu(machine, state, every_crash=every_crash).options()


class _Menu:
    def __init__(self, machine: Machine, state: State, *, every_crash: bool) -> None:
        self.machine = machine
        self.state = state
        self.every_crash = every_crash
        self.faults = state.budget[ANY_FAULT] > 0 and not state.healing
        self.found: list[Option] = []
        self.ready: list[Waiting] = []
        self.held_up: list[Waiting] = []

    def options(self) -> list[Option]:
        current = self._current()
        if current is not None:
            self._goes_on(current, ())
            if self.state.budget[PREEMPTION] > 0 and self._worth_preempting(current):
                self._look_around()
                for other in self.ready:
                    if other != current:
                        self._goes_on(other, (PREEMPTION,))
                self._lock_trouble((PREEMPTION,))
                self._time_passes((PREEMPTION,))
        else:
            self._look_around()
            for one in self.ready:
                self._goes_on(one, ())
            self._lock_trouble(())
            status = self.state.status
            all_asleep = all(status[one.process] is Status.PAUSED for one in self.ready)
            if all_asleep and not self._time_passes(()):
                self._healer_starts()
        self._surroundings()
        return self.found

    def _current(self) -> Waiting | None:
        """Return the thread that ran last, if it can go on."""
        if self.state.current is None:
            return None
        process, thread = self.state.current
        call = self.state.nodes[process].pending[thread]
        if call is None:
            return None
        waiting = Waiting(process, thread, call)
        return waiting if self._can_go_on(waiting) else None

    def _look_around(self) -> None:
        asleep_for_ever = self.state.healing and not self.machine.scenario.late_trouble
        for process, node in enumerate(self.state.nodes):
            status = self.state.status[process]
            if status is Status.RUNNING or (status is Status.PAUSED and not asleep_for_ever):
                for thread, call in enumerate(node.pending):
                    if call is not None:
                        waiting = Waiting(process, thread, call)
                        (self.ready if self._can_go_on(waiting) else self.held_up).append(waiting)

    def _can_go_on(self, waiting: Waiting) -> bool:
        call, world = waiting.call, self.state.world
        match call.method:
            case "acquire":
                return world.is_free(call.path)
            case "sleep" | "due":
                name = self.machine.programs[waiting.process].name
                return world.monotonic_s(name) >= call.args[0]
            case "join":
                waits_with = self.state.nodes[waiting.process].pending[call.args[0]]
                return waits_with is None or waits_with.method == "due"
            case _:
                return True

    def _worth_preempting(self, current: Waiting) -> bool:
        if current.call.method in COMMUTING:
            return False
        return self.machine.contests.is_contested(
            current.process, current.call, self.state.nodes[current.process]
        )

    def _goes_on(self, waiting: Waiting, spends: tuple[int, ...]) -> None:
        process, thread, call = waiting
        who = self.state.nodes[process].names[thread]
        add = self.found.append
        add(Option(Step(who, fates.OK), process, thread, spends))
        if call.method == "list_end":
            for count in range(1, len(changed_since(self.state.world, call))):
                for first in ("old", "new"):
                    add(Option(Step(who, f"{first}-first {count}"), process, thread, spends))
        if not self.faults or not self._may_fail(process):
            return
        budget = self.state.budget
        for index, fate, always in _FATES[call.method]:
            if budget[index] > 0 and (always or self.every_crash):
                add(Option(Step(who, fate), process, thread, (*spends, ANY_FAULT, index)))

    def _may_fail(self, process: int) -> bool:
        names = self.machine.scenario.may_fail
        return names is None or self.machine.programs[process].name in names

    def _lock_trouble(self, spends: tuple[int, ...]) -> None:
        """A lease that ends under its holder, or a wait that takes too long."""
        if not self.faults:
            return
        for process, thread, call in self.held_up:
            if call.method == "acquire":
                who = self.state.nodes[process].names[thread]
                for index, fate in _LOCK_FATES:
                    if self.state.budget[index] > 0:
                        paid = (*spends, ANY_FAULT, index)
                        self.found.append(Option(Step(who, fate), process, thread, paid))

    def _time_passes(self, spends: tuple[int, ...]) -> bool:
        """Time passes up to the next moment that somebody waits for."""
        state, world, dues = self.state, self.state.world, []
        for process, _, call in self.held_up:
            if state.status[process] is Status.PAUSED:
                continue
            if call.method in {"sleep", "due"}:
                dues.append(world.real_ms_of(self.machine.programs[process].name, call.args[0]))
            elif call.method == "acquire":
                ends = world.locks[call.path].until_ms
                if ends is not None:
                    dues.append(ends)
        if dues:
            step = Step("time", f"pass {min(dues) - world.real_ms}")
            self.found.append(Option(step, -1, 0, spends))
        return bool(dues)

    def _healer_starts(self) -> None:
        state, machine = self.state, self.machine
        if Status.RUNNING in state.status:
            return  # somebody waits for ever: the run ends there, and ``deadlock`` says so
        for process in range(machine.healers_from, len(machine.programs)):
            if state.status[process] is Status.WAITING:
                self.found.append(machine.start(process, ()))
                return

    def _surroundings(self) -> None:
        state, machine = self.state, self.machine
        for number in range(len(state.world.network)):
            self.found.append(Option(Step("network", f"deliver {number}"), -1, 0, ()))
        if not self.faults:
            return
        index = KIND_INDEX["clock_jumps"]
        if state.budget[index] > 0 and Status.RUNNING in state.status:
            for jump in machine.scenario.clock_jumps_ms:
                step = Step("store-clock", f"jump {jump:+d}")
                self.found.append(Option(step, -1, 0, (ANY_FAULT, index)))
        index = KIND_INDEX["replacements"]
        if state.budget[index] > 0:
            for process in machine.successors(state):
                self.found.append(machine.start(process, (ANY_FAULT, index)))


_LOCK_FATES = (
    (KIND_INDEX["expiries"], fates.EXPIRE),
    (KIND_INDEX["expiries"], fates.EXPIRE_TOLD),
    (KIND_INDEX["timeouts"], fates.TIMEOUT),
)


def _fates_of(method: str) -> tuple[tuple[int, str, bool], ...]:
    """Return (place in the budget, fate, whether it is always offered) for calls of a method."""
    found = [
        ("crashes", fates.CRASH, method in EFFECTS),
        ("crashes", fates.CRASH_AFTER, False),
        ("pauses", fates.PAUSE, True),
    ]
    if method == "release":
        found.append(("lost", fates.LOST_DROPPED, True))
    elif method not in fates.WAITS | {"list_end"}:
        found.append(("unavailable", fates.UNAVAILABLE, True))
        if method in LISTINGS:
            found.append(("torn", fates.TORN, True))
        if method in WRITES | LOCKING:
            found.append(("lost", fates.LOST_APPLIED, True))
        if method in WRITES:
            found += [("lost", fates.LOST_DROPPED, True), ("late", fates.LATE, True)]
    return tuple((KIND_INDEX[kind], fate, always) for kind, fate, always in found)


_FATES = {method: _fates_of(method) for method in fates.READS | EFFECTS | fates.WAITS}
