"""Small recipes that prove the simulator itself: each is right, and wrong without its guard.

A counter under a lock, an election by ``put_new``, and the journal's append with two checkpoints
and a trimmer, as protocol section 3 tells it.
"""

from __future__ import annotations

import contextlib
from functools import partial
from typing import TYPE_CHECKING

from lakehand.errors import NotFound, Unavailable
from lakehand.ports import PutOutcome
from sim_calls import FaultBudget
from sim_registry import mutation, scenario
from sim_scenario import Scenario

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sim_ports import ActorPorts
    from sim_world import World

OUT_OF_ACTION: set[str] = set()


@contextlib.contextmanager
def _without(guard: str) -> Iterator[None]:
    OUT_OF_ACTION.add(guard)
    try:
        yield
    finally:
        OUT_OF_ACTION.discard(guard)


for _guard, _where in {
    "toy lock": "toy counter",
    "toy election looks": "toy election",
    "toy journal checks": "toy journal",
    "toy next stands on it": "toy crowded journal",
}.items():
    mutation(_guard, noticed_in=[_where])(partial(_without, _guard))


# --- a counter under a lock


def increment(ports: ActorPorts) -> None:
    held = ports.locks.acquire(ports.name, timeout_s=10) if _on("toy lock") else None
    try:
        count = int(ports.store.get("counter").content)
        ports.store.put("counter", str(count + 1).encode())
    finally:
        if held is not None:
            held.release()


def _on(guard: str) -> bool:
    if guard in {"toy tail re-read", "toy next stands on it"} and not _on("toy journal checks"):
        return False
    return guard not in OUT_OF_ACTION


class NoIncrementIsLost:
    name = "no increment is lost"

    def after_step(self, _world: World) -> str | None:
        return None

    def at_end(self, world: World) -> str | None:
        done = sum(outcome.kind == "returned" for outcome in world.results.values())
        counted = int(world.content("counter") or b"0")
        return None if counted >= done else f"{done} increments, the counter says {counted}"


@scenario
def counter() -> Scenario:
    return Scenario(
        name="toy counter",
        title="Three workers increment a counter under a lock.",
        actors={f"worker-{number}": increment for number in (1, 2, 3)},
        build=lambda world: world.put("counter", b"0"),
        checkers=[NoIncrementIsLost],
        faults=FaultBudget(preemptions=3, crashes=1, unavailable=1),
    )


# --- an election: the first to write the name has won


def stand(ports: ActorPorts) -> str:
    """Return who was elected, by the knowledge of this candidate."""
    match ports.store.put_new("leader", ports.name.encode()):
        case PutOutcome.WRITTEN:
            return ports.name
        case PutOutcome.EXISTS:
            return ports.store.get("leader").content.decode()
        case _:
            if not _on("toy election looks"):
                return ports.name
    try:
        return ports.store.get("leader").content.decode()
    except NotFound as error:  # our request may still arrive: nobody knows
        raise Unavailable("no leader yet") from error


class OneLeader:
    name = "one leader"

    def after_step(self, world: World) -> str | None:
        said = {o.value for o in world.results.values() if o.kind == "returned"}
        return None if len(said) <= 1 else f"candidates believe in {sorted(said)}"

    def at_end(self, _world: World) -> str | None:
        return None


@scenario
def election() -> Scenario:
    return Scenario(
        name="toy election",
        title="Three candidates write one name; a reply may be lost.",
        actors={f"candidate-{number}": stand for number in (1, 2, 3)},
        checkers=[OneLeader],
        faults=FaultBudget(preemptions=3, lost=2, crashes=1),
    )


# --- the journal: append, checkpoint, trim

JOURNAL = "journal"


def _slot(number: int) -> str:
    return f"{JOURNAL}/{number:04d}"


def _entry(ports: ActorPorts, number: int) -> list[str] | None:
    try:
        return ports.store.get(_slot(number)).content.decode().split()
    except NotFound:
        return None


def append(ports: ActorPorts) -> tuple[str, str]:
    """Append one entry and return (its id, ``decided`` | ``not decided`` | ``unknown``)."""
    me = ports.name
    while True:
        tail = max(int(name) for name in ports.store.names(JOURNAL))
        stood_on = _entry(ports, tail)
        if stood_on is not None:
            break
    mine, blank = f"{me} entry {stood_on[0]}", f"{me}-blank entry {stood_on[0]}"
    outcome = ports.store.put_new(_slot(tail + 1), mine.encode())
    if outcome is PutOutcome.UNKNOWN and _entry(ports, tail + 1) is None:
        outcome = ports.store.put_new(_slot(tail + 1), blank.encode())  # closes the slot
        if outcome is PutOutcome.UNKNOWN:
            return me, "unknown"
    found = _entry(ports, tail + 1)
    if found is None or not _still_the_log(ports, tail, stood_on, found):
        return me, _by_checkpoint(ports, me, tail + 1)
    return me, "decided" if found[0] == me else "not decided"


def _still_the_log(ports: ActorPorts, tail: int, stood_on: list[str], found: list[str]) -> bool:
    """Tell whether slot ``tail + 1`` was read in a log that was not trimmed past it."""
    if _on("toy tail re-read"):
        again = _entry(ports, tail)
        if again is None or again[0] != stood_on[0]:
            return False
    last = 0
    while _on("toy next stands on it") and last <= tail:  # a listing may miss what is trimmed
        last = max(map(int, ports.store.names(JOURNAL)), default=0)
    if last > tail + 1:  # a late request may have filled a trimmed slot: what comes after tells
        after = _entry(ports, tail + 2)
        return after is not None and after[2] == found[0]
    return True


def _by_checkpoint(ports: ActorPorts, me: str, slot: int) -> str:
    for number in sorted(map(int, ports.store.names(JOURNAL)), reverse=True):
        entry = _entry(ports, number)
        if entry is not None and entry[1] == "checkpoint":
            _, _, _, reaches, *covered = entry
            if me in covered:
                return "decided"
            return "unknown" if slot < int(reaches) else "not decided"
    return "unknown"


def busy(ports: ActorPorts) -> None:
    """Append, write two checkpoints, trim what lies before the older one."""
    ids: dict[int, str] = {1: "first"}
    for kind in ("entry", "checkpoint", "checkpoint"):
        while True:
            slot = max(ids) + 1
            older = max((n for n, i in ids.items() if i.startswith("check")), default=0) + 1
            covered = " ".join(i for n, i in ids.items() if n >= older)
            me = f"{kind}-{slot}"
            content = f"{me} {kind} {ids[slot - 1]} {older} {covered}".encode()
            if ports.store.put_new(_slot(slot), content) is PutOutcome.WRITTEN:
                ids[slot] = me
                break
            ids[slot] = ports.store.get(_slot(slot)).content.decode().split()[0]
    keep_from = sorted(n for n, i in ids.items() if i.startswith("check"))[-2]
    trimmed = sorted(n for n in ids if n < keep_from)
    for slot in trimmed if _on("toy ascending trim") else reversed(trimmed):
        ports.store.delete(_slot(slot))


class JournalAnswersTrue:
    """The true log is the first entry of each slot, in order; a slot written again is no part."""

    name = "the journal answers true"
    state: tuple[str, ...] = ()

    def after_step(self, world: World) -> str | None:
        content = world.content(_slot(len(self.state) + 1))
        if content is not None:
            self.state = (*self.state, content.decode().split()[0])
        for outcome in world.results.values():
            if outcome.kind == "returned" and outcome.value is not None:
                me, verdict = outcome.value
                if verdict == "decided" and me not in self.state:
                    return f"{me} believes that it is decided, and is not in {self.state}"
                if verdict == "not decided" and me in self.state:
                    return f"{me} believes that it is not decided, and is in {self.state}"
        return None

    def at_end(self, _world: World) -> str | None:
        return None


def journal_of(appenders: int, *, name: str = "toy journal", **faults: int) -> Scenario:
    names = [f"worker-{number}" for number in range(1, appenders + 1)]
    return Scenario(
        name=name,
        title="Workers append while somebody appends, writes two checkpoints and trims.",
        actors={**dict.fromkeys(names, append), "busy": busy},
        build=lambda world: world.put(_slot(1), b"first entry none"),
        checkers=[JournalAnswersTrue],
        faults=FaultBudget(**faults),
        describe=lambda _path, content: content.decode(),
    )


@scenario
def crowded_journal() -> Scenario:
    return journal_of(2, name="toy crowded journal", preemptions=2, late=1)


@scenario
def journal() -> Scenario:
    return journal_of(1, preemptions=4, lost=1, late=1)
