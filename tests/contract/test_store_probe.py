"""The probe passes every store that keeps the contract, and leaves nothing in it."""

from __future__ import annotations

import pytest

from lakehand.errors import Unsupported
from lakehand.ports import PromoteOutcome, PutOutcome
from lakehand.store.memory import MemoryStore
from lakehand.store.probe import probe


def test_a_good_store_passes_and_nothing_is_left(store):
    probe(store)
    probe(store)
    assert list(store.walk("")) == []
    assert store.list(".hoodie/.temp").folders == ()


class CarelessStore(MemoryStore):
    """Overwrites whatever is there."""

    def put_new(self, path, content):
        self.put(path, content)
        return PutOutcome.WRITTEN


class ForgetfulStore(MemoryStore):
    """Keeps what was promoted, so that it can be promoted again."""

    def promote(self, staged):
        kept = self._staged.get(staged.place)
        outcome = super().promote(staged)
        if outcome is PromoteOutcome.WRITTEN:
            self._staged[staged.place] = kept
        return outcome


class BlindStore(MemoryStore):
    """Replaces any version."""

    def put_if(self, path, content, version):
        self.put(path, content)
        return PutOutcome.WRITTEN


class LyingStore(MemoryStore):
    """Answers rightly, but writes all the same."""

    def put_new(self, path, content):
        outcome = super().put_new(path, content)
        self.put(path, content)
        return outcome


@pytest.mark.parametrize(
    ("kind", "problem"),
    [
        (CarelessStore, "If-None-Match"),
        (BlindStore, "If-Match"),
        (ForgetfulStore, "second time"),
        (LyingStore, "refused write changed the object"),
    ],
)
def test_a_bad_store_is_refused_by_what_it_did(kind, problem):
    store = kind()
    with pytest.raises(Unsupported, match=problem):
        probe(store)
    assert list(store.walk("")) == []
