"""Which reads are worth a preemption: those whose answer somebody else may change.

To preempt an actor before a read that nobody else's writes touch leads nowhere new: the same
happens when it reads first and is preempted before its next call. Who writes what is learnt while
exploring. A pass that learns something new is repeated with what it learnt, until a pass learns
nothing; then every preemption that was left out was rightly left out. (Assume a schedule that the
last pass missed. Up to its first write that no pass has seen, all its preemptions before untouched
reads can be moved behind them at no cost; so a pass did see that write.)

A read after which the actor looks at its own clock or lease is always worth it: time may pass.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakehand.store import paths
from sim_calls import LISTINGS, Call

if TYPE_CHECKING:
    from sim_process import Node

UNTOUCHED_READS = LISTINGS | {"get", "open", "head"}


class Contests:
    """Who was seen to write what, and who looks at its own clock after which read."""

    def __init__(self) -> None:
        self.known = 0
        """Grows with everything learnt."""
        self._writes: set[tuple[int, str]] = set()
        self._used: frozenset[tuple[int, str]] = frozenset()
        self._answers: dict[tuple[int, bool, str], bool] = {}
        self.everything = True
        """Whether every read counts as contested: no reduction."""

    def use(self) -> None:
        """From now on judge by all that was learnt so far."""
        self.everything = False
        self._used = frozenset(self._writes)
        self._answers = {}

    def wrote(self, process: int, path: str) -> None:
        """Learn that a process changed an object."""
        if (process, path) not in self._writes:
            self._writes.add((process, path))
            self.known += 1

    def looked_at_itself(self, before: Node | None) -> None:
        """Learn that the call of this local state is followed by a look at the own clock."""
        if before is not None and not before.looks_at_itself:
            before.looks_at_itself = True
            self.known += 1

    def is_contested(self, process: int, call: Call, node: Node) -> bool:
        """Tell whether it makes a difference to be preempted before this call."""
        alone = len(node.pending) == 1  # else a thread of its own may change what it reads
        if self.everything or node.looks_at_itself or not alone:
            return True
        if call.method not in UNTOUCHED_READS:
            return True
        listing = call.method in LISTINGS
        key = (process, listing, call.path)
        answer = self._answers.get(key)
        if answer is None:
            prefix = paths.below(call.path)
            answer = self._answers[key] = any(
                path.startswith(prefix) if listing else path == call.path
                for writer, path in self._used
                if writer != process
            )
        return answer
