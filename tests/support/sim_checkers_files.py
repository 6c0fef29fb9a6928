"""Checkers 2 and 3: the files of completed instants are there, and no others can be read.

A file that a commit names exists until clean or restore removes it. An attempt deletes files of
lower epochs than its claim and no others. No file of an instant that a reader takes for committed
exists that the instant does not name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakehand.core.journal_moves import Standing
from sim_calls import CRASH
from sim_checkers_journal import history
from sim_checkers_views import epoch_of_file, instant_of_file, is_data, look

if TYPE_CHECKING:
    from sim_world import World


class NamedFilesExist:
    """Every file named by a completed instant exists."""

    name = "files that a commit names are there"

    def after_step(self, world: World) -> str | None:
        now = look(world)
        for time, paths in now.named.items():
            missing = sorted(paths - now.data.keys())
            if missing:
                return f"{time} is committed, and {', '.join(missing)} is not there"
        return None

    def at_end(self, world: World) -> str | None:
        return self.after_step(world)


_GONE = frozenset({Standing.ABORTED, Standing.REMOVED, Standing.SUPERSEDED})
"""Of these instants nothing is to be left; if a foreign writer completed one, checker 2 sees it."""


class OnlyOlderAttemptsFall:
    """Whoever deletes a data file has claimed its instant with a higher epoch, or it is over."""

    name = "an attempt deletes only what older ones left"
    state = 0

    def __init__(self, *foreign: str) -> None:
        self._foreign = foreign
        """Actors that know no journal: they may delete files of epoch 0 and of failed writes."""

    def after_step(self, world: World) -> str | None:
        now = history(world, self.state)
        self.state = now.number
        event = world.last
        if event is None or event.call is None or event.call.method != "delete":
            return None
        if event.step.what == CRASH:
            return None
        path, who = event.call.path, event.step.who.partition("/")[0]
        if not is_data(path) or who in self._foreign:
            return None
        time, epoch = instant_of_file(path), epoch_of_file(path)
        if now.standings.get(time) in _GONE:
            return None
        claims = [one for one in now.claims.get(time, ()) if one.owner == who]
        last = claims[-1] if claims else None
        if last is None:
            return f"{who} deletes {path}, and has no claim on {time}"
        if epoch >= last.epoch:
            return f"{who} deletes {path} of epoch {epoch}, and its claim is epoch {last.epoch}"
        return None

    def at_end(self, _world: World) -> str | None:
        return None


class NoStrayFiles:
    """A reader finds no file that no completed instant names."""

    name = "readers find only what commits name"
    state = frozenset[tuple[str, str]]()
    """What completed instants named that are archived by now."""

    def after_step(self, world: World) -> str | None:
        now = look(world)
        named = frozenset((time, path) for time, paths in now.named.items() for path in paths)
        if not named <= self.state:
            self.state |= named
        for path in now.data:
            time = instant_of_file(path)
            if now.timeline.is_committed(time) and (time, path) not in self.state:
                return f"{path} can be read, and no commit names it"
        return None

    def at_end(self, world: World) -> str | None:
        return self.after_step(world)
