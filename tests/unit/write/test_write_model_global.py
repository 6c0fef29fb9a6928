"""Random writes with a global index, by one writer or by three at once: rows move, none is lost."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from write_courses import SEQUENCES, all_at_once, one_after_the_other
from write_model import Step, steps
from write_model_global import GlobalModel
from write_rows import Kind

if TYPE_CHECKING:
    import random

KINDS = [
    Kind(version, table_type, event_time=event_time, hive=not event_time)
    for version in (9, 8, 6)
    for table_type in ("cow", "mor")
    for event_time in (True, False)
]


@pytest.mark.timeout(600 + SEQUENCES * 10)
@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_a_key_is_one_row_wherever_it_goes(kind):
    @settings(
        max_examples=SEQUENCES or 4,
        derandomize=not SEQUENCES,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(
        row_deletions=st.booleans(),
        moves=st.sampled_from([True, True, False]),
        script=st.lists(steps(), min_size=3, max_size=8),
    )
    def run(row_deletions: bool, moves: bool, script: list[Step]) -> None:
        one_after_the_other(GlobalModel(kind, row_deletions, moves=moves), script)

    run()


@pytest.mark.timeout(600 + SEQUENCES * 10)
@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_three_writers_move_rows_at_once_as_if_one_had_gone_after_the_other(kind, tmp_path):
    def model(rng: random.Random) -> GlobalModel:
        deletes = rng.random() < 0.5 and not kind.disputes_row_deletions
        return GlobalModel(kind, row_deletions=deletes)

    all_at_once(model, tmp_path, f"{kind} moving")
