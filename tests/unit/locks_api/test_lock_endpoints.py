"""What is said about the servers of locks is checked before they are asked; nobody listens here."""

from __future__ import annotations

import json

import pytest

from api_server import free_port
from lakehand.errors import Invalid, Unavailable
from lakehand.locks.config_map import config_map_lock
from lakehand.locks.etcd import etcd_lock
from lakehand.locks.etcd_gateway import EtcdOptions
from lakehand.locks.kubernetes_lease import kubernetes_lease_lock
from lakehand.locks.kubernetes_objects import open_api_client
from lakehand.locks.leases import LeaseTerms

TERMS = LeaseTerms(lease_s=1.0, renew_every_s=0.1, first_pause_s=0.01, longest_pause_s=0.05)
SECRET = "a-secret-that-nobody-may-see"


def kubeconfig_of(tmp_path, server: str) -> str:
    path = tmp_path / "kubeconfig"
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": server}}],
        "users": [{"name": "u", "user": {"token": SECRET}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    path.write_text(json.dumps(document))
    return str(path)


@pytest.mark.parametrize(
    "endpoint",
    [
        "localhost:2379",
        "ftp://localhost:2379",
        "http://",
        "http://[::1",
        "http://localhost:port",
        f"http://root:{SECRET}@localhost:2379",
        "http://localhost:2379/v3",
        "http://localhost:2379?a=b",
    ],
)
def test_an_etcd_endpoint_is_scheme_host_and_port(endpoint):
    with pytest.raises(Invalid, match="etcd endpoint") as refused:
        etcd_lock(EtcdOptions(endpoints=(endpoint,)), key="/locks/a")
    assert SECRET not in str(refused.value)


def test_an_etcd_lock_needs_an_endpoint_and_a_key():
    with pytest.raises(Invalid, match="endpoint"):
        etcd_lock(EtcdOptions(endpoints=()), key="/locks/a")
    for key in ("", "k" * 2000):
        with pytest.raises(Invalid, match="key of an etcd lock"):
            etcd_lock(EtcdOptions(endpoints=("http://localhost:2379",)), key=key)


def test_an_etcd_that_does_not_answer_is_unavailable():
    endpoint = f"http://127.0.0.1:{free_port()}"
    options = EtcdOptions(endpoints=(endpoint,), user="u", password=SECRET)
    assert SECRET not in repr(options)
    lock = etcd_lock(options, key="/locks/a", terms=TERMS)
    for call in (lambda: lock.acquire("first", timeout_s=0.1), lock.holder):
        with pytest.raises(Unavailable, match="no connection") as refused:
            call()
        assert SECRET not in str(refused.value)


@pytest.mark.parametrize("make", [kubernetes_lease_lock, config_map_lock])
def test_an_api_server_that_does_not_answer_is_unavailable(make, tmp_path):
    kubeconfig = kubeconfig_of(tmp_path, f"http://127.0.0.1:{free_port()}")
    client = open_api_client(kubeconfig=kubeconfig)
    lock = make(client, namespace="a", name="b", terms=TERMS)
    for call in (lambda: lock.acquire("first", timeout_s=0.1), lock.holder):
        with pytest.raises(Unavailable, match="no connection") as refused:
            call()
        assert SECRET not in str(refused.value)


@pytest.mark.parametrize("make", [kubernetes_lease_lock, config_map_lock])
def test_a_client_that_repeats_requests_is_refused(make, tmp_path):
    client = open_api_client(kubeconfig=kubeconfig_of(tmp_path, "http://127.0.0.1:1"))
    client.configuration.retries = None
    with pytest.raises(Invalid, match="open_api_client"):
        make(client, namespace="a", name="b")


def test_without_a_way_to_a_cluster_the_user_is_told(tmp_path, monkeypatch):
    with pytest.raises(Invalid, match="no way to the Kubernetes API"):
        open_api_client(kubeconfig=str(tmp_path / "missing"))
    kubeconfig = kubeconfig_of(tmp_path, "http://127.0.0.1:1")
    with pytest.raises(Invalid, match="no way to the Kubernetes API"):
        open_api_client(kubeconfig=kubeconfig, context="another")
    broken = tmp_path / "broken"
    broken.write_text("{")
    with pytest.raises(Invalid, match="no way to the Kubernetes API"):
        open_api_client(kubeconfig=str(broken))
