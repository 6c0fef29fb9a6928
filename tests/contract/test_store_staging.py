"""Staging: invisible until promoted, promoted at most once, by any process."""

from __future__ import annotations

import contextlib

import pytest

from lakehand.errors import Invalid, LakehandError, NotFound
from lakehand.ports import PromoteOutcome, PutOutcome, Staged
from store_places import AREA, in_child, stage


def test_staged_content_appears_when_it_is_promoted_and_not_before(store):
    handle = stage(store, "t/final", b"content")
    assert store.head("t/final") is None
    with pytest.raises(NotFound):
        store.get("t/final")
    assert store.promote(handle) is PromoteOutcome.WRITTEN
    assert store.get("t/final").content == b"content"


def test_a_second_promotion_does_nothing_also_after_a_delete(place):
    store = place.open()
    handle = stage(store, "t/final", b"content")
    assert store.promote(handle) is PromoteOutcome.WRITTEN
    again = store.promote(handle)
    # an object store may repeat its answer while the promoted object stands: the port's law
    assert again is PromoteOutcome.GONE or (place.kind == "versitygw" and again.value == "written")
    store.delete("t/final")
    assert store.promote(handle) is PromoteOutcome.GONE
    assert store.head("t/final") is None


def test_a_zombie_cannot_replace_what_came_after_it(store):
    handle = stage(store, "t/final", b"old")
    assert store.promote(handle) is PromoteOutcome.WRITTEN
    store.delete("t/final")
    assert store.put_new("t/final", b"new") is PutOutcome.WRITTEN
    assert store.promote(handle) is PromoteOutcome.GONE
    assert store.get("t/final").content == b"new"


def test_a_promotion_over_an_object_consumes_what_was_staged(store):
    store.put("t/final", b"theirs")
    handle = stage(store, "t/final", b"mine")
    assert store.promote(handle) is PromoteOutcome.EXISTS
    assert store.get("t/final").content == b"theirs"
    store.delete("t/final")
    assert store.promote(handle) is PromoteOutcome.GONE
    assert store.head("t/final") is None


def test_of_two_staged_for_one_name_one_appears(store):
    first, second = stage(store, "t/final", b"1"), stage(store, "t/final", b"2")
    assert first.place != second.place
    assert store.promote(second) is PromoteOutcome.WRITTEN
    assert store.promote(first) is PromoteOutcome.EXISTS
    assert store.get("t/final").content == b"2"


def test_what_is_discarded_is_never_promoted(store):
    handle = stage(store, "t/final", b"content")
    store.discard(handle)
    store.discard(handle)
    assert store.promote(handle) is PromoteOutcome.GONE
    assert store.head("t/final") is None


def test_discarding_an_area_drops_what_is_staged_there_and_nothing_else(store):
    promoted, left = stage(store, "t/promoted", b"1"), stage(store, "t/left", b"2")
    elsewhere = stage(store, "t/elsewhere", b"3", area=".hoodie/.temp/20260101000000000/.staging/2")
    store.promote(promoted)
    store.discard_area(AREA)
    store.discard_area(AREA)
    assert store.get("t/promoted").content == b"1"
    if left.place.endswith(".staged"):  # where an upload is open it cannot be listed
        assert store.promote(left) is PromoteOutcome.GONE
    assert store.promote(elsewhere) is PromoteOutcome.WRITTEN
    stage(store, "t/again", b"4")
    store.discard_area(AREA.rpartition("/")[0])
    for place in ("", "t", ".hoodie/.temp", ".hoodie/.temp/.staging", ".hoodie/.temp/../.staging"):
        with pytest.raises(Invalid):
            store.discard_area(place)


def test_discarding_what_is_promoted_leaves_the_object(store):
    handle = stage(store, "t/final", b"content")
    store.promote(handle)
    store.discard(handle)
    assert store.get("t/final").content == b"content"


def test_the_handle_is_known_before_the_first_byte_and_suffices_to_discard(store):
    writer = store.stage("t/final", area=AREA)
    begun = Staged.from_json(writer.staged.to_json(), where="marker")
    assert begun.final == "t/final"
    assert begun.parts == ()
    writer.write(b"some")
    store.discard(begun)
    try:
        writer.write(b"more")
        writer.close()
        outcome = store.promote(writer.staged)
    except LakehandError:  # the writer may notice
        outcome = None
    assert outcome in (None, PromoteOutcome.GONE)
    assert store.head("t/final") is None


def test_what_was_not_closed_cannot_be_promoted(store):
    writer = store.stage("t/final", area=AREA)
    writer.write(b"half")
    with pytest.raises(Invalid, match="never closed"):
        store.promote(writer.staged)
    writer.close()
    writer.close()
    with pytest.raises(Invalid, match="closed"):
        writer.write(b"more")
    assert store.promote(writer.staged) is PromoteOutcome.WRITTEN
    assert store.get("t/final").content == b"half"


def test_leaving_the_block_by_an_exception_discards(store):
    writer = store.stage("t/final", area=AREA)
    with contextlib.suppress(ZeroDivisionError), writer:
        writer.write(b"half")
        _ = 1 / 0
    handle = Staged("t/final", writer.staged.place, ('"d41d8cd98f00b204e9800998ecf8427e"',))
    with contextlib.suppress(Invalid):  # these parts are an S3 server's
        assert store.promote(handle) is PromoteOutcome.GONE
    assert store.head("t/final") is None


@pytest.mark.parametrize("content", [b"", b"x"])
def test_small_and_empty_files_are_staged_like_any_other(store, content):
    handle = stage(store, "t/small", content)
    assert handle.parts
    assert store.promote(handle) is PromoteOutcome.WRITTEN
    assert store.get("t/small").content == content


def test_a_handle_survives_as_a_document(store):
    handle = stage(store, "p=ä %/f+1.parquet", b"x")
    copy = Staged.from_json(handle.to_json(), where="manifest")
    assert copy == handle
    assert store.promote(copy) is PromoteOutcome.WRITTEN
    assert store.get("p=ä %/f+1.parquet").content == b"x"


@pytest.mark.parametrize(
    "place_text",
    [
        "t/data.parquet",
        "../other/t/data.parquet",
        "/etc/passwd",
        ".hoodie/hoodie.properties",
        ".hoodie/.temp/1/../../hoodie.properties",
        ".hoodie/.temp/1/.staging/1/data.parquet",
        ".hoodie/.temp/../../x/0123456789abcdef0123456789abcdef.staged",
        "0123456789abcdef0123456789abcdef:../../x",
        "",
    ],
)
def test_a_hostile_handle_moves_and_deletes_nothing(store, place_text):
    store.put("t/data.parquet", b"data")
    store.put(".hoodie/hoodie.properties", b"properties")
    hostile = Staged("t/other", place_text, ('"d41d8cd98f00b204e9800998ecf8427e"',))
    for act in (store.promote, store.discard):
        with pytest.raises(Invalid):
            act(hostile)
    assert store.get("t/data.parquet").content == b"data"
    assert store.get(".hoodie/hoodie.properties").content == b"properties"
    assert store.head("t/other") is None


def test_a_hostile_final_name_is_refused(store):
    handle = stage(store, "t/final", b"x")
    for final in ("../outside", "/outside", "a/../../outside", ""):
        with pytest.raises(Invalid):
            store.promote(Staged(final, handle.place, handle.parts))
    assert store.promote(handle) is PromoteOutcome.WRITTEN


def test_staging_areas_lie_in_the_temporary_folder(store):
    for area in ("t", ".hoodie", ".hoodie/timeline", ".hoodie/.tempest/x"):
        with pytest.raises(Invalid, match=r"\.temp"):
            store.stage("t/final", area=area)


def test_what_one_process_stages_another_promotes_or_discards(shared_place):
    store = shared_place.open()
    promoted, discarded = stage(store, "t/1", b"mine"), stage(store, "t/2", b"mine")
    answer = in_child(
        shared_place,
        "visit",
        promoted=promoted.to_json(),
        discarded=discarded.to_json(),
        final="t/3",
        area=AREA,
    )
    assert answer["outcome"] == "written"
    assert store.get("t/1").content == b"mine"
    store.delete("t/1")
    assert store.promote(promoted) is PromoteOutcome.GONE
    assert store.promote(discarded) is PromoteOutcome.GONE
    theirs = Staged.from_json(answer["handle"], where="child")
    assert store.head("t/3") is None
    assert store.promote(theirs) is PromoteOutcome.WRITTEN
    assert store.get("t/3").content == b"theirs"


def test_two_files_of_one_area_do_not_meet(store):
    handles = [stage(store, f"t/{n}", str(n).encode()) for n in range(5)]
    assert len({handle.place for handle in handles}) == 5
    store.discard(handles[0])
    for handle in handles[1:]:
        assert store.promote(handle) is PromoteOutcome.WRITTEN
    assert [store.get(f"t/{n}").content for n in range(1, 5)] == [b"1", b"2", b"3", b"4"]
