"""A run as a story that a person can read, and as a scenario file that is kept and replayed.

A scenario file has a title paragraph, then ``scenario``, ``without`` (the guard that was taken
out) and ``background``, then the schedule, one step a line with what it did after ``|``, then the
outcome. Only what stands before ``|`` is read; the rest must still be true when it is replayed
(``LAKEHAND_REWRITE=1`` writes the file again instead).
"""

from __future__ import annotations

import contextlib
import os
import textwrap
from dataclasses import dataclass
from typing import TYPE_CHECKING

import sim_calls as fates
import sim_registry
from lakehand.ports import Listing, ObjectInfo, PromoteOutcome, PutOutcome, StoredObject
from sim_calls import Call, Event, Raised, Step
from sim_run import Run, replay

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Describe = Callable[[str, bytes], str]

_FATE_TEXT = {
    fates.CRASH: "CRASHES before it",
    fates.CRASH_AFTER: "CRASHES after it",
    fates.PAUSE: "is PAUSED before it",
    fates.LOST_APPLIED: "took effect, the reply is LOST",
    fates.LOST_DROPPED: "had no effect, the reply is LOST",
    fates.LATE: "is LATE on its way, the caller gives up",
    fates.UNAVAILABLE: "is refused with 503",
    fates.EXPIRE: "the holder's lease ENDS and it does not know",
    fates.EXPIRE_TOLD: "the holder's lease ENDS",
    fates.TIMEOUT: "waited too long",
    fates.TORN: "the listing BEGINS",
}


def story(run: Run) -> str:
    """Return the run as numbered lines."""
    lines = [
        f"{number}. {event.step.who}: {what_happened(event, run.scenario.describe)}"
        for number, event in enumerate(run.events, 1)
    ]
    if run.violation is not None:
        lines.append(f"=> {run.violation.checker}: {run.violation.problem}")
    else:
        lines.append("=> all checkers agree")
    return "\n".join(lines)


def what_happened(event: Event, describe: Describe) -> str:
    """Say in one line what a step did."""
    call, reply = event.call, event.reply
    if call is None:
        return event.step.what
    asked = _asked(call, describe)
    if event.step.who == "network":
        return f"{asked} arrives late -> {_answered(call, reply, describe)}"
    fate = event.step.what
    text = _FATE_TEXT.get(fate, "" if fate == fates.OK else fate)
    if fate in {fates.CRASH, fates.CRASH_AFTER, fates.PAUSE, fates.TORN}:
        return f"{asked}: {text}"
    return f"{asked} -> {_answered(call, reply, describe)}{'; ' if text else ''}{text}"


def _asked(call: Call, describe: Describe) -> str:
    match call.method:
        case "put" | "put_new" | "put_if":
            return f"{call.method} {call.path} ({describe(call.path, call.args[0])})"
        case "stage":
            return f"stage {call.args[0]} at {call.path}"
        case "stage_close":
            return f"close {call.path} ({describe(call.path, call.args[0])})"
        case "promote" | "discard":
            return f"{call.method} {call.path} from {call.args[0]}"
        case "acquire" | "release" | "holder" | "break_lock":
            return f"{call.method} lock {call.path!r}"
        case "list_end":
            return f"{call.args[0]} {call.path or '(base)'} ends"
        case "due":
            return f"background {call.path}"
        case method:
            return f"{method} {call.path}".strip()


def _answered(call: Call, reply: object, describe: Describe) -> str:
    match reply:
        case PutOutcome() | PromoteOutcome():
            return reply.name
        case Raised():
            return f"{reply.kind.__name__}"
        case StoredObject():
            return describe(call.path, reply.content)
        case Listing():
            return _names([info.path for info in reply.objects] + [f"{f}/" for f in reply.folders])
        case ObjectInfo():
            return f"{reply.size} bytes, modified {reply.modified_ms}"
        case tuple():
            return _names([entry.path if hasattr(entry, "path") else entry for entry in reply])
        case None:
            return "nothing there" if call.method in {"head", "holder"} else "done"
        case _:
            return str(reply)


def _names(names: list[str]) -> str:
    return ", ".join(name.rpartition("/")[2] or name for name in names) or "empty"


@dataclass(frozen=True, slots=True)
class ScenarioFile:
    """A schedule that is kept."""

    title: str
    scenario: str
    without: str | None
    background: bool
    steps: tuple[Step, ...]

    def replayed(self) -> Run:
        """Run it, with the guard out of action that it names."""
        with (
            contextlib.nullcontext() if self.without is None else sim_registry.without(self.without)
        ):
            scenario = sim_registry.named(self.scenario)
            return replay(scenario, self.steps, background=self.background)

    def text(self, run: Run) -> str:
        """Return the file's text for what happened in ``run``."""
        steps = [
            f"  {event.step} | {what_happened(event, run.scenario.describe)}"
            for event in run.events
        ]
        outcome = "all checkers agree"
        if run.violation is not None:
            outcome = f"{run.violation.checker}: {run.violation.problem.strip().splitlines()[0]}"
        return "\n".join(
            [
                *textwrap.wrap(self.title, 96),
                "",
                f"scenario: {self.scenario}",
                f"without: {self.without or 'nothing'}",
                f"background: {'yes' if self.background else 'no'}",
                "schedule:",
                *steps,
                "outcome:",
                f"  {outcome}",
                "",
            ]
        )


def parse(text: str) -> ScenarioFile:
    """Read a scenario file."""
    title, _, rest = text.partition("\nscenario:")
    head, _, tail = f"scenario:{rest}".partition("\nschedule:\n")
    fields = dict(line.split(": ", 1) for line in head.splitlines())
    steps = []
    for line in tail.partition("\noutcome:")[0].splitlines():
        who, what = line.partition(" | ")[0].split(maxsplit=1)
        steps.append(Step(who, what.strip()))
    return ScenarioFile(
        title=" ".join(title.split()),
        scenario=fields["scenario"],
        without=None if fields["without"] == "nothing" else fields["without"],
        background=fields["background"] == "yes",
        steps=tuple(steps),
    )


def keep(path: Path, run: Run, *, title: str, without: str | None = None) -> None:
    """Write a run as a scenario file. ``run`` was made without the guard that is named."""
    kept = ScenarioFile(title, run.scenario.name, without, run.background, tuple(run.steps))
    path.write_text(kept.text(run), encoding="utf-8")


def check(path: Path, *, rewrite: bool | None = None) -> Run:
    """Replay a scenario file; raise AssertionError when something else happens than it tells."""
    told = path.read_text(encoding="utf-8")
    kept = parse(told)
    run = kept.replayed()
    happened = kept.text(run)
    if happened != told:
        if os.environ.get("LAKEHAND_REWRITE") == "1" if rewrite is None else rewrite:
            path.write_text(happened, encoding="utf-8")
        else:
            raise AssertionError(
                f"{path.name} tells another story (LAKEHAND_REWRITE=1 writes it again):\n{happened}"
            )
    return run
