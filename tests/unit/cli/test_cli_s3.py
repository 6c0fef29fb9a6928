"""The commands on a real S3 server, with its credentials as storage options."""

from __future__ import annotations

import uuid

import pytest

import s3_server
from cli_runs import run, run_program
from kernel_tables import Kernel, compaction_request, ingest
from lakehand.locks.leases import LeaseTerms
from lakehand.locks.storage import storage_lock
from lakehand.protocol import planning
from lakehand.store.open import open_store

pytestmark = pytest.mark.s3
BUCKET = "cli"


@pytest.fixture(scope="module")
def server():
    try:
        with s3_server.running(s3_server.VERSITYGW) as running:
            s3_server.make_bucket(running, BUCKET)
            yield running
    except s3_server.NoGo as no_go:
        pytest.skip(str(no_go))


@pytest.fixture
def kernel(server):
    store = open_store(f"s3://{BUCKET}/{uuid.uuid4().hex}/trips", server.storage_options)
    return Kernel(store, locks=lambda _name: storage_lock(store))


@pytest.fixture
def options(server):
    return [
        part
        for key, value in server.storage_options.items()
        for part in ("--storage-option", f"{key}={value}")
    ]


def test_a_plan_is_shown_cancelled_and_shown_again(kernel, options):
    bench = kernel.worker("planner")
    write = ingest(bench, "f1").time
    time = planning.schedule(bench, compaction_request("f1", cancellable=True))
    before = run("timeline", kernel.store.uri, "-o", "json", *options).record["instants"]
    assert [(one["time"], one["state"]) for one in before] == [
        (write, "completed"),
        (time, "requested"),
    ]
    ran = run("cancel", kernel.store.uri, time, "-o", "json", *options)
    assert (ran.code, ran.record["outcome"]) == (0, "aborted"), ran.err
    after = run("timeline", kernel.store.uri, "-o", "json", *options).record["instants"]
    assert after[1]["state"] == "aborted"
    assert storage_lock(kernel.store).holder() is None


def test_a_dead_holders_lock_is_removed(kernel, options):
    never_renewed = LeaseTerms(lease_s=600.0, renew_every_s=200.0)
    held = storage_lock(kernel.store, terms=never_renewed).acquire("spark-7", timeout_s=5)
    ran = run("unlock", kernel.store.uri, "-o", "json", "--yes", "--force", *options)
    assert (ran.code, ran.record["outcome"]) == (0, "removed")
    assert ran.record["holder"]["owner"] == "spark-7"
    assert run("unlock", kernel.store.uri, *options).out == "Nobody holds the storage lock.\n"
    held.release()


def test_nothing_of_the_credentials_is_said_by_the_process(kernel, options, server):
    good = run_program("timeline", kernel.store.uri, "-v", *options)
    assert good.code == 0
    wrong = [one.replace(server.secret, "wrong-secret") for one in options]
    bad = run_program("timeline", kernel.store.uri, "-v", *wrong)
    assert bad.code == 2, bad.err
    for ran in (good, bad):
        for secret in (server.secret, server.key, "wrong-secret"):
            assert secret not in ran.out + ran.err
