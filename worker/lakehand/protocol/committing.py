"""From written files to a commit: prepare, promote, commit.

::

    prepare   the manifest is written beside the journal, and named by an append without the lock;
              refused when the claim is no longer the last. Only its files can ever be promoted
    promote   the data files, outside the lock: nobody reads files of a pending instant
    commit    one transaction: last claim, live heartbeat, not cancelled, no conflict;
              append, list, publish the completed file

Until ``commit`` may have been decided a failure leaves the instant to its next attempt, or to a
rollback; from then on nobody discards what it names, except ``void``.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from lakehand.core.instants import Instant, State, completed_action
from lakehand.core.journal_entries import Cancel, CancelFile, Commit, Prepare, StagedFile
from lakehand.core.journal_moves import Standing
from lakehand.errors import (
    Corrupt,
    Fenced,
    InvariantBroken,
    PlanCancelled,
    Unavailable,
    WriteConflict,
)
from lakehand.formats import manifest_document
from lakehand.formats.manifest_document import Manifest
from lakehand.ports import PromoteOutcome
from lakehand.protocol import leftovers, publishing, staging
from lakehand.protocol.conflict_check import require_no_conflict
from lakehand.protocol.timeline_loader import instant_path
from lakehand.protocol.transaction import Append, View, append_unlocked, transaction

if TYPE_CHECKING:
    from collections.abc import Callable

    from lakehand.core.journal import Fold, InstantRecord
    from lakehand.protocol.claiming import Attempt
    from lakehand.protocol.workbench import Workbench


def prepare(bench: Workbench, attempt: Attempt, files: tuple[StagedFile, ...]) -> Manifest:
    """Write down what the attempt may promote. Preparing again replaces what was said before."""
    manifest = Manifest(attempt.time, attempt.epoch, files)
    content = manifest_document.encode(manifest)
    folder = leftovers.manifest_folder(attempt.time)
    path = f"{folder}/{attempt.epoch}-{bench.new_id()}"
    bench.store.put(path, content)
    digest = staging.digest_of(content)

    def recipe(fold: Fold) -> Prepare:
        require_last_claim(fold.record(attempt.time), attempt)
        return Prepare(attempt.time, attempt.epoch, path, digest)

    append_unlocked(bench, recipe)
    return manifest


def promote_outputs(bench: Workbench, attempt: Attempt, manifest: Manifest) -> None:
    """Make the prepared files appear. May be repeated by the same attempt."""
    for file in manifest.files:
        attempt.heartbeat.check()
        outcome = staging.promote(bench.store, file)
        if outcome is PromoteOutcome.WRITTEN:
            continue
        if outcome is PromoteOutcome.EXISTS or bench.store.head(file.final) is None:
            raise Fenced(
                f"{file.final} cannot be promoted ({outcome.value}): another attempt at "
                f"{attempt.time} discarded it"
            )


def commit(
    bench: Workbench,
    attempt: Attempt,
    content: Callable[[str], bytes],
) -> Instant:
    """Decide that the attempt's result counts, and publish it; return the completed instant.

    ``content`` returns the completed file, given the completion time. A cancellable plan that may
    not commit cancels itself: ``PlanCancelled``, and its worker calls ``execute_cancel``.
    """
    with transaction(bench) as tx:
        decided = tx.decide(lambda view: _commit(bench, view, attempt, content))
    if isinstance(decided, WriteConflict):
        raise PlanCancelled(f"{decided}. The plan cancelled itself") from decided
    finish(bench, attempt)
    return decided


def _commit(
    bench: Workbench, view: View, attempt: Attempt, content: Callable[[str], bytes]
) -> Append[Instant | WriteConflict]:
    record = view.fold.record(attempt.time)
    require_last_claim(record, attempt)
    require_prepared(record, attempt)
    view.require_no_restore(but=attempt.time)
    attempt.heartbeat.require_alive(now_ms=view.now_ms)
    stage = _stager(bench, attempt)
    try:
        cancels = require_no_conflict(bench, view, attempt)
    except WriteConflict as conflict:
        if not attempt.cancellable:
            raise
        path = publishing.cancel_path(attempt.time)
        file = stage(path, str(conflict).encode())
        return Append(Cancel(attempt.time, bench.worker, str(conflict), file), conflict)
    completion = view.draw_time()
    instant = Instant(attempt.time, completed_action(attempt.action), State.COMPLETED, completion)
    body = Commit(
        time=attempt.time,
        epoch=attempt.epoch,
        completion_time=completion,
        completed=stage(instant_path(view.config, instant), content(completion)),
        seen=view.completions_seen,
        cancels=tuple(
            CancelFile(time, stage(publishing.cancel_path(time), attempt.time.encode()))
            for time in cancels
        ),
    )
    return Append(body, instant)


def _stager(bench: Workbench, attempt: Attempt) -> Callable[[str, bytes], StagedFile]:
    def stage(final: str, content: bytes) -> StagedFile:
        return staging.stage(bench.store, final, content, time=attempt.time, epoch=attempt.epoch)

    return stage


def require_last_claim(record: InstantRecord, attempt: Attempt) -> None:
    """Raise ``Fenced`` if the attempt was replaced, ``PlanCancelled`` if it was cancelled."""
    if record.standing in (Standing.CANCELLED, Standing.ABORTING, Standing.ABORTED):
        raise PlanCancelled(f"{attempt.time} was cancelled")
    mine = record.claim is not None and record.claim.owner == attempt.heartbeat.owner
    executing = record.standing in (Standing.EXECUTING, Standing.PREPARED)
    if record.epoch != attempt.epoch or not (mine and executing):
        raise Fenced(
            f"{attempt.time} is {record.standing.value} at epoch {record.epoch}: epoch "
            f"{attempt.epoch} was replaced. Stop, and touch nothing"
        )


def require_prepared(record: InstantRecord, attempt: Attempt) -> None:
    """Refuse to commit files that no manifest of this epoch names."""
    if attempt.writes_files and record.prepared is None:
        raise InvariantBroken(f"{attempt.time}: prepare comes before commit")


def finish(bench: Workbench, attempt: Attempt) -> None:
    """Clear away the heartbeat, and what told of the instant's attempts, after the commit.

    What cannot be cleared away now is left to clean's sweep: the commit stands.
    """
    attempt.heartbeat.remove()
    with suppress(Unavailable, Corrupt):
        left = leftovers.find(bench, attempt.time, was_foreign=False)
        leftovers.forget(bench, attempt.time, left)


def give_up(bench: Workbench, attempt: Attempt, files: tuple[StagedFile, ...] = ()) -> None:
    """After a failure before the commit: leave the plan to others, drop one's own stage.

    Not to be called when the outcome of the commit is unknown.
    """
    for file in files:
        staging.discard(bench.store, file)
    attempt.heartbeat.remove()
