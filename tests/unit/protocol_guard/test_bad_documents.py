"""Documents that are torn, foreign, newer or of another table: a typed error, nothing decided."""

from __future__ import annotations

import json

import pytest

from kernel_scenes import (
    EXPIRED_MINUTES,
    Scene,
    Step,
    attempt,
    begin_ingestion,
    planned,
    service_request,
)
from kernel_states import data_files, everything, files_of, state_of, state_on_timeline, walked
from kernel_tables import execute, ingest
from lakehand.core.instants import Action, State
from lakehand.core.journal_entries import StagedFile
from lakehand.errors import Corrupt, Invalid, Unsupported
from lakehand.formats import manifest_document
from lakehand.formats.manifest_document import Manifest
from lakehand.protocol import cancelling, claiming, heartbeats, planning, rolling_back
from lakehand.protocol.failed_writes import clean_up
from lakehand.protocol.journal import FOLDER


def tampered(content: bytes, **fields: object) -> bytes:
    return json.dumps({**json.loads(content), **fields}).encode()


RECIPES = {
    "schedule": lambda w, s: planning.schedule(w, service_request(Action.CLUSTERING, "f2")),
    "begin write": lambda w, s: begin_ingestion(w),
    "claim": lambda w, s: claiming.claim(w, s.time),
    "request cancel": lambda w, s: cancelling.request_cancel(w, s.time, reason="test"),
    "execute cancel": lambda w, s: cancelling.execute_cancel(w, s.time),
    "schedule rollback": lambda w, s: rolling_back.schedule_rollback(w, s.time),
    "clean": lambda w, s: clean_up(w),
}


def assert_nothing_happens(scene: Scene, recipe: str, error, match: str) -> None:
    before = everything(scene.kernel.store)
    with pytest.raises(error, match=match):
        RECIPES[recipe](scene.worker("w"), scene)
    assert everything(scene.kernel.store) == before
    assert scene.kernel.store._staged == {}


@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.parametrize(
    ("tamper", "error", "match"),
    [
        (lambda content: content[: len(content) // 2], Corrupt, "journal/.*restore the file"),
        (lambda content: b"", Corrupt, "journal/.*restore the file"),
        (lambda content: b"\x00" * 64, Corrupt, "journal/.*restore the file"),
        (lambda content: tampered(content, format=9), Unsupported, "journal/.*format 9.*use the"),
        (lambda content: tampered(content, table="x.y"), Invalid, "journal/.*x.y.*Move"),
    ],
    ids=["torn", "empty", "zeros", "newer", "another table's"],
)
def test_nothing_is_decided_on_a_journal_entry_that_is_not_understood(recipe, tamper, error, match):
    scene = planned(cancellable=True)
    tail = f"{FOLDER}/{scene.kernel.store.names(FOLDER)[-1]}"
    scene.kernel.store.put(tail, tamper(scene.kernel.store.get(tail).content))
    assert_nothing_happens(scene, recipe, error, match)


@pytest.mark.parametrize("recipe", ["claim", "schedule rollback"])
@pytest.mark.parametrize(
    ("content", "error", "match"),
    [
        (b'{"format":1,"owner":"w"', Corrupt, "heartbeat/.*remove it if no writer"),
        (b"garbage", Corrupt, "heartbeat/.*remove it if no writer"),
        (b'{"format":1,"owner":"w","epoch":"1","number":1}', Corrupt, "heartbeat/.*remove it"),
        (b'{"format":2,"owner":"w","epoch":1,"number":1}', Unsupported, "heartbeat/.*format 2"),
    ],
    ids=["torn", "garbage", "wrong types", "newer"],
)
def test_nothing_is_decided_on_a_heartbeat_that_is_not_understood(recipe, content, error, match):
    scene = planned()
    attempt(scene.worker("dead"), scene.time, Step.PROMOTED)
    scene.kernel.store.put(heartbeats.path_of(scene.time), content)
    scene.clock.pass_minutes(1)
    before = everything(scene.kernel.store)
    with pytest.raises(error, match=match):
        RECIPES[recipe](scene.worker("w"), scene)
    assert everything(scene.kernel.store) == before


def test_a_newer_heartbeat_names_the_way_out():
    scene = planned()
    content = b'{"format":2,"owner":"w","epoch":1,"number":1}'
    scene.kernel.store.put(heartbeats.path_of(scene.time), content)
    with pytest.raises(Unsupported, match=r"use the version|remove it"):
        claiming.claim(scene.worker("w"), scene.time)


def test_once_the_bad_heartbeat_is_removed_as_the_error_says_the_plan_goes_on():
    scene = planned()
    scene.kernel.store.put(heartbeats.path_of(scene.time), b"garbage")
    with pytest.raises(Corrupt):
        claiming.claim(scene.worker("w"), scene.time)
    scene.kernel.store.delete(heartbeats.path_of(scene.time))
    assert execute(scene.worker("w"), scene.time, ("f1",)).is_completed


# -- cancel files ---------------------------------------------------------------------------------


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\x00", b'{"by":"another table"}'])
def test_a_cancel_file_that_the_journal_knows_nothing_of_decides_nothing(content):
    """The journal judges: a torn or foreign file neither cancels a plan nor hinders it."""
    scene = planned(cancellable=True)
    scene.kernel.store.put(f".hoodie/.cancel/{scene.time}", content)
    assert execute(scene.worker("w"), scene.time, ("f1",)).is_completed


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\x00"])
def test_a_bad_cancel_file_in_the_way_does_not_keep_a_cancellation_from_its_end(content):
    scene = planned(cancellable=True)
    scene.kernel.store.put(f".hoodie/.cancel/{scene.time}", content)
    worker = scene.worker("w")
    cancelling.request_cancel(worker, scene.time, reason="test")
    cancelling.execute_cancel(worker, scene.time)
    assert state_on_timeline(worker, scene.time) is State.ABORTED
    assert state_of(worker).cancels == ()


# -- manifests and markers ------------------------------------------------------------------------


def dead_attempt() -> Scene:
    scene = planned()
    attempt(scene.worker("dead"), scene.time, Step.PROMOTED)
    scene.clock.pass_minutes(EXPIRED_MINUTES)
    return scene


def tamper_with(scene: Scene, folder: str, change) -> str:
    (path,) = walked(scene.kernel.store, folder)
    scene.kernel.store.put(path, change(scene.kernel.store.get(path).content))
    return path


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (lambda content: content[:-3], Corrupt),
        (lambda content: b"", Corrupt),
        (lambda content: tampered(content, format=7), Unsupported),
        (lambda content: tampered(content, files=[{"final": "x"}]), Corrupt),
    ],
    ids=["torn", "empty", "newer", "half a file"],
)
@pytest.mark.parametrize("how", ["claim", "rollback"])
def test_nothing_is_deleted_on_a_manifest_that_is_not_understood(change, error, how):
    scene = dead_attempt()
    rollback = rolling_back.schedule_rollback(scene.worker("author"), scene.time)
    path = tamper_with(scene, ".hoodie/.lakehand/manifests", change)
    before = data_files(scene.kernel.store)
    worker = scene.worker("next")
    acts = {
        "claim": lambda: claiming.claim(worker, scene.time),
        "rollback": lambda: rolling_back.execute_rollback(worker, rollback),
    }
    with pytest.raises(error, match=path):
        acts[how]()
    assert data_files(scene.kernel.store) == before
    assert f"{scene.time}.compaction.requested" in files_of(scene.worker("judge"), scene.time)


def test_a_manifest_of_another_instant_deletes_nothing_of_it():
    scene = dead_attempt()
    (done,) = data_files(scene.kernel.store)[:1]
    place = ".hoodie/.temp/20300101000000000/.staging/1/0123456789abcdef.staged"
    other = Manifest("20300101000000000", 1, (StagedFile(done, place, ("1",), ""),))
    folder = f".hoodie/.lakehand/manifests/{scene.time}"
    scene.kernel.store.put(f"{folder}/1-copied", manifest_document.encode(other))
    with pytest.raises(Corrupt, match="1-copied"):
        claiming.claim(scene.worker("next"), scene.time)
    assert done in data_files(scene.kernel.store)


@pytest.mark.parametrize("content", [b"{", b"null", b'{"final":1}', b"\xff\xfe"])
def test_nothing_is_deleted_on_a_begin_marker_that_is_not_understood(content):
    scene = dead_attempt()
    path = tamper_with(scene, ".hoodie/.temp", lambda _: content)
    before = data_files(scene.kernel.store)
    with pytest.raises(Corrupt, match=path):
        claiming.claim(scene.worker("next"), scene.time)
    assert data_files(scene.kernel.store) == before


def test_a_marker_without_content_is_hudis_and_its_file_goes():
    scene = dead_attempt()
    tamper_with(scene, ".hoodie/.temp", lambda _: b"")
    claiming.claim(scene.worker("next"), scene.time)
    assert len(data_files(scene.kernel.store)) == 1


def test_properties_that_are_torn_stop_every_transaction():
    scene = planned()
    scene.kernel.store.put(".hoodie/hoodie.properties", b"hoodie.table.name=trips\n")
    before = everything(scene.kernel.store)
    with pytest.raises((Corrupt, Invalid)):
        ingest(scene.worker("w"), "f2")
    assert everything(scene.kernel.store) == before
