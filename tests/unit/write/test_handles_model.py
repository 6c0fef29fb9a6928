"""What write handles wrote is read back as a dictionary of rows says, by us and by hudi-rs."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hudi_rs
from handle_tables import SMALL, HandleTable, read_back, row
from lakehand.store.local import LocalStore
from lakehand.store.memory import MemoryStore
from lakehand.table import Table
from lakehand.write.shapes import FileSettings, LogFormat

ROOMY = FileSettings(base=SMALL)
CRAMPED = FileSettings(base=SMALL, memory_bytes=600, log_block_bytes=200, log_format=LogFormat.AVRO)
KINDS = [
    pytest.param({"version": v, "merge_on_read": mor, "event_time": event}, id=f"v{v}-{kind}-{by}")
    for v in (9, 8, 6)
    for mor, kind in ((False, "cow"), (True, "mor"))
    for event, by in ((True, "event"), (False, "commit"))
]
KEYS = st.sampled_from([f"k{number}" for number in range(8)])
ROWS = st.lists(st.tuples(KEYS, st.integers(0, 4), st.booleans()), min_size=1, max_size=12)
STEPS = st.lists(
    st.one_of(
        ROWS.map(lambda rows: ("upsert", rows)),
        st.lists(KEYS, min_size=1, max_size=4).map(lambda keys: ("delete", keys)),
    ),
    min_size=1,
    max_size=6,
)


def play(table, steps):
    for number, (what, told) in enumerate(steps):
        if what == "delete":
            table.delete(told)
            continue
        rows = [
            row(key, ts, f"{number}.{place}", deleted=deleted)
            for place, (key, ts, deleted) in enumerate(told)
        ]
        table.upsert(rows)


@pytest.mark.parametrize("kind", KINDS)
@given(steps=STEPS, cramped=st.booleans())
@settings(max_examples=12, deadline=None)
def test_any_sequence_of_writes_reads_as_the_model_says(kind, steps, cramped):
    store = MemoryStore()
    table = HandleTable(store, settings=CRAMPED if cramped else ROOMY, **kind)
    play(table, steps)
    assert read_back(Table.over(store).to_arrow()) == table.model


STORY = [
    ("upsert", [(f"k{number}", 1, False) for number in range(8)]),
    ("upsert", [("k0", 2, False), ("k1", 0, False), ("k2", 3, True), ("k9", 1, False)]),
    ("delete", ["k3", "k4"]),
    ("upsert", [("k3", 1, False), ("k5", 2, False), ("k5", 3, False)]),
]


@pytest.mark.parametrize("log_format", LogFormat)
@pytest.mark.parametrize("kind", KINDS)
def test_hudi_rs_reads_the_same_rows(kind, log_format, tmp_path):
    settings_ = FileSettings(base=SMALL, log_format=log_format)
    table = HandleTable(LocalStore(str(tmp_path)), settings=settings_, **kind)
    play(table, STORY)
    assert len(table.model) > 4
    assert read_back(Table.open(str(tmp_path)).to_arrow()) == table.model
    assert read_back(hudi_rs.read(tmp_path)) == table.model


def test_a_file_group_whose_last_row_was_deleted_keeps_an_empty_base_file(tmp_path):
    table = HandleTable(LocalStore(str(tmp_path)))
    table.upsert([row("a", 1, "x"), row("b", 1, "y")])
    (stat,) = table.delete(["a", "b"])
    assert (stat.num_writes, stat.num_deletes) == (0, 2)
    assert read_back(Table.open(str(tmp_path)).to_arrow()) == {}
    assert hudi_rs.read(tmp_path).num_rows == 0
