"""Every schedule that was kept still tells the story that its file tells."""

from __future__ import annotations

from pathlib import Path

import pytest

import sim

STORIES = sorted((Path(__file__).parent / "stories").glob("*.txt"))


@pytest.mark.parametrize("file", STORIES, ids=lambda file: file.stem)
def test_the_story_is_still_true(file):
    """``LAKEHAND_REWRITE=1`` writes the files again: read the difference before you keep it."""
    sim.check(file)
