"""The simulator's vocabulary: what an actor asks for, what may become of it, and what was chosen.

An actor's whole dealing with the world is a sequence of ``Call`` and reply. A schedule is a list
of ``Step``: who goes on, and the fate of the call that it was waiting with. Both are plain values,
so a run can be compared, hashed, written to a file and replayed.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, NamedTuple

from lakehand.errors import Unavailable
from lakehand.ports import PromoteOutcome, PutOutcome

if TYPE_CHECKING:
    from lakehand.errors import LakehandError


class Call(NamedTuple):
    """One call of a port. ``path`` is what it is about: an object, a folder, a place, a lock."""

    method: str
    path: str = ""
    args: tuple = ()


class Raised(NamedTuple):
    """A reply that is an error, as a value."""

    kind: type[LakehandError]
    args: tuple = ()
    named: tuple[tuple[str, object], ...] = ()

    def error(self) -> LakehandError:
        return self.kind(*self.args, **dict(self.named))


class Begun(NamedTuple):
    """A listing that has begun, with what it saw then; ``list_end`` returns it."""

    seen: tuple


class Step(NamedTuple):
    """One choice of the scheduler: ``what`` happens to the pending call of ``who``."""

    who: str
    what: str

    def __str__(self) -> str:
        return f"{self.who} {self.what}"


class Event(NamedTuple):
    """What a step did: for checkers (``world.last``) and for the story."""

    step: Step
    call: Call | None
    reply: object


class Outcome(NamedTuple):
    """How an actor ended. ``kind`` is ``returned``, ``raised`` (a LakehandError), ``crashed``
    or ``bug`` (any other exception; ``value`` is the traceback's text)."""

    kind: str
    value: object = None
    error: BaseException | None = None


LISTINGS = frozenset({"list", "names", "walk"})
READS = LISTINGS | {"get", "open", "head", "now", "list_end", "holder"}
CONDITIONAL = frozenset({"put_new", "put_if", "promote"})
WRITES = CONDITIONAL | {"put", "delete", "discard", "discard_area", "stage", "stage_close"}
LOCKING = frozenset({"acquire", "release", "break_lock"})
EFFECTS = WRITES | LOCKING
WAITS = frozenset({"sleep", "due", "join"})
LOCAL = frozenset({"monotonic", "left_s"})
"""Answered at once, without a scheduling point: they touch nothing that others can see."""
COMMUTING = frozenset({"now"})
"""Nobody else sees these or changes what they do (time steps aside): nobody is preempted there."""

OK = "ok"
CRASH = "crash"
CRASH_AFTER = "crash-after"
PAUSE = "pause"
LOST_APPLIED = "lost-applied"
LOST_DROPPED = "lost-dropped"
LATE = "late"
UNAVAILABLE = "unavailable"
EXPIRE = "expire"
EXPIRE_TOLD = "expire-told"
TIMEOUT = "timeout"
TORN = "torn"


def lost_reply(call: Call) -> object:
    """Return what the caller sees when the reply to ``call`` never comes."""
    match call.method:
        case "put_new" | "put_if":
            return PutOutcome.UNKNOWN
        case "promote":
            return PromoteOutcome.UNKNOWN
        case "release":
            return None
        case method:
            return Raised(Unavailable, (f"no reply to {method} {call.path}",))


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultBudget:
    """How much may go wrong in one run of an exhaustive exploration (swarm: which kinds may)."""

    preemptions: int = 2
    """Switches away from an actor that could have gone on."""
    crashes: int = 0
    pauses: int = 0
    """A pause stops the whole process for ``Scenario.pause_ms`` of everybody's time; it may wake
    at any later step, or never."""
    lost: int = 0
    """Replies that are lost: the effect took place, or did not."""
    late: int = 0
    """Writes whose caller gives up; they take effect at any later step, or never."""
    unavailable: int = 0
    """429 and 5xx: ``Unavailable`` without effect."""
    expiries: int = 0
    """Leases of the lock that end under a live holder."""
    timeouts: int = 0
    """``LockTimeout`` while somebody else holds the lock."""
    torn: int = 0
    """Listings that begin at one step and end at another."""
    clock_jumps: int = 0
    """Jumps of the store's clock (``Scenario.clock_jumps_ms``)."""
    replacements: int = 0
    """Crashed actors that are started again as ``name.2``."""
    total: int | None = None
    """All faults together; None: the sum of the kinds."""

    def vector(self) -> tuple[int, ...]:
        """Return (preemptions, total, each kind): what the explorer counts down."""
        kinds = tuple(getattr(self, name) for name in FAULT_KINDS)
        return (self.preemptions, sum(kinds) if self.total is None else self.total, *kinds)


FAULT_KINDS = tuple(
    field.name for field in fields(FaultBudget) if field.name not in {"preemptions", "total"}
)
KIND_INDEX = {name: number + 2 for number, name in enumerate(FAULT_KINDS)}
