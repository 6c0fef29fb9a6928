"""From a table's URI to its store: the one place that knows which scheme is which adapter.

Adapters that need an extra are imported here, on use. A URI never carries credentials: they come
as storage options or from the environment, and neither is ever shown.
"""

from __future__ import annotations

import difflib
import json
import threading
from dataclasses import dataclass, field, fields
from functools import lru_cache
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from lakehand.errors import Invalid
from lakehand.store import paths
from lakehand.store.memory import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lakehand.ports import Store


@dataclass(frozen=True, slots=True)
class StoreAddress:
    """Where a store is and how to open it, for tasks in other processes: plain data that pickles.

    Each process opens it once. The options, which may be secrets, are not shown.
    """

    uri: str
    options: str = field(default="{}", repr=False)

    @classmethod
    def of(cls, uri: str, storage_options: Mapping[str, object] | None) -> StoreAddress:
        """Return the address of the table at ``uri``."""
        try:
            return cls(uri, json.dumps(dict(storage_options or {}), sort_keys=True))
        except TypeError:
            raise Invalid("storage options are texts, numbers, flags and lists of them") from None

    def __call__(self) -> Store:
        """Return the store."""
        return _opened(self)


@lru_cache(maxsize=64)
def _opened(address: StoreAddress) -> Store:
    return open_store(address.uri, json.loads(address.options))


SCHEMES = ("file", "memory", "s3", "s3a", "gs", "abfs", "abfss", "hdfs")

_MEMORY: dict[str, MemoryStore] = {}
_MEMORY_LOCK = threading.Lock()


def open_store(uri: str, storage_options: Mapping[str, object] | None = None) -> Store:
    """Return the store for the table at ``uri``: a plain path, or one of ``SCHEMES``.

    The options of each scheme are the fields of its options class (docs/stores.md).
    """
    options = dict(storage_options or {})
    scheme, separator, rest = uri.partition("://")
    if not separator:
        scheme, rest = "file", uri
        if uri.startswith("file:/"):
            rest = unquote(uri.removeprefix("file:"))
    elif scheme.lower() == "file":
        rest = _file_path(uri)
    if "\0" in uri or not rest:
        raise Invalid(f"not the place of a table: {_without_secrets(uri)!r}")
    match scheme.lower():
        case "file":
            return _open_local(rest, options)
        case "memory":
            _take(scheme, options, ())
            return _shared_memory(uri.rstrip("/"))
        case "s3" | "s3a":
            return _open_s3(uri, options)
        case "gs":
            return _open_gcs(uri, options)
        case "abfs" | "abfss":
            return _open_abfs(uri, options)
        case "hdfs":
            return _open_hdfs(uri, options)
        case _:
            known = ", ".join(f"{each}://" for each in SCHEMES)
            raise Invalid(
                f"unknown scheme {scheme!r}{_suggestion(scheme.lower(), SCHEMES)}: "
                f"a table lies at a plain path or below {known}"
            )


def _open_local(path: str, options: dict[str, object]) -> Store:
    from lakehand.store.local import LocalStore

    _take("file", options, ())
    return LocalStore(path)


def _open_s3(uri: str, options: dict[str, object]) -> Store:
    try:
        from lakehand.store.s3 import S3Store
        from lakehand.store.s3_requests import S3Options
    except ImportError as error:
        raise _missing("s3", "s3") from error
    bucket, base = _bucket_and_base(uri)
    names = tuple(each.name for each in fields(S3Options))
    return S3Store(bucket, base, S3Options(**_take("s3", options, names)))


def _open_gcs(uri: str, options: dict[str, object]) -> Store:
    try:
        from lakehand.store.gcs import GcsStore
        from lakehand.store.gcs_requests import GcsOptions
    except ImportError as error:
        raise _missing("gs", "gcs") from error
    bucket, base = _bucket_and_base(uri)
    names = tuple(each.name for each in fields(GcsOptions))
    return GcsStore(bucket, base, GcsOptions(**_take("gs", options, names)))


def _open_abfs(uri: str, options: dict[str, object]) -> Store:
    container, at, account = uri.partition("://")[2].partition("/")[0].partition("@")
    if not at or not container or not account or "@" in account:
        raise Invalid("write abfs://container@account.dfs.core.windows.net/table")
    try:
        from lakehand.store.abfs import AbfsOptions, AbfsStore
    except ImportError as error:
        raise _missing("abfs", "azure") from error
    names = tuple(each.name for each in fields(AbfsOptions))
    return AbfsStore(container, account, _base(uri), AbfsOptions(**_take("abfs", options, names)))


def _open_hdfs(uri: str, options: dict[str, object]) -> Store:
    try:
        from lakehand.store.hdfs import HdfsOptions, HdfsStore
    except ImportError as error:
        raise _missing("hdfs", "hdfs") from error
    names = tuple(each.name for each in fields(HdfsOptions))
    values = HdfsOptions(**_take("hdfs", options, names))
    return HdfsStore(urlsplit(uri).netloc, _base(uri), values)


def _shared_memory(uri: str) -> MemoryStore:
    """Return this process's store of that URI, so that what one opener wrote another finds."""
    with _MEMORY_LOCK:
        return _MEMORY.setdefault(uri, MemoryStore(uri))


def _bucket_and_base(uri: str) -> tuple[str, str]:
    bucket = uri.partition("://")[2].partition("/")[0]
    if "@" in bucket:
        raise Invalid("a URI must not carry credentials: give them as storage options")
    if not bucket:
        raise Invalid(f"no bucket in {uri!r}")
    return bucket, _base(uri)


def _base(uri: str) -> str:
    """Return what follows the bucket or host, as it stands: keys are not percent-encoded."""
    return paths.checked_folder(uri.partition("://")[2].partition("/")[2].rstrip("/"))


def _file_path(uri: str) -> str:
    parts = urlsplit(uri)
    if parts.netloc not in ("", "localhost"):
        raise Invalid(f"file:// takes an absolute path on this machine, as in file:///{uri[7:]}")
    return unquote(parts.path)


def _take(scheme: str, options: dict[str, object], known: tuple[str, ...]) -> dict[str, Any]:
    """Return the options if all are known. Values are secrets: only names are ever shown."""
    for name in options:
        if name not in known:
            suggestion = _suggestion(name, known)
            listed = ", ".join(known) or "none"
            raise Invalid(
                f"unknown storage option {name!r} for {scheme}://{suggestion}; known: {listed}"
            )
    return options


def _suggestion(word: str, known: tuple[str, ...]) -> str:
    close = difflib.get_close_matches(word, known, n=1, cutoff=0.5)
    return f" (did you mean {close[0]!r}?)" if close else ""


def _missing(scheme: str, extra: str) -> Invalid:
    return Invalid(f"{scheme}:// needs another package: pip install 'lakehand[{extra}]'")


def _without_secrets(uri: str) -> str:
    scheme, separator, rest = uri.partition("://")
    return f"{scheme}{separator}{rest.rpartition('@')[2]}"
