"""docs/conflicts.md, made from the tables themselves. ``--write`` writes it."""

import sys
from pathlib import Path

from lakehand.core.conflict_tables import JUDGED, TABLES, Order, Strategy, Versions
from lakehand.core.conflicts import RESTORED, ROLLED_BACK_MYSELF, SCHEMA_CLASH
from lakehand.core.footprints import Kind, Standing

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "conflicts.md"

_WRITES = {Kind.INGESTION, Kind.OVERWRITE}
_CANCELLABLE = {kind for kind in Kind if kind.value.startswith("cancellable")}
_SETS = (
    (set(Kind), "any"),
    (set(Kind) - _WRITES, "any service"),
    (_CANCELLABLE, "any cancellable service"),
    (set(Kind) - _WRITES - _CANCELLABLE, "any service that is not cancellable"),
    (_WRITES, "any write"),
)

_HEAD = f"""# Conflicts: who gives way

Generated from `worker/lakehand/core/conflict_tables.py` by
`python tests/support/conflict_tables.py --write`; a test compares. The rules behind it are
sections 9 and 11 of `protocol.md`.

An instant that wants to commit is judged against every other one:

1. What was cancelled or rolled back does not count,
   nor what completed before my view of the table was made.
2. Refused under every strategy, whatever the files:
   * {ROLLED_BACK_MYSELF};
   * {RESTORED};
   * {SCHEMA_CLASH}.
3. What shares no file group (partition and file id, written or replaced) with mine does not count.
   A pending instant whose file groups cannot be read shares all of mine.
4. Otherwise **the first row that fits** decides.
   An empty column fits anything.
5. If anything refuses me, I cancel nothing.

*Order* compares requested times;
a plan that was not there when my view was made is *later* in any case.
*Overwrite* = a write that replaces file groups (insert overwrite, delete partition).
A plan of ours that a foreign writer is executing counts as not cancellable:
that writer would not look.
"""

_ABOUT = {
    Strategy.SIMPLE: """Hudi's `SimpleConcurrentFileWritesConflictResolutionStrategy`.
It knows nothing of cancelling: a cancellable plan counts as what it is otherwise.""",
    Strategy.PREFER_WRITER: """Hudi's `PreferWriterConflictResolutionStrategy`.
It knows nothing of cancelling: a cancellable plan counts as what it is otherwise.""",
    Strategy.PREFER_INGESTION: """The default.
Ingestion, and services that cannot be cancelled, go before cancellable plans;
the rest is Hudi's default, made safe.""",
}


def as_markdown(strategy):
    """One strategy's table as a Markdown section."""
    lines = [
        f"## `{strategy.value}`",
        "",
        _ABOUT[strategy],
        "",
        "| # | table version | mine | other | other is | order | verdict | why |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for number, row in enumerate(TABLES[strategy], start=1):
        cells = (
            str(number),
            "" if row.versions is Versions.ALL else row.versions.value,
            _kinds(row.mine),
            _kinds(row.other),
            _words(row.standings, JUDGED, Standing),
            _words(row.order, set(Order), Order),
            f"**{row.verdict.value}**",
            row.why,
        )
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def document():
    return "\n".join([_HEAD, *map(as_markdown, Strategy)])


def _kinds(kinds):
    rest, names = set(kinds), []
    for members, name in _SETS:
        if members <= rest:
            names.append(name)
            rest -= members
    names += [kind.value for kind in Kind if kind in rest]
    return ", ".join(names)


def _words(values, everything, enum):
    if values == everything:
        return ""
    return " · ".join(value.value for value in enum if value in values)


if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        DOCUMENT.write_text(document(), encoding="utf-8")
    else:
        sys.stdout.write(document())
