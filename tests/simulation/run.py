"""The simulator as a command: explore, roll dice, take a guard out, replay a story.

::

    python tests/simulation/run.py --list
    python tests/simulation/run.py --scenario "two writers" --exhaustive
    python tests/simulation/run.py --seeds 10000 --seconds 60          # every scenario
    python tests/simulation/run.py --scenario "two writers" --mutate "epoch at commit"
    python tests/simulation/run.py --scenario "two writers" --seed 4711
    python tests/simulation/run.py --mutations                         # the table of all guards
    python tests/simulation/run.py --replay tests/simulation/stories/lost-update.txt

Exit code 1: something failed; the shrunk story is printed and, with ``--keep FOLDER``, kept.
With ``--mutate`` and ``--mutations`` failures are what is asked for, and exit code 1 says that
nobody noticed that a guard was missing.
"""

from __future__ import annotations

import argparse
import contextlib
import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))

import sim


def _arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="sim", description=__doc__.splitlines()[0])
    parser.add_argument("--list", action="store_true", help="show scenarios and mutations")
    parser.add_argument("--scenario", action="append", help="name (repeatable); default: all")
    parser.add_argument("--exhaustive", action="store_true", help="all interleavings, not seeds")
    parser.add_argument("--seeds", type=int, default=1_000, help="how many seeds each")
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--seed", type=int, help="one seed only")
    parser.add_argument("--seconds", type=float, help="most time for each exploration")
    parser.add_argument("--mutate", metavar="GUARD", help="take this guard out")
    parser.add_argument("--mutations", action="store_true", help="take each guard out in turn")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="keep failing schedules there")
    parser.add_argument("--replay", type=Path, metavar="FILE", help="replay a scenario file")
    return parser.parse_args(argv)


def main(argv: list[str] | None = None) -> int:
    """Run the command and return its exit code."""
    asked = _arguments(argv)
    sim.load()
    if asked.list:
        print("scenarios:", *sorted(sim.SCENARIOS), sep="\n  ")
        print("mutations:", *sorted(sim.MUTATIONS), sep="\n  ")
        return 0
    if asked.replay is not None:
        kept = sim.parse(asked.replay.read_text(encoding="utf-8"))
        print(sim.story(kept.replayed()))
        return 0
    if asked.mutations:
        return _mutations(asked)
    names = asked.scenario or sorted(sim.SCENARIOS)
    guard = contextlib.nullcontext()
    if asked.mutate is not None:
        guard = sim.without(asked.mutate)
        names = asked.scenario or sim.noticed_in(asked.mutate)
    failures = 0
    with guard:
        for name in names:
            report = _explored(sim.named(name), asked, exhaustive=asked.exhaustive)
            print(report, flush=True)
            if report.failure is not None:
                failures += 1
                small = sim.shrink(report.failure)
                print(sim.story(small), flush=True)
                _keep(small, asked.keep, asked.mutate)
    if asked.mutate is not None:
        print(f"without {asked.mutate!r}: {failures} scenario(s) fail")
        return int(failures == 0)
    return int(failures > 0)


def _explored(
    scenario: sim.Scenario, asked: argparse.Namespace, *, exhaustive: bool
) -> sim.Exploration | sim.SwarmReport:
    if exhaustive:
        return sim.explore(scenario, seconds=asked.seconds)
    first = asked.first_seed
    seeds = range(first, first + asked.seeds) if asked.seed is None else (asked.seed,)
    return sim.swarm(scenario, seeds, seconds=asked.seconds)


def _mutations(asked: argparse.Namespace) -> int:
    """Take each guard out in turn and print, as a table, who noticed."""
    print(
        "| guard taken out | checker that fails | scenario | found by | faults | steps | problem |"
    )
    print("|---|---|---|---|---|---|---|")
    unnoticed = 0
    for guard in sorted(sim.MUTATIONS):
        row = _noticed(guard, asked)
        unnoticed += row is None
        print(f"| {guard} | {row or '**nobody notices** | | | | |'} |", flush=True)
    return int(unnoticed > 0)


def _noticed(guard: str, asked: argparse.Namespace) -> str | None:
    with sim.without(guard):
        for exhaustive in (True, False):
            for name in sim.noticed_in(guard):
                failure = _explored(sim.named(name), asked, exhaustive=exhaustive).failure
                if failure is not None:
                    small = sim.shrink(failure)
                    _keep(small, asked.keep, guard)
                    faults, _, steps = sim.cost(small.steps)
                    how = "all schedules" if exhaustive else "seeds"
                    problem = small.violation.problem.strip().splitlines()[0].replace("|", "/")
                    cells = (small.violation.checker, name, how, faults, steps, problem)
                    return " | ".join(map(str, cells))
    return None


def _keep(small: sim.Run, folder: Path | None, guard: str | None) -> None:
    if folder is None:
        return
    folder.mkdir(parents=True, exist_ok=True)
    words = f"{small.scenario.name} {guard or ''} {small.violation.checker}"
    file = folder / f"{re.sub('[^a-z0-9]+', '-', words.lower()).strip('-')}.txt"
    sim.keep(file, small, title=small.scenario.title or small.scenario.name, without=guard)
    print(f"kept as {file}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
