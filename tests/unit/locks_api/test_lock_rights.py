"""Missing rights are named, with what to grant; tokens are not.

That the rights of docs/locks-kubernetes.md are enough is proved by the contract: its providers
have a service account with just these.
"""

from __future__ import annotations

import uuid

import pytest

from api_fixtures import CONFIG_MAP_RULES, LEASE_RULES
from api_server import NAMESPACE
from lakehand.errors import Invalid
from lakehand.locks.config_map import config_map_lock
from lakehand.locks.kubernetes_lease import kubernetes_lease_lock
from lakehand.locks.kubernetes_objects import open_api_client

pytestmark = pytest.mark.api

KINDS = [
    pytest.param(kubernetes_lease_lock, LEASE_RULES, id="lease"),
    pytest.param(config_map_lock, CONFIG_MAP_RULES, id="configmap"),
]


def rules_without(rules, verb):
    return [rule | {"verbs": [each for each in rule["verbs"] if each != verb]} for rule in rules]


@pytest.mark.parametrize(("make", "rules"), KINDS)
@pytest.mark.parametrize("verb", ["get", "create", "patch"])
def test_a_missing_right_is_named(servers, make, rules, verb):
    user = f"poor-{uuid.uuid4().hex}"
    if verb == "patch":  # which is for an object that is there
        admin = open_api_client(kubeconfig=str(servers.api.admin_kubeconfig))
        make(admin, namespace=NAMESPACE, name=user).acquire("before", timeout_s=0).release()
    token = servers.api.service_account_token(user, rules_without(rules, verb))
    client = open_api_client(kubeconfig=str(servers.kubeconfig(user, token)))
    lock = make(client, namespace=NAMESPACE, name=user)
    resource = rules[0]["resources"][0]
    with pytest.raises(Invalid) as refused:
        lock.acquire("first", timeout_s=0)
    text = str(refused.value)
    for word in (verb, resource, NAMESPACE, user, "docs/locks-kubernetes.md"):
        assert word in text
    assert token not in text
    assert token not in repr(refused.value.__cause__)


@pytest.mark.parametrize(("make", "rules"), KINDS)
def test_the_rights_end_at_the_namespace(servers, make, rules):
    user = f"local-{uuid.uuid4().hex}"
    token = servers.api.service_account_token(user, rules)
    client = open_api_client(kubeconfig=str(servers.kubeconfig(user, token)))
    with pytest.raises(Invalid, match="default"):
        make(client, namespace="default", name=user).acquire("first", timeout_s=0)


@pytest.mark.parametrize(("make", "rules"), KINDS)
def test_a_token_that_is_not_accepted_is_not_shown(servers, make, rules):
    token = f"secret-{uuid.uuid4().hex}"
    client = open_api_client(kubeconfig=str(servers.kubeconfig("stranger", token)))
    with pytest.raises(Invalid, match=f"401.*{rules[0]['resources'][0]}|get.*401") as refused:
        make(client, namespace=NAMESPACE, name="a").acquire("first", timeout_s=0)
    assert token not in str(refused.value)


@pytest.mark.parametrize(("make", "rules"), KINDS)
def test_a_namespace_that_is_not_there_is_named(servers, make, rules):
    client = open_api_client(kubeconfig=str(servers.api.admin_kubeconfig))
    with pytest.raises(Invalid, match='namespaces "nowhere" not found'):
        make(client, namespace="nowhere", name="a").acquire("first", timeout_s=0)


@pytest.mark.parametrize(("make", "rules"), KINDS)
def test_a_server_that_is_not_trusted_is_refused(servers, make, rules, tmp_path):
    kubeconfig = servers.api.admin_kubeconfig.read_text()
    start = kubeconfig.index('"certificate-authority-data"')
    end = kubeconfig.index("\n", start)
    untrusting = tmp_path / "kubeconfig"
    untrusting.write_text(
        kubeconfig[:start] + '"insecure-skip-tls-verify": false' + kubeconfig[end:]
    )
    client = open_api_client(kubeconfig=str(untrusting))
    with pytest.raises(Invalid, match="certificate of the Kubernetes API is not trusted"):
        make(client, namespace=NAMESPACE, name="a").acquire("first", timeout_s=0)
