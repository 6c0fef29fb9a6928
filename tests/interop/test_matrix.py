"""What our formats write is read right by Apache Hudi in Java: the generated matrix."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from java_interop import Answer, read_all
from judges import fault_of
from table_builder_rows import differences
from table_matrix import Cell, TableState, matrix
from table_scenarios import build

if TYPE_CHECKING:
    from table_builder import TableBuilder

pytestmark = [pytest.mark.java, pytest.mark.timeout(600)]

MATRIX = matrix()
OLD_JAVAS = [
    *[("1.0.2", cell) for cell in MATRIX if cell.shape.version == 8],
    *[("0.15.0", cell) for cell in MATRIX if cell.shape.version == 6],
]


@pytest.fixture(scope="module")
def tables(tmp_path_factory) -> dict[str, TableBuilder]:
    folder = tmp_path_factory.mktemp("matrix")
    return {cell.name: build(cell, folder / cell.name) for cell in MATRIX}


def _read_by(javas, bundle, tables, cells, scratch) -> dict[str, Answer]:
    folders = [tables[cell.name].folder for cell in cells]
    answers = read_all(javas[bundle], folders, scratch)
    return dict(zip((cell.name for cell in cells), answers, strict=True))


@pytest.fixture(scope="module")
def newest_java(javas, tables, tmp_path_factory) -> dict[str, Answer]:
    return _read_by(javas, "1.2.0", tables, MATRIX, tmp_path_factory.mktemp("newest"))


@pytest.fixture(scope="module")
def old_javas(javas, tables, tmp_path_factory) -> dict[str, dict[str, Answer]]:
    answers = {}
    for bundle in ("1.0.2", "0.15.0"):
        cells = [cell for its_bundle, cell in OLD_JAVAS if its_bundle == bundle]
        scratch = tmp_path_factory.mktemp("old")
        answers[bundle] = _read_by(javas, bundle, tables, cells, scratch)
    return answers


def _judge(judge: str, cell: Cell, table: TableBuilder, answer: Answer) -> None:
    fault = fault_of(judge, cell)
    problems = [answer] if isinstance(answer, str) else differences(cell.shape, table.model, answer)
    if fault is None:
        assert problems == []
    else:
        assert problems, f"{judge} is mended, drop the fault: {fault.reason}"


@pytest.mark.parametrize("cell", MATRIX, ids=[cell.name for cell in MATRIX])
def test_the_newest_java_reads_what_we_wrote(cell, tables, newest_java):
    _judge("1.2.0", cell, tables[cell.name], newest_java[cell.name])


@pytest.mark.parametrize(
    ("bundle", "cell"), OLD_JAVAS, ids=[f"{bundle}-{cell.name}" for bundle, cell in OLD_JAVAS]
)
def test_the_java_of_that_time_reads_what_we_wrote(bundle, cell, tables, old_javas):
    _judge(bundle, cell, tables[cell.name], old_javas[bundle][cell.name])


# Java refuses to look behind a clean, even at what a savepoint pins.
PAST = [cell for cell in MATRIX if cell.state is not TableState.CLEANED][::6]


@pytest.mark.parametrize("cell", PAST, ids=[cell.name for cell in PAST])
def test_java_reads_the_past_as_it_was(cell, javas, tables, tmp_path):
    table = tables[cell.name]
    for moment, model in (table.history[:-1] or table.history)[-3:]:
        (answer,) = read_all(javas["1.2.0"], [table.folder], tmp_path, as_of=moment)
        assert not isinstance(answer, str), answer
        assert differences(cell.shape, model, answer) == []
