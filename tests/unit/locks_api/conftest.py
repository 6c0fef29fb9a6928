"""The session's etcd and kube-apiserver, and the kinds of locks on them."""

from __future__ import annotations

import pytest

import lock_places_api
from api_fixtures import ApiServers, api_servers


@pytest.fixture
def servers(request) -> ApiServers:
    return api_servers(request.config)


@pytest.fixture(params=[pytest.param(kind, id=kind.name) for kind in lock_places_api.KINDS])
def place(request) -> lock_places_api.ApiPlace:
    """An unused lock of each kind."""
    return request.param.make(request)


def _place_of(name: str):
    (kind,) = [kind for kind in lock_places_api.KINDS if kind.name == name]

    @pytest.fixture(name=f"{name}_place")
    def fixture(request):
        return kind.make(request)

    return fixture


lease_place, configmap_place, etcd_place = (_place_of(n) for n in ("lease", "configmap", "etcd"))
