"""What a worker of the contention tests does: the kernel's recipes, from claim to commit.

Jobs are drawn by the worker's dice. Each tells how it ended; an answer of the kernel that no
worker should get here is left to be told as unexpected.
"""

from __future__ import annotations

import itertools
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import kernel_tables
from lakehand.core.instants import Action
from lakehand.core.journal_moves import Standing
from lakehand.core.markers import Marker, MarkerKind, write_token
from lakehand.core.table_config import TableConfig
from lakehand.errors import (
    ClockAhead,
    Conflict,
    Fenced,
    ForeignExecutor,
    LakehandError,
    MustRollBack,
    PlanAborted,
    PlanBusy,
    PlanCancelled,
    PlanNotFound,
    Unavailable,
)
from lakehand.formats import commit_metadata
from lakehand.formats.commit_metadata import WriteOperation
from lakehand.locks.file_system import file_system_lock
from lakehand.locks.leases import LeaseTerms
from lakehand.locks.storage import storage_lock
from lakehand.process import SystemClock, Threads
from lakehand.protocol import (
    cancelling,
    claiming,
    committing,
    failed_writes,
    leftovers,
    planning,
    rolling_back,
    staging,
    table_properties,
    writing,
)
from lakehand.protocol.timeline_loader import instant_path
from lakehand.protocol.transaction import load_view
from lakehand.protocol.workbench import ProtocolSettings, Workbench

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

    from lakehand.core.instants import Instant
    from lakehand.core.journal_entries import StagedFile
    from lakehand.ports import Store
    from lakehand.protocol.claiming import Attempt
    from lakehand.protocol.transaction import View

LOCKS = {"file": file_system_lock, "storage": storage_lock}
EXPECTED = (Conflict, Unavailable, Fenced, PlanNotFound, PlanAborted)
"""How the kernel may answer a worker that others were quicker than."""
NEVER_HERE = (ForeignExecutor, ClockAhead)


def open_bench(task: dict[str, Any], store: Store, name: str) -> Workbench:
    """A workbench with real threads on the task's table."""
    ids = itertools.count(1)
    locks = LOCKS[task["lock"]](store, terms=LeaseTerms(**task["terms"]))
    return Workbench(
        store=store,
        locks=locks,
        clock=SystemClock(),
        background=Threads(),
        new_id=lambda: f"{name}-{next(ids)}",
        worker=name,
        config=TableConfig.from_properties(table_properties.load(store)),
        settings=ProtocolSettings(
            foreign_writers=locks.excludes_foreign, rollback_delay_minutes=0, **task["settings"]
        ),
    )


@dataclass
class Worker:
    """One worker: draws a job, does it, tells how it ended."""

    task: dict[str, Any]
    bench: Workbench
    tell: Callable[..., None]
    is_told: Callable[[float], bool]
    dice: random.Random
    now: dict[str, Any] = field(default_factory=dict)
    """The job, its instant and epoch: what every line says."""

    def run(self) -> None:
        jobs = self.task["jobs"]
        while not self.is_told(0):
            (job,) = self.dice.choices(list(jobs), weights=list(jobs.values()))
            self.now.clear()
            self.now["job"] = job
            try:
                getattr(self, job)()
            except EXPECTED as answer:
                if isinstance(answer, NEVER_HERE):
                    raise
                self.tell("refused", error=type(answer).__name__, says=str(answer)[:400])
                self._pause(answer)

    def _pause(self, answer: LakehandError) -> None:
        patience_s = min(answer.retry_after_s, 0.2) if isinstance(answer, PlanBusy) else 0.02
        self.is_told(patience_s * self.dice.random())

    def _pending(self, view: View) -> list[Instant]:
        action = Action(self.task["plan"]["action"])
        return [
            one
            for one in view.timeline.pending
            if one.action is action and not self._is_ingestion(view, one)
        ]

    @staticmethod
    def _is_ingestion(view: View, instant: Instant) -> bool:
        plan = view.fold.record(instant.time).plan
        return plan is not None and plan.is_ingestion

    # Jobs

    def execute(self) -> None:
        """Claim the oldest pending plan and carry it out; schedule one if there is none."""
        pending = self._pending(load_view(self.bench))
        if not pending:
            self.now["time"] = planning.schedule(self.bench, self._request())
            self.tell("scheduled")
            return
        time = self.now["time"] = pending[0].time
        try:
            self.tell("claiming")
            claimed = claiming.claim(self.bench, time)
        except PlanCancelled:
            cancelling.execute_cancel(self.bench, time)
            self.tell("aborted")
            return
        except MustRollBack:
            self.rollback()
            return
        if isinstance(claimed, claiming.AlreadyCompleted):
            self.tell("already")
            return
        self.now["epoch"] = claimed.epoch
        self.tell("claimed")
        groups = [*self.task["plan"]["groups"]]
        content = {"time": time, "epoch": claimed.epoch, "worker": self.bench.worker}
        self._write_out(claimed, dict.fromkeys(groups, content), WriteOperation.COMPACT)

    def _request(self) -> planning.PlanRequest:
        plan = self.task["plan"]

        def still_valid(view: View) -> None:
            if self._pending(view):
                raise Conflict("there is a plan already")

        return kernel_tables.compaction_request(
            *plan["groups"],
            action=Action(plan["action"]),
            removable=plan.get("removable", False),
            cancellable=plan.get("cancellable", False),
            still_valid=still_valid,
        )

    def ingest(self) -> None:
        """Read the counters of some groups, and write them one higher."""
        names = self.task["groups"]
        groups = tuple(sorted(self.dice.sample(names, self.dice.randint(1, min(3, len(names))))))
        request = planning.PlanRequest(action=Action.DELTA_COMMIT)
        begun = writing.begin_write(self.bench, request)
        assert isinstance(begun, claiming.Attempt)
        self.now.update(time=begun.time, epoch=begun.epoch)
        self.tell("began")
        try:
            kernel_tables.show_groups(self.bench, begun, groups)
            contents = {
                group: {"time": begun.time, "epoch": begun.epoch, "counter": counter + 1}
                for group, counter in self._counters(groups).items()
            }
        except EXPECTED:
            begun.heartbeat.remove()
            raise
        self._write_out(begun, contents, WriteOperation.UPSERT)

    def _counters(self, groups: tuple[str, ...]) -> dict[str, int]:
        """Return what each group's last commit says; a file that is missing is the end."""
        counters = dict.fromkeys(groups, 0)
        missing = set(groups)
        view = load_view(self.bench)
        done = sorted(view.timeline.completed_writes, key=lambda one: one.completion_time or "")
        for instant in reversed(done):
            for group, path in files_of(self.bench, instant).items():
                if group in missing:
                    missing.remove(group)
                    counters[group] = json.loads(self.bench.store.get(path).content)["counter"]
            if not missing:
                break
        return counters

    def _write_out(
        self, attempt: Attempt, contents: dict[str, Any], operation: WriteOperation
    ) -> None:
        """From staging to the commit; on the way out, do what the protocol asks of a loser."""
        bench, files = self.bench, []
        try:
            for number, (group, content) in enumerate(contents.items()):
                attempt.heartbeat.check()
                files.append(stage_data(bench, attempt, group, number, content))
            manifest = committing.prepare(bench, attempt, tuple(files))
            self.tell("prepared")
            committing.promote_outputs(bench, attempt, manifest)
            self.tell("promoted")
            written = tuple(files)
            committing.commit(
                bench,
                attempt,
                lambda _time: kernel_tables.metadata(bench, attempt, written, operation),
            )
            self.tell("committed", files=[file.final for file in files])
        except PlanCancelled:
            try:
                cancelling.execute_cancel(bench, attempt.time, own=attempt.heartbeat)
            finally:
                attempt.heartbeat.remove()
            raise
        except Conflict:
            committing.give_up(bench, attempt, tuple(files))
            raise
        except (Fenced, Unavailable):
            attempt.heartbeat.remove()
            raise

    def cancel(self) -> None:
        """Request the cancellation of a pending plan."""
        pending = self._pending(load_view(self.bench))
        if pending:
            self.now["time"] = pending[0].time
            self.tell("cancelling")
            cancelling.request_cancel(self.bench, pending[0].time, reason="the test says so")
            self.tell("cancelled")

    def abort(self) -> None:
        """Take a cancelled plan to its end."""
        fold = self.bench.journal.refresh()
        over = (Standing.CANCELLED, Standing.ABORTING)
        for record in (one for one in fold.open if one.standing in over):
            self.now["time"] = record.time
            self.tell("aborting")
            cancelling.execute_cancel(self.bench, record.time)
            self.tell("aborted")

    def clean(self) -> None:
        """Do all that every clean does."""
        self.tell("cleaning")
        done = failed_writes.clean_up(self.bench)
        self.tell("cleaned", rolled_back=len(done.rolled_back), aborted=len(done.aborted))

    def rollback(self) -> None:
        """Roll back the attempt at a pending plan, beside everybody who does the same."""
        pending = self._pending(load_view(self.bench))
        if pending:
            self.now["time"] = pending[0].time
            self.tell("rolling back")
            rollback = rolling_back.schedule_rollback(self.bench, pending[0].time)
            end = rolling_back.execute_rollback(self.bench, rollback)
            self.tell("rolled back", end=end.value, rollback=rollback)


def files_of(bench: Workbench, instant: Instant) -> dict[str, str]:
    """Return the file of each group that a completed write names."""
    path = instant_path(bench.config, instant)
    if path not in bench.documents:
        bench.documents[path] = bench.store.get(path).content
    metadata = commit_metadata.decode(bench.documents[path], where=path)
    return {
        stat.file_id or "": stat.path or ""
        for stats in metadata.partition_to_write_stats.values()
        for stat in stats
    }


def stage_data(
    bench: Workbench, attempt: Attempt, group: str, task: int, content: dict[str, Any]
) -> StagedFile:
    """Stage one base file as a task does: begin marker first, then the bytes."""
    path = f"p/{group}_{write_token(task, attempt.epoch, 0)}_{attempt.time}.parquet"
    data = json.dumps(content).encode()
    with bench.store.stage(path, area=staging.area(attempt.time, attempt.epoch)) as writer:
        marker = Marker(path, MarkerKind.CREATE)
        leftovers.begin_file(bench.store, attempt.time, marker, writer.staged)
        writer.write(data)
        writer.close()
        return staging.as_decided(writer.staged, digest=staging.digest_of(data))
