"""Actors as greenlets, and the memory of what they do.

An actor is plain synchronous code whose only contact with the world is its ports. So what it does
next is a function of the replies it got so far. ``Program`` remembers that function as a tree:
a ``Node`` is a local state (which calls its threads wait with, or how it ended), an edge is
(thread, reply). The actor's code runs only where the tree has no edge yet; everything else is a
dictionary lookup, and that is what makes exploring production code affordable. A greenlet cannot
be copied: a second way on from a node runs the code again from its start, along the recorded
replies, and fails loudly if it does something else than before.
"""

from __future__ import annotations

import traceback
from collections import OrderedDict
from typing import TYPE_CHECKING

from greenlet import GreenletExit, greenlet

from lakehand.errors import InvariantBroken, LakehandError
from sim_calls import LOCAL, Call, Outcome, Raised
from sim_ports import ActorPorts, ports_of

if TYPE_CHECKING:
    from collections.abc import Callable

LIVE_AT_ONCE = 400
"""How many suspended copies of one actor are kept, to go on without running it again."""

FIRST_END = 1 << 40
"""Numbers of endings (not negative ones: Python's hash of -1 is that of -2)."""


class Live:
    """One running copy of an actor: its greenlets, each suspended in a call."""

    def __init__(self, program: Program) -> None:
        self.name = program.name
        self.dead = False
        self.pending: list[Call | None] = [None]
        self.names = [program.name]
        self.local: tuple[int, Call] | None = None
        self.outcome: Outcome | None = None
        self._numbers: dict[str, int] = {}
        self._running = 0
        self._body = program.body
        ports = ports_of(self, number=program.number, background=program.background)
        self._threads = [greenlet(lambda: self._main(ports))]
        self._hub = self._threads[0].parent
        self._went_on(0, self._threads[0].switch())

    def _main(self, ports: ActorPorts) -> None:
        try:
            self.outcome = Outcome("returned", self._body(ports))
        except LakehandError as error:
            self.outcome = Outcome("raised", error=error)
        except Exception as error:  # noqa: BLE001 - any other is a bug, and a failure of the run
            self.outcome = Outcome("bug", traceback.format_exc(), error)

    def _beside(self, body: Callable[[], None]) -> None:
        try:
            body()
        except Exception as error:  # noqa: BLE001
            self.outcome = Outcome("bug", traceback.format_exc(), error)

    def call(self, call: Call) -> object:
        if self.dead:
            raise GreenletExit
        reply = self._hub.switch(call)
        if type(reply) is Raised:
            raise reply.error()
        return reply

    def next_number(self, kind: str) -> int:
        self._numbers[kind] = self._numbers.get(kind, 0) + 1
        return self._numbers[kind]

    def spawn(self, name: str, due_s: float, body: Callable[[], None]) -> int:
        self._threads.append(greenlet(lambda _reply: self._beside(body), parent=self._hub))
        self.pending.append(Call("due", name, (due_s,)))
        self.names.append(f"{self.name}/{name}")
        return len(self._threads) - 1

    def join(self, thread: int) -> None:
        if thread == self._running:
            return
        waits_with = self.pending[thread]
        if waits_with is not None and waits_with.method != "due":
            self.call(Call("join", self.names[thread], (thread,)))
        self.pending[thread] = None  # it is between two steps, and will do no other

    def resume(self, thread: int, reply: object) -> None:
        """Give the reply to a thread's call and run it to its next one."""
        self._went_on(thread, self._switch(thread, reply))

    def _switch(self, thread: int, reply: object) -> object:
        self.local = None
        self._running = thread
        self.pending[thread] = None
        return self._threads[thread].switch(reply)

    def _went_on(self, thread: int, asked: object) -> None:
        if self.outcome is not None or self._threads[thread].dead:
            return
        if asked.method in LOCAL:
            self.local = (thread, asked)
        else:
            self.pending[thread] = asked

    def kill(self) -> None:
        """End all greenlets; their ``finally`` blocks reach no port any more."""
        self.dead = True
        for thread in self._threads:
            if thread and not thread.dead:
                thread.throw(GreenletExit)


class Node:
    """A local state of an actor: reached by one history of replies."""

    __slots__ = (
        "edges", "local", "looks_at_itself", "names", "number", "outcome", "parent", "pending",
        "via",
    )  # fmt: skip

    def __init__(self, number: int, parent: Node | None, via: tuple[int, object] | None) -> None:
        self.number = number
        self.parent = parent
        self.via = via
        self.looks_at_itself = False
        self.edges: dict[tuple[int, object], Node] = {}
        self.pending: tuple[Call | None, ...] = ()
        self.names: tuple[str, ...] = ()
        self.local: tuple[int, Call] | None = None
        self.outcome: Outcome | None = None

    def take(self, live: Live) -> None:
        self.pending = tuple(live.pending)
        self.names = tuple(live.names)
        self.local = live.local
        self.outcome = live.outcome


class Program:
    """One actor and everything that is known about what it does."""

    def __init__(
        self, name: str, body: Callable[[ActorPorts], object], *, number: int, background: bool
    ) -> None:
        self.name = name
        self.body = body
        self.number = number
        self.background = background
        self.nodes = 0
        self.replays = 0
        self._live: OrderedDict[int, Live] = OrderedDict()
        self._ends: dict[tuple, int] = {}
        live = Live(self)
        self.root = self._node(None, None, live)

    def _node(self, parent: Node | None, via: tuple[int, object] | None, live: Live) -> Node:
        self.nodes += 1
        node = Node(self.nodes, parent, via)
        node.take(live)
        if node.outcome is None:
            self._live[node.number] = live
            if len(self._live) > LIVE_AT_ONCE:
                _, oldest = self._live.popitem(last=False)
                oldest.kill()
        else:
            live.kill()
            node.number = self._end_number(node)
        return node

    def _end_number(self, node: Node) -> int:
        """Equal endings are one state, whatever led there."""
        outcome = node.outcome
        key = (outcome.kind, repr(outcome.value), repr(outcome.error))
        return self._ends.setdefault(key, FIRST_END + len(self._ends))

    def advance(self, node: Node, thread: int, reply: object) -> Node:
        """Return the local state after ``reply`` was given to ``thread``."""
        via = (thread, reply)
        known = node.edges.get(via)
        if known is None:
            live = self._live.pop(node.number, None) or self._again(node)
            live.resume(thread, reply)
            known = node.edges[via] = self._node(node, via, live)
        return known

    def _again(self, node: Node) -> Live:
        """Run the actor once more, along the replies that led to ``node``."""
        self.replays += 1
        path = [node]
        while path[-1].parent is not None:
            path.append(path[-1].parent)
        live = Live(self)
        self._same(live, path.pop())
        for step in reversed(path):
            live.resume(*step.via)
            self._same(live, step)
        return live

    def _same(self, live: Live, node: Node) -> None:
        if tuple(live.pending) != node.pending or live.local != node.local:
            raise InvariantBroken(
                f"{self.name} is not deterministic: after the same replies it asked "
                f"{live.pending} {live.local} and not {node.pending} {node.local}"
            )

    def close(self) -> None:
        for live in self._live.values():
            live.kill()
        self._live.clear()
