"""All checkers of protocol section 14 together, as a scenario lists them; and who heals."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from sim_actors import clean, finish_plans
from sim_checkers_files import NamedFilesExist, NoStrayFiles, OnlyOlderAttemptsFall
from sim_checkers_instants import EndsOnce
from sim_checkers_journal import JournalIsLegal, TimelineAgrees
from sim_checkers_progress import AllIsWell, OneAttemptAtATime
from sim_checkers_rules import PromotionIsOneShot
from sim_checkers_snapshot import SnapshotIsRight

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from sim_actors_beginnings import Beginning
    from sim_calls import FaultBudget
    from sim_ports import ActorPorts
    from sim_scenario import Checker

HEALERS: Mapping[str, Callable[[ActorPorts], object]] = {
    "clean-1": clean,
    "finish": finish_plans,
    "clean-2": clean,
}
"""Two cycles of clean, and between them somebody executes what is left to execute."""

PATIENT_HEALERS: Mapping[str, Callable[[ActorPorts], object]] = {
    **HEALERS,
    "finish-2": finish_plans,
    "clean-3": clean,
}
"""One cycle more: what a foreign commit overtook is first rolled back, then done again."""


def all_checkers(
    beginning: Beginning,
    faults: FaultBudget,
    *,
    ingesters: Iterable[str] = (),
    foreign: Iterable[str] = (),
    healers: Iterable[str] = tuple(HEALERS),
    sane: bool = True,
) -> list[Callable[[], Checker]]:
    """Return checkers 1 to 5 and 7 for a scenario; 5 only where clocks are sane."""

    def before() -> tuple[str, ...]:
        return tuple(row for _, row in beginning.made.acknowledged)

    found: list[Callable[[], Checker]] = [
        JournalIsLegal,
        PromotionIsOneShot,
        EndsOnce,
        NamedFilesExist,
        partial(OnlyOlderAttemptsFall, *_and_successors(foreign)),
        NoStrayFiles,
        partial(SnapshotIsRight, before, _and_successors(ingesters)),
        partial(TimelineAgrees, *healers),
        partial(AllIsWell, *healers),
    ]
    if sane and not (faults.pauses or faults.expiries or faults.clock_jumps):
        found.append(OneAttemptAtATime)
    return found


def _and_successors(actors: Iterable[str]) -> tuple[str, ...]:
    return tuple(name for actor in actors for name in (actor, f"{actor}.2"))
