"""Scenarios without which guards against foreign writers look needless.

A foreign writer draws times too, commits while one of ours sleeps under a lease that is over, and
rolls back, and archives, what we had decided and not shown.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING
from unittest.mock import patch

import kernel_tables
from lakehand.core.instants import Action, Instant, State
from lakehand.formats.lsm_timeline import HistoryEntry
from lakehand.protocol import lsm_timeline, publishing, writing
from lakehand.protocol.claiming import Attempt
from lakehand.protocol.planning import PlanRequest
from lakehand.protocol.timeline_loader import instant_path
from sim_actors import (
    begin_ingestion,
    clean,
    finish_ingestion,
    ingester,
    tried,
    worker,
)
from sim_actors_beginnings import HOUR_MS, Beginning, Maker
from sim_actors_data import config
from sim_calls import FaultBudget
from sim_checkers_all import PATIENT_HEALERS, all_checkers
from sim_checkers_rules import NewTimesAreLater
from sim_foreign import TEMP, Java, foreign_clean, foreign_ingest
from sim_registry import scenario
from sim_scenario import Scenario
from sim_scenarios_decisions import ONE_ROW

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sim_actors import Act
    from sim_ports import ActorPorts
    from sim_scenario import Checker

    Cast = tuple[Beginning, Mapping[str, Callable[[ActorPorts], object]]]

JAVA = "java"
SWITCH = FaultBudget(preemptions=1)


def no_rows(_maker: Maker) -> None:
    """A table that nobody has written to."""


class _DiedError(Exception):
    pass


def unpublished(maker: Maker) -> None:
    """The commit of an ingestion write was decided; its worker died before anybody could see it."""
    maker.ingest("before", "f1")
    bench = maker.bench("w")
    attempt = begin_ingestion(bench, ("f1",))
    maker.made.times.append(attempt.time)
    with patch.object(publishing, "publish", side_effect=_DiedError):
        try:
            finish_ingestion(bench, attempt, "w")
        except _DiedError:
            maker.later(HOUR_MS)
        else:
            raise AssertionError("the commit was shown")


NO_ROWS = Beginning(no_rows)
UNPUBLISHED = Beginning(unpublished, age_ms=2 * HOUR_MS)


def thinks_too_long(ports: ActorPorts) -> Act:
    """Begin a write, which takes so long under the lock that somebody breaks it by hand."""
    bench = worker(ports)

    def thinks(_extra: Mapping[str, str]) -> bytes:
        ports.clock.sleep(30)
        holder = ports.locks.holder()
        if holder is not None:
            ports.locks.break_lock(holder)
        ports.clock.sleep(30)
        return b""

    def write() -> str:
        request = PlanRequest(action=Action.DELTA_COMMIT, content=thinks)
        attempt = writing.begin_write(bench, request)
        assert isinstance(attempt, Attempt)
        kernel_tables.show_groups(bench, attempt, ("f1",))
        finish_ingestion(bench, attempt, ports.name)
        return "completed"

    return tried("ingest", "", write, (ports.name,))


def clean_and_archive(ports: ActorPorts) -> tuple[str, ...]:
    """Roll back failed ingestion; then move the rollbacks into the history."""
    targets = foreign_clean(ports)
    java = Java(ports)
    held = java.lock()
    try:
        done = [one for one in java.timeline().of_action(Action.ROLLBACK) if one.is_completed]
        entries = [_history_entry(java, one) for one in done]
        folder = config().history_path
        lsm_timeline.append(ports.store, folder, entries, area=f"{TEMP}/archive/.staging/0")
        for instant in done:
            java.drop(Instant(instant.time, Action.ROLLBACK, State.REQUESTED))
            java.drop(Instant(instant.time, Action.ROLLBACK, State.INFLIGHT))
            java.drop(instant)
    finally:
        held.release()
    return targets


def _history_entry(java: Java, instant: Instant) -> HistoryEntry:
    content = java.ports.store.get(instant_path(config(), instant)).content
    return HistoryEntry(instant.time, instant.completion_time, instant.action, content, None)


writes = partial(foreign_ingest, group="f2", row=JAVA)

CASTS: Mapping[str, Cast] = {
    "java writes, we write another group": (NO_ROWS, {JAVA: writes, "i": ingester("f1")}),
    "java writes, we think too long": (NO_ROWS, {JAVA: writes, "i": thinks_too_long}),
    "java rolls back what we did not show": (UNPUBLISHED, {JAVA: foreign_clean, "k": clean}),
    "java archives its rollback of what we did not show": (
        UNPUBLISHED,
        {JAVA: clean_and_archive, "k": clean},
    ),
    "java writes while we sleep over our commit": (
        ONE_ROW,
        {"i": ingester("f1"), JAVA: writes, "k": clean},
    ),
}
SLEEPY = "java writes while we sleep over our commit"


def guarded(name: str) -> Scenario:
    """Return a scenario of the table above."""
    begun, actors = CASTS[name]
    faults = FaultBudget(preemptions=1, pauses=1) if name == SLEEPY else SWITCH
    more: list[Callable[[], Checker]] = [] if name == SLEEPY else [NewTimesAreLater]
    return Scenario(
        name=name,
        title="A foreign writer does something between two steps of ours.",
        actors=actors,
        build=begun.build,
        checkers=[
            *all_checkers(
                begun,
                faults,
                ingesters=("i", "w", JAVA),
                foreign=(JAVA,),
                healers=tuple(PATIENT_HEALERS),
            ),
            *more,
        ],
        faults=faults,
        may_fail=frozenset({"i"}),
        healers=PATIENT_HEALERS,
    )


for _name in CASTS:
    scenario(partial(guarded, _name))
