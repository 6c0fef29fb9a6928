"""Clean sweeps without the lock: an instant may be about to begin, its plan staged, not decided."""

from __future__ import annotations

import pytest

from kernel_tables import Kernel, compaction_request, ingest
from lakehand.core.instants import Action
from lakehand.core.journal_moves import Standing
from lakehand.protocol import planning, writing
from lakehand.protocol.failed_writes import sweep
from lakehand.protocol.planning import PlanRequest
from lakehand.protocol.transaction import load_view, transaction
from lakehand.store.open import open_store

IMPATIENT = {"heartbeat_interval_s": 0.0, "heartbeat_misses": 1}


@pytest.fixture
def kernel(tmp_path):
    """On a local disk, where what is staged is a file that a sweep finds."""
    return Kernel(open_store(str(tmp_path / "table")), settings={"foreign_writers": False})


def schedule(bench):
    return planning.schedule(bench, compaction_request("f1"))


def begin(bench):
    return writing.begin_write(bench, PlanRequest(action=Action.DELTA_COMMIT)).time


@pytest.mark.parametrize("decide", [schedule, begin])
def test_a_plan_that_is_staged_and_not_yet_decided_is_not_swept(decide, kernel):
    ingest(kernel.worker("before"), "f1")
    worker, cleaner = kernel.worker("slow"), kernel.worker("cleaner")
    append = worker.journal.append
    swept = []

    def swept_just_before(*args, **named):
        swept.append(sweep(cleaner))
        return append(*args, **named)

    worker.journal.append = swept_just_before
    time = decide(worker)
    assert swept[0] == ()
    assert [one.time for one in load_view(cleaner).timeline.pending] == [time]


def test_what_a_worker_staged_and_never_decided_is_swept_in_time(kernel):
    worker = kernel.worker("dies")

    def die(*_args, **_named):
        raise SystemExit

    worker.journal.append = die
    with pytest.raises(SystemExit):
        schedule(worker)
    assert kernel.store.list(".hoodie/.temp").folders
    impatient = kernel.worker("cleaner", **IMPATIENT)
    assert len(sweep(impatient)) == 1
    assert not kernel.store.list(".hoodie/.temp").folders


def test_a_plan_decided_when_its_stage_was_swept_is_over_at_the_next_transaction(kernel):
    worker, impatient = kernel.worker("sleeps"), kernel.worker("cleaner", **IMPATIENT)
    append = worker.journal.append

    def wake_up_late_and_die(*args, **named):
        assert len(sweep(impatient)) == 1
        append(*args, **named)
        raise SystemExit

    worker.journal.append = wake_up_late_and_die
    with pytest.raises(SystemExit):
        schedule(worker)
    bench = kernel.worker("next")
    (decided,) = load_view(bench).fold.instants.values()
    assert decided.standing is Standing.REQUESTED
    with transaction(bench) as tx:
        assert not tx.view.timeline.pending
        (decided,) = tx.view.fold.instants.values()
        assert decided.standing is Standing.SUPERSEDED
