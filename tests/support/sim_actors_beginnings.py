"""Tables to begin with: made once by production recipes, then copied into every world.

A beginning is made some time before a scenario starts, so that what its workers left (heartbeats,
plans) has an age. ``Made`` names what its actors need to know: the plan's time, attempts under way.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import kernel_tables
from lakehand.core.table_kinds import TableVersion
from sim_actors import ingest, worker
from sim_machine import direct_ports
from sim_world import START_MS, World

if TYPE_CHECKING:
    from collections.abc import Callable

    from lakehand.formats.manifest_document import Manifest
    from lakehand.protocol.claiming import Attempt
    from lakehand.protocol.workbench import Workbench

HOUR_MS = 3_600_000


@dataclass
class Made:
    """What the actors of a scenario know of its beginning."""

    times: list[str] = field(default_factory=list)
    attempts: list[Attempt] = field(default_factory=list)
    manifests: list[Manifest] = field(default_factory=list)
    acknowledged: tuple[tuple[str, str], ...] = ()
    """Instants and rows that were written before."""


class Maker:
    """Runs recipes in a world that nobody else looks at."""

    def __init__(self, world: World, version: TableVersion) -> None:
        self._world = world
        self.version = version
        self.made = Made()

    def bench(self, name: str = "builder", **settings: object) -> Workbench:
        """Return the workbench of a worker whose calls are carried out at once."""
        ports = direct_ports(self._world, name)
        return worker(ports, version=self.version, **settings)

    def ingest(self, row: str, *groups: str) -> None:
        """Write a row; it counts as acknowledged."""
        act = ingest(self.bench(), *groups, row=row)
        assert act.end == "completed", act
        self.made.acknowledged += ((act.time, row),)

    def later(self, milliseconds: int) -> None:
        """Let time pass."""
        self._world.real_ms += milliseconds


class Beginning:
    """A table as it is when a scenario starts, ``age_ms`` after it was begun."""

    def __init__(
        self,
        make: Callable[[Maker], None],
        *,
        age_ms: int = 0,
        version: TableVersion = TableVersion.NINE,
    ) -> None:
        self._make = make
        self._age_ms = age_ms
        self._version = version

    @cached_property
    def _world_and_made(self) -> tuple[World, Made]:
        world = World(lease_ms=60_000)
        world.real_ms = START_MS - self._age_ms
        kernel_tables.create(direct_ports(world).store, self._version)
        maker = Maker(world, self._version)
        self._make(maker)
        if world.real_ms > START_MS:
            raise ValueError("the beginning is later than the scenario's start: give it an age")
        return world, maker.made

    @property
    def made(self) -> Made:
        """What actors know."""
        return self._world_and_made[1]

    def time(self) -> str:
        """Return the time of the (first) plan."""
        return self.made.times[0]

    def build(self, world: World) -> None:
        """Copy the table into a scenario's world."""
        made, _ = self._world_and_made
        for path, stored in made.objects.items():
            world.put(path, stored.content, modified_ms=stored.modified_ms)
        for place, staged in made.staged.items():
            world.set_staged(place, staged)
