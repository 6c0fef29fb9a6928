"""The demo tells the truth: it notices wrong rows, and removes no folder but its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from lakehand.demo.__main__ import main
from lakehand.demo.orders import Change, Truth

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def truth() -> Truth:
    made = Truth()
    made.apply(Change("new", 0, 100, changed=1))
    return made


def rows(truth: Truth) -> pa.Table:
    found = [
        {"id": key, "city": city, "status": status, "amount": amount}
        for key, (city, status, amount) in truth.orders.items()
    ]
    return pa.Table.from_pylist(found)


def test_right_rows_are_right_in_any_order(truth: Truth) -> None:
    assert truth.wrong(rows(truth).sort_by([("id", "descending")])) == 0


def test_the_later_change_counts_whichever_came_first(truth: Truth) -> None:
    truth.apply(Change("shipped", 10, 30, changed=3))
    truth.apply(Change("paid", 0, 20, changed=2))
    assert truth.counts() == {"new": 70, "shipped": 20, "paid": 10}


def test_a_missing_row_a_row_too_many_and_a_stale_row_are_wrong(truth: Truth) -> None:
    right = rows(truth)
    assert truth.wrong(right.slice(1)) == 1
    assert truth.wrong(pa.concat_tables([right, right.slice(0, 1)])) == 1
    truth.apply(Change("paid", 0, 1, changed=2))
    assert truth.wrong(right) == 2


def test_a_folder_of_somebody_else_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "theirs").touch()
    monkeypatch.setattr("sys.argv", ["demo", "--folder", str(tmp_path)])
    with pytest.raises(SystemExit, match="2"):
        main()
    assert "choose another" in capsys.readouterr().err
    assert (tmp_path / "theirs").exists()
