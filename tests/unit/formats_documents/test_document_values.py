from __future__ import annotations

from collections.abc import Mapping  # noqa: TC003 - read at run time by RecordMapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from lakehand.errors import Corrupt, InvariantBroken
from lakehand.formats.document_values import RecordMapping, named


@dataclass(frozen=True, slots=True, kw_only=True)
class Inner:
    file_id: str
    size_in_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Outer:
    name: str
    ratio: float | None = None
    is_done: bool = False
    inner: Inner | None = None
    inners: tuple[Inner, ...] = ()
    by_path: Mapping[str, tuple[Inner, ...]] = field(default_factory=dict)
    odd: tuple[str | None, ...] | None = named("OddOne", default=None)


MAPPING = RecordMapping(Outer)
RECORD: dict[str, Any] = {
    "name": "n",
    "ratio": 0.5,
    "isDone": True,
    "inner": {"fileId": "f", "sizeInBytes": 1},
    "inners": [{"fileId": "g", "sizeInBytes": 2}],
    "byPath": {"p": [{"fileId": "h", "sizeInBytes": 3}]},
    "OddOne": ["a", None],
}
VALUE = Outer(
    name="n",
    ratio=0.5,
    is_done=True,
    inner=Inner(file_id="f", size_in_bytes=1),
    inners=(Inner(file_id="g", size_in_bytes=2),),
    by_path={"p": (Inner(file_id="h", size_in_bytes=3),)},
    odd=("a", None),
)


def test_records_and_values_turn_into_each_other():
    assert MAPPING.read(RECORD, where="f") == VALUE
    assert MAPPING.write(VALUE) == RECORD


def test_unknown_fields_are_left_out_and_missing_ones_take_the_default():
    assert MAPPING.read({"name": "n", "later": 1}, where="f") == Outer(name="n")


def test_null_is_kept_where_the_class_allows_it_and_else_is_the_default():
    record = {"name": "n", "ratio": None, "isDone": None, "inners": None, "byPath": None}
    assert MAPPING.read(record, where="f") == Outer(name="n")


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"name": None}, "Outer has no name"),
        ({"name": 1}, "name: '1' is not a str"),
        ({"isDone": 1}, "isDone: '1' is not a bool"),
        ({"ratio": True}, "ratio: 'True' is not a number"),
        ({"inner": {}}, "inner: Inner has no fileId"),
        ({"inner": []}, "is not a Inner"),
        ({"inner": {"fileId": "f", "sizeInBytes": True}}, "not an integer"),
        ({"inner": {"fileId": "f", "sizeInBytes": 1 << 63}}, "not an integer"),
        ({"inner": {"fileId": "f", "sizeInBytes": 1.0}}, "not an integer"),
        ({"inners": {"fileId": "f"}}, "not a list"),
        ({"inners": [None]}, "not a Inner"),
        ({"byPath": []}, "not a map"),
        ({"byPath": {"p": [{"fileId": 1}]}}, "byPath: 'p': fileId"),
        ({"OddOne": [1]}, "OddOne"),
    ],
)
def test_a_value_of_another_type_is_corrupt_with_the_way_to_it(change, problem):
    with pytest.raises(Corrupt, match=problem) as caught:
        MAPPING.read(RECORD | change, where="f")
    assert caught.value.where == "f"


@pytest.mark.parametrize("record", [None, [], "x", 1])
def test_what_is_no_record_is_corrupt(record):
    with pytest.raises(Corrupt):
        MAPPING.read(record, where="f")


def test_a_class_that_no_document_can_hold_is_our_own_mistake():
    @dataclass(frozen=True)
    class Odd:
        value: set[str]

    with pytest.raises(InvariantBroken):
        RecordMapping(Odd)
    with pytest.raises(InvariantBroken):
        RecordMapping(int)
