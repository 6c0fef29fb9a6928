"""What the author of a scenario writes down: actors, a beginning, checkers, possible faults."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from sim_calls import FaultBudget

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from sim_ports import ActorPorts
    from sim_world import World


class Checker(Protocol):
    """Something that must always be true. One is made per exploration (``Scenario.checkers``).

    A checker that remembers something between steps keeps it in an attribute ``state``: one
    immutable, hashable value. The engine saves and restores it as it goes from branch to branch.
    """

    name: str

    def after_step(self, world: World) -> str | None:
        """Called after each step that changed an object, a staged file, a lock or a result;
        ``world.last`` is that step. Returns what is wrong, or None."""

    def at_end(self, world: World) -> str | None:
        """Called when nothing can go on any more."""


def _nothing(_: object) -> None:
    return None


def describe_bytes(_path: str, content: bytes) -> str:
    """Say what is in an object, in a few words."""
    text = content.decode("utf-8", "backslashreplace")
    return repr(text) if len(text) <= 48 else f"{text[:40]!r}… {len(content)} bytes"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """One situation to explore. Actors may touch nothing but their ports: no shared variables."""

    name: str
    title: str = ""
    """A paragraph for people: what happens here and what must hold."""
    actors: Mapping[str, Callable[[ActorPorts], object]]
    build: Callable[[World], object] = _nothing
    """Prepares the world; ``direct_ports(world)`` gives real ports to do it with recipes."""
    checkers: Sequence[Callable[[], Checker]] = ()
    faults: FaultBudget = field(default_factory=FaultBudget)
    may_fail: frozenset[str] | None = None
    """The actors whose calls may go wrong, where a promise does not hold if another's do; None:
    everybody's."""
    healers: Mapping[str, Callable[[ActorPorts], object]] = field(default_factory=dict)
    """Run one after the other, without faults, when all actors have ended, crashed or paused."""
    background: bool = False
    """Whether ``Background.every`` runs in the exhaustive mode too (swarm: always)."""
    lease_s: float = 60.0
    pause_ms: int = 3_600_000
    """How much time passes at a pause, where no background runs. Where it does (swarm), time
    passes in steps, so that the heartbeats of those who live go on."""
    heal_after_ms: int = 7_200_000
    """Time that passes before the first healer: every lease and heartbeat is over by then."""
    heal_steps: int = 1_000
    """Healing takes no more steps than this, else the checker ``progress`` fails."""
    late_trouble: bool = True
    """Whether zombies may wake up, and late requests arrive, after healing began. False where
    ``at_end`` asks what must be gone by then."""
    successors: bool = True
    """Swarm: whether crashed actors are started again (``name.2``) when healing begins."""
    clock_jumps_ms: tuple[int, ...] = (3_600_000, -86_400_000)
    max_steps: int = 2_000
    """A run that is not over by then fails with the checker ``progress``."""
    describe: Callable[[str, bytes], str] = describe_bytes
    """Says what an object's content is, for the story."""
