"""Settles a table after a contention, and judges what is there, and what workers were told.

``settle`` does what a quiet table's workers do: clean until nothing is left, and finish the plans
that are kept. ``audit`` then looks at the storage with its own eyes: listings, documents and the
journal, entry by entry; and compares that with the lines that workers told. Its answer is a list
of problems, empty if all is well.
"""

from __future__ import annotations

import itertools
import json
import select
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import contention_jobs
from lakehand.core import markers
from lakehand.core.instants import SERVICE_ACTIONS, State
from lakehand.core.journal import Fold
from lakehand.core.journal_entries import Blank, Cancel, Checkpoint, Commit, RollbackEnd, RolledBack
from lakehand.errors import LakehandError
from lakehand.formats import instant_names, journal_document
from lakehand.formats.commit_metadata import WriteOperation
from lakehand.protocol import claiming, failed_writes, heartbeats, leftovers
from lakehand.protocol import journal as journals
from lakehand.protocol.staging import TEMP
from lakehand.protocol.transaction import load_view

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lakehand.core.instants import Instant
    from lakehand.core.journal_entries import Entry
    from lakehand.protocol.workbench import Workbench

CYCLES = 3
"""So many cleans, after all heartbeats expired, must clear everything away."""
_SURE = frozenset({"WriteConflict", "Fenced", "PlanCancelled"})
"""Answers that say: this attempt's result does not count, and never will."""


def settle(bench: Workbench, task: dict[str, Any], dice: Any) -> list[str]:
    """Let a last worker clear everything away; return what it could not."""
    _await_expiry(bench)
    left: dict[str, str] = {}
    for _ in range(CYCLES):
        left = dict(failed_writes.clean_up(bench).left)
        view = load_view(bench)
        for instant in view.timeline.pending:
            if instant.action in SERVICE_ACTIONS or _is_kept_plan(bench, instant):
                _finish(bench, task, instant.time, dice)
        if not load_view(bench).timeline.pending and not left:
            break
    failed_writes.clean_up(bench)
    pending = [f"{one.time} {one.action.value}" for one in load_view(bench).timeline.pending]
    return [f"still pending after {CYCLES} cleans: {pending}, {left}"] if pending else []


def _await_expiry(bench: Workbench) -> None:
    """Wait until no heartbeat counts: the workers that beat are dead, or asleep."""

    def is_live() -> bool:
        tolerance = bench.settings.heartbeat_tolerance_ms
        beats = bench.store.list(heartbeats.FOLDER).objects
        return any(bench.store.now() - one.modified_ms <= tolerance for one in beats)

    while is_live():
        select.select([], [], [], 0.02)


def _is_kept_plan(bench: Workbench, instant: Instant) -> bool:
    plan = bench.journal.fold.record(instant.time).plan
    return plan is not None and not plan.is_ingestion and plan.target is None


def _finish(bench: Workbench, task: dict[str, Any], time: str, dice: Any) -> None:
    """Execute a plan that is kept, as the next worker would."""
    tell: Any = lambda *_args, **_fields: None  # noqa: E731 - nobody listens to the audit
    worker = contention_jobs.Worker(task, bench, tell, lambda _s: True, dice)
    claimed = claiming.claim(bench, time)
    if isinstance(claimed, claiming.Attempt):
        content = {"time": time, "epoch": claimed.epoch, "worker": bench.worker}
        groups = dict.fromkeys(task["plan"]["groups"], content)
        worker._write_out(claimed, groups, WriteOperation.COMPACT)


@dataclass
class Findings:
    """What the audit saw, for reports, and what is wrong."""

    problems: list[str] = field(default_factory=list)
    figures: Counter[str] = field(default_factory=Counter)

    def require(self, holds: bool, problem: str) -> None:
        if not holds:
            self.problems.append(problem)


def audit(bench: Workbench, history: list[dict[str, Any]], *, is_whole: bool) -> Findings:
    """Judge a settled table. ``is_whole``: the journal was never trimmed."""
    found = Findings()
    instants = _instants(bench)
    completed = {one.time: one for one in instants if one.state is State.COMPLETED}
    _judge_instants(found, instants)
    _judge_files(found, bench, completed)
    _judge_remains(found, bench)
    _judge_what_was_told(found, history, completed, instants, bench)
    try:
        _judge_journal(found, bench, history, completed, is_whole=is_whole)
    except LakehandError as error:
        found.problems.append(f"the journal: {type(error).__name__}: {error}")
    return found


def _instants(bench: Workbench) -> list[Instant]:
    """Every file of the timeline, by itself: no folding that could hide one."""
    names = bench.store.names(bench.config.timeline_path)
    parsed = (instant_names.parse(name, bench.config.layout) for name in names)
    return [one for one in parsed if one is not None]


def _judge_instants(found: Findings, instants: list[Instant]) -> None:
    states: dict[str, list[State]] = defaultdict(list)
    for one in instants:
        states[one.time].append(one.state)
    for time, its in sorted(states.items()):
        ends = Counter(its)
        found.require(ends[State.COMPLETED] <= 1, f"{time} completed more than once")
        found.require(
            not (ends[State.COMPLETED] and ends[State.ABORTED]), f"{time}: committed and aborted"
        )
        found.require(
            bool(ends[State.COMPLETED] or ends[State.ABORTED]), f"{time} is pending: {its}"
        )
    completions = Counter(one.completion_time for one in instants if one.completion_time)
    twice = [time for time, count in completions.items() if count > 1]
    found.require(not twice, f"completion times used twice: {twice}")
    found.figures["completed"] = sum(one.state is State.COMPLETED for one in instants)
    found.figures["aborted"] = sum(one.state is State.ABORTED for one in instants)


def _judge_files(found: Findings, bench: Workbench, completed: dict[str, Instant]) -> None:
    named: set[str] = set()
    writes: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for instant in completed.values():
        if instant.action.value in ("commit", "deltacommit", "replacecommit"):
            for group, path in contention_jobs.files_of(bench, instant).items():
                named.add(path)
                writes[group].append((instant.completion_time or "", path))
    there = {one.path for one in bench.store.walk("") if not one.path.startswith(".hoodie")}
    found.require(not named - there, f"named by a completed instant, missing: {named - there}")
    found.require(not there - named, f"there, named by nobody: {there - named}")
    found.figures["data files"] = len(there)
    for group, its in sorted(writes.items()):
        _judge_group(found, bench, group, sorted(its), there)


def _judge_group(
    found: Findings, bench: Workbench, group: str, writes: list[tuple[str, str]], there: set[str]
) -> None:
    """Each write of a counter read the one before it: nothing was lost, and the last one wins."""
    contents = [json.loads(bench.store.get(path).content) for _, path in writes if path in there]
    for (_, path), content in zip(writes, contents, strict=False):
        found.require(content["time"] in path, f"{path} holds another instant's data: {content}")
    counted = [content["counter"] for content in contents if "counter" in content]
    found.require(
        counted == list(range(1, len(counted) + 1)),
        f"group {group}: commits counted {counted}: an acknowledged write was lost",
    )


def _judge_remains(found: Findings, bench: Workbench) -> None:
    store = bench.store
    for folder in (TEMP, heartbeats.FOLDER, ".hoodie/.cancel", leftovers.MANIFESTS):
        remains = sorted(one.path for one in store.walk(folder))
        found.require(not remains, f"left behind: {remains[:5]} ({len(remains)})")
    try:
        bench.locks.acquire("the audit", timeout_s=10).release()
    except LakehandError as error:
        found.problems.append(f"the table lock is left: {error}")


def _judge_what_was_told(
    found: Findings,
    history: list[dict[str, Any]],
    completed: dict[str, Instant],
    instants: list[Instant],
    bench: Workbench,
) -> None:
    aborted = {one.time for one in instants if one.state is State.ABORTED}
    there = {one.time for one in instants}
    for line in history:
        time, epoch = line.get("time"), line.get("epoch")
        match line["did"]:
            case "committed":
                named = _epochs_of(bench, completed.get(time))
                found.require(
                    named == {epoch},
                    f"{line['worker']} was told that epoch {epoch} of {time} committed; "
                    f"it has files of {sorted(named)}",
                )
            case "already":
                found.require(time in completed, f"{time} was completed, and is not any more")
            case "cancelled":
                found.require(time not in completed, f"{time} committed after its cancellation")
            case "aborted":
                found.require(time in aborted, f"{time} was aborted, and is not any more")
            case "rolled back" if line["end"] == RollbackEnd.REMOVED.value:
                found.require(time not in there, f"{time} was rolled back, and came back")
            case "refused" if epoch is not None and line["error"] in _SURE:
                named = _epochs_of(bench, completed.get(time))
                found.require(
                    epoch not in named,
                    f"{line['worker']} was refused ({line['error']}), but epoch {epoch} of "
                    f"{time} committed",
                )
            case _:
                pass


def _epochs_of(bench: Workbench, instant: Instant | None) -> set[int]:
    """The epochs whose files a completed instant names: one, if all is well."""
    if instant is None:
        return set()
    paths = contention_jobs.files_of(bench, instant).values()
    return {markers.epoch_of_file(path) for path in paths}


# The journal


def _judge_journal(
    found: Findings,
    bench: Workbench,
    history: list[dict[str, Any]],
    completed: dict[str, Instant],
    *,
    is_whole: bool,
) -> None:
    there = list(_entries(bench))
    entries = _within_horizon(there)
    strays = len(there) - len(entries)
    found.figures["journal entries written below the horizon"] = strays
    sequence = [one.seq for one in entries]
    first = sequence[0] if sequence else 1
    found.require(
        sequence == list(range(first, first + len(sequence))), f"the journal has holes: {sequence}"
    )
    found.require(not is_whole or (first == 1 and not strays), f"the journal begins at {first}")
    ids = Counter(one.id for one in entries)
    found.require(max(ids.values(), default=1) == 1, "two journal entries have one id")
    for before, after in itertools.pairwise(entries):
        found.require(after.decided_on == before.link, f"entry {after.seq} hangs in the air")
    fold = _fold(bench, entries)
    found.require(not fold.open, f"the journal says that these are open: {fold.open}")
    found.figures["journal entries"] = len(entries)
    found.figures["blanks"] = sum(isinstance(one.body, Blank) for one in entries)
    _judge_acknowledged(found, history, entries)
    _judge_decisions(found, entries, completed, is_whole=is_whole)


def _entries(bench: Workbench) -> Iterable[Entry]:
    for name in sorted(bench.store.names(journals.FOLDER)):
        where = f"{journals.FOLDER}/{name}"
        content = bench.store.get(where).content
        table = f"{bench.config.database}.{bench.config.name}"
        yield journal_document.decode(content, seq=int(name), table=table, where=where).entry


def _within_horizon(entries: list[Entry]) -> list[Entry]:
    """Leave out what laggards put where the journal had been trimmed already.

    The next trim deletes it. Those who put it were told that it does not count: an entry that was
    acknowledged and is not in the chain is found by ``_judge_acknowledged``.
    """
    checkpoints = [one for one in entries if isinstance(one.body, Checkpoint)]
    horizon = checkpoints[-1].checkpoint if checkpoints else 0
    return [one for one in entries if one.seq >= horizon]


def _judge_acknowledged(
    found: Findings, history: list[dict[str, Any]], entries: list[Entry]
) -> None:
    """Every decision that a worker was told of is in the chain, as far back as it is known."""
    chain = {one.seq: one.id for one in entries}
    for entry in entries:
        if isinstance(entry.body, Checkpoint):
            chain.update(enumerate(entry.body.covered, start=entry.body.first))
    first = min(chain, default=1)
    told = [(line["seq"], line["id"]) for line in history if line["did"] == "decided"]
    lost = [(seq, name) for seq, name in told if seq >= first and chain.get(seq) != name]
    found.require(not lost, f"acknowledged decisions are not in the journal: {lost[:5]}")
    found.figures["decisions acknowledged"] = len(told)


def _fold(bench: Workbench, entries: list[Entry]) -> Fold:
    """Fold all that is there, from the first checkpoint on if older entries were trimmed."""
    fold = Fold(table=f"{bench.config.database}.{bench.config.name}")
    is_begun = bool(entries) and entries[0].seq == 1
    for entry in entries:
        is_begun = is_begun or isinstance(entry.body, Checkpoint)
        if is_begun:
            fold = fold.apply(entry)
    return fold


def _judge_decisions(
    found: Findings, entries: list[Entry], completed: dict[str, Instant], *, is_whole: bool
) -> None:
    commits = Counter(one.body.time for one in entries if isinstance(one.body, Commit))
    twice = [time for time, count in commits.items() if count > 1]
    found.require(not twice, f"committed twice in the journal: {twice}")
    found.require(not commits.keys() - completed.keys(), "a decided commit is not on the timeline")
    ends: Counter[str] = Counter()
    cancelled: set[str] = set()
    for entry in entries:
        match entry.body:
            case Commit(time=time, cancels=cancels):
                found.require(time not in cancelled, f"{time} committed after its cancellation")
                cancelled.update(one.time for one in cancels)
            case Cancel(time=time):
                cancelled.add(time)
            case RolledBack(time=time, end=RollbackEnd.REMOVED):
                ends[time] += 1
            case _:
                pass
    found.require(max(ends.values(), default=0) <= 1, f"removed twice: {ends}")
    if is_whole:
        writes = {
            time
            for time, one in completed.items()
            if one.action.value in ("commit", "deltacommit", "replacecommit")
        }
        found.require(writes == commits.keys(), "the timeline and the journal differ in commits")
