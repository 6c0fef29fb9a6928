"""Checker 1: an instant ends once, and stays ended.

At most one completed result; never both committed and aborted; nothing commits after ``cancel``
returned; a timeline file that was removed never comes back, nor does an instant of which nothing
was left; a completed instant leaves the timeline only for the archive, or by a restore.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from sim_actors import Act
from sim_checkers_views import HISTORY, Look, look, parsed_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sim_world import World


def deeds(world: World) -> Iterator[Act]:
    """Yield what actors have done, as far as they came back to say so.

    An actor of several deeds says so by a mark: an object ``marks/<what>/<time>/<actor>``.
    """
    for outcome in world.results.values():
        if outcome.kind == "returned":
            value = outcome.value
            if type(value) is Act:
                yield value
            elif type(value) is tuple:
                yield from (one for one in value if type(one) is Act)
    for what, time in look(world).marks:
        yield Act(what, time, "cancelled" if what == "cancel" else "completed")


class _Seen(NamedTuple):
    names: frozenset[str] = frozenset()
    gone: frozenset[str] = frozenset()
    cancelled: frozenset[str] = frozenset()
    """Instants that were not complete when somebody's ``request_cancel`` had returned."""


class EndsOnce:
    """Requirement: an instant has one end."""

    name = "an instant ends once"
    state = _Seen()

    def after_step(self, world: World) -> str | None:
        seen, now = self.state, look(world)
        problem = None
        if now.names != seen.names:
            problem = self._one_end(now) or self._comes_back(world, seen, now)
            problem = problem or self._leaves(world, seen, now)
            gone = seen.gone | (seen.names - now.names)
            seen = seen._replace(names=now.names, gone=gone)
        cancelled = {
            act.time for act in deeds(world) if act.what == "cancel" and act.end == "cancelled"
        }
        if not cancelled <= seen.cancelled:
            seen = seen._replace(cancelled=seen.cancelled | cancelled)
        self.state = seen
        for instant, name in now.completed_files:
            if instant.time in seen.cancelled and problem is None:
                problem = f"{name} is there although the cancellation had returned"
        return problem

    def _one_end(self, now: Look) -> str | None:
        by_time: dict[tuple[str, str], list[str]] = {}
        for instant, name in now.completed_files:
            by_time.setdefault((instant.time, instant.action.value), []).append(name)
            if instant.time in now.aborted:
                return f"{name} is completed, and {instant.time} is aborted too"
        for names in by_time.values():
            if len(names) > 1:
                return f"one instant has {len(names)} results: {', '.join(names)}"
        return None

    def _comes_back(self, world: World, seen: _Seen, now: Look) -> str | None:
        new = now.names - seen.names
        back = sorted(new & seen.gone)
        if back:
            return f"{', '.join(back)} was removed, and came back"
        event = world.last
        if event is None or event.call is None or event.call.method != "promote":
            return None  # a foreign writer puts: it may have slept over its own rollback
        over = _times(seen.gone) - _times(seen.names)
        back = sorted(name for name in new if _time_of(name) in over)
        return f"{', '.join(back)} is new, and nothing was left of its instant" if back else None

    def _leaves(self, world: World, seen: _Seen, now: Look) -> str | None:
        for name in sorted(seen.names - now.names):
            if _is_completed_name(name) and not _may_leave(world, name):
                return f"{name} was completed, and left the timeline"
        return None

    def at_end(self, world: World) -> str | None:
        return self.after_step(world)


def _time_of(name: str) -> str:
    instant = parsed_name(name)
    return "" if instant is None else instant.time


@lru_cache(maxsize=10_000)
def _times(names: frozenset[str]) -> frozenset[str]:
    return frozenset(map(_time_of, names)) - {""}


def _is_completed_name(name: str) -> bool:
    instant = parsed_name(name)
    return instant is not None and instant.is_completed


def _may_leave(world: World, name: str) -> bool:
    """Whether an archive or a restore explains why a completed instant is not there any more."""
    archived = any(path.startswith(HISTORY) and path.endswith(".parquet") for path in world.objects)
    restored = any(path.endswith(".restore.requested") for path in world.objects)
    return archived or restored or name.endswith((".rollback", ".clean"))
