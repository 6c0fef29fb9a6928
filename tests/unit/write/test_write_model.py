"""Random writes, by one writer and by three at once: readers return what a dictionary says.

Sequences are few by default; ``WRITE_MODEL_SEQUENCES=500`` makes it so many for each kind of
table, drawn anew each time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from write_courses import SEQUENCES, all_at_once, one_after_the_other
from write_model import Model, Step, steps
from write_rows import Kind

if TYPE_CHECKING:
    import random

KINDS = [
    Kind(version, table_type, event_time=event_time, partitioned=partitioned, hive=hive)
    for version in (9, 8, 6)
    for table_type in ("cow", "mor")
    for event_time, partitioned, hive in ((True, True, False), (False, True, True))
] + [Kind(9, "mor", partitioned=False), Kind(9, "cow", partitioned=False)]


CONTESTED = [one for one in KINDS if one.partitioned and one.event_time]


@pytest.mark.timeout(600 + SEQUENCES * 10)
@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_what_one_writer_wrote_is_what_every_query_returns(kind):
    @settings(
        max_examples=SEQUENCES or 3,
        derandomize=not SEQUENCES,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(row_deletions=st.booleans(), script=st.lists(steps(), min_size=2, max_size=7))
    def run(row_deletions: bool, script: list[Step]) -> None:
        one_after_the_other(Model(kind, row_deletions), script)

    run()


@pytest.mark.timeout(600 + SEQUENCES * 10)
@pytest.mark.parametrize("kind", KINDS if SEQUENCES else CONTESTED, ids=str)
def test_what_three_writers_wrote_at_once_is_as_if_one_had_gone_after_the_other(kind, tmp_path):
    def model(rng: random.Random) -> Model:
        return Model(kind, row_deletions=rng.random() < 0.5 and not kind.disputes_row_deletions)

    all_at_once(model, tmp_path, str(kind))
