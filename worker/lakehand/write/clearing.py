"""Clearing up before a write: what writers that died have left."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakehand.protocol import failed_writes, heartbeats
from lakehand.protocol.staging import TEMP
from lakehand.protocol.timeline_loader import load_timeline

if TYPE_CHECKING:
    from lakehand.protocol.workbench import Workbench
    from lakehand.write.job import Job


def clear_up(job: Job) -> None:
    """Clean up after writers that died, if there is any trace of one.

    Cleaning may publish what a writer decided just before it died, which only then is seen to have
    failed: so it is done once more if something new is pending afterwards.
    """
    pending = _pending(job)
    if not pending and not _has_traces(job.bench):
        return
    job.say("cleaning up after failed writes")
    failed_writes.clean_up(job.bench, policy=job.options.failed_writes)
    if _pending(job) - pending:
        failed_writes.clean_up(job.bench, policy=job.options.failed_writes)


def _pending(job: Job) -> set[str]:
    return {one.time for one in load_timeline(job.bench.store, job.bench.config).pending}


def _has_traces(bench: Workbench) -> bool:
    """Whether a writer began and was never seen, or ended and could not clear away its own."""
    return bool(
        bench.journal.refresh().open
        or bench.store.names(heartbeats.FOLDER)
        or bench.store.list(TEMP).folders
    )
