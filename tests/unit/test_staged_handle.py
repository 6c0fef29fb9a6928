"""The handle of a staged file travels through markers and manifests as text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehand.errors import Corrupt
from lakehand.ports import Staged

TEXTS = st.text(max_size=40)


@given(st.builds(Staged, TEXTS, TEXTS, st.lists(TEXTS, max_size=4).map(tuple)))
def test_a_handle_survives_being_written_and_read(staged):
    assert Staged.from_json(staged.to_json(), where="marker") == staged


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"final": "a"}', '{"final":1,"place":2,"parts":3}']
)
def test_a_torn_handle_names_the_document_that_holds_it(text):
    with pytest.raises(Corrupt, match=r"\.hoodie/\.temp/marker: not the handle"):
        Staged.from_json(text, where=".hoodie/.temp/marker")
