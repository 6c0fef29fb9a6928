"""Requests to Azure storage: the Blob service for objects, the Data Lake endpoint for renames.

The Blob client of Azure's SDK sends both, so that one set of credentials signs them; its own
repetitions are off. Failures are values, as for the other object stores.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import quote

import adlfs  # noqa: F401 - the extra that brings the SDK and its credentials
from azure.core.exceptions import AzureError, HttpResponseError
from azure.core.rest import HttpRequest
from azure.storage.blob import BlobServiceClient

from lakehand.store.failures import Failed, Kind

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from azure.core.credentials import TokenCredential
    from azure.storage.blob import ContainerClient

    T = TypeVar("T")

_PAUSES = (0.05, 0.2, 0.8, 1.6)
_TURNED_AWAY = (Kind.BUSY, Kind.CONFLICTING)
_PASSING = (*_TURNED_AWAY, Kind.LOST)
_API_VERSION = "2023-11-03"
_KINDS = {
    "BlobNotFound": Kind.ABSENT,
    "PathNotFound": Kind.ABSENT,
    "SourcePathNotFound": Kind.NO_UPLOAD,
    "BlobAlreadyExists": Kind.CONDITION,
    "PathAlreadyExists": Kind.CONDITION,
    "ConditionNotMet": Kind.CONDITION,
    "TargetConditionNotMet": Kind.CONDITION,
    "SourceConditionNotMet": Kind.CONDITION,
    "ContainerNotFound": Kind.REFUSED,
    "FilesystemNotFound": Kind.REFUSED,
    "ServerBusy": Kind.BUSY,
    "InvalidBlockList": Kind.NO_UPLOAD,
}


@dataclass(frozen=True, slots=True)
class AbfsOptions:
    """What may be said about a container; with no key and no token, Azure's default chain."""

    account_key: str | None = field(default=None, repr=False)
    """Key of the storage account."""

    sas_token: str | None = field(default=None, repr=False)
    """Shared access signature, without the question mark."""

    endpoint_url: str | None = field(default=None, repr=False)
    """URL of an emulator's Blob service, with the account; None: Azure."""

    part_size: int = 8 * 1024 * 1024
    """Bytes of one block of a staged file; a writer holds two. Azure takes 50,000 blocks."""


class Requests:
    """Requests to one container."""

    def __init__(self, container: str, account: str, options: AbfsOptions) -> None:
        host = account if "." in account else f"{account}.dfs.core.windows.net"
        url = options.endpoint_url or f"https://{host.replace('.dfs.', '.blob.', 1)}"
        self._service = BlobServiceClient(
            url, credential=_credential(host, options), retry_total=0, api_version=None
        )
        self._container = container
        self._lake_url = url.replace(".blob.", ".dfs.", 1).rstrip("/")
        self.blobs: ContainerClient = self._service.get_container_client(container)

    def once(self, call: Callable[[], T]) -> T | Failed:
        """Make one call; make it again only if it was turned away before it did anything."""
        return _repeat(_TURNED_AWAY, call)

    def again(self, call: Callable[[], T]) -> T | Failed:
        """Make one call, up to five times while the store is busy or silent."""
        return _repeat(_PASSING, call)

    def is_hierarchical(self) -> bool | Failed:
        """Ask whether the account has a hierarchical namespace."""
        answer = self.again(self._service.get_account_information)
        return answer if isinstance(answer, Failed) else bool(answer.get("is_hns_enabled"))

    def make_folder(self, key: str) -> None:
        """Create a folder, which a rename into it needs, if it is not there."""
        headers = {"If-None-Match": "*", "Content-Length": "0"}
        answer = self._lake("PUT", f"{self._path(key)}?resource=directory", headers)
        if isinstance(answer, Failed) and answer.kind is not Kind.CONDITION:
            raise HttpResponseError(message=answer.code)

    def rename_exclusively(self, source: str, target: str) -> None:
        """Rename by one request under ``If-None-Match: *``; raises what the SDK raises."""
        headers = {
            "x-ms-rename-source": f"{self._path(source)}{self._signature('?')}",
            "If-None-Match": "*",
            "Content-Length": "0",
        }
        self._send("PUT", f"{self._path(target)}?mode=legacy", headers)

    def _lake(self, method: str, path: str, headers: Mapping[str, str]) -> Failed | None:
        return self.again(lambda: self._send(method, path, headers))

    def _send(self, method: str, path: str, headers: Mapping[str, str]) -> None:
        request = HttpRequest(
            method,
            f"{self._lake_url}{path}{self._signature('&')}",
            headers={**headers, "x-ms-version": _API_VERSION},
        )
        # the SDK has no public way to send a request of one's own through its pipeline
        reply = self._service._pipeline.run(request).http_response
        if reply.status_code >= 300:
            raise HttpResponseError(response=reply)

    def _path(self, key: str) -> str:
        return f"/{quote(self._container)}/{quote(key)}"

    def _signature(self, joint: str) -> str:
        query = self._service.url.partition("?")[2]
        return f"{joint}{query}" if query else ""


def _credential(host: str, options: AbfsOptions) -> dict[str, str] | str | TokenCredential:
    if options.account_key is not None:
        return {"account_name": host.partition(".")[0], "account_key": options.account_key}
    if options.sas_token is not None:
        return options.sas_token
    from azure.identity import DefaultAzureCredential

    return DefaultAzureCredential()


def _repeat(kinds: tuple[Kind, ...], call: Callable[[], T]) -> T | Failed:
    answer = _attempt(call)
    for pause in _PAUSES:
        if not isinstance(answer, Failed) or answer.kind not in kinds:
            break
        time.sleep(pause)
        answer = _attempt(call)
    return answer


def _attempt(call: Callable[[], T]) -> T | Failed:
    try:
        return call()
    except AzureError as error:
        return judge(error)
    except OSError as error:
        return Failed(Kind.LOST, type(error).__name__)


def judge(error: AzureError) -> Failed:
    """Say what ``error`` means. Only codes are kept: messages may quote what was sent."""
    if not isinstance(error, HttpResponseError) or error.response is None:
        return Failed(Kind.LOST, type(error).__name__)
    status = int(error.status_code or 0)
    headers: Mapping[str, str] = getattr(error.response, "headers", {})
    code = str(getattr(error, "error_code", None) or headers.get("x-ms-error-code") or status)
    kind = _KINDS.get(code.rpartition(".")[2])
    if kind is None:
        match status:
            case 404:
                kind = Kind.ABSENT
            case 409:
                kind = Kind.CONFLICTING
            case 412:
                kind = Kind.CONDITION
            case 429:
                kind = Kind.BUSY
            case _:
                kind = Kind.REFUSED if 400 <= status < 500 else Kind.LOST
    return Failed(kind, code, headers.get("Date"))
