"""The etcd lock and what people, servers and passwords do to it."""

from __future__ import annotations

import json

import pytest

from api_server import free_port, running_etcd
from lakehand.errors import Invalid, LockTimeout, Unavailable
from lakehand.locks.etcd import etcd_lock
from lakehand.locks.etcd_gateway import EtcdGateway, EtcdOptions
from lock_kinds import BRISK
from lock_places_api import ONE_SECOND
from lock_worlds import RealWorld

pytestmark = pytest.mark.api

PASSWORD = "a-password-that-nobody-may-see"


def stuck():
    """A process whose renewals run only when a test says so."""
    return RealWorld(ONE_SECOND).worker(renews=False)


def test_a_key_that_somebody_deleted_is_lost_although_its_lease_lives(etcd_place):
    held = etcd_place.open(BRISK, stuck()).acquire("first", timeout_s=0)
    etcd_place.servers.etcd.delete(etcd_place.key)
    assert not held._renew()
    assert held.left_s() == 0
    etcd_place.open().acquire("second", timeout_s=0).release()


def test_a_revoked_lease_is_lost(etcd_place):
    held = etcd_place.open(BRISK, stuck()).acquire("first", timeout_s=0)
    servers = etcd_place.servers
    (lease,) = lease_ids(servers.etcd, etcd_place.key)
    servers.etcd.call("/v3/lease/revoke", {"ID": lease})
    assert not held._renew()
    assert held.left_s() == 0


def lease_ids(etcd, key: str) -> list[str]:
    """The ids of the leases that hold ``key``."""
    found = etcd.call("/v3/lease/leases", {}).get("leases", [])
    return [each["ID"] for each in found if key in keys_of(etcd, each["ID"])]


def keys_of(etcd, lease: str) -> list[str]:
    found = etcd.call("/v3/lease/timetolive", {"ID": lease, "keys": True})
    return [etcd.text(key) for key in found.get("keys", [])]


def test_a_release_leaves_neither_key_nor_lease(etcd_place):
    etcd = etcd_place.servers.etcd
    before = len(etcd.call("/v3/lease/leases", {}).get("leases", []))
    held = etcd_place.open().acquire("first", timeout_s=0)
    assert len(lease_ids(etcd, etcd_place.key)) == 1
    held.release()
    assert len(etcd.call("/v3/lease/leases", {}).get("leases", [])) == before
    assert etcd_place.open().holder() is None


def test_a_key_without_a_lease_is_held_until_a_person_breaks_it(etcd_place):
    record = {"owner": "a script", "renewedAt": 1}
    etcd_place.servers.etcd.put(etcd_place.key, json.dumps(record).encode())
    lock = etcd_place.open(ONE_SECOND)
    with pytest.raises(LockTimeout, match="a script"):
        lock.acquire("first", timeout_s=1.5)
    found = lock.holder()
    assert found.expires_in_s is None
    assert lock.break_lock(found)
    lock.acquire("first", timeout_s=0).release()


def test_users_with_passwords_reach_their_keys_and_no_others():
    with running_etcd() as etcd:
        etcd.demand_passwords("worker", PASSWORD, key_prefix="/locks/")
        options = EtcdOptions((etcd.endpoint,), user="worker", password=PASSWORD)
        lock = etcd_lock(options, key="/locks/orders", terms=BRISK)
        held = lock.acquire("first", timeout_s=0)
        assert held._renew()
        held.release()
        elsewhere = etcd_lock(options, key="/other/orders", terms=BRISK)
        assert_refused(elsewhere, "permission denied.*READWRITE")
        nobody = etcd_lock(EtcdOptions((etcd.endpoint,)), key="/locks/orders", terms=BRISK)
        assert_refused(nobody, "user name is empty")
        wrong = EtcdOptions((etcd.endpoint,), user="worker", password=f"not {PASSWORD}")
        assert_refused(etcd_lock(wrong, key="/locks/orders", terms=BRISK), "invalid user ID")


def assert_refused(lock, why: str) -> None:
    with pytest.raises(Invalid, match=why) as refused:
        lock.acquire("first", timeout_s=0)
    assert PASSWORD not in str(refused.value)


def test_a_password_where_none_is_asked_for_is_refused(servers):
    options = EtcdOptions((servers.etcd.endpoint,), user="worker", password=PASSWORD)
    assert_refused(etcd_lock(options, key="/locks/orders"), "authentication is not enabled")


def test_a_token_that_etcd_forgot_is_replaced():
    with running_etcd() as etcd:
        etcd.demand_passwords("worker", PASSWORD, key_prefix="/locks/")
        options = EtcdOptions((etcd.endpoint,), user="worker", password=PASSWORD)
        gateway = EtcdGateway(options, request_timeout_s=5)
        assert gateway.read("/locks/orders") is None
        gateway._token = f"{gateway._token}x"
        assert gateway.read("/locks/orders") is None
        etcd.server.kill()
        etcd.server.start()  # tokens lie in memory only
        assert gateway.read("/locks/orders") is None


def test_another_member_is_asked_when_one_is_down(etcd_place):
    endpoints = (f"http://127.0.0.1:{free_port()}", etcd_place.servers.etcd.endpoint)
    lock = etcd_lock(EtcdOptions(endpoints), key=etcd_place.key, terms=BRISK)
    held = lock.acquire("first", timeout_s=10)
    assert etcd_place.open().holder().owner == "first"
    held.release()


def test_a_server_that_is_no_etcd_is_refused(servers):
    lock = etcd_lock(
        EtcdOptions((servers.api.endpoint.replace("https", "http"),)), key="/locks/a", terms=BRISK
    )
    with pytest.raises(Unavailable):
        lock.acquire("first", timeout_s=0)
    untrusted = etcd_lock(EtcdOptions((servers.api.endpoint,)), key="/locks/a", terms=BRISK)
    with pytest.raises(Invalid, match="certificate is not trusted"):
        untrusted.acquire("first", timeout_s=0)
    ca_file = str(servers.api.certificate)
    trusted = EtcdOptions((servers.api.endpoint,), ca_file=ca_file)
    with pytest.raises(Invalid, match="/v3/kv/range"):
        etcd_lock(trusted, key="/locks/a", terms=BRISK).acquire("first", timeout_s=0)
