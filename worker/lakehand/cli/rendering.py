"""The three forms of output: JSON and YAML for programs, a table for people.

What a table holds was written by others: control characters would reach the terminal, so they are
replaced. JSON and YAML escape them, and everything that is not ASCII, by themselves.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import Enum, unique
from typing import TYPE_CHECKING, Any, assert_never

import yaml

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_GAP = "  "
_NOTHING = "-"


@unique
class Output(Enum):
    """A form of output."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"


@dataclass(frozen=True, slots=True)
class Grid:
    """A table for people."""

    header: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    if_empty: str


def render(record: Mapping[str, Any], people: str | Grid, output: Output) -> str:
    """Return ``record`` for programs, or what it comes to for ``people``."""
    match output:
        case Output.JSON:
            return json.dumps(record, indent=2)
        case Output.YAML:
            return yaml.safe_dump(dict(record), sort_keys=False, default_flow_style=False).rstrip()
        case Output.TABLE:
            return _grid(people) if isinstance(people, Grid) else _printable_lines(people)
        case _:
            assert_never(output)


def _grid(grid: Grid) -> str:
    if not grid.rows:
        return grid.if_empty
    cells = [grid.header, *([printable(cell) or _NOTHING for cell in row] for row in grid.rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return "\n".join(
        _GAP.join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in cells
    )


def _printable_lines(text: str) -> str:
    return "\n".join(printable(line) for line in text.split("\n"))


def printable(text: str) -> str:
    """Return one line in which nothing moves the cursor."""
    return "".join(one if one.isprintable() else "\N{REPLACEMENT CHARACTER}" for one in text)


def seconds(value: float) -> str:
    """Return a duration as people say it."""
    if value < 120:
        return f"{value:.0f} s"
    if value < 7200:
        return f"{value / 60:.0f} min"
    return f"{value / 3600:.0f} h"
