"""What a cancellable plan says of itself, and which plans can be one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kernel_scripts import (
    HOUR_S,
    begin_ingestion,
    cancellable,
    clustering_request,
    outcome,
    run_plan,
    scene,
    state,
)
from kernel_tables import compaction_request, ingest
from lakehand.core.instants import Action, Instant, State
from lakehand.core.journal_entries import CancellationPolicy
from lakehand.core.plan_flags import from_extra_metadata, to_extra_metadata
from lakehand.core.table_kinds import TableVersion
from lakehand.errors import Invalid, Unsupported
from lakehand.formats.plans import clustering, compaction
from lakehand.protocol import footprint_reader, planning
from lakehand.protocol.timeline_loader import instant_path

SIX, EIGHT, NINE = TableVersion.SIX, TableVersion.EIGHT, TableVersion.NINE
OFFERED = [
    *(
        (version, Action.LOG_COMPACTION)
        for version in TableVersion
        if version in (SIX, EIGHT, NINE)
    ),
    *((version, Action.COMPACTION) for version in (EIGHT, NINE)),
    *((version, Action.CLUSTERING) for version in (SIX, EIGHT, NINE)),
]


def request(action: Action, *groups: str):
    if action is Action.CLUSTERING:
        return clustering_request(*groups)
    return compaction_request(*groups, action=action)


def content_of_plan(table, time: str, action: Action) -> bytes:
    path = instant_path(table.kernel.config, Instant(time, action, State.REQUESTED))
    return table.store.get(path).content


def extra_of(table, time: str, action: Action) -> dict[str, str]:
    content = content_of_plan(table, time, action)
    if action is Action.CLUSTERING:
        plan = clustering.decode(content, where=time).clustering_plan
        assert plan is not None
        return dict(plan.extra_metadata or {})
    return dict(compaction.decode(content, where=time).extra_metadata or {})


@pytest.mark.req("B-01")
@pytest.mark.parametrize(("version", "action"), OFFERED)
def test_the_plans_own_file_tells_everybody_that_it_is_cancellable(version, action):
    """Read as somebody does who knows nothing of the journal: from the requested file alone."""
    table = scene(version)
    yes = cancellable(table, request(action, "f1"))
    no = planning.schedule(table.worker(), request(action, "f2"))
    assert from_extra_metadata(extra_of(table, yes, action)).cancellable
    assert not from_extra_metadata(extra_of(table, no, action)).cancellable
    stranger, view = table.worker(), table.view()
    for time, expected in ((yes, True), (no, False)):
        instant = view.timeline.find(time)
        assert instant is not None
        assert footprint_reader.flags_of_plan(stranger, view, instant).cancellable is expected


@pytest.mark.req("B-01")
def test_ingestion_that_read_only_the_file_still_refuses_after_it_committed():
    """The journal forgets a committed plan; who it was is learnt from its file."""
    table = scene(NINE)
    time = cancellable(table, compaction_request("f1"))
    assert run_plan(table.worker(), time, ("f1",)) is not None
    ingest(table.worker(), "f9")
    view = table.view()
    assert time not in view.fold.instants
    instant = view.timeline.find(time)
    assert instant is not None
    assert footprint_reader.flags_of_plan(table.worker(), view, instant).cancellable


@pytest.mark.req("B-02")
@pytest.mark.parametrize(
    "policy",
    [
        CancellationPolicy(hours=3.0),
        CancellationPolicy(hours=None, completed_writes=7),
        CancellationPolicy(hours=1.5, completed_writes=2),
    ],
)
def test_the_plan_holds_the_policy_of_its_scheduler(policy):
    table = scene(NINE)
    time = cancellable(table, compaction_request("f1"), policy=policy)
    said = from_extra_metadata(extra_of(table, time, Action.COMPACTION))
    assert said.policy == policy
    recorded = table.view().fold.record(time).plan
    assert recorded is not None
    assert recorded.policy == policy


@pytest.mark.req("B-02")
def test_without_a_policy_a_cancellable_plan_gets_a_day():
    table = scene(NINE)
    time = cancellable(table, compaction_request("f1"))
    said = from_extra_metadata(extra_of(table, time, Action.COMPACTION))
    assert said.policy == CancellationPolicy(hours=24.0)
    table.clock.advance(23 * HOUR_S)
    table.clean()
    assert state(table, time) is State.REQUESTED
    table.clock.advance(HOUR_S)
    table.clean()
    assert state(table, time) is State.ABORTED


@pytest.mark.parametrize("version", [SIX, NINE])
@pytest.mark.req("B-03")
def test_the_plan_holds_the_last_completed_instant_that_it_was_made_on(version):
    """Layout 2 says when that completed; layout 1 knows only its time."""
    table = scene(version)
    ingest(table.worker(), "f1")
    last = ingest(table.worker(), "f2")
    begin_ingestion(table.worker(), "f3")
    time = cancellable(table, request(Action.LOG_COMPACTION, "f1"))
    made_on = from_extra_metadata(extra_of(table, time, Action.LOG_COMPACTION)).made_on
    if version is NINE:
        assert made_on == last.completion_time
    else:
        assert made_on is not None
        assert made_on >= last.time
        plan = table.view().fold.record(time).plan
        assert plan is not None
        assert plan.pending is not None
        assert len(plan.pending) == 1


@pytest.mark.req("B-36")
@pytest.mark.parametrize("action", [Action.LOG_COMPACTION, Action.CLUSTERING])
def test_a_plan_cannot_be_both_cancellable_and_removable(action):
    table = scene(NINE)
    both = replace(request(action, "f1"), cancellable=True, removable=True)
    with pytest.raises(Invalid, match="either removable or cancellable"):
        planning.schedule(table.worker(), both)
    assert table.view().timeline.instants == ()


@pytest.mark.req("B-37")
def test_a_compaction_is_cancellable_from_table_version_8_on():
    for version in (EIGHT, NINE):
        table = scene(version)
        time = cancellable(table, compaction_request("f1"))
        assert state(table, time) is State.REQUESTED
    table = scene(SIX)
    with pytest.raises(Unsupported, match="cancellable compaction needs table version 8"):
        cancellable(table, compaction_request("f1"))
    assert table.view().timeline.instants == ()
    assert outcome(lambda: cancellable(table, request(Action.LOG_COMPACTION, "f1")))


@pytest.mark.req("B-02")
def test_flags_survive_the_way_into_a_file_and_back():
    for policy in (None, CancellationPolicy(hours=0.5), CancellationPolicy(None, 3)):
        given = planning.PlanFlags(cancellable=policy is not None, policy=policy, made_on="1")
        assert from_extra_metadata(to_extra_metadata(given)) == given
