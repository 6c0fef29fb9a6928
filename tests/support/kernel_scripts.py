"""Scripts for tests of the kernel: a store clock to set, workers that die or fall asleep, readers.

::

    table = scene(TableVersion.NINE)
    time = cancellable(table, compaction_request("f1"))
    table.clock.advance(EXPIRED_S)
    kill_at(table.worker(), work, 7, done=True)      its 7th call was its last; it took effect
    sleep_at(table.worker(), work, 7, meanwhile)     its 7th call takes ages

A killed worker does nothing any more: no ``finally`` of its own reaches the store.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from kernel_tables import Kernel, metadata, show_groups, stage_data
from lakehand.core.instants import Action, Instant, State
from lakehand.core.timeline import Timeline
from lakehand.errors import LakehandError, PlanCancelled
from lakehand.formats import instant_names
from lakehand.formats.commit_metadata import WriteOperation
from lakehand.formats.plans import clustering
from lakehand.protocol import (
    cancelling,
    claiming,
    committing,
    failed_writes,
    heartbeats,
    planning,
    publishing,
    writing,
)
from lakehand.protocol.planning import PlanRequest
from lakehand.protocol.staging import TEMP
from lakehand.protocol.transaction import View, load_view
from lakehand.store.memory import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from lakehand.core.table_kinds import TableVersion
    from lakehand.ports import Store
    from lakehand.protocol.claiming import Attempt
    from lakehand.protocol.workbench import Workbench

NOON = 1_760_000_000_000
"""2025-10-09: where the store clocks of tests begin."""

HOUR_S = 3600.0
EXPIRED_S = 121.0
"""Longer than a heartbeat of Hudi's default settings lives."""


@dataclass
class StoreClock:
    """The store's clock, which goes when a test says so."""

    ms: int = NOON

    def __call__(self) -> int:
        return self.ms

    def advance(self, seconds: float) -> None:
        self.ms += int(seconds * 1000)


@dataclass
class Scene:
    """A table in memory, its clock, and workers with names of their own."""

    kernel: Kernel
    clock: StoreClock
    store: Store
    _names: Iterator[int] = field(default_factory=itertools.count)

    def worker(self, name: str = "w", **settings: object) -> Workbench:
        return self.kernel.worker(f"{name}{next(self._names)}", **settings)

    def view(self) -> View:
        return load_view(self.worker("eye"))

    def clean(self, **settings: object) -> failed_writes.CleanUp:
        return failed_writes.clean_up(self.worker("clean", **settings))


def scene(version: TableVersion, *, store: Store | None = None, **settings: object) -> Scene:
    clock = StoreClock()
    store = store or MemoryStore(clock=clock)
    kernel = Kernel(store, version, settings={"lock_timeout_s": 0.0, **settings})
    return Scene(kernel, clock, store)


# -- plans ----------------------------------------------------------------------------------------


def clustering_request(*groups: str, **options: object) -> PlanRequest:
    """A clustering plan for file groups of partition ``p``."""

    def content(extra: Mapping[str, str]) -> bytes:
        slices = tuple(
            clustering.ClusteringSlice(file_id=group, partition_path="p") for group in groups
        )
        plan = clustering.ClusteringPlan(
            input_groups=(clustering.ClusteringGroup(slices=slices),), extra_metadata=dict(extra)
        )
        return clustering.encode(
            clustering.RequestedReplace(operation_type="CLUSTER", clustering_plan=plan)
        )

    return PlanRequest(
        action=Action.CLUSTERING,
        content=content,
        groups=tuple(("p", one) for one in groups),
        **options,
    )


def begin_ingestion(bench: Workbench, *groups: str) -> Attempt:
    """An ingestion write up to its inflight file."""
    begun = writing.begin_write(bench, PlanRequest(action=Action.DELTA_COMMIT))
    assert isinstance(begun, claiming.Attempt)
    show_groups(bench, begun, groups)
    return begun


def stage_and_prepare(bench: Workbench, attempt: Attempt, groups: tuple[str, ...]) -> Prepared:
    """An attempt's files, written and promoted, but not committed."""
    files = tuple(stage_data(bench, attempt, one, task=n) for n, one in enumerate(groups))
    manifest = committing.prepare(bench, attempt, files)
    committing.promote_outputs(bench, attempt, manifest)
    operation = WriteOperation.UPSERT if attempt.is_ingestion else WriteOperation.COMPACT
    return Prepared(bench, attempt, metadata(bench, attempt, files, operation))


@dataclass(frozen=True)
class Prepared:
    """An attempt that has only its commit before it."""

    bench: Workbench
    attempt: Attempt
    content: bytes

    def commit(self) -> Instant:
        return committing.commit(self.bench, self.attempt, lambda _time: self.content)


def begin_plan(bench: Workbench, time: str, groups: tuple[str, ...]) -> Prepared:
    """An attempt at a plan, up to its commit."""
    claimed = claiming.claim(bench, time)
    assert isinstance(claimed, claiming.Attempt)
    return stage_and_prepare(bench, claimed, groups)


def run_plan(bench: Workbench, time: str, groups: tuple[str, ...]) -> Instant | None:
    """What a service's worker does: execute, or finish a cancellation. None: it was cancelled."""
    attempt = None
    try:
        claimed = claiming.claim(bench, time)
        if isinstance(claimed, claiming.AlreadyCompleted):
            return claimed.instant
        attempt = claimed
        return stage_and_prepare(bench, attempt, groups).commit()
    except PlanCancelled:
        cancelling.execute_cancel(bench, time, own=None if attempt is None else attempt.heartbeat)
        return None


def cancellable(scene: Scene, request: PlanRequest, **options: object) -> str:
    """Schedule ``request`` as a cancellable plan; return its time."""
    return planning.schedule(scene.worker(), replace(request, cancellable=True, **options))


# -- what is there --------------------------------------------------------------------------------


def state(scene: Scene, time: str) -> State | None:
    """The furthest state that the listing shows; None: the timeline does not know it."""
    config = scene.kernel.config
    names = scene.store.names(config.timeline_path)
    parsed = (instant_names.parse(name, config.layout) for name in names)
    found = Timeline.of(one for one in parsed if one is not None).find(time)
    return None if found is None else found.state


def files_of(scene: Scene, time: str) -> list[str]:
    """The names on the timeline that begin with this time."""
    names = scene.store.names(scene.kernel.config.timeline_path)
    return sorted(name for name in names if name.startswith((f"{time}.", f"{time}_")))


def data_of(scene: Scene, time: str) -> list[str]:
    """The data files that an instant wrote and that a reader could meet."""
    return sorted(one.path for one in scene.store.walk("p") if time in one.path)


def has_cancel_file(scene: Scene, time: str) -> bool:
    return scene.store.head(publishing.cancel_path(time)) is not None


def traces_of(scene: Scene, time: str) -> list[str]:
    """Markers, manifests and heartbeats of an instant that are still there."""
    folders = (f"{TEMP}/{time}", f".hoodie/.lakehand/manifests/{time}")
    left = [one.path for folder in folders for one in scene.store.walk(folder)]
    beat = heartbeats.path_of(time)
    return left if scene.store.head(beat) is None else [*left, beat]


def staged_places(scene: Scene) -> list[str]:
    """What is staged in the memory store, and may still be promoted by somebody."""
    assert isinstance(scene.store, MemoryStore)
    return sorted(scene.store._staged)


# -- workers that die or fall asleep --------------------------------------------------------------


class Killed(BaseException):
    """The worker's process is gone."""


_CALLS = frozenset(
    {"get", "open", "head", "list", "names", "walk", "put_new", "put_if", "put", "delete"}
    | {"now", "stage", "promote", "discard", "discard_area"}
)


class WatchedStore:
    """A store that counts calls and tells ``before`` and ``after`` each one its number."""

    def __init__(
        self, store: Store, before: Callable[[int], None], after: Callable[[int], None]
    ) -> None:
        self._store = store
        self._before = before
        self._after = after
        self.calls = 0
        self.is_dead = False

    @property
    def uri(self) -> str:
        return self._store.uri

    def __getattr__(self, name: str) -> Any:
        if name not in _CALLS:
            raise AttributeError(name)
        return partial(self._call, getattr(self._store, name), name)

    def _call(self, call: Callable[..., Any], name: str, *args: Any, **named: Any) -> Any:
        if self.is_dead:
            raise Killed
        self.calls += 1
        number = self.calls
        self._before(number)
        try:
            result = call(*args, **named)
        except LakehandError:
            self._after(number)
            raise
        if name == "walk":
            result = iter(list(result))
        self._after(number)
        return _WatchedWriter(self, result) if name == "stage" else result


class _WatchedWriter:
    """A staged writer of a worker that may die: then nobody discards what it wrote."""

    def __init__(self, store: WatchedStore, writer: Any) -> None:
        self._watched = store
        self._writer = writer

    def __getattr__(self, name: str) -> Any:
        return getattr(self._writer, name)

    def __enter__(self) -> _WatchedWriter:
        self._writer.__enter__()
        return self

    def __exit__(self, *problem: Any) -> None:
        if not self._watched.is_dead:
            self._writer.__exit__(*problem)


def _nothing(_number: int) -> None:
    pass


def on_store(bench: Workbench, store: WatchedStore) -> Workbench:
    """The same worker, whose store calls are watched."""
    return replace(bench, store=store, documents={})


def count_calls(bench: Workbench, work: Callable[[Workbench], object]) -> int:
    """Run ``work`` and return how many store calls it made."""
    watched = WatchedStore(bench.store, _nothing, _nothing)
    work(on_store(bench, watched))
    return watched.calls


def kill_at(
    bench: Workbench, work: Callable[[Workbench], object], number: int, *, done: bool
) -> bool:
    """Kill the worker at its n-th call, before its effect or after (``done``); tell if it died."""

    def die(at: int) -> None:
        if at == number:
            watched.is_dead = True
            raise Killed

    watched = WatchedStore(bench.store, _nothing if done else die, die if done else _nothing)
    try:
        work(on_store(bench, watched))
    except Killed:
        return True
    return False


def sleep_at(
    bench: Workbench,
    work: Callable[[Workbench], object],
    number: int,
    meanwhile: Callable[[], None],
) -> bool:
    """Let the worker's n-th call take so long that ``meanwhile`` happens wholly before it."""
    slept = False

    def sleep(at: int) -> None:
        nonlocal slept
        if at == number:
            slept = True
            meanwhile()

    work(on_store(bench, WatchedStore(bench.store, sleep, _nothing)))
    return slept


def outcome(work: Callable[[], object]) -> object:
    """What a call returned, or the error of Lakehand that it raised."""
    try:
        return work()
    except LakehandError as error:
        return error
