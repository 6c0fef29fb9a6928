"""Paths: what is inside the table, and what listings hide."""

from __future__ import annotations

import posixpath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehand.errors import Invalid
from lakehand.store import paths

PIECES = st.lists(st.sampled_from(["a", ".", "..", "", "/", "\0", ".crc", "ä", "..."]), max_size=6)


@given(PIECES.map("/".join) | st.text())
def test_whatever_is_accepted_lies_below_the_base(path):
    try:
        accepted = paths.checked(path)
    except Invalid:
        return
    assert accepted == path
    assert posixpath.normpath(posixpath.join("/base", path)) == f"/base/{path}"
    assert "\0" not in path
    path.encode()


@given(st.text() | PIECES.map("/".join))
def test_a_staged_place_is_always_a_staged_file(place):
    try:
        accepted = paths.checked_place(place)
    except Invalid:
        return
    assert accepted.startswith(".hoodie/.temp/")
    assert accepted.endswith(".staged")
    assert paths.is_hidden(accepted)


def test_a_staged_place_is_accepted_by_its_own_check():
    place = paths.staged_place(".hoodie/.temp/1/.staging/2", "0a" * 16)
    assert paths.checked_place(place) == place


@pytest.mark.parametrize("area", ["", "t", ".hoodie", ".hoodie/.temp/../x", "/x"])
def test_areas_elsewhere_are_refused(area):
    with pytest.raises(Invalid):
        paths.staged_place(area, "0a")


@pytest.mark.parametrize(
    ("path", "hidden"),
    [
        ("t/.x.crc", True),
        (".x.crc", True),
        ("t/x.crc", False),
        ("t/.crc", False),
        ("t/.x.crc/y", False),
        (".hoodie/.lakehand/.put/x.tmp", True),
        (".hoodie/.lakehand/.put", True),
        (".hoodie/.lakehand/.putty", False),
        (".hoodie/.temp/1/x.staged", True),
        ("t/x.staged", False),
        (".hoodie/timeline/x.staged", False),
    ],
)
def test_hidden_names(path, hidden):
    assert paths.is_hidden(path) is hidden


def test_the_side_file_lies_beside():
    assert paths.side_file("a/b/c") == "a/b/.c.crc"
    assert paths.side_file("c") == ".c.crc"
    assert paths.is_side_file(".c.crc")
