"""Every guard of the protocol, taken out of the production code one at a time.

A guard is a small named function, so taking it out is patching that one name for the length of an
exploration. Where two guards stand behind one another (a recipe asks, and the fold's table of legal
moves refuses), both go: what is shown is that the rule is needed, not which line keeps it.
"""

from __future__ import annotations

import contextlib
import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING
from unittest.mock import patch

import sim_effects
from lakehand.core import journal, journal_moves
from lakehand.core.instants import format_instant_time
from lakehand.core.journal_entries import Abort, Cancel, Claim, Commit, Prepare, RolledBack
from lakehand.core.journal_moves import Move, Standing
from lakehand.formats import manifest_document
from lakehand.formats.manifest_document import Manifest
from lakehand.ports import PromoteOutcome, PutOutcome
from lakehand.protocol import (
    cancelling,
    claiming,
    committing,
    failed_writes,
    heartbeats,
    leftovers,
    publishing,
    rolling_back,
    staging,
    traces,
    transaction,
    writing,
)
from lakehand.protocol import journal as stored_journal
from sim_registry import mutation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager


def guard(name: str, *noticed_in: str):
    """Register a generator of patches as the mutation ``name``."""

    def register(patches: Callable[[], Iterator[AbstractContextManager[object]]]):
        @contextlib.contextmanager
        def taken_out() -> Iterator[None]:
            with contextlib.ExitStack() as stack:
                for one in patches():
                    stack.enter_context(one)
                yield

        mutation(name, noticed_in=noticed_in)(taken_out)
        return patches

    return register


def _nothing(*_: object, **__: object) -> None:
    return None


def without(owner: object, *names: str) -> Iterator[AbstractContextManager[object]]:
    """Make functions of a module or class do nothing."""
    for name in names:
        yield patch.object(owner, name, _nothing)


def answering(owner: object, name: str, answer: object) -> AbstractContextManager[object]:
    """Make a function always answer the same."""
    return patch.object(owner, name, lambda *_, **__: answer)


def also_legal(standing: Standing, **moves: Standing) -> AbstractContextManager[object]:
    """Add moves to the table of legal moves."""
    more = {Move[name]: after for name, after in moves.items()}
    changed = {**journal_moves.MOVES, standing: {**journal_moves.MOVES[standing], **more}}
    return patch.object(journal, "MOVES", changed)


def epochs_unchecked(*kinds: type) -> AbstractContextManager[object]:
    """Let decisions of some kinds pass whatever their epoch."""
    checked = journal._require_epoch

    def require_epoch(record, body, time):
        if not isinstance(body, kinds):
            checked(record, body, time)

    return patch.object(journal, "_require_epoch", require_epoch)


# --- the lock and the view


@dataclass(frozen=True)
class _NoLock:
    token: str = "none"

    def left_s(self) -> float:
        return math.inf

    def release(self) -> None:
        pass


@guard("the table lock", "java writes, we write the same group")
def _():
    yield answering(transaction, "hold", _NoLock())


@guard("reload after the lock", "java writes, we write another group")
def _():
    load, hold, before = transaction.load_view, transaction.hold, {}

    def hold_and_look_before(bench):
        before[bench.worker] = load(bench)
        return hold(bench)

    def stale(bench):
        view = before.pop(bench.worker, None)
        return load(bench) if view is None else replace(view, fold=bench.journal.refresh())

    yield patch.object(transaction, "hold", hold_and_look_before)
    yield patch.object(transaction, "load_view", stale)


@guard("the lease must have some time left", "java writes, we think too long")
def _():
    yield from without(transaction, "require_lock")


@guard("the same lock provider", "a worker with another lock")
def _():
    yield from without(transaction, "require_provider")


@guard("times strictly increase", "java writes, we write another group")
def _():
    def draw_time(view):
        return format_instant_time(view.now_ms, view.bench.zone)

    yield patch.object(transaction.View, "draw_time", draw_time)


# --- the journal


@guard("the tail is read again after an append", "journal, 1 appending")
def _():
    yield answering(stored_journal.Journal, "_still_there", True)


@guard("the tail is still the newest after it was read", "journal, 1 appending")
def _():
    yield answering(stored_journal.Journal, "_is_still_newest", True)


@guard("a slot of unknown outcome is closed by a blank", "journal, 1 appending")
def _():
    yield answering(stored_journal.Journal, "_put_blank", PutOutcome.WRITTEN)


@guard("entries are trimmed oldest first", "journal, 1 appending")
def _():
    yield patch.object(stored_journal, "oldest_first", lambda names: sorted(names, reverse=True))


@guard(
    "the last two checkpoints stay", "journal, 1 appending", "checkpoint and trim under load deep"
)
def _():
    yield patch.object(
        stored_journal.Journal, "_last_checkpoint_but_one", lambda own: own.fold.tail.seq
    )


@guard("put-if-absent of an entry", "journal, 2 appending")
def _():
    def overwrite(own, entry):
        own._store.put(stored_journal.path_of(entry.seq), own._content(entry))
        return stored_journal._Learnt.MINE

    yield patch.object(stored_journal.Journal, "_put", overwrite)


# --- publishing


@guard(
    "roll forward",
    "decision: ingestion deep",
    "decision: claim, prepare and commit deep",
    "decision: abort deep",
)
def _():
    yield from without(transaction.Transaction, "_roll_forward")


@guard("traces: the instant is still pending", "java archives its rollback of what we did not show")
def _():
    yield answering(publishing, "is_still_pending", True)


@guard("traces: no rollback names it", "java rolls back what we did not show")
def _():
    yield answering(traces, "is_rolled_back", False)


@guard("void: list before publishing a commit", "java goes before clustering, we cluster deep")
def _():
    yield answering(publishing, "unknown_completions", ())


@guard("void: discard the stage first", "java writes while we sleep over our commit")
def _():
    yield patch.object(publishing, "_give_up", lambda _bench, _view, _body, overtaken: overtaken)


@guard("a foreign file of the same name is not ours", "a foreign file has our plan's name")
def _():
    yield answering(publishing, "is_ours", True)
    yield from without(claiming, "require_own_plan")


@guard("what foreign writers ended is recorded", "java cleans, we write deep")
def _():
    yield answering(traces, "foreign_ends", ())


@guard("one-shot promotion", "takeover while the zombie promotes deep")
def _():
    def link(world, _process, call):
        found = world.staged.get(call.args[0])
        if found is None or found.content is None:
            return PromoteOutcome.GONE
        if call.path in world.objects:
            return PromoteOutcome.EXISTS
        world.put(call.path, found.content)
        return PromoteOutcome.WRITTEN

    yield patch.dict(sim_effects._DO, {"promote": link})


@guard(".cancel is promoted, not put", "cancel, retry, abort deep")
def _():
    publish = publishing.publish

    def put(bench, view, body):
        if isinstance(body, Cancel):
            bench.store.put(body.file.final, b"cancelled")
            return None
        return publish(bench, view, body)

    yield patch.object(publishing, "publish", put)


# --- heartbeats and claims


@guard("claim: no live heartbeat", "rfc79 kept B compaction")
def _():
    yield from without(claiming, "require_not_live")


@guard("claim: a removable plan is tried once", "rfc79 removable C clustering")
def _():
    yield from without(claiming, "require_not_tried")


@guard("claim: no foreign attempt", "java has begun our plan, we would too")
def _():
    yield from without(claiming, "require_no_foreign_attempt")


@guard(
    "the heartbeat begins before anybody can see the instant",
    "java decides before the lock, we write",
)
def _():
    def publish_first(tx, entry, decision):
        transaction.require_not_overtaken(tx._publish(entry))
        if decision.heartbeat is not None:
            decision.heartbeat.begin(decision.epoch)

    yield patch.object(transaction.Transaction, "_carry_out", publish_first)


@guard("the first beat is conditional", "the first beat comes late")
def _():
    def put(own):
        own._bench.store.put(heartbeats.path_of(own.time), own._content())

    yield patch.object(heartbeats.Heartbeat, "_take_over", put)


@guard("an expired heartbeat is not revived", "java decides before the lock, we are slow")
def _():
    yield answering(heartbeats.Heartbeat, "_expired", False)


@guard(
    "a heartbeat of a replaced epoch says nothing", "the first beat comes when all have given up"
)
def _():
    yield answering(heartbeats, "_counts", True)


# --- epochs


@guard(
    "epoch in prepare", "takeover while the zombie promotes deep", "rfc79 kept C compaction deep"
)
def _():
    def prepare(bench, attempt, files):
        manifest = Manifest(attempt.time, attempt.epoch, files)
        content = manifest_document.encode(manifest)
        path = f"{leftovers.manifest_folder(attempt.time)}/{attempt.epoch}-{bench.new_id()}"
        bench.store.put(path, content)
        body = Prepare(attempt.time, attempt.epoch, path, staging.digest_of(content))
        transaction.append_unlocked(bench, lambda _fold: body)
        return manifest

    yield patch.object(committing, "prepare", prepare)
    yield epochs_unchecked(Prepare)


@guard("epoch in commit", "takeover while the zombie promotes deep", "rfc79 kept C compaction deep")
def _():
    yield from without(committing, "require_last_claim", "require_prepared")
    yield from without(heartbeats.Heartbeat, "require_alive")  # it would look at the epoch too
    yield from without(journal, "_require_manifest")
    yield epochs_unchecked(Commit)


@guard("epoch in delete", "rollback against execution of a kept plan deep")
def _():
    yield patch.object(leftovers.Leftovers, "below", lambda own, _epoch: own.files)


@guard("epoch in abort", "two abort, one of them asleep")
def _():
    yield from without(cancelling, "require_own_abort")
    yield epochs_unchecked(Abort)


@guard(
    "epoch at the end of a rollback",
    "two rollbacks of a failed write deep",
    "rollback against execution of a kept plan deep",
)
def _():
    yield epochs_unchecked(RolledBack)


# --- what attempts left


@guard("the stage is discarded before files are deleted", "takeover while the zombie promotes deep")
def _():
    def files_first(bench, left):
        paths = tuple(sorted({one.path for one in left if not one.is_shared}))
        for path in paths:
            bench.store.delete(path)
        for one in left:
            if one.staged is not None:
                leftovers.discard(bench.store, one.staged)
        return paths

    yield patch.object(leftovers, "remove", files_first)


@guard("the stage is discarded at all", "takeover while the zombie promotes deep")
def _():
    def files_only(bench, left):
        paths = tuple(sorted({one.path for one in left if not one.is_shared}))
        for path in paths:
            bench.store.delete(path)
        return paths

    yield patch.object(leftovers, "remove", files_only)


@guard("take-over removes what lower epochs left", "rfc79 kept C compaction")
def _():
    yield from without(claiming, "take_over")


# --- rollback and clean


@guard("a rollback ends empty when its target went on", "rollback against cancellation")
def _():
    yield answering(rolling_back, "has_gone_on", False)


@guard("a rollback is for the write that is only requested", "an eager clean fences a live writer")
def _():
    yield patch.object(rolling_back, "last_epoch", lambda record: record.epoch)


@guard(
    "a pending rollback is reused",
    "two rollbacks of a failed write",
    "two cleans and a failed write",
)
def _():
    yield answering(traces, "pending_rollbacks", ())


@guard("clean looks again under the lock", "rfc79 removable D old clustering")
def _():
    def trust(bench, tx, time, files, _policy):
        return {rolling_back.plan_rollback(bench, tx, time, files, despite_live=True)}

    yield patch.object(failed_writes, "_schedule_again", trust)


@guard("clean skips the live", "decision: a writer and clean", "rfc79 removable D old clustering")
def _():
    yield answering(failed_writes, "is_live", False)
    yield from without(rolling_back, "require_not_live")


@guard("clean leaves young removable plans alone", "rfc79 removable D young clustering")
def _():
    yield answering(failed_writes, "is_past_delay", True)


@guard("the sweep lists the timeline last", "decision: claim over a dead attempt deep")
def _():
    yield answering(failed_writes, "has_ended", True)


# --- cancellation and conflicts


@guard("cancel check at commit", "cancel against commit")
def _():
    yield from without(committing, "require_last_claim", "require_prepared")
    yield also_legal(Standing.CANCELLED, COMMIT=Standing.COMMITTED, PREPARE=Standing.PREPARED)


@guard("abort: no live heartbeat", "cancel, execute, clean", "cancel, retry, abort")
def _():
    yield from without(cancelling, "require_not_live")


@guard(
    "conflict rules at commit",
    "java writes, we cluster",
    "ingestion, cancel and execute",
    "ingestion cancels by its commit",
)
def _():
    yield answering(committing, "require_no_conflict", ())


@guard("heartbeat check at commit", "java decides before the lock, we are slow")
def _():
    yield from without(heartbeats.Heartbeat, "require_alive", "check")


@guard("an open restore forbids everything else", "restore against claim and commit")
def _():
    yield from without(transaction.View, "require_no_restore")


@guard("a write that was rolled back does not go on", "an eager clean fences a live writer")
def _():
    yield from without(writing, "require_still_requested")
    yield answering(writing, "require_no_conflict", ())  # it would look at the rollback too
    yield also_legal(Standing.REMOVED, CLAIM_EXECUTE=Standing.EXECUTING)
    yield epochs_unchecked(Claim, Commit, Prepare)
