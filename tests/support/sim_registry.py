"""Where scenarios and removed guards are known by name, for the command and for scenario files.

Modules ``tests/support/sim_scenarios_*.py`` register themselves when they are imported; ``load``
imports them all. A mutation is a context manager under which one guard of the production code is
out of action.
"""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager

    from sim_scenario import Scenario

SCENARIOS: dict[str, Callable[[], Scenario]] = {}
MUTATIONS: dict[str, Callable[[], AbstractContextManager[object]]] = {}

NOTICED_IN: dict[str, tuple[str, ...]] = {}


def scenario(make: Callable[[], Scenario]) -> Callable[[], Scenario]:
    """Register a function that makes a scenario, under the scenario's name."""
    name = make().name
    if name in SCENARIOS:
        raise ValueError(f"two scenarios are called {name!r}")
    SCENARIOS[name] = make
    return make


def mutation(
    name: str, *, noticed_in: Sequence[str] = ()
) -> Callable[[Callable[[], AbstractContextManager[object]]], object]:
    """Register a function that makes a context manager which takes a guard out.

    ``noticed_in`` names the scenarios of which a checker must notice; none: any may.
    """

    def register(make: Callable[[], AbstractContextManager[object]]) -> object:
        if name in MUTATIONS:
            raise ValueError(f"two mutations are called {name!r}")
        MUTATIONS[name] = make
        NOTICED_IN[name] = tuple(noticed_in)
        return make

    return register


def load() -> None:
    """Import every module of scenarios."""
    for path in sorted(Path(__file__).parent.glob("sim_scenarios_*.py")):
        importlib.import_module(path.stem)


def named(name: str) -> Scenario:
    """Return the scenario of that name."""
    load()
    if name not in SCENARIOS:
        raise KeyError(f"no scenario {name!r}; there are: {', '.join(sorted(SCENARIOS))}")
    return SCENARIOS[name]()


def without(guard: str) -> AbstractContextManager[object]:
    """Return the context in which that guard is out of action."""
    load()
    if guard not in MUTATIONS:
        raise KeyError(f"no mutation {guard!r}; there are: {', '.join(sorted(MUTATIONS))}")
    return MUTATIONS[guard]()


def noticed_in(guard: str) -> tuple[str, ...]:
    """Return the scenarios in which the absence of a guard is looked for."""
    return NOTICED_IN[guard] or tuple(sorted(SCENARIOS))
