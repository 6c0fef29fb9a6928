"""The same on a local disk: files, stages and heartbeats as a file system keeps them."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from kernel_faults import FaultAt, Killed, count_calls, on_store
from kernel_scenes import crashes
from kernel_states import TableState, state_of
from kernel_tables import Kernel, compaction_request, execute, ingest
from lakehand.core.journal_entries import RollbackEnd
from lakehand.errors import PlanBusy
from lakehand.protocol import claiming, planning, rolling_back
from lakehand.protocol.failed_writes import clean_up
from lakehand.store.local import LocalStore

if TYPE_CHECKING:
    from pathlib import Path


def table(folder: Path) -> tuple[Kernel, str]:
    """A table on disk with a compaction plan."""
    folder.mkdir()
    kernel = Kernel(LocalStore(folder))
    ingest(kernel.worker("writer"), "f1")
    return kernel, planning.schedule(kernel.worker("scheduler"), compaction_request("f1"))


def let_heartbeats_expire(folder: Path) -> None:
    beats = folder / ".hoodie" / ".heartbeat"
    for beat in beats.iterdir() if beats.exists() else ():
        os.utime(beat, (0, 0))


def without_times(state: TableState) -> TableState:
    """Times on disk are the clock's: only their order is the same in every run."""
    times = sorted({time for time, _, _ in state.timeline})
    words = {time: f"T{number}" for number, time in enumerate(times)}

    def plain(path: str) -> str:
        for time, word in words.items():
            path = path.replace(time, word) if time else path
        return path

    return TableState(
        timeline=tuple((words[time], action, stand) for time, action, stand in state.timeline),
        data=tuple(plain(path) for path in state.data),
        markers=tuple(plain(path) for path in state.markers),
        manifests=tuple(plain(path) for path in state.manifests),
        heartbeats=tuple(plain(path) for path in state.heartbeats),
        cancels=state.cancels,
        promotable=(),
    )


def stages(folder: Path) -> list[str]:
    return [path.name for path in (folder / ".hoodie" / ".temp").rglob("*.staged")]


@pytest.mark.req("A-06", "A-18")
def test_an_attempt_killed_after_any_store_call_is_repeated_to_the_same_end(tmp_path):
    kernel, time = table(tmp_path / "whole")
    calls = count_calls(kernel.worker("w"), lambda bench: execute(bench, time, ("f1",)))
    expected = without_times(state_of(kernel.worker("judge")))
    for number, fault in crashes(calls):
        folder = tmp_path / f"{number}-{fault.name}"
        kernel, time = table(folder)
        with suppress(Killed):
            execute(on_store(kernel.worker("dead"), FaultAt(number, fault)), time, ("f1",))
        let_heartbeats_expire(folder)
        execute(kernel.worker("next"), time, ("f1",))
        clean_up(kernel.worker("cleaner"))
        assert without_times(state_of(kernel.worker("judge"))) == expected, number
        assert stages(folder) == []


@pytest.mark.req("A-04", "A-05")
def test_a_rollback_killed_after_any_store_call_is_taken_to_its_end(tmp_path):
    def dead_attempt(folder: Path) -> tuple[Kernel, str, str]:
        kernel, time = table(folder)
        claiming.claim(kernel.worker("dead"), time)
        let_heartbeats_expire(folder)
        return kernel, time, rolling_back.schedule_rollback(kernel.worker("author"), time)

    kernel, _, rollback = dead_attempt(tmp_path / "whole")
    calls = count_calls(
        kernel.worker("w"), lambda bench: rolling_back.execute_rollback(bench, rollback)
    )
    for number, fault in crashes(calls):
        folder = tmp_path / f"{number}-{fault.name}"
        kernel, time, rollback = dead_attempt(folder)
        with suppress(Killed):
            rolling_back.execute_rollback(
                on_store(kernel.worker("dead too"), FaultAt(number, fault)), rollback
            )
        let_heartbeats_expire(folder)
        ends = dict(clean_up(kernel.worker("cleaner")).rolled_back)
        assert ends in ({rollback: RollbackEnd.PLAN_KEPT}, {}), number
        assert execute(kernel.worker("next"), time, ("f1",)).is_completed
        clean_up(kernel.worker("cleaner"))
        assert stages(folder) == []
        assert state_of(kernel.worker("judge")).heartbeats == ()


@pytest.mark.req("A-01", "A-39")
def test_a_heartbeat_on_disk_lives_by_its_modification_time(tmp_path):
    kernel, time = table(tmp_path / "table")
    claiming.claim(kernel.worker("first"), time)
    with pytest.raises(PlanBusy, match="first"):
        claiming.claim(kernel.worker("second"), time)
    let_heartbeats_expire(tmp_path / "table")
    assert claiming.claim(kernel.worker("second"), time).epoch == 2
