"""The lock kinds that need a real kube-apiserver or a real etcd, for the registry."""

from __future__ import annotations

import base64
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from api_fixtures import ApiServers, api_servers
from api_proxy import ApiProxy, Call, proxy_before
from api_server import NAMESPACE
from lakehand.locks.config_map import DATA_KEY, config_map_lock
from lakehand.locks.etcd import etcd_lock
from lakehand.locks.etcd_gateway import EtcdOptions
from lakehand.locks.kubernetes_lease import kubernetes_lease_lock
from lakehand.locks.kubernetes_objects import open_api_client
from lakehand.locks.leases import LeaseTerms, Surroundings
from lock_kinds import BRISK, Doubt, Fate, LockKind, LockPlace
from lock_worlds import FakeWorld, RealWorld, World

if TYPE_CHECKING:
    from collections.abc import Callable

    from api_server import ServerProcess
    from lakehand.ports import LockProvider

ONE_SECOND = LeaseTerms(lease_s=1.0, renew_every_s=0.2, first_pause_s=0.01, longest_pause_s=0.1)
"""The shortest lease of an etcd whose elections take 200 ms."""

WRITES = ("POST", "PATCH")


@dataclass(frozen=True)
class KubernetesPlace:
    """A name that no object has yet. Every provider has a client of its own."""

    servers: ApiServers
    token: str
    make: Callable[..., LockProvider]
    proxies: Callable[[Callable[[Call], Fate | None]], ApiProxy]
    name: str

    @property
    def server(self) -> ServerProcess:
        """The process that answers."""
        return self.servers.api.server

    def open(self, terms: LeaseTerms = BRISK, worker: Surroundings | None = None) -> LockProvider:
        return self._open(None, terms, worker)

    def open_doubtful(
        self, doubt: Doubt, terms: LeaseTerms, worker: Surroundings, *, fails: bool = False
    ) -> LockProvider:
        proxy = self.proxies(lambda call: doubt.draw() if call.method in WRITES else None)
        proxy.fails = fails
        return self._open(proxy.endpoint, terms, worker)

    def _open(
        self, endpoint: str | None, terms: LeaseTerms, worker: Surroundings | None
    ) -> LockProvider:
        user = f"user-{uuid.uuid4().hex}"
        kubeconfig = self.servers.kubeconfig(user, self.token, endpoint=endpoint)
        client = open_api_client(kubeconfig=str(kubeconfig))
        return self.make(
            client, namespace=NAMESPACE, name=self.name, terms=terms, surroundings=worker
        )

    def world(self) -> World:
        return FakeWorld()

    def scribble(self, content: bytes) -> None:
        """Only a ConfigMap holds bytes; a Lease's fields are the server's own to check."""
        path = f"/api/v1/namespaces/{NAMESPACE}/configmaps"
        try:
            data = {"data": {DATA_KEY: content.decode()}}
        except UnicodeDecodeError:
            data = {"binaryData": {DATA_KEY: base64.b64encode(content).decode()}}
        self.servers.api.call("DELETE", f"{path}?fieldSelector=metadata.name={self.name}")
        self.servers.api.call("POST", path, data | {"metadata": {"name": self.name}})

    def record(self) -> bytes:
        path = f"/api/v1/namespaces/{NAMESPACE}/configmaps/{self.name}"
        found = self.servers.api.call("GET", path)
        if "binaryData" in found:
            return base64.b64decode(found["binaryData"][DATA_KEY])
        return found["data"][DATA_KEY].encode()


@dataclass(frozen=True)
class EtcdPlace:
    """A key that is not there yet."""

    servers: ApiServers
    proxies: Callable[[Callable[[Call], Fate | None]], ApiProxy]
    key: str

    @property
    def server(self) -> ServerProcess:
        """The process that answers."""
        return self.servers.etcd.server

    def open(self, terms: LeaseTerms = BRISK, worker: Surroundings | None = None) -> LockProvider:
        return self._open(self.servers.etcd.endpoint, terms, worker)

    def open_doubtful(
        self, doubt: Doubt, terms: LeaseTerms, worker: Surroundings, *, fails: bool = False
    ) -> LockProvider:
        proxy = self.proxies(lambda call: doubt.draw() if call.path == "/v3/kv/txn" else None)
        proxy.fails = fails
        return self._open(proxy.endpoint, terms, worker)

    def _open(self, endpoint: str, terms: LeaseTerms, worker: Surroundings | None) -> LockProvider:
        options = EtcdOptions(endpoints=(endpoint,))
        return etcd_lock(options, key=self.key, terms=terms, surroundings=worker)

    def world(self) -> World:
        return RealWorld(ONE_SECOND)

    def scribble(self, content: bytes) -> None:
        self.servers.etcd.put(self.key, content)

    def record(self) -> bytes:
        return self.servers.etcd.get(self.key)


def proxies_before(
    request: pytest.FixtureRequest, upstream: Callable[[], dict[str, object]]
) -> Callable[[Callable[[Call], Fate | None]], ApiProxy]:
    """Return what starts proxies that end with the test."""

    def start(fate_of: Callable[[Call], Fate | None]) -> ApiProxy:
        context = proxy_before(**upstream())
        proxy = context.__enter__()
        request.addfinalizer(lambda: context.__exit__(None, None, None))
        proxy.fate_of = fate_of
        return proxy

    return start


def _fresh_name() -> str:
    return f"table-{uuid.uuid4().hex}"


def lease(servers: ApiServers, request: pytest.FixtureRequest) -> KubernetesPlace:
    """A Lease that is not there yet."""
    proxies = proxies_before(request, lambda: servers.api.upstream)
    return KubernetesPlace(
        servers, servers.lease_user, kubernetes_lease_lock, proxies, _fresh_name()
    )


def configmap(servers: ApiServers, request: pytest.FixtureRequest) -> KubernetesPlace:
    """A ConfigMap that is not there yet."""
    proxies = proxies_before(request, lambda: servers.api.upstream)
    return KubernetesPlace(
        servers, servers.config_map_user, config_map_lock, proxies, _fresh_name()
    )


def etcd(servers: ApiServers, request: pytest.FixtureRequest) -> EtcdPlace:
    """A key that is not there yet."""
    proxies = proxies_before(request, lambda: servers.etcd.upstream)
    return EtcdPlace(servers, proxies, f"/lakehand/locks/{_fresh_name()}")


ApiPlace = KubernetesPlace | EtcdPlace
MAKERS = (lease, configmap, etcd)


def _on_session_servers(
    make: Callable[[ApiServers, pytest.FixtureRequest], ApiPlace],
) -> Callable[[pytest.FixtureRequest], LockPlace]:
    return lambda request: make(api_servers(request.config), request)


KINDS = [
    LockKind(
        make.__name__,
        _on_session_servers(make),
        marks=(pytest.mark.api,),
        has_bytes=make is not lease,
    )
    for make in MAKERS
]
