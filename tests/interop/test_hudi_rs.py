"""What our formats write is read right by hudi-rs and by ourselves: no JVM needed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from hudi_rs import HudiRsFailed
from hudi_rs import read as hudi_rs_read
from judges import fault_of
from lakehand.table import Table
from table_builder import TableBuilder
from table_builder_rows import differences
from table_matrix import DIMENSIONS, Cell, all_pairs, choices, matrix
from table_scenarios import build

if TYPE_CHECKING:
    from pathlib import Path

MATRIX = matrix()
BY_NAME = [cell.name for cell in MATRIX]


class Tables(dict[str, TableBuilder]):
    """Each table is built when it is first asked for, once."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._folder = folder

    def __missing__(self, name: str) -> TableBuilder:
        cell = MATRIX[BY_NAME.index(name)]
        self[name] = build(cell, self._folder / name)
        return self[name]


@pytest.fixture(scope="module")
def tables(tmp_path_factory) -> Tables:
    return Tables(tmp_path_factory.mktemp("matrix"))


def test_every_pair_of_values_occurs_in_the_matrix():
    drawn = choices()
    missing = [
        pair for pair in all_pairs() if not any(set(pair) <= set(one.items()) for one in drawn)
    ]
    assert missing == []
    assert len(MATRIX) <= 75
    assert all(len(values) > 1 for values in DIMENSIONS.values())


@pytest.mark.parametrize("cell", MATRIX, ids=BY_NAME)
def test_hudi_rs_reads_what_we_wrote(cell: Cell, tables: Tables):
    table = tables[cell.name]
    fault = fault_of("hudi-rs", cell)
    try:
        problems = differences(cell.shape, table.model, hudi_rs_read(table.folder))
    except HudiRsFailed as failed:
        problems = [str(failed)]
    if fault is None:
        assert problems == []
    else:
        assert problems, f"hudi-rs is mended, drop the fault: {fault.reason}"


@pytest.mark.parametrize("cell", MATRIX, ids=BY_NAME)
def test_we_read_what_we_wrote(cell: Cell, tables: Tables):
    table = tables[cell.name]
    opened = Table.open(str(table.folder))
    assert differences(cell.shape, table.model, opened.to_arrow()) == []


@pytest.mark.parametrize("cell", MATRIX[::3], ids=BY_NAME[::3])
def test_the_past_is_read_as_it_was(cell: Cell, tables: Tables):
    """At three earlier moments, by both readers."""
    table = tables[cell.name]
    for moment, model in (table.history[:-1] or table.history)[-3:]:
        ours = Table.open(str(table.folder)).to_arrow(as_of=moment)
        assert differences(cell.shape, model, ours) == []
        if fault_of("hudi-rs", cell) is None:
            assert differences(cell.shape, model, hudi_rs_read(table.folder, as_of=moment)) == []
