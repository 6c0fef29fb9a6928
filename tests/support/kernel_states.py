"""What is on a table's storage, in words that do not depend on how many attempts it took."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakehand.core.instants import Action, Instant, State
from lakehand.core.timeline import Timeline
from lakehand.formats import instant_names

if TYPE_CHECKING:
    from lakehand.ports import Store
    from lakehand.protocol.workbench import Workbench

_EPOCH = re.compile(r"_(\d+)-(15\d{8})-(\d+)_")


@dataclass(frozen=True)
class TableState:
    """The table as everybody sees it, and what attempts left beside it."""

    timeline: tuple[tuple[str, str, str], ...]
    """Time, action and state; a rollback's time depends on who made it, and is left out."""
    data: tuple[str, ...]
    """Data files, without the epoch that wrote them."""
    markers: tuple[str, ...]
    manifests: tuple[str, ...]
    heartbeats: tuple[str, ...]
    cancels: tuple[str, ...]
    promotable: tuple[str, ...]
    """Places of staged files that some document names, so that they could still appear."""


def state_of(bench: Workbench) -> TableState:
    """Return the state of the table, read beside all taps."""
    store = raw(bench.store)
    return TableState(
        timeline=tuple(sorted(_shown(one) for one in timeline(bench).instants)),
        data=tuple(sorted(_EPOCH.sub(r"_\1-E-\3_", path) for path in data_files(store))),
        markers=walked(store, ".hoodie/.temp"),
        manifests=walked(store, ".hoodie/.lakehand/manifests"),
        heartbeats=walked(store, ".hoodie/.heartbeat"),
        cancels=walked(store, ".hoodie/.cancel"),
        promotable=_promotable(store),
    )


def _shown(one: Instant) -> tuple[str, str, str]:
    time = "" if one.action is Action.ROLLBACK else one.time
    return time, one.action.value, one.state.value


def _promotable(store: Store) -> tuple[str, ...]:
    staged = tuple(getattr(store, "_staged", {}))
    if not staged:
        return ()
    said = b"\n".join(store.get(one.path).content for one in store.walk(".hoodie"))
    return tuple(sorted(place for place in staged if place.encode() in said))


def raw(store: Store) -> Store:
    """Return the store beneath all taps."""
    while hasattr(store, "inner"):
        store = store.inner
    return store


def walked(store: Store, folder: str) -> tuple[str, ...]:
    """Return the paths below a folder."""
    return tuple(one.path for one in raw(store).walk(folder))


def data_files(store: Store) -> tuple[str, ...]:
    """Return every file that a reader could pick up."""
    return tuple(path for path in walked(store, "") if not path.startswith(".hoodie"))


def everything(store: Store) -> dict[str, bytes]:
    """Return every object with its content: for tests that nothing changed."""
    return {path: raw(store).get(path).content for path in walked(store, "")}


def timeline(bench: Workbench) -> Timeline:
    """Return the timeline, as one listing shows it."""
    names = raw(bench.store).names(bench.config.timeline_path)
    parsed = (instant_names.parse(name, bench.config.layout) for name in names)
    return Timeline.of(one for one in parsed if one is not None)


def files_of(bench: Workbench, time: str) -> list[str]:
    """Return the names of one instant's files on the timeline."""
    names = raw(bench.store).names(bench.config.timeline_path)
    return sorted(name for name in names if name.startswith((f"{time}.", f"{time}_")))


def state_on_timeline(bench: Workbench, time: str) -> State | None:
    """Return how far an instant came; None: it is gone."""
    instant = timeline(bench).find(time)
    return None if instant is None else instant.state


def rollbacks(bench: Workbench) -> tuple[Instant, ...]:
    """Return the rollback instants."""
    return timeline(bench).of_action(Action.ROLLBACK)
