"""Checker 4: a reader finds the acknowledged rows, all of them, and none that was refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakehand import errors
from sim_checkers_instants import deeds
from sim_checkers_views import look

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from sim_actors import Act
    from sim_world import World

ACKNOWLEDGED = frozenset({"completed", "already"})


def is_refused(act: Act) -> bool:
    """Whether the writer was told that nothing of its write is there, for good."""
    kind = getattr(errors, act.end, None)
    return kind is not None and issubclass(kind, (errors.Conflict, errors.Fenced, errors.Invalid))


class SnapshotIsRight:
    """What is read = what was there before + acknowledged rows (+ rows that are not refused)."""

    name = "a snapshot is what was acknowledged"

    def __init__(self, before: Callable[[], Iterable[str]], ingesters: Iterable[str] = ()) -> None:
        self._before = before
        self._possible = frozenset(ingesters)

    def after_step(self, world: World) -> str | None:
        found = look(world).snapshot
        if isinstance(found, str):
            return f"the table cannot be read: {found}"
        before = frozenset(self._before())
        wrote = [act for act in deeds(world) if act.what == "ingest"]
        must = before.union(*(act.rows for act in wrote if act.end in ACKNOWLEDGED))
        refused = frozenset[str]().union(*(act.rows for act in wrote if is_refused(act)))
        restored = frozenset(
            row for act in deeds(world) if act.what == "restore" for row in act.rows
        )
        lost = sorted(must - restored - found)
        if lost:
            return f"acknowledged and not found: {', '.join(lost)}"
        strange = sorted(found - before - (self._possible - refused))
        return f"found, and nobody wrote it: {', '.join(strange)}" if strange else None

    def at_end(self, world: World) -> str | None:
        return self.after_step(world)
