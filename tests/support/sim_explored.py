"""How tests explore a scenario: completely, with one line of figures, and a story when it fails."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from sim_exhaustive import explore
from sim_shrink import shrink
from sim_story import story

if TYPE_CHECKING:
    from sim_calls import FaultBudget
    from sim_exhaustive import Exploration
    from sim_scenario import Scenario


def explored(scenario: Scenario, faults: FaultBudget | None = None) -> Exploration:
    """Explore all of a scenario within a bound; fail with the shrunk story of a violation."""
    if faults is not None:
        scenario = replace(scenario, faults=faults)
    report = explore(scenario)
    print(report)
    if report.failure is not None:
        small = shrink(report.failure, tries=500)
        pytest.fail(f"{scenario.name}\n{story(small)}", pytrace=False)
    assert report.complete
    return report
