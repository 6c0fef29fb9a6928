"""The ports as an actor sees them: each method hands a ``Call`` over and returns the reply.

What is local to a process (a writer's buffer, a handle, its ids) lives here and not in the world,
so an actor's behaviour is a function of the replies that it got, and of nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

import pyarrow as pa

from lakehand.errors import Invalid, LakehandError
from lakehand.ports import (
    Listing,
    LockHolder,
    ObjectInfo,
    PromoteOutcome,
    PutOutcome,
    Staged,
    StoredObject,
    Swapped,
)
from lakehand.store import paths
from sim_calls import Begun, Call, Raised

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class Caller(Protocol):
    """What the ports need of the process that they belong to."""

    name: str

    def call(self, call: Call) -> object: ...

    def next_number(self, kind: str) -> int: ...

    def spawn(self, name: str, due_s: float, body: Callable[[], None]) -> int: ...

    def join(self, thread: int) -> None: ...


@dataclass(frozen=True, slots=True)
class ActorPorts:
    """Everything that an actor may use of the world."""

    name: str
    store: SimStore
    locks: SimLocks
    clock: SimClock
    background: SimBackground
    new_id: Callable[[], str]
    """Hexadecimal words of 32 characters, the same in every run: actor's digits, then a count."""

    def with_lock(self, lock: str, *, provider: str, excludes_foreign: bool = True) -> ActorPorts:
        """Return the same ports with another lock: other names exclude nobody of this one."""
        return replace(self, locks=SimLocks(self.locks.caller, lock, provider, excludes_foreign))


def ports_of(caller: Caller, *, number: int, background: bool) -> ActorPorts:
    """Return the ports of one process; ``number`` makes its ids its own."""

    def new_id() -> str:
        return f"{number:08x}{caller.next_number('id'):024x}"

    clock = SimClock(caller)
    return ActorPorts(
        name=caller.name,
        store=SimStore(caller, new_id),
        locks=SimLocks(caller, "table", "sim", excludes_foreign=True),
        clock=clock,
        background=SimBackground(caller, clock, enabled=background),
        new_id=new_id,
    )


class SimStore:
    """``Store``, one scheduling point per call."""

    def __init__(self, caller: Caller, new_id: Callable[[], str]) -> None:
        self._call = caller.call
        self._new_id = new_id

    @property
    def uri(self) -> str:
        return "sim://table"

    def get(self, path: str) -> StoredObject:
        return self._call(Call("get", paths.checked(path)))

    def open(self, path: str) -> pa.NativeFile:
        return pa.BufferReader(self._call(Call("open", paths.checked(path))).content)

    def head(self, path: str) -> ObjectInfo | None:
        return self._call(Call("head", paths.checked(path)))

    def list(self, folder: str) -> Listing:
        return self._listing("list", folder)

    def names(self, folder: str) -> tuple[str, ...]:
        return self._listing("names", folder)

    def walk(self, folder: str) -> Iterator[ObjectInfo]:
        return iter(self._listing("walk", folder))

    def _listing(self, method: str, folder: str):
        reply = self._call(Call(method, paths.checked_folder(folder)))
        if type(reply) is Begun:
            reply = self._call(Call("list_end", folder, (method, reply.seen)))
        return reply

    def put_new(self, path: str, content: bytes) -> PutOutcome:
        return self._call(Call("put_new", paths.checked(path), (bytes(content),)))

    def put_if(self, path: str, content: bytes, version: str) -> PutOutcome:
        return self._call(Call("put_if", paths.checked(path), (bytes(content), version)))

    def put(self, path: str, content: bytes) -> None:
        self._call(Call("put", paths.checked(path), (bytes(content),)))

    def delete(self, path: str) -> None:
        self._call(Call("delete", paths.checked(path)))

    def now(self) -> int:
        return self._call(Call("now"))

    def stage(self, final: str, *, area: str) -> SimStagedWriter:
        place = paths.staged_place(area, self._new_id())
        self._call(Call("stage", place, (paths.checked(final),)))
        return SimStagedWriter(self, Staged(final, place))

    def promote(self, staged: Staged) -> PromoteOutcome:
        final, place = paths.checked(staged.final), paths.checked_place(staged.place)
        if not staged.parts:
            raise Invalid(f"the staged file for {final!r} was never closed")
        return self._call(Call("promote", final, (place,)))

    def discard(self, staged: Staged) -> None:
        self._call(Call("discard", staged.final, (paths.checked_place(staged.place),)))

    def swap(self, path: str, content: bytes, version: str | None) -> Swapped:
        if version is None:
            return Swapped(self.put_new(path, content))
        return Swapped(self.put_if(path, content, version))

    def discard_area(self, area: str) -> None:
        self._call(Call("discard_area", paths.checked_area(area)))

    def close_staged(self, place: str, content: bytes) -> None:
        """For the writer: make the staged content whole."""
        self._call(Call("stage_close", place, (content,)))


class SimStagedWriter:
    """``StagedWriter``: chunks are the process's own until ``close``."""

    def __init__(self, store: SimStore, staged: Staged) -> None:
        self._store = store
        self._staged = staged
        self._chunks: list[bytes] = []
        self._closed = False

    @property
    def closed(self) -> bool:
        return self._closed

    @property
    def staged(self) -> Staged:
        return self._staged

    def write(self, data: bytes | memoryview) -> int:
        if self._closed:
            raise Invalid(f"the staged file for {self._staged.final!r} is closed")
        self._chunks.append(bytes(data))
        return len(data)

    def close(self) -> None:
        if self._closed:
            return
        content = b"".join(self._chunks)
        self._store.close_staged(self._staged.place, content)
        self._closed = True
        self._staged = Staged(self._staged.final, self._staged.place, (str(len(content)),))

    def __enter__(self) -> SimStagedWriter:
        return self

    def __exit__(self, kind, error, trace) -> None:
        if kind is None:
            self.close()
        else:
            self._store.discard(self._staged)


@dataclass(frozen=True, slots=True)
class SimLocks:
    """``LockProvider``: real mutual exclusion, until a fate or a pause ends the lease."""

    caller: Caller
    lock: str
    name: str
    excludes_foreign: bool = True

    def acquire(self, owner: str, *, timeout_s: float) -> SimHeldLock:
        token = f"{self.caller.name}#{self.caller.next_number('token')}"
        self.caller.call(Call("acquire", self.lock, (owner, token, timeout_s)))
        return SimHeldLock(self.caller, self.lock, token)

    def holder(self) -> LockHolder | None:
        return self.caller.call(Call("holder", self.lock))

    def break_lock(self, holder: LockHolder) -> bool:
        return self.caller.call(Call("break_lock", self.lock, (holder.token,)))


class SimHeldLock:
    """``HeldLock``. ``left_s`` is no scheduling point: it asks the process's own clock."""

    def __init__(self, caller: Caller, lock: str, token: str) -> None:
        self._caller = caller
        self._lock = lock
        self._token = token
        self._released = False

    @property
    def token(self) -> str:
        return self._token

    def left_s(self) -> float:
        if self._released:
            return 0.0
        return self._caller.call(Call("left_s", self._lock, (self._token,)))

    def release(self) -> None:
        if not self._released:
            self._released = True
            self._caller.call(Call("release", self._lock, (self._token,)))


class SimClock:
    """``Clock``."""

    def __init__(self, caller: Caller) -> None:
        self._call = caller.call

    def monotonic(self) -> float:
        return self._call(Call("monotonic"))

    def sleep(self, seconds: float) -> None:
        until = self.monotonic() + seconds
        self._call(Call("sleep", "", (until,)))


class SimBackground:
    """``Background``: a second thread of the same process; it crashes and pauses with it."""

    def __init__(self, caller: Caller, clock: SimClock, *, enabled: bool) -> None:
        self._caller = caller
        self._clock = clock
        self._enabled = enabled

    def every(self, interval_s: float, step: Callable[[], bool], *, name: str) -> SimTask:
        task = SimTask(self._caller)
        if self._enabled:
            task.start(self._clock, interval_s, step, name)
        return task


class SimTask:
    """``BackgroundTask``."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller
        self._thread: int | None = None
        self._stopped = False

    def start(
        self, clock: SimClock, interval_s: float, step: Callable[[], bool], name: str
    ) -> None:
        def body() -> None:
            while not self._stopped:
                try:
                    if not step():
                        return
                except LakehandError:  # as the thread of process.py: one failed step is not the end
                    pass
                if not self._stopped:
                    due_s = clock.monotonic() + interval_s
                    self._caller.call(Call("due", name, (due_s,)))

        self._thread = self._caller.spawn(name, clock.monotonic() + interval_s, body)

    def stop(self) -> None:
        self._stopped = True
        if self._thread is not None:
            self._caller.join(self._thread)


class Direct:
    """A caller whose calls are carried out at once: for builders and checkers."""

    def __init__(self, do: Callable[[str, Call], object], name: str) -> None:
        self.name = name
        self._do = do
        self._numbers: dict[str, int] = {}

    def call(self, call: Call) -> object:
        reply = self._do(self.name, call)
        if type(reply) is Raised:
            raise reply.error()
        return reply

    def next_number(self, kind: str) -> int:
        self._numbers[kind] = self._numbers.get(kind, 0) + 1
        return self._numbers[kind]

    def spawn(self, name: str, due_s: float, body: Callable[[], None]) -> int:
        raise Invalid(f"{self.name} runs no background tasks ({name})")

    def join(self, thread: int) -> None:
        raise Invalid(f"{self.name} runs no background tasks ({thread})")
