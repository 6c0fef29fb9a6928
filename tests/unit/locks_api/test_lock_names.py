"""Names of locks that do not lie in their table."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehand.errors import Invalid
from lakehand.locks.kubernetes_objects import checked_name, checked_namespace
from lakehand.locks.lock_names import lock_name

uris = st.builds(
    "{}://{}".format,
    st.sampled_from(["s3", "file", "abfss", "gs", "hdfs"]),
    st.text(alphabet=st.characters(exclude_categories=["Cs"]), min_size=1, max_size=300),
)


@given(uris)
def test_every_table_has_a_name_that_kubernetes_takes(uri):
    name = lock_name(uri)
    assert re.fullmatch(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", name)
    assert checked_name(name) == name


@given(uris, uris)
def test_two_tables_have_two_names(one, other):
    assert (lock_name(one) == lock_name(other)) == (one == other)


def test_a_name_shows_the_tables_folder():
    assert lock_name("s3://lake/sales/Orders_2026").startswith("lakehand-orders-2026-")


@pytest.mark.parametrize(
    "name", ["", "-a", "a-", "A", "a_b", "a b", "a..b", ".a", "ä", "a" * 254, "a\n", "a/b", "../a"]
)
def test_names_that_kubernetes_refuses_are_refused_before_it_is_asked(name):
    with pytest.raises(Invalid, match="name of a Lease or ConfigMap"):
        checked_name(name)


@pytest.mark.parametrize("name", ["a.b", "", "a" * 64, "Kube"])
def test_a_namespace_is_one_label(name):
    with pytest.raises(Invalid, match="namespace"):
        checked_namespace(name)


@pytest.mark.parametrize("name", ["a", "0", "orders.sales", "a" * 63, f"{'a' * 63}.{'b' * 63}"])
def test_other_names_are_taken(name):
    assert checked_name(name) == name
