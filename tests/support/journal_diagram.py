"""docs/journal.md's state diagram and table, made from the table of legal moves.

``python tests/support/journal_diagram.py --write`` writes it; a test compares.
"""

from __future__ import annotations

import sys
from pathlib import Path

from lakehand.core.journal_moves import ENDED, MOVES

PATH = Path(__file__).parents[2] / "docs" / "journal.md"
BEGIN = "<!-- made from core/journal_moves.py by `make docs`; do not edit -->"
END = "<!-- end -->"


def render() -> str:
    lines = [BEGIN, "```mermaid", "stateDiagram-v2"]
    lines += [f'    state "{one.value}" as {one.name}' for one in MOVES]
    lines.append("    [*] --> FOREIGN")
    for before, moves in MOVES.items():
        for move, after in moves.items():
            lines.append(f"    {before.name} --> {after.name}: {move.value}")
    lines += [f"    {one.name} --> [*]" for one in MOVES if one in ENDED]
    lines += ["```", "", "| state | decision | next state |", "|---|---|---|"]
    for before, moves in MOVES.items():
        for move, after in moves.items():
            lines.append(f"| {before.value} | {move.value} | {after.value} |")
    return "\n".join([*lines, END])


def replaced(text: str) -> str:
    """Return the document with the generated part as it should be."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{render()}{after}"


if __name__ == "__main__":
    if "--write" not in sys.argv:
        sys.exit("usage: journal_diagram.py --write")
    PATH.write_text(replaced(PATH.read_text()))
