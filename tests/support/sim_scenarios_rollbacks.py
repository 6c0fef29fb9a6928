"""Rollbacks, takeovers, an open restore, checkpoints: several workers at one instant."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from lakehand.core.instants import Action
from lakehand.core.journal_entries import Claim, Commit, Plan, RolledBack
from lakehand.formats.plans import restore
from lakehand.protocol import committing, planning
from lakehand.protocol.planning import PlanRequest
from sim_actors import (
    OPERATIONS,
    begin_ingestion,
    clean,
    executor,
    ingester,
    plan,
    resumed,
    roller,
    stage_service,
    tried,
    worker,
)
from sim_actors_beginnings import HOUR_MS, Beginning, Maker
from sim_actors_data import metadata_of, stage_rows
from sim_calls import FaultBudget
from sim_checkers_all import HEALERS, all_checkers
from sim_checkers_journal import history
from sim_registry import scenario
from sim_scenario import Scenario
from sim_scenarios_rfc79_kept import inflight, requested, tried_before

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sim_actors import Act
    from sim_ports import ActorPorts
    from sim_scenario import Checker
    from sim_world import World

SWITCHES = FaultBudget(preemptions=1)
MORE_SWITCHES = FaultBudget(preemptions=2)
TROUBLE = FaultBudget(preemptions=0, crashes=1, pauses=1, total=1)
DEEP = FaultBudget(preemptions=1, crashes=1, pauses=1, total=1)


# -- two rollbacks of one target


def failed_ingestion(maker: Maker) -> None:
    """An ingestion write promoted its file and died."""
    maker.ingest("before", "f1")
    bench = maker.bench("w")
    attempt = begin_ingestion(bench, ("f1",))
    files = (stage_rows(bench, attempt, "f1", frozenset({"w"}), log=True),)
    committing.promote_outputs(bench, attempt, committing.prepare(bench, attempt, files))
    maker.made.times.append(attempt.time)
    maker.made.attempts.append(attempt)
    maker.later(2 * HOUR_MS)


class OneRollbackAtATime:
    """A pending rollback of the same target is reused, never duplicated."""

    name = "a target has one pending rollback"
    state = 0

    def after_step(self, world: World) -> str | None:
        before = self.state
        now = history(world, before)
        self.state = now.number
        if now.number == before:
            return None
        pending: dict[str, str] = {}
        for entry in now.entries:
            match entry.body:
                case Plan(time=time, target=target) if target is not None:
                    if target.time in pending:
                        return f"{pending[target.time]} and {time} both roll back {target.time}"
                    pending[target.time] = time
                case RolledBack(time=target_time):
                    pending.pop(target_time, None)
                case _:
                    pass
        return None

    def at_end(self, _world: World) -> str | None:
        return None


# -- a takeover while the zombie promotes


def prepared(maker: Maker) -> None:
    """An attempt has written its manifest, and then slept for two hours."""
    inflight(Action.COMPACTION, maker, owner="z")
    bench, attempt = maker.bench("z"), maker.made.attempts[0]
    files, _ = stage_service(bench, attempt)
    maker.made.manifests.append(committing.prepare(bench, attempt, files))
    maker.later(2 * HOUR_MS)


def promotes(begun: Beginning, ports: ActorPorts) -> Act:
    """Wake up, promote what was prepared, and try to commit."""
    bench = worker(ports)
    attempt = resumed(bench, begun.made.attempts[0])
    manifest = begun.made.manifests[0]

    def run() -> str:
        committing.promote_outputs(bench, attempt, manifest)
        paths = tuple(file.final for file in manifest.files)
        content = metadata_of(paths, OPERATIONS[attempt.action])
        committing.commit(bench, attempt, lambda _time: content)
        return "completed"

    return tried("execute", attempt.time, run)


# -- a restore is open


def restores(ports: ActorPorts) -> Act:
    """Publish the plan of a restore."""
    bench = worker(ports)
    request = PlanRequest(
        action=Action.RESTORE,
        content=lambda _extra: restore.encode_plan(restore.RestorePlan()),
    )

    def run() -> str:
        return f"planned {planning.schedule(bench, request)}"

    return tried("restore", "", run)


class RestoreForbids:
    """From its plan on nobody else plans, claims or commits."""

    name = "an open restore forbids all others"
    state = 0

    def after_step(self, world: World) -> str | None:
        before = self.state
        now = history(world, before)
        self.state = now.number
        if now.number == before:
            return None
        restoring = ""
        for entry in now.entries:
            body = entry.body
            if restoring and isinstance(body, Plan | Claim | Commit) and body.time != restoring:
                kind = type(body).__name__.lower()
                return f"{entry.writer} appends {kind} of {body.time}, {restoring} is open"
            if isinstance(body, Plan) and body.action is Action.RESTORE:
                restoring = body.time
        return None

    def at_end(self, _world: World) -> str | None:
        return None


# -- the scenarios

FAILED = Beginning(failed_ingestion, age_ms=2 * HOUR_MS)
FAILED_REMOVABLE = Beginning(
    partial(tried_before, Action.CLUSTERING, removable=True), age_ms=2 * HOUR_MS
)
TRIED = Beginning(partial(tried_before, Action.COMPACTION), age_ms=2 * HOUR_MS)
PREPARED = Beginning(prepared, age_ms=2 * HOUR_MS)
REQUESTED = Beginning(partial(requested, Action.COMPACTION))


def two_groups(maker: Maker) -> None:
    """Two groups with a row each, and a compaction plan for one of them."""
    maker.ingest("before", "f1")
    maker.ingest("before-2", "f2")
    maker.made.times.append(plan(maker.bench(), Action.COMPACTION, "f1"))


TWO_GROUPS = Beginning(two_groups)
OFTEN = {"checkpoint_every": 3}

CASTS: Mapping[
    str,
    tuple[
        Beginning,
        Mapping[str, Callable[[ActorPorts], object]],
        tuple[Callable[[], Checker], ...],
    ],
] = {
    "two rollbacks of a failed write": (
        FAILED,
        {"r1": roller(FAILED.time), "r2": roller(FAILED.time)},
        (OneRollbackAtATime,),
    ),
    "two cleans and a failed write": (FAILED, {"k1": clean, "k2": clean}, (OneRollbackAtATime,)),
    "rollback and clean of a removable plan": (
        FAILED_REMOVABLE,
        {"r": roller(FAILED_REMOVABLE.time), "k": clean},
        (OneRollbackAtATime,),
    ),
    "rollback against execution of a kept plan": (
        TRIED,
        {"r": roller(TRIED.time), "x": executor(TRIED.time)},
        (OneRollbackAtATime,),
    ),
    "takeover while the zombie promotes": (
        PREPARED,
        {"x": executor(PREPARED.time), "z": partial(promotes, PREPARED)},
        (),
    ),
    "checkpoint and trim under load": (
        TWO_GROUPS,
        {
            "i": ingester("f1", **OFTEN),
            "x": executor(TWO_GROUPS.time, **OFTEN),
        },
        (),
    ),
}


def cast(name: str, faults: FaultBudget, *, suffix: str = "") -> Scenario:
    """Return a scenario of the table above."""
    begun, actors, more = CASTS[name]
    return Scenario(
        name=f"{name}{suffix}",
        title="Several workers do something to one instant.",
        actors=actors,
        build=begun.build,
        checkers=[
            *all_checkers(begun, faults, ingesters=("i", "w"), sane=begun is not PREPARED),
            *more,
        ],
        faults=faults,
        healers=HEALERS,
        successors=begun is not PREPARED,
    )


RESTORE_CASTS: Mapping[str, Mapping[str, Callable[[ActorPorts], object]]] = {
    "restore against claim and commit": {"x": executor(REQUESTED.time), "r": restores},
    "restore against ingestion": {"i": ingester("f1"), "r": restores},
    "restore against clean": {"k": clean, "r": restores},
}


def open_restore(name: str, faults: FaultBudget) -> Scenario:
    """Return a scenario with a restore that stays open, so nothing is healed."""
    begun = FAILED if name.endswith("clean") else REQUESTED
    return Scenario(
        name=name,
        title="While a restore is open nobody else plans, claims or commits.",
        actors=RESTORE_CASTS[name],
        build=begun.build,
        checkers=[
            *all_checkers(begun, faults, ingesters=("i", "w"), healers=("nobody heals",)),
            RestoreForbids,
        ],
        faults=faults,
    )


for _name in CASTS:
    scenario(partial(cast, _name, MORE_SWITCHES))
    scenario(partial(cast, _name, DEEP, suffix=" deep"))
for _name in RESTORE_CASTS:
    scenario(partial(open_restore, _name, MORE_SWITCHES))
