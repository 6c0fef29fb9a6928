"""What is for speed can be taken out and nothing is lost; what is for safety cannot.

The heartbeat and the lock spare work. Without them the journal alone keeps our workers apart: they
are fenced and told to decide again, and the table stays right. Without a guard the audit is red:
two guards are tried in every run, the others when ``CONTENTION_SECONDS`` allows for it.
"""

from __future__ import annotations

import os
from typing import Any

import pytest

from contention_crowd import Cruelty, Nursery

KEPT = {"action": "compaction", "groups": ["one", "two"]}
CANCELLABLE = {**KEPT, "cancellable": True}
ONLY_AT_LENGTH = pytest.mark.skipif(
    "CONTENTION_SECONDS" not in os.environ, reason="a longer run: set CONTENTION_SECONDS"
)


def fate(kind: str, after: str, call: str, at: int) -> dict[str, Any]:
    return {"kind": kind, "after": after, "call": call, "at": at}


PEACE = Cruelty(struck=0.0, by_parent=0.0)
ASLEEP_BEFORE_PROMOTING = Cruelty(
    struck=0.9,
    by_parent=0.0,
    fates=(fate("stop", "prepared", "promote", 1), fate("stop", "prepared", "promote", 2)),
)
ASLEEP_BEFORE_COMMITTING = Cruelty(
    struck=0.9,
    by_parent=0.0,
    fates=(fate("stop", "prepared", "promote", 1), fate("stop", "promoted", "", 1)),
)
ASLEEP_BEFORE_APPENDING = Cruelty(
    struck=0.7,
    by_parent=0.0,
    until_end=1.0,
    most_until_end=8,
    fates=(
        fate("stop", "claimed", "put_new", 1),
        fate("stop", "began", "put_new", 1),
        fate("stop", "began", "put_new", 2),
    ),
)
DEAD_BEFORE_PUBLISHING = Cruelty(
    struck=0.6, by_parent=0.0, fates=(fate("kill", "promoted", "promote", 1),)
)

PLANS: dict[str, Any] = {"jobs": {"execute": 20, "clean": 1}, "plan": KEPT}
ONE_GROUP: dict[str, Any] = {"jobs": {"ingest": 1}, "groups": ("a",)}
ALL: dict[str, Any] = {
    "jobs": {"ingest": 10, "execute": 10, "cancel": 1, "abort": 1, "clean": 1},
    "plan": CANCELLABLE,
    "checkpoint_every": 4,
}

WRITES = {"committed": 30}
PLANS_DONE = {"committed": 3}
ZOMBIES = {"woken after a successor ended its instant": 3}
LAGGARDS = {"committed": 9, "stopping": 3}


@pytest.fixture
def without():
    """Nurseries whose workers lack a guard."""
    nurseries = []

    def make(guard: str) -> Nursery:
        nurseries.append(Nursery(guard))
        return nurseries[-1]

    yield make
    for nursery in nurseries:
        nursery.end()


@pytest.mark.parametrize("guard", ["lock", pytest.param("heartbeats", marks=ONLY_AT_LENGTH)])
def test_nothing_is_lost_without(guard, local_arena, without):
    nursery = without(guard)
    assert local_arena.contend(**PLANS, at_least={"claimed": 6}, nursery=nursery) == []


@pytest.mark.parametrize(
    ("guard", "work", "cruelty", "at_least", "symptom"),
    [
        ("conflicts", ONE_GROUP, PEACE, WRITES, "an acknowledged write was lost"),
        ("staging discarded", PLANS, ASLEEP_BEFORE_PROMOTING, ZOMBIES, "named by nobody"),
        pytest.param(
            *("exclusive append", ONE_GROUP, PEACE, WRITES, "does not follow entry"),
            marks=ONLY_AT_LENGTH,
        ),
        pytest.param(
            *("legal moves", PLANS, ASLEEP_BEFORE_COMMITTING, PLANS_DONE, "InvariantBroken"),
            marks=ONLY_AT_LENGTH,
        ),
        pytest.param(
            *("roll forward", PLANS, DEAD_BEFORE_PUBLISHING, PLANS_DONE, "did not get to"),
            marks=ONLY_AT_LENGTH,
        ),
        pytest.param(
            *("still there", ALL, ASLEEP_BEFORE_APPENDING, LAGGARDS, "not in the journal"),
            marks=ONLY_AT_LENGTH,
        ),
    ],
)
def test_the_audit_notices_the_lack_of(
    guard, work, cruelty, at_least, symptom, local_arena, without
):
    problems = local_arena.contend(
        **work, at_least=at_least, cruelty=cruelty, nursery=without(guard)
    )
    assert any(symptom in problem for problem in problems), problems


@pytest.mark.parametrize(
    ("work", "cruelty"),
    [
        pytest.param(PLANS, ASLEEP_BEFORE_PROMOTING, id="asleep before promoting"),
        pytest.param(ALL, ASLEEP_BEFORE_APPENDING, id="asleep before appending"),
    ],
)
def test_the_same_cruelty_does_no_harm_to_the_whole_protocol(work, cruelty, local_arena):
    assert (
        local_arena.contend(**work, at_least={"committed": 1, "stopping": 3}, cruelty=cruelty) == []
    )
