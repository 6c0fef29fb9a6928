"""Listings: order, folders, what is hidden, and what was just written."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from store_places import AREA, stage


def test_a_listing_holds_the_direct_children_in_order(store):
    for path in ("b/2", "b/10", "b/1", "a", "c/d/e", "b.txt", "b-x", "ä"):
        store.put(path, path.encode())
    listing = store.list("")
    assert [info.path for info in listing.objects] == ["a", "b-x", "b.txt", "ä"]
    assert listing.folders == ("b", "c") or set(listing.folders) == {"b", "c", ".hoodie"}
    assert [info.path for info in store.list("b").objects] == ["b/1", "b/10", "b/2"]
    assert store.list("c").folders == ("c/d",)
    assert store.list("c").objects == ()
    assert [info.size for info in store.list("b").objects] == [3, 4, 3]


def test_a_listing_agrees_with_head(store):
    store.put("f/x", b"123")
    (info,) = store.list("f").objects
    assert info == store.head("f/x")
    assert list(store.walk("f")) == [info]


def test_names_are_those_of_the_listing(store):
    for path in ("a/x", "a/b/y", "a/ü 1%2F=", "a/.hidden", ".hoodie/z", "top"):
        store.put(path, b"1")
    for folder in ("", "a", "a/b", ".hoodie", "none"):
        listed = [info.path.rpartition("/")[2] for info in store.list(folder).objects]
        assert list(store.names(folder)) == listed


def test_a_folder_that_is_not_there_is_empty(store):
    assert store.list("nothing").objects == ()
    assert store.list("nothing").folders == ()
    assert list(store.walk("nothing")) == []
    store.put("file", b"")
    assert store.list("file").objects == ()
    assert list(store.walk("file")) == []


def test_an_empty_table_is_empty(store):
    assert store.list("").objects == ()
    assert list(store.walk("")) == []


def test_a_folder_is_not_a_prefix(store):
    store.put("ab/1", b"")
    store.put("a/1", b"")
    assert [info.path for info in store.walk("a")] == ["a/1"]
    assert [info.path for info in store.list("a").objects] == ["a/1"]


def test_walk_sees_everything_below(store):
    expected = {f"p={p}/q={q}/{n}" for p in range(3) for q in range(4) for n in range(5)}
    for path in expected:
        store.put(path, b"x")
    assert {info.path for info in store.walk("")} == expected
    assert {info.path for info in store.walk("p=1")} == {
        path for path in expected if path.startswith("p=1/")
    }


def test_side_files_of_hadoop_are_not_shown(store):
    store.put("t/data.parquet", b"x")
    store.put("t/.data.parquet.crc", b"crc")
    store.put("t/.log.1.crcx", b"x")
    store.put("t/x.crc", b"x")
    assert [info.path for info in store.list("t").objects] == [
        "t/.log.1.crcx",
        "t/data.parquet",
        "t/x.crc",
    ]
    assert store.names("t") == (".log.1.crcx", "data.parquet", "x.crc")
    assert {info.path for info in store.walk("")} == {
        "t/.log.1.crcx",
        "t/data.parquet",
        "t/x.crc",
    }


def test_what_is_staged_and_what_is_written_aside_is_not_shown(store):
    handle = stage(store, "t/final", b"x")
    store.put_new("t/other", b"x")
    assert [info.path for info in store.walk("")] == ["t/other"]
    assert store.list(AREA).objects == ()
    assert store.names(AREA) == ()
    assert store.list(".hoodie/.lakehand").folders == ()
    store.promote(handle)
    assert [info.path for info in store.walk("")] == ["t/final", "t/other"]


def test_a_listing_of_more_than_a_page_is_whole(place):
    count = 1010 if place.kind not in ("memory", "local") else 3000
    store = place.open()
    names = [f"many/{n:05d}" for n in range(count)]
    _put_all(store, names)
    assert [info.path for info in store.list("many").objects] == names
    assert sorted(info.path for info in store.walk("")) == names
    store.delete(names[7])
    assert len(store.list("many").objects) == count - 1


def _put_all(store, names):
    with ThreadPoolExecutor(16) as pool:
        list(pool.map(lambda name: store.put(name, b""), names))
