"""The Lease lock's fields, as client-go and kubectl understand them, and what breaks them."""

from __future__ import annotations

import json

import pytest

from api_server import NAMESPACE
from lakehand.errors import Corrupt, LockTimeout, Unsupported
from lakehand.locks.kubernetes_lease import ANNOTATION
from lakehand.locks.leases import LeaseTerms, Surroundings
from lock_kinds import BRISK
from lock_worlds import StuckBackground

pytestmark = pytest.mark.api

LEASES = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases"


def lease_of(place):
    return place.servers.api.call("GET", f"{LEASES}/{place.name}")


def change(place, spec, annotations=None):
    body = {"spec": spec, "metadata": {"annotations": annotations or {}}}
    place.servers.api.call("PATCH", f"{LEASES}/{place.name}", body)


def create(place, spec, **metadata):
    body = {"metadata": {"name": place.name, **metadata}, "spec": spec}
    place.servers.api.call("POST", LEASES, body)


def stuck(wall_ms: int = 1_795_000_000_000) -> Surroundings:
    return Surroundings(background=StuckBackground(), wall_ms=lambda: wall_ms)


def test_a_lease_says_to_others_what_it_always_says(lease_place):
    terms = LeaseTerms(lease_s=7.5, renew_every_s=1.0)
    held = lease_place.open(terms, stuck(1_795_000_000_123)).acquire("worker on n7", timeout_s=0)
    spec = lease_of(lease_place)["spec"]
    assert spec == {
        "holderIdentity": f"worker on n7_{held.token}",
        "leaseDurationSeconds": 8,
        "acquireTime": "2026-11-18T11:06:40.123001Z",
        "renewTime": "2026-11-18T11:06:40.123001Z",
        "leaseTransitions": 0,
    }
    held._surroundings = stuck(1_795_000_060_000)
    held._register._wall_ms = lambda: 1_795_000_060_000
    assert held._renew()
    renewed = lease_of(lease_place)["spec"]
    assert renewed == spec | {"renewTime": "2026-11-18T11:07:40.000001Z"}
    held.release()
    released = lease_of(lease_place)["spec"]
    assert released["leaseTransitions"] == 0
    assert released["leaseDurationSeconds"] == 1
    assert not released.get("holderIdentity")
    lease_place.open().acquire("next", timeout_s=0)
    assert lease_of(lease_place)["spec"]["leaseTransitions"] == 1


def test_transitions_begin_anew_after_the_last(lease_place):
    create(lease_place, {"leaseTransitions": 2**31 - 1})
    lease_place.open().acquire("first", timeout_s=0).release()
    assert lease_of(lease_place)["spec"]["leaseTransitions"] == 0


def test_what_others_wrote_on_a_lease_stays(lease_place):
    create(lease_place, {}, labels={"team": "lake"}, annotations={"note": "by hand"})
    held = lease_place.open().acquire("first", timeout_s=0)
    metadata = lease_of(lease_place)["metadata"]
    assert metadata["labels"] == {"team": "lake"}
    assert metadata["annotations"]["note"] == "by hand"
    assert {each["manager"] for each in metadata["managedFields"]} >= {"lakehand"}
    held.release()


def test_a_foreign_holder_is_named_and_waited_for_and_replaced(lease_place):
    create(lease_place, {"holderIdentity": "elector", "leaseDurationSeconds": 20})
    world = lease_place.world()
    lock = lease_place.open(world.terms, world.worker())
    with pytest.raises(LockTimeout, match="elector"):
        lock.acquire("first", timeout_s=19)
    began = world.clock.monotonic()
    lock.acquire("first", timeout_s=30)
    assert 19.9 < world.clock.monotonic() - began < 22
    assert lease_of(lease_place)["spec"]["leaseTransitions"] == 1


def test_a_foreign_holder_that_took_over_is_not_us_although_our_annotation_stays(lease_place):
    held = lease_place.open(BRISK, stuck()).acquire("first", timeout_s=0)
    change(lease_place, {"holderIdentity": "elector", "leaseDurationSeconds": 15})
    held._version = None  # as after a lost reply: it has to look
    assert not held._renew()
    assert held.left_s() == 0
    found = lease_place.open().holder()
    assert found.owner == "elector"
    held.release()
    assert lease_of(lease_place)["spec"]["holderIdentity"] == "elector"


def test_a_holder_of_our_name_is_still_another(lease_place):
    held = lease_place.open(BRISK, stuck()).acquire("first", timeout_s=0)
    change(lease_place, {"holderIdentity": "first"})
    held._version = None
    assert not held._renew()
    assert held.left_s() == 0


def test_a_lease_released_by_an_elector_is_free(lease_place):
    create(lease_place, {"holderIdentity": "", "leaseDurationSeconds": 1, "leaseTransitions": 4})
    lease_place.open().acquire("first", timeout_s=0).release()
    assert lease_of(lease_place)["spec"]["leaseTransitions"] == 5


def test_a_deleted_lease_is_lost_and_its_successor_is_another(lease_place):
    held = lease_place.open(BRISK, stuck()).acquire("first", timeout_s=0)
    lease_place.servers.api.call("DELETE", f"{LEASES}/{lease_place.name}")
    assert not held._renew()
    assert held.left_s() == 0
    second = lease_place.open().acquire("second", timeout_s=0)
    held.release()
    assert lease_place.open().holder().owner == "second"
    second.release()


OWN = '{"holder":"x","owner":"o","lakehand":'


@pytest.mark.parametrize(
    ("spec", "annotation", "kind"),
    [
        ({"holderIdentity": "x"}, None, Corrupt),
        ({"holderIdentity": "x", "leaseDurationSeconds": 9}, "{", Corrupt),
        ({"holderIdentity": "x", "leaseDurationSeconds": 9}, "[]", Corrupt),
        ({"holderIdentity": "x", "leaseDurationSeconds": 9}, OWN + "{}}", Corrupt),
        ({"holderIdentity": "x", "leaseDurationSeconds": 9}, OWN + '{"version":7}}', Unsupported),
    ],
)
def test_a_lease_that_is_not_understood_is_refused_and_a_person_can_free_it(
    lease_place, spec, annotation, kind
):
    annotations = {} if annotation is None else {ANNOTATION: annotation}
    create(lease_place, spec, annotations=annotations)
    lock = lease_place.open()
    with pytest.raises(kind, match="lakehand unlock"):
        lock.acquire("first", timeout_s=0)
    assert lease_of(lease_place)["spec"] == spec
    found = lock.holder()
    assert found.owner.startswith("unknown (")
    assert lock.break_lock(found)
    assert lock.holder() is None
    lock.acquire("first", timeout_s=0).release()


def test_owners_of_any_length_and_script_can_hold_it(lease_place):
    for owner in ("w" * 5000, "Bearbeiter auf Knoten ä/ö\n", "_", "\N{SNOWMAN}" * 300):
        held = lease_place.open().acquire(owner, timeout_s=0)
        assert lease_place.open().holder().owner == owner
        held.release()


def test_the_annotation_tells_our_writes_apart(lease_place):
    held = lease_place.open(BRISK, stuck()).acquire("first", timeout_s=0)
    numbers = []
    for _ in range(3):
        text = lease_of(lease_place)["metadata"]["annotations"][ANNOTATION]
        numbers.append(json.loads(text)["lakehand"]["number"])
        assert held._renew()
    assert numbers == sorted(set(numbers))
