"""A commit that was decided, and whose worker died before anybody could see it."""

from __future__ import annotations

import pytest

from kernel_tables import Kernel, compaction_request, ingest, metadata, show_groups, stage_data
from lakehand.core.instants import Action, format_instant_time, parse_instant_time
from lakehand.core.journal_moves import Standing
from lakehand.errors import WriteConflict
from lakehand.formats.commit_metadata import WriteOperation
from lakehand.formats.plans import rollback
from lakehand.locks.in_process import InProcessLock
from lakehand.protocol import claiming, committing, planning, writing
from lakehand.protocol.planning import PlanRequest
from lakehand.protocol.transaction import load_view
from lakehand.store.memory import MemoryStore


class Killed(BaseException):
    """The process is gone."""


class DyingStore(MemoryStore):
    """Lets its user die when a completed file is to appear."""

    dies = False

    def promote(self, staged):
        if self.dies and staged.final.endswith("commit"):
            raise Killed
        return super().promote(staged)


class SleepyStore(MemoryStore):
    """Lets others do something before a completed file appears."""

    meanwhile = None

    def promote(self, staged):
        if self.meanwhile is not None and staged.final.endswith("commit"):
            meanwhile, self.meanwhile = self.meanwhile, None
            meanwhile()
        return super().promote(staged)


def decided_and_not_shown(kernel: Kernel, attempt: claiming.Attempt, bench) -> None:
    files = (stage_data(bench, attempt, "f1"),)
    manifest = committing.prepare(bench, attempt, files)
    committing.promote_outputs(bench, attempt, manifest)
    content = metadata(bench, attempt, files, WriteOperation.UPSERT)
    kernel.store.dies = True
    with pytest.raises(Killed):
        committing.commit(bench, attempt, lambda _time: content)
    kernel.store.dies = False


def test_is_shown_by_the_next_transaction():
    kernel = Kernel(DyingStore())
    bench = kernel.worker("dead")
    time = planning.schedule(bench, compaction_request("f1"))
    attempt = claiming.claim(bench, time)
    decided_and_not_shown(kernel, attempt, bench)

    ingest(kernel.worker("next"), "f2")

    assert load_view(kernel.worker("reader")).timeline.find(time).is_completed


def test_is_not_shown_when_java_is_rolling_it_back():
    """Java's plan names it: its files will go, whatever we publish."""
    kernel = Kernel(DyingStore())
    bench = kernel.worker("dead")
    attempt = begin(bench)
    decided_and_not_shown(kernel, attempt, bench)
    later = format_instant_time(parse_instant_time(attempt.time) + 50)
    info = rollback.InstantInfo(commit_time=attempt.time, action="deltacommit")
    plan = rollback.RollbackPlan(instant_to_rollback=info, rollback_requests=())
    path = f".hoodie/timeline/{later}.rollback.requested"
    kernel.store.put(path, rollback.encode_plan(plan))

    next_worker = kernel.worker("next")
    planning.schedule(next_worker, compaction_request("f9"))

    view = load_view(next_worker)
    assert not view.timeline.find(attempt.time).is_completed
    assert view.fold.standing(attempt.time) in (Standing.SUPERSEDED, Standing.FOREIGN)


def begin(bench):
    attempt = writing.begin_write(bench, PlanRequest(action=Action.DELTA_COMMIT))
    show_groups(bench, attempt, ("f1",))
    return attempt


def test_that_is_void_cannot_appear_however_late_its_worker_wakes():
    """Two hold the lock: a foreign write completes, and another worker finds the commit voided."""
    kernel = Kernel(SleepyStore(), locks=InProcessLock)  # a lock of its own for each worker
    writer = kernel.worker("sleeper")
    attempt = begin(writer)
    files = (stage_data(writer, attempt, "f1"),)
    committing.promote_outputs(writer, attempt, committing.prepare(writer, attempt, files))
    foreign = metadata(writer, attempt, (), WriteOperation.UPSERT)

    def java_completes_and_another_worker_comes():
        time = format_instant_time(parse_instant_time(attempt.time) - 1000)
        kernel.store.put(f".hoodie/timeline/{time}_{attempt.time}.deltacommit", foreign)
        planning.schedule(kernel.worker("other"), compaction_request("f9"))

    kernel.store.meanwhile = java_completes_and_another_worker_comes
    with pytest.raises(WriteConflict):
        committing.commit(writer, attempt, lambda _time: foreign)

    view = load_view(kernel.worker("reader"))
    assert view.timeline.find(attempt.time).is_pending
    assert view.fold.standing(attempt.time) is Standing.VOIDED
