"""S3 behind a bad network: a lost reply is never taken for a failure, nor for a success."""

from __future__ import annotations

import pytest

from lakehand.errors import Fenced, Invalid, Unavailable, Unsupported
from lakehand.ports import PromoteOutcome, PutOutcome
from lakehand.store.probe import probe
from store_places import AREA, Place, stage
from store_proxy import Fault, proxy_before, times

LOST_REPLIES = [Fault.LOSE_REPLY, Fault.FAIL_AFTER]


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch):
    monkeypatch.setattr("lakehand.store.s3_requests._PAUSES", (0.01, 0.01, 0.01, 0.01))


@pytest.fixture
def proxied(s3_place, servers):
    """A store that speaks through a proxy, the proxy, and the same store without it."""
    with proxy_before(servers.get(s3_place.kind)) as proxy:
        behind = Place(
            s3_place.kind, s3_place.uri, {**s3_place.options, "endpoint_url": proxy.endpoint}
        )
        yield behind.open(), proxy, s3_place.open()


def test_the_proxy_alone_changes_nothing(proxied):
    store, proxy, _ = proxied
    probe(store)
    assert proxy.seen


@pytest.mark.parametrize("fault", [*LOST_REPLIES, Fault.SEND_TWICE])
def test_a_write_whose_reply_was_lost_is_recognised_as_ones_own(proxied, fault):
    store, proxy, direct = proxied
    store.head("warm")  # an HTTP client sends PUT again by itself on a connection it kept
    proxy.fault_of = times(1, fault, method="PUT")
    assert store.put_new("x", b"mine") is PutOutcome.WRITTEN
    assert direct.get("x").content == b"mine"
    version = direct.get("x").version
    proxy.fault_of = times(1, fault, method="PUT")
    assert store.put_if("x", b"again", version) is PutOutcome.WRITTEN
    assert direct.get("x").content == b"again"


def test_anothers_object_is_not_taken_for_ones_own(proxied):
    store, proxy, direct = proxied
    direct.put_new("x", b"mine")
    proxy.fault_of = times(1, Fault.LOSE_REPLY, method="PUT")
    assert store.put_new("x", b"mine") in (PutOutcome.EXISTS, PutOutcome.UNKNOWN)
    proxy.fault_of = times(1, Fault.SEND_TWICE, method="PUT")
    assert store.put_new("x", b"mine") is PutOutcome.EXISTS


@pytest.mark.parametrize("fault", [*LOST_REPLIES, Fault.LOSE_REQUEST])
def test_when_nothing_can_be_learnt_the_outcome_is_unknown(proxied, fault):
    store, proxy, direct = proxied
    handle = stage(store, "t/final", b"x")
    struck = times(1000, fault, method="PUT")
    proxy.fault_of = lambda method, url: (
        struck(method, url) if method == "PUT" else Fault.LOSE_REQUEST
    )
    assert store.put_new("x", b"mine") is PutOutcome.UNKNOWN
    assert store.put_if("x", b"mine", '"0"') is PutOutcome.UNKNOWN
    with pytest.raises(Unavailable):
        store.get("x")
    proxy.fault_of = lambda method, url: fault if method == "POST" else Fault.LOSE_REQUEST
    assert store.promote(handle) is PromoteOutcome.UNKNOWN
    proxy.fault_of = lambda _method, _url: Fault.NONE
    assert store.promote(handle) in (PromoteOutcome.WRITTEN, PromoteOutcome.GONE)
    assert direct.get("t/final").content == b"x"


def test_a_lost_request_leaves_nothing_and_says_so_as_unknown(proxied):
    store, proxy, direct = proxied
    proxy.fault_of = lambda method, _url: Fault.LOSE_REQUEST if method == "PUT" else Fault.NONE
    assert store.put_new("x", b"mine") is PutOutcome.UNKNOWN
    assert direct.head("x") is None


@pytest.mark.parametrize("fault", [*LOST_REPLIES, Fault.SEND_TWICE])
def test_a_promotion_whose_reply_was_lost_is_found_to_have_worked(proxied, fault):
    store, proxy, direct = proxied
    handle = stage(store, "t/final", b"content")
    proxy.fault_of = times(1, fault, method="POST")
    outcome = store.promote(handle)
    # sent twice, the second answer may be that there is no such upload: GONE is true as well
    assert outcome is PromoteOutcome.WRITTEN or (
        fault is Fault.SEND_TWICE and outcome is PromoteOutcome.GONE
    )
    assert direct.get("t/final").content == b"content"
    direct.delete("t/final")
    assert store.promote(handle) is PromoteOutcome.GONE
    assert direct.head("t/final") is None


def test_being_turned_away_a_few_times_is_not_noticed(proxied):
    store, proxy, _ = proxied
    proxy.fault_of = times(2, Fault.TURN_AWAY, method="PUT")
    assert store.put_new("x", b"mine") is PutOutcome.WRITTEN
    proxy.fault_of = times(2, Fault.TURN_AWAY, method="GET")
    assert store.get("x").content == b"mine"
    handle = stage(store, "t/final", b"content")
    proxy.fault_of = times(2, Fault.TURN_AWAY, method="POST")
    assert store.promote(handle) is PromoteOutcome.WRITTEN


def test_being_turned_away_for_good_is_unavailable_and_changed_nothing(proxied):
    store, proxy, direct = proxied
    proxy.fault_of = lambda _method, _url: Fault.TURN_AWAY
    with pytest.raises(Unavailable, match="SlowDown"):
        store.put_new("x", b"mine")
    proxy.fault_of = lambda _method, _url: Fault.NONE
    assert direct.head("x") is None


def test_parts_of_a_staged_file_are_sent_again(proxied):
    store, proxy, direct = proxied
    proxy.fault_of = times(2, Fault.LOSE_REPLY, method="PUT", containing="partNumber")
    handle = stage(store, "t/final", b"z" * 11_000_000)
    assert store.promote(handle) is PromoteOutcome.WRITTEN
    assert direct.get("t/final").content == b"z" * 11_000_000


def test_a_writer_whose_upload_was_discarded_is_fenced(proxied):
    store, _, direct = proxied
    writer = store.stage("t/final", area=AREA)
    direct.discard(writer.staged)
    writer.write(b"late")
    with pytest.raises(Fenced, match="discarded"):
        writer.close()


def test_the_probe_refuses_a_store_that_drops_conditions(proxied):
    store, proxy, direct = proxied
    for method, word in (("PUT", "If-None-Match"), ("POST", "promoting over an object")):
        proxy.fault_of = lambda seen, _url, method=method: (
            Fault.DROP_CONDITIONS if seen == method else Fault.NONE
        )
        with pytest.raises(Unsupported, match=word) as refusal:
            probe(store)
        assert "conditional writes" in str(refusal.value)
        assert list(direct.walk("")) == [], "something was left behind"


def test_the_probe_refuses_a_store_that_drops_if_match_only(proxied):
    store, proxy, direct = proxied
    puts = []

    def fault_of(method, url):
        if method != "PUT" or "partNumber" in url:
            return Fault.NONE
        puts.append(url)
        return Fault.DROP_CONDITIONS if len(puts) > 2 else Fault.NONE

    proxy.fault_of = fault_of
    with pytest.raises(Unsupported, match="If-Match"):
        probe(store)
    assert list(direct.walk("")) == []


def test_the_probe_cannot_judge_a_store_that_does_not_answer(proxied):
    store, proxy, _ = proxied
    proxy.fault_of = lambda method, _url: Fault.LOSE_REQUEST if method == "PUT" else Fault.NONE
    with pytest.raises(Unavailable, match="no answer"):
        probe(store)


def test_wrong_credentials_are_said_to_be_wrong_and_are_not_shown(s3_place):
    options = {**s3_place.options, "secret": "notTheSecret", "key": "notTheKey"}
    store = Place(s3_place.kind, s3_place.uri, options).open()
    for call in (lambda: store.get("x"), lambda: store.put_new("x", b""), lambda: store.list("")):
        with pytest.raises(Invalid) as refusal:
            call()
        chain = f"{refusal.value!r} {refusal.value.__cause__!r}"
        assert "notTheSecret" not in chain
        assert "notTheKey" not in chain


def test_a_missing_bucket_is_said_to_be_missing(s3_place):
    store = Place(s3_place.kind, "s3://no-such-bucket/t", s3_place.options).open()
    for call in (lambda: store.list(""), lambda: store.put_new("x", b"")):
        with pytest.raises(Invalid, match="NoSuchBucket"):
            call()
