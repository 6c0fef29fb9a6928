"""Schedulers that know nothing of each other: all that is shared is the table's own."""

from __future__ import annotations

import os
import random
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from kernel_scenes import SERVICES, Scene, service_request
from kernel_states import data_files, rollbacks, state_of, timeline
from kernel_tables import Kernel, execute, ingest
from lakehand.core.instants import Action, State
from lakehand.errors import Conflict, Fenced, Unavailable
from lakehand.formats import commit_metadata
from lakehand.locks.leases import LeaseTerms
from lakehand.locks.storage import storage_lock
from lakehand.protocol import planning, rolling_back
from lakehand.protocol.failed_writes import clean_up
from lakehand.store.local import LocalStore

WORKERS = 6


def work_at_random(scene_worker, plans: list[str], seed: int, barrier: threading.Barrier) -> None:
    """One orchestrator's worker: it executes, rolls back, cleans and ingests, as it likes."""
    random_ = random.Random(seed)
    barrier.wait(timeout=60)
    for turn in range(6):
        act = random_.choice(["execute", "execute", "roll back", "clean", "ingest"])
        plan = random_.choice(plans)
        try:
            if act == "execute":
                execute(scene_worker, plan, (f"g{plans.index(plan)}",))
            elif act == "roll back":
                rollback = rolling_back.schedule_rollback(scene_worker, plan)
                rolling_back.execute_rollback(scene_worker, rollback)
            elif act == "clean":
                clean_up(scene_worker)
            else:
                ingest(scene_worker, f"own-{seed}-{turn}")
        except (Conflict, Fenced, Unavailable):
            continue


def assert_right(worker, plans: list[str]) -> None:
    """Each plan has one result, and every file that there is belongs to one."""
    now = timeline(worker)
    named = set()
    for instant in now.completed_writes:
        path = f"{worker.config.timeline_path}/{instant.time}_{instant.completion_time}"
        content = worker.store.get(f"{path}.{instant.action.value}").content
        stats = commit_metadata.decode(content, where=path).partition_to_write_stats
        named |= {stat.path for files in stats.values() for stat in files}
    assert named == set(data_files(worker.store))
    assert all(now.find(plan).state is State.COMPLETED for plan in plans)
    assert len(set(plans)) == len(plans)
    assert all(one.is_completed for one in rollbacks(worker))
    left = state_of(worker)
    assert left.markers + left.manifests + left.heartbeats + left.cancels == ()


def schedule_all(worker) -> list[str]:
    actions = [*SERVICES, Action.COMPACTION]
    return [
        planning.schedule(worker, service_request(action, f"g{number}"))
        for number, action in enumerate(actions)
    ]


@pytest.mark.req("A-22")
@pytest.mark.parametrize("seed", range(3))
def test_workers_that_know_nothing_of_each_other_keep_the_table_right(seed):
    scene = Scene(settings={"checkpoint_every": 8})
    plans = schedule_all(scene.worker("scheduler"))
    barrier = threading.Barrier(WORKERS)
    with ThreadPoolExecutor(WORKERS) as pool:
        list(
            pool.map(
                lambda n: work_at_random(scene.worker(f"w{n}"), plans, seed * 100 + n, barrier),
                range(WORKERS),
            )
        )
    last = scene.worker("last")
    scene.clock.pass_minutes(5)
    for number, plan in enumerate(plans):
        execute(last, plan, (f"g{number}",))
    clean_up(last)
    clean_up(last)
    assert_right(last, plans)


@pytest.mark.req("A-22")
def test_on_a_local_disk_with_the_tables_own_lock_too(tmp_path):
    """Each worker has a store and a lock of its own: nothing but the folder is common."""
    base = tmp_path / "table"
    base.mkdir()
    terms = LeaseTerms(lease_s=60.0, renew_every_s=6.0, first_pause_s=0.005, longest_pause_s=0.02)

    def kernel() -> Kernel:
        store = LocalStore(base)
        return Kernel(
            store,
            locks=lambda _: storage_lock(LocalStore(base), terms=terms),
            settings={"foreign_writers": False},
        )

    plans = schedule_all(kernel().worker("scheduler"))
    barrier = threading.Barrier(4)
    with ThreadPoolExecutor(4) as pool:
        list(
            pool.map(
                lambda n: work_at_random(kernel().worker(f"w{n}"), plans, n, barrier), range(4)
            )
        )
    for beat in (base / ".hoodie" / ".heartbeat").iterdir():
        os.utime(beat, (0, 0))  # of workers that were refused and did not give up in order
    last = kernel().worker("last")
    for number, plan in enumerate(plans):
        execute(last, plan, (f"g{number}",))
    clean_up(last)
    clean_up(last)
    assert_right(last, plans)


@pytest.mark.req("A-22")
def test_tables_have_nothing_in_common():
    one, other = Scene(), Scene()
    for scene in (one, other):
        scene.time = planning.schedule(scene.worker("w"), service_request(Action.COMPACTION, "f1"))
        execute(scene.worker("x"), scene.time, ("f1",))
    assert state_of(one.worker("judge")) == state_of(other.worker("judge"))
