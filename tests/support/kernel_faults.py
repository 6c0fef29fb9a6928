"""A store whose every call a test sees: to count calls, to kill a worker at one, to lose a reply.

``TappedStore(inner, tap)`` hands each call to its tap, which runs it, or does not. A staged file is
two calls: opening it, and closing it (its bytes go up in between).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import Enum, unique
from typing import TYPE_CHECKING, Any

from lakehand.errors import Unavailable
from lakehand.ports import PromoteOutcome, PutOutcome, Swapped

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lakehand.ports import ObjectInfo, Staged, StagedWriter, Store
    from lakehand.protocol.workbench import Workbench

CHANGING = frozenset(
    {
        "put_new",
        "put_if",
        "swap",
        "put",
        "delete",
        "open stage",
        "close stage",
        "promote",
        "discard",
        "discard area",
    }
)
"""Calls that change something."""


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a store: the how-many-th, its method, and what it is about."""

    number: int
    method: str
    path: str

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


Tap = "Callable[[Call, Callable[[], Any]], Any]"


class TappedStore:
    """A store that lets a tap decide what becomes of each call."""

    def __init__(self, inner: Store, tap: Tap) -> None:
        self.inner = inner
        self._tap = tap
        self._number = 0

    def __repr__(self) -> str:
        return f"TappedStore({self.inner!r})"

    @property
    def uri(self) -> str:
        return self.inner.uri

    def through(self, method: str, path: str, run: Callable[[], Any]) -> Any:
        self._number += 1
        return self._tap(Call(self._number, method, path), run)

    def get(self, path: str):
        return self.through("get", path, lambda: self.inner.get(path))

    def open(self, path: str):
        return self.through("open", path, lambda: self.inner.open(path))

    def head(self, path: str):
        return self.through("head", path, lambda: self.inner.head(path))

    def list(self, folder: str):
        return self.through("list", folder, lambda: self.inner.list(folder))

    def names(self, folder: str):
        return self.through("names", folder, lambda: self.inner.names(folder))

    def walk(self, folder: str) -> Iterator[ObjectInfo]:
        return self.through("walk", folder, lambda: iter(tuple(self.inner.walk(folder))))

    def put_new(self, path: str, content: bytes) -> PutOutcome:
        return self.through("put_new", path, lambda: self.inner.put_new(path, content))

    def put_if(self, path: str, content: bytes, version: str) -> PutOutcome:
        return self.through("put_if", path, lambda: self.inner.put_if(path, content, version))

    def swap(self, path: str, content: bytes, version: str | None):
        return self.through("swap", path, lambda: self.inner.swap(path, content, version))

    def put(self, path: str, content: bytes) -> None:
        return self.through("put", path, lambda: self.inner.put(path, content))

    def delete(self, path: str) -> None:
        return self.through("delete", path, lambda: self.inner.delete(path))

    def now(self) -> int:
        return self.through("now", "", self.inner.now)

    def stage(self, final: str, *, area: str):
        return self.through(
            "open stage",
            final,
            lambda: TappedWriter(self, final, self.inner.stage(final, area=area)),
        )

    def promote(self, staged: Staged) -> PromoteOutcome:
        return self.through("promote", staged.final, lambda: self.inner.promote(staged))

    def discard_area(self, area: str):
        return self.through("discard area", area, lambda: self.inner.discard_area(area))

    def discard(self, staged: Staged) -> None:
        return self.through("discard", staged.final, lambda: self.inner.discard(staged))


class TappedWriter:
    """A staged file of a tapped store. Its killed worker discards nothing."""

    def __init__(self, store: TappedStore, final: str, inner: StagedWriter) -> None:
        self._store = store
        self._final = final
        self._inner = inner

    @property
    def staged(self) -> Staged:
        return self._inner.staged

    @property
    def closed(self) -> bool:
        return self._inner.closed

    def write(self, data: bytes | memoryview) -> int:
        return self._inner.write(data)

    def close(self) -> None:
        if not self._inner.closed:
            self._store.through("close stage", self._final, self._inner.close)

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace) -> None:
        if kind is None:
            self.close()
        elif issubclass(kind, Killed):
            self._inner.close()  # the system closes a dead process's files; nobody has the handle
        else:
            self._inner.__exit__(kind, error, trace)


# -- taps -----------------------------------------------------------------------------------------


class Killed(BaseException):
    """The process is gone: no ``except`` of the code under test may see it."""


@unique
class Fault(Enum):
    """What becomes of the n-th call."""

    KILL_BEFORE = "killed before its effect"
    KILL_AFTER = "killed after its effect"
    REPLY_LOST = "it worked, but the reply is lost"
    REFUSED = "the store did not answer, and did nothing"


@dataclass
class FaultAt:
    """Lets the call number ``at`` go wrong; a killed worker makes no call ever after."""

    at: int
    fault: Fault
    hit: Call | None = None

    def __call__(self, call: Call, run: Callable[[], Any]) -> Any:
        if self._is_dead():
            raise Killed
        if call.number != self.at:
            return run()
        self.hit = call
        match self.fault:
            case Fault.KILL_BEFORE:
                raise Killed
            case Fault.KILL_AFTER:
                run()
                raise Killed
            case Fault.REPLY_LOST:
                run()
                return lost_reply(call)
            case Fault.REFUSED:
                raise Unavailable(f"{call}: refused by the test")

    def _is_dead(self) -> bool:
        return self.hit is not None and self.fault in (Fault.KILL_BEFORE, Fault.KILL_AFTER)


def lost_reply(call: Call) -> Any:
    """Answer as an adapter does that knows nothing: UNKNOWN if it can say so, else an error."""
    match call.method:
        case "put_new" | "put_if":
            return PutOutcome.UNKNOWN
        case "swap":
            return Swapped(PutOutcome.UNKNOWN)
        case "promote":
            return PromoteOutcome.UNKNOWN
        case _:
            raise Unavailable(f"{call}: the reply was lost")


@dataclass
class Meanwhile:
    """Lets others act, once, just before the call number ``at``."""

    at: int
    others: Callable[[], None]
    hit: Call | None = None

    def __call__(self, call: Call, run: Callable[[], Any]) -> Any:
        if call.number == self.at:
            self.hit = call
            self.others()
        return run()


@dataclass
class Counting:
    """Remembers every call."""

    calls: list[Call] = field(default_factory=list)

    def __call__(self, call: Call, run: Callable[[], Any]) -> Any:
        self.calls.append(call)
        return run()

    def take(self) -> list[Call]:
        """Return what was called since the last time, and forget it."""
        taken, self.calls[:] = self.calls[:], []
        return taken


def on_store(bench: Workbench, tap: Tap) -> Workbench:
    """Return the same worker, as a new process whose store calls go through ``tap``."""
    return replace(bench, store=TappedStore(bench.store, tap), documents={})


def count_calls(bench: Workbench, act: Callable[[Workbench], object]) -> list[Call]:
    """Return the store calls that an act makes."""
    counting = Counting()
    act(on_store(bench, counting))
    return counting.calls


@dataclass
class StoreClock:
    """The store's clock, as a test sets it."""

    now_ms: int = 1_900_000_000_000

    def __call__(self) -> int:
        return self.now_ms

    def pass_minutes(self, minutes: float) -> None:
        self.now_ms += round(minutes * 60_000)

    def pass_seconds(self, seconds: float) -> None:
        self.now_ms += round(seconds * 1000)
