"""From a URI to a store: schemes, options, and what is never shown."""

from __future__ import annotations

import re
import sys

import pytest

from lakehand.errors import Invalid
from lakehand.store.local import LocalStore
from lakehand.store.memory import MemoryStore
from lakehand.store.open import open_store


@pytest.mark.parametrize("form", ["{}", "file://{}", "file:{}", "file://localhost{}", "FILE://{}"])
def test_local_forms_open_one_folder(tmp_path, form):
    folder = tmp_path / "ta ble"
    LocalStore(folder).put("x", b"1")
    text = str(folder).replace(" ", "%20") if "file" in form.lower() else str(folder)
    store = open_store(form.format(text))
    assert isinstance(store, LocalStore)
    assert store.get("x").content == b"1"
    assert store.uri == folder.as_uri()


def test_a_relative_path_is_made_absolute(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert open_store("a/table").uri == (tmp_path / "a/table").as_uri()


def test_one_memory_uri_is_one_store_in_the_process():
    open_store("memory://one").put("x", b"1")
    assert open_store("memory://one/").get("x").content == b"1"
    assert isinstance(open_store("memory://two"), MemoryStore)
    assert open_store("memory://two").head("x") is None


@pytest.mark.parametrize(
    ("uri", "words"),
    [
        ("s4://b/t", ["unknown scheme 's4'", "did you mean 's3'", "gs://", "hdfs://"]),
        ("ftp://host/t", ["unknown scheme 'ftp'", "s3://"]),
        ("", ["not the place of a table"]),
        ("s3://", ["not the place of a table"]),
        ("s3:///t", ["no bucket"]),
        ("file://host/t", ["file:///"]),
        ("/a\0b", ["not the place of a table"]),
        ("s3://bucket/a/../b", ["not a path"]),
        ("abfs://account/t", ["container@account"]),
    ],
)
def test_bad_uris_are_refused_with_a_hint(uri, words):
    with pytest.raises(Invalid) as refusal:
        open_store(uri)
    assert all(word in str(refusal.value) for word in words)


def test_credentials_in_a_uri_are_refused_and_not_shown():
    with pytest.raises(Invalid, match="storage options") as refusal:
        open_store("s3://KEYID:SECRET@bucket/t")
    assert "SECRET" not in str(refusal.value)
    with pytest.raises(Invalid) as refusal:
        open_store("s9://KEYID:SECRET@bucket/t")
    assert "SECRET" not in str(refusal.value)


def test_unknown_options_are_refused_by_name_and_values_are_not_shown():
    with pytest.raises(Invalid, match="did you mean 'secret'") as refusal:
        open_store("s3://bucket/t", {"secrets": "hunter2"})
    assert "hunter2" not in str(refusal.value)
    with pytest.raises(Invalid, match="known: none"):
        open_store("memory://x", {"key": "1"})


@pytest.mark.parametrize(
    ("uri", "module", "extra"),
    [
        ("s3://b/t", "s3fs", "s3"),
        ("s3a://b/t", "s3fs", "s3"),
        ("gs://b/t", "gcsfs", "gcs"),
        ("abfs://c@a.dfs.core.windows.net/t", "adlfs", "azure"),
        ("hdfs://namenode:8020/t", "hdfs_native", "hdfs"),
    ],
)
def test_a_missing_extra_is_named(monkeypatch, uri, module, extra):
    for loaded in list(sys.modules):
        if re.match(r"lakehand\.store\.(s3|gcs|abfs|hdfs)", loaded):
            monkeypatch.delitem(sys.modules, loaded)
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(Invalid) as refusal:
        open_store(uri)
    assert f"pip install 'lakehand[{extra}]'" in str(refusal.value)


def test_s3a_is_s3_and_shows_no_secret():
    options = {"key": "KEYID", "secret": "hunter2", "endpoint_url": "http://127.0.0.1:9"}
    store = open_store("s3a://bucket/a table/", {**options, "region": "us-east-1"})
    assert store.uri == "s3://bucket/a table"
    assert "hunter2" not in repr(store)
    assert "KEYID" not in repr(vars(store))
