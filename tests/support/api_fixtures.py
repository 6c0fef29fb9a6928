"""etcd and kube-apiserver for a whole test session: started when first asked for, ended with it."""

from __future__ import annotations

import functools
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

import api_server
from s3_server import NoGo

if TYPE_CHECKING:
    from pathlib import Path

LEASE_RULES = [
    {
        "apiGroups": ["coordination.k8s.io"],
        "resources": ["leases"],
        "verbs": ["get", "create", "patch"],
    }
]
CONFIG_MAP_RULES = [
    {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "create", "patch"]}
]
"""What docs/locks-kubernetes.md tells people to grant, and no more."""


class ApiServers:
    """The session's servers. The tests' locks run with the rights that the docs ask for."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack

    @functools.cached_property
    def api(self) -> api_server.ApiServer:
        """A kube-apiserver with the namespace ``api_server.NAMESPACE``."""
        return self._stack.enter_context(api_server.running())

    @functools.cached_property
    def etcd(self) -> api_server.EtcdServer:
        """An etcd of its own, without a Kubernetes beside it."""
        return self._stack.enter_context(api_server.running_etcd())

    @functools.cached_property
    def lease_user(self) -> str:
        """The token of a service account that may use Leases in one namespace."""
        return self.api.service_account_token("lease-user", LEASE_RULES)

    @functools.cached_property
    def config_map_user(self) -> str:
        """The token of a service account that may use ConfigMaps in one namespace."""
        return self.api.service_account_token("config-map-user", CONFIG_MAP_RULES)

    def kubeconfig(self, name: str, token: str, *, endpoint: str | None = None) -> Path:
        """Write a kubeconfig, perhaps for a proxy before the server."""
        return self.api.kubeconfig(name, token, endpoint=endpoint)


_SERVERS = pytest.StashKey[ApiServers]()


def api_servers(config: pytest.Config) -> ApiServers:
    """Return the session's servers. Without Go the calling test is skipped, loudly."""
    if _SERVERS not in config.stash:
        try:
            for program in api_server.PROGRAMS:
                api_server.binary(program)
        except NoGo as no_go:
            pytest.skip(str(no_go))
        stack = ExitStack()
        config.add_cleanup(stack.close)
        config.stash[_SERVERS] = ApiServers(stack)
    return config.stash[_SERVERS]
