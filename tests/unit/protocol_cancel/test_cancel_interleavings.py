"""Cancel, execute, clean and ingest by two workers: one sleeps at every one of its store calls.

While the first sleeps, the second does all of its work; then the first goes on. It naps: the lock
stays its own, and a second who wants it comes later. Or it sleeps long: the lock's lease runs out
and is another's, and its heartbeat expires. The interleavings of more workers are the simulator's.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

import pytest

from kernel_scripts import (
    EXPIRED_S,
    Scene,
    begin_plan,
    cancellable,
    count_calls,
    data_of,
    files_of,
    has_cancel_file,
    outcome,
    run_plan,
    scene,
    sleep_at,
    state,
    traces_of,
)
from kernel_tables import compaction_request, ingest
from lakehand.core.instants import Action, Instant, State
from lakehand.core.journal_moves import Standing
from lakehand.core.table_kinds import TableVersion
from lakehand.errors import (
    Conflict,
    Fenced,
    Invalid,
    InvariantBroken,
    LakehandError,
    LockTimeout,
    Unavailable,
)
from lakehand.protocol import cancelling, claiming, failed_writes, footprint_reader
from lakehand.protocol.workbench import Workbench

if TYPE_CHECKING:
    from lakehand.protocol.transaction import View

NINE = TableVersion.NINE
GROUPS = ("f1", "f2")


@dataclass
class Story:
    """A table with one cancellable plan, and what its workers were told."""

    table: Scene
    plan: str
    told_cancelled: bool = False
    executed: list[Instant] = field(default_factory=list)
    written: list[Instant] = field(default_factory=list)


Actor = Callable[[Story, Workbench], object]


def cancel(story: Story, bench: Workbench) -> None:
    cancelling.request_cancel(bench, story.plan, reason="in the way")
    story.told_cancelled = True
    cancelling.execute_cancel(bench, story.plan)


def execute(story: Story, bench: Workbench) -> None:
    done = run_plan(bench, story.plan, GROUPS)
    if done is not None:
        story.executed.append(done)


def clean(_story: Story, bench: Workbench) -> None:
    failed_writes.clean_up(bench)


def ingestion(story: Story, bench: Workbench) -> None:
    story.written.append(ingest(bench, "f1"))


ACTORS: dict[str, Actor] = {
    "cancel": cancel,
    "execute": execute,
    "clean": clean,
    "ingest": ingestion,
}


def fresh() -> Story:
    table = scene(NINE)
    plan = cancellable(table, compaction_request(*GROUPS, action=Action.LOG_COMPACTION))
    return Story(table, plan)


def half_cancelled() -> Story:
    """An attempt died with its files promoted; who cancelled it died while removing them."""
    story = fresh()
    begin_plan(story.table.worker(), story.plan, GROUPS)
    story.table.clock.advance(EXPIRED_S)
    dying = story.table.worker()
    cancelling.request_cancel(dying, story.plan, reason="half")
    story.told_cancelled = True
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("lakehand.protocol.leftovers.remove", _die)
        with pytest.raises(InvariantBroken):
            cancelling.execute_cancel(dying, story.plan)
    story.table.clock.advance(EXPIRED_S)
    return story


def _die(*_args: object) -> None:
    raise InvariantBroken("the worker's end")


def sleeping_second(story: Story, second: Actor, *, long: bool) -> tuple[Callable[[], None], list]:
    """What happens while the first sleeps; a second that finds the lock taken comes later."""
    later: list[bool] = []
    bench = story.table.worker("second")

    def meanwhile() -> None:
        if long:
            story.table.clock.advance(EXPIRED_S)
            holder = bench.locks.holder()
            if holder is not None:
                bench.locks.break_lock(holder)
        ended = _tolerated(partial(second, story, bench))
        if isinstance(ended, LockTimeout):
            later.append(True)

    return meanwhile, later


def _tolerated(work: Callable[[], object]) -> object:
    """Every refusal has a kind that tells the caller what to do; a broken invariant has none."""
    ended = outcome(work)
    if isinstance(ended, LakehandError):
        assert isinstance(ended, Conflict | Fenced | Invalid | Unavailable), ended
    return ended


def play(story: Story, first: Actor, second: Actor, number: int, *, long: bool) -> None:
    meanwhile, later = sleeping_second(story, second, long=long)
    bench = story.table.worker("first")
    _tolerated(lambda: sleep_at(bench, lambda awake: first(story, awake), number, meanwhile))
    if later:
        _tolerated(partial(second, story, story.table.worker("second")))


def settle(story: Story) -> None:
    """No worker is left; two cleans, the second to sweep after the first."""
    for _ in range(2):
        story.table.clock.advance(EXPIRED_S)
        story.table.clean()


def judge(story: Story) -> None:
    """What must be true at the end, however it came about."""
    table, plan = story.table, story.plan
    view = table.view()
    standing = view.fold.standing(plan)
    end = state(table, plan)
    assert standing not in (Standing.CANCELLED, Standing.ABORTING)
    if story.told_cancelled:
        assert end is State.ABORTED
    if end is State.ABORTED:
        assert files_of(table, plan) == [f"{plan}.logcompaction.aborted"]
        assert data_of(table, plan) == []
        assert not has_cancel_file(table, plan)
        assert traces_of(table, plan) == []
        assert not story.executed
    if end is State.COMPLETED:
        assert data_of(table, plan) == named_by(view, plan)
        assert not has_cancel_file(table, plan)
        assert traces_of(table, plan) == []
    if end in (State.REQUESTED, State.INFLIGHT):
        assert not story.executed
        claimed = claiming.claim(table.worker(), plan)
        assert isinstance(claimed, claiming.Attempt)
    for done in story.written:
        assert state(table, done.time) is State.COMPLETED
        assert data_of(table, done.time) == named_by(view, done.time)
    assert_serial(story, view, end)


def assert_serial(story: Story, view: View, end: State | None) -> None:
    """The plan and a write of its group both completed only if one began after the other's end."""
    table, writes = story.table, view.timeline.completed_writes
    mine = view.timeline.find(story.plan)
    if end is State.COMPLETED and mine is not None:
        assert mine.completion_time is not None
        assert all(one.time > mine.completion_time for one in writes if one.time != story.plan)
    named = {path for one in writes for path in named_by(view, one.time)}
    pending = tuple(one.time for one in view.timeline.pending)
    there = {one.path for one in table.store.walk("p")}
    assert {path for path in there if not any(time in path for time in pending)} == named


def named_by(view: View, time: str) -> list[str]:
    """The files that a completed instant names."""
    instant = view.timeline.find(time)
    assert instant is not None
    named = footprint_reader.files_of(view.bench, view, instant)
    assert named is not None
    return sorted(named)


@pytest.mark.req("B-38", "B-16", "B-22", "B-24")
@pytest.mark.parametrize("long", [False, True], ids=["naps", "sleeps long"])
@pytest.mark.parametrize("second", ACTORS)
@pytest.mark.parametrize("first", ACTORS)
def test_whoever_sleeps_at_whatever_call_the_end_is_one_of_the_right_ones(first, second, long):
    story = fresh()
    calls = count_calls(story.table.worker(), partial(ACTORS[first], story))
    for number in range(1, calls + 1):
        story = fresh()
        play(story, ACTORS[first], ACTORS[second], number, long=long)
        settle(story)
        judge(story)


@pytest.mark.req("B-38")
@pytest.mark.parametrize("second", ["execute", "clean"])
@pytest.mark.parametrize("first", ["cancel", "execute", "clean"])
def test_a_cancellation_that_failed_half_way_is_finished_by_whoever_comes(first, second):
    story = half_cancelled()
    assert state(story.table, story.plan) is State.INFLIGHT
    calls = count_calls(story.table.worker(), partial(ACTORS[first], story))
    assert state(story.table, story.plan) is State.ABORTED
    for number in range(1, calls + 1):
        story = half_cancelled()
        play(story, ACTORS[first], ACTORS[second], number, long=True)
        settle(story)
        judge(story)
        assert state(story.table, story.plan) is State.ABORTED
