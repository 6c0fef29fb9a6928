"""From the name of a kind of lock, and options of text, to its provider."""

from __future__ import annotations

import sys

import pytest

from lakehand.errors import Invalid
from lakehand.locks.open import OPTIONS, LockKind, open_lock
from lakehand.store.local import LocalStore
from lakehand.store.memory import MemoryStore


@pytest.fixture
def store(tmp_path):
    return LocalStore(tmp_path)


KUBECONFIG = """
apiVersion: v1
kind: Config
current-context: here
clusters: [{name: c, cluster: {server: "http://127.0.0.1:1"}}]
contexts: [{name: here, context: {cluster: c, user: u}}]
users: [{name: u, user: {token: t}}]
"""


def _options(kind, tmp_path):
    (tmp_path / "kubeconfig").write_text(KUBECONFIG)
    kubernetes = {"namespace": "lake", "kubeconfig": str(tmp_path / "kubeconfig")}
    return {
        LockKind.FILESYSTEM: {"lease_s": "60"},
        LockKind.ETCD: {"endpoints": "http://127.0.0.1:1, http://127.0.0.1:2"},
        LockKind.KUBERNETES_LEASE: kubernetes,
        LockKind.CONFIG_MAP: kubernetes,
    }.get(kind, {})


@pytest.mark.parametrize("kind", LockKind, ids=lambda kind: kind.value)
def test_every_kind_opens(kind, store, tmp_path):
    lock = open_lock(kind.value, store, options=_options(kind, tmp_path))
    assert lock.name == kind.value  # what the journal says is what one types
    assert lock.excludes_foreign is (kind is LockKind.FILESYSTEM)


@pytest.mark.parametrize("kind", ["storage", "in-process"])
def test_what_two_workers_open_is_one_lock(kind, store):
    held = open_lock(kind, store).acquire("one", timeout_s=1)
    holder = open_lock(kind, store).holder()
    held.release()
    assert holder is not None and holder.owner == "one"


def test_options_become_the_terms_of_the_lease(store):
    held = open_lock("storage", store, options={"lease_s": "7"}).acquire("one", timeout_s=1)
    assert 6 < held.left_s() <= 7
    held.release()


def test_the_file_lock_lies_in_the_folder_that_is_named(store, tmp_path):
    options = {"lease_s": "60", "folder": ".hoodie/.locks"}
    held = open_lock("filesystem", store, options=options).acquire("one", timeout_s=1)
    assert (tmp_path / ".hoodie/.locks/lock").exists()
    held.release()


@pytest.mark.parametrize(
    ("kind", "options", "words"),
    [
        ("stored", {}, "did you mean 'storage'"),
        ("file-system", {}, "did you mean 'filesystem'"),
        ("zookeeper", {}, "unknown lock 'zookeeper'"),
        ("storage", {"lease": "1"}, "did you mean 'lease_s'"),
        ("in-process", {"lease_s": "1"}, "known: none"),
        ("storage", {"lease_s": "soon"}, "lease_s is a number of seconds"),
        ("storage", {"lease_s": "nan"}, "lease_s is a number of seconds"),
        ("storage", {"lease_s": "0"}, "lease_s is a number of seconds"),
        ("storage", {"java_lease_s": "-1"}, "java_lease_s is a number of seconds"),
        ("storage", {"renew_every_s": "1"}, "renew_every_s goes with lease_s"),
        ("storage", {"lease_s": "3", "renew_every_s": "2"}, "at most a third"),
        ("filesystem", {}, "hoodie.write.lock.filesystem.expire"),
        ("etcd", {}, "needs the option endpoints"),
        ("etcd", {"endpoints": "host"}, "http(s)://host:port"),
        ("kubernetes-lease", {}, "needs the option namespace"),
        ("config-map", {"namespace": "lake", "kubeconfig": "/none"}, "no way to the Kubernetes"),
    ],
)
def test_what_is_wrong_is_named_with_the_way_out(store, kind, options, words):
    with pytest.raises(Invalid) as caught:
        open_lock(kind, store, options=options)
    assert words in str(caught.value)


def test_the_values_of_options_are_never_shown(store):
    for options in (
        {"passwrd": "sesame"},
        {"endpoints": "http://user:sesame@host:1"},
        {"endpoints": "http://h:1", "password": "sesame", "password_file": "f"},
    ):
        with pytest.raises(Invalid) as caught:
            open_lock("etcd", store, options=options)
        assert "sesame" not in str(caught.value)


def test_a_password_comes_from_a_file(store, tmp_path):
    (tmp_path / "password").write_text("sesame\n")
    base = {"endpoints": "http://127.0.0.1:1", "user": "u"}
    open_lock("etcd", store, options={**base, "password_file": str(tmp_path / "password")})
    with pytest.raises(Invalid, match="password_file"):
        open_lock("etcd", store, options={**base, "password_file": str(tmp_path / "none")})


@pytest.mark.parametrize(
    ("kind", "missing", "extra"),
    [
        ("etcd", "urllib3", "etcd"),
        ("kubernetes-lease", "kubernetes", "kubernetes"),
        ("config-map", "kubernetes", "kubernetes"),
    ],
)
def test_a_missing_package_is_named_by_its_extra(
    store, kind, missing, extra, tmp_path, monkeypatch
):
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(Invalid, match=rf"pip install 'lakehand\[{extra}\]'"):
        open_lock(kind, store, options=_options(LockKind(kind), tmp_path))


def test_every_kind_says_which_options_it_takes():
    assert set(OPTIONS) == set(LockKind)


def test_two_tables_have_two_locks():
    held = open_lock("in-process", MemoryStore("memory://one")).acquire("a", timeout_s=1)
    assert open_lock("in-process", MemoryStore("memory://two")).holder() is None
    held.release()
