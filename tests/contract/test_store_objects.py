"""Objects of a store: whole, versioned, timed, and named by anything that is a path."""

from __future__ import annotations

import pytest

from lakehand.errors import Invalid, NotFound
from lakehand.ports import PutOutcome
from lakehand.store.open import open_store

ODD_NAMES = (
    "with space",
    "per%20cent",
    "plus+plus",
    "a=1/b=%2F",
    "ümläut/日本語",
    "quote'\"back\\slash",
    "semi;colon&amp?query#fragment",
    "~tilde,comma:colon@at$",
    "dot.in.name",
    ".hidden",
    "trailing.",
)


def test_what_was_put_is_read_back_whole(store):
    content = bytes(range(256)) * 5000
    store.put("folder/object", content)
    assert store.get("folder/object").content == content


def test_an_empty_object_is_an_object(store):
    assert store.put_new("empty", b"") is PutOutcome.WRITTEN
    assert store.get("empty").content == b""
    assert store.head("empty").size == 0
    assert store.put_new("empty", b"x") is PutOutcome.EXISTS
    with store.open("empty") as file:
        assert file.read() == b""


def test_put_new_creates_only_once(store):
    assert store.put_new("x/y", b"first") is PutOutcome.WRITTEN
    assert store.put_new("x/y", b"second") is PutOutcome.EXISTS
    assert store.get("x/y").content == b"first"
    store.delete("x/y")
    assert store.put_new("x/y", b"third") is PutOutcome.WRITTEN
    assert store.get("x/y").content == b"third"


def test_put_replaces(store):
    store.put("x", b"first and longer")
    store.put("x", b"second")
    assert store.get("x").content == b"second"


def test_put_if_replaces_only_the_version_that_was_read(store):
    store.put("x", b"1")
    first = store.get("x").version
    assert store.get("x").version == first, "reading again changes nothing"
    assert store.put_if("x", b"2", first) is PutOutcome.WRITTEN
    assert store.put_if("x", b"3", first) is PutOutcome.EXISTS
    assert store.get("x").content == b"2"
    assert store.put_if("x", b"4", store.get("x").version) is PutOutcome.WRITTEN
    assert store.get("x").content == b"4"


def test_put_if_does_not_create(store):
    store.put("x", b"1")
    version = store.get("x").version
    store.delete("x")
    assert store.put_if("x", b"2", version) is PutOutcome.EXISTS
    assert store.put_if("never", b"2", version) is PutOutcome.EXISTS
    assert store.head("x") is None
    assert store.head("never") is None


def test_put_changes_the_version_that_put_if_compares(store):
    store.put("x", b"1")
    version = store.get("x").version
    store.put("x", b"2")
    assert store.put_if("x", b"3", version) is PutOutcome.EXISTS
    assert store.get("x").content == b"2"


def test_equal_content_put_again_is_another_version_where_versions_are_not_digests(place):
    if place.kind not in ("memory", "local"):
        pytest.skip("an S3 entity tag is a digest: the port's law says so")
    store = place.open()
    store.put("x", b"same")
    version = store.get("x").version
    for _ in range(50):
        store.put("x", b"other")
        store.put("x", b"same")
        assert store.get("x").version != version


def test_what_is_missing_is_said_to_be_missing(store):
    store.put("folder/object", b"x")
    for path in ("nothing", "folder", "folder/nothing", "folder/object/below", "no/such/folder"):
        with pytest.raises(NotFound, match="no object"):
            store.get(path)
        with pytest.raises(NotFound, match="no object"):
            store.open(path)
        assert store.head(path) is None


def test_delete_removes_and_a_missing_object_is_no_error(store):
    store.put("folder/object", b"x")
    store.delete("folder/object")
    assert store.head("folder/object") is None
    store.delete("folder/object")
    store.delete("never/was")


def test_head_says_size_and_time(store):
    before = store.now()
    store.put("x", b"12345")
    info = store.head("x")
    after = store.now()
    assert (info.path, info.size) == ("x", 5)
    assert info.modified_ms == store.get("x").modified_ms
    # S3 speaks in seconds, and one server rounds them up
    assert before - 1000 <= info.modified_ms <= after + 1000


def test_the_clock_of_the_store_does_not_run_backwards(store):
    times = [store.now() for _ in range(20)]
    assert times == sorted(times)


@pytest.mark.parametrize("name", ODD_NAMES)
def test_odd_names_are_only_names(place, name):
    if place.kind == "hdfs" and ":" in name:
        pytest.skip("HDFS allows no colon in a name")
    store = place.open()
    path = f"part={name}/{name}"
    assert store.put_new(path, b"odd") is PutOutcome.WRITTEN
    assert store.put_new(path, b"odd") is PutOutcome.EXISTS
    assert store.get(path).content == b"odd"
    assert [info.path for info in store.walk("")] == [path]
    folder = path.rpartition("/")[0]
    assert [info.path for info in store.list(folder).objects] == [path]
    assert set(store.list("").folders) - {".hoodie"} == {folder.partition("/")[0]}
    with store.open(path) as file:
        assert file.read() == b"odd"
    store.delete(path)
    assert store.head(path) is None


@pytest.mark.parametrize(
    "path", ["/etc/passwd", "../up", "a/../b", "./a", "a/.", "a//b", "a/", "nul\0", "", "\ud800"]
)
def test_paths_that_leave_the_base_are_refused_by_every_method(store, path):
    handle_area = ".hoodie/.temp/1/.staging/1"
    calls = (
        lambda: store.get(path),
        lambda: store.open(path),
        lambda: store.head(path),
        lambda: store.put(path, b""),
        lambda: store.put_new(path, b""),
        lambda: store.put_if(path, b"", "version"),
        lambda: store.delete(path),
        lambda: store.stage(path, area=handle_area),
        lambda: store.stage("x", area=path),
    )
    for call in calls:
        with pytest.raises(Invalid, match="path"):
            call()
    if path:
        with pytest.raises(Invalid, match="path"):
            store.list(path)
        with pytest.raises(Invalid, match="path"):
            store.walk(path)


def test_two_stores_at_one_base_see_the_same(place):
    place.open().put("x", b"1")
    assert place.open().get("x").content == b"1"
    assert place.open().uri == place.open().uri


def test_the_uri_opens_the_same_base_and_shows_no_secret(place):
    store = place.open()
    store.put("x", b"1")
    again = open_store(store.uri, place.options)
    assert again.get("x").content == b"1"
    shown = f"{store.uri} {store!r}"
    assert not any(str(place.options.get(name, "none!")) in shown for name in ("key", "secret"))
    assert not store.uri.endswith("/")
