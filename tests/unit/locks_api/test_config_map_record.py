"""The ConfigMap lock beside what else a ConfigMap may hold."""

from __future__ import annotations

import pytest

from api_server import NAMESPACE
from lakehand.errors import Invalid

pytestmark = pytest.mark.api

CONFIG_MAPS = f"/api/v1/namespaces/{NAMESPACE}/configmaps"


def create(place, **content):
    metadata = {"name": place.name, "labels": {"team": "lake"}}
    place.servers.api.call("POST", CONFIG_MAPS, {"metadata": metadata, **content})


def test_a_config_map_without_our_key_is_a_free_lock(configmap_place):
    create(configmap_place, data={"note": "made by a chart"})
    lock = configmap_place.open()
    assert lock.holder() is None
    held = lock.acquire("first", timeout_s=0)
    held.release()
    found = configmap_place.servers.api.call("GET", f"{CONFIG_MAPS}/{configmap_place.name}")
    assert found["data"]["note"] == "made by a chart"
    assert found["metadata"]["labels"] == {"team": "lake"}


def test_an_empty_config_map_is_a_free_lock(configmap_place):
    create(configmap_place)
    configmap_place.open().acquire("first", timeout_s=0).release()


def test_an_immutable_config_map_is_refused_with_the_servers_reason(configmap_place):
    create(configmap_place, data={"note": "for ever"}, immutable=True)
    with pytest.raises(Invalid, match="immutable"):
        configmap_place.open().acquire("first", timeout_s=0)


def test_a_deleted_config_map_is_lost(configmap_place):
    held = configmap_place.open().acquire("first", timeout_s=0)
    configmap_place.servers.api.call("DELETE", f"{CONFIG_MAPS}/{configmap_place.name}")
    assert not held._renew()
    assert held.left_s() == 0
    held.release()
