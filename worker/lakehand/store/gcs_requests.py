"""Requests to Google Cloud Storage's JSON API: one attempt each, repeated only on purpose.

gcsfs finds the credentials and owns the session and its event loop. Its own requests repeat
themselves, which a conditional write must not, so the requests are sent from here.
"""

from __future__ import annotations

import asyncio
import io
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypedDict
from urllib.parse import quote

import aiohttp
import gcsfs
import google.auth.exceptions
from fsspec.asyn import sync

from lakehand.store.failures import Failed, Kind

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Unpack

_PAUSES = (0.05, 0.2, 0.8, 1.6)
_TURNED_AWAY = (Kind.BUSY, Kind.CONFLICTING)
_PASSING = (*_TURNED_AWAY, Kind.LOST)
_SECONDS = aiohttp.ClientTimeout(sock_connect=5, sock_read=60)
_KINDS = {
    404: Kind.ABSENT,
    408: Kind.LOST,
    409: Kind.CONFLICTING,
    410: Kind.NO_UPLOAD,
    412: Kind.CONDITION,
    429: Kind.BUSY,
    499: Kind.NO_UPLOAD,
}
INCOMPLETE = 308
"""The status of a resumable upload that waits for more."""


@dataclass(frozen=True, slots=True)
class GcsOptions:
    """What may be said about a Cloud Storage bucket; the rest comes from the environment."""

    token: str | Mapping[str, object] | None = field(default=None, repr=False)
    """As gcsfs takes it: path of a key file, its content, ``anon``, ``cloud`` …; None: Google's
    usual chain of default credentials."""

    endpoint_url: str | None = field(default=None, repr=False)
    """URL of an emulator; None: Google."""

    part_size: int = 8 * 1024 * 1024
    """Bytes of one request of a staged file, a multiple of 256 KiB; a writer holds two."""


class Request(TypedDict, total=False):
    """What goes with a request beside method and URL."""

    params: Mapping[str, str]
    headers: Mapping[str, str]
    data: bytes


@dataclass(frozen=True, slots=True)
class Answer:
    """A reply that is not an error."""

    status: int
    headers: Mapping[str, str]
    content: bytes

    @property
    def document(self) -> dict[str, Any]:
        """The content as JSON."""
        document: dict[str, Any] = json.loads(self.content)
        return document


class Requests:
    """Requests to one bucket."""

    def __init__(self, bucket: str, options: GcsOptions) -> None:
        self._files = gcsfs.GCSFileSystem(
            token=options.token,
            project="unused",  # gcsfs warns without one, and needs it only to make buckets
            endpoint_url=options.endpoint_url,
            use_listings_cache=False,
        )
        root = self._files._location  # where gcsfs itself sends to
        self._objects = f"{root}/storage/v1/b/{quote(bucket, safe='')}/o"
        self._uploads = f"{root}/upload/storage/v1/b/{quote(bucket, safe='')}/o"

    def object_url(self, key: str) -> str:
        """Return the URL of one object."""
        return f"{self._objects}/{quote(key, safe='')}"

    @property
    def objects_url(self) -> str:
        """The URL of the bucket's listing."""
        return self._objects

    @property
    def uploads_url(self) -> str:
        """The URL that uploads go to."""
        return self._uploads

    def once(self, method: str, url: str, **request: Unpack[Request]) -> Answer | Failed:
        """Send one request; send it again only if it was turned away before it did anything."""
        return self._repeat(_TURNED_AWAY, method, url, request)

    def again(self, method: str, url: str, **request: Unpack[Request]) -> Answer | Failed:
        """Send one request, up to five times while the store is busy or silent."""
        return self._repeat(_PASSING, method, url, request)

    def _repeat(
        self, kinds: tuple[Kind, ...], method: str, url: str, request: Request
    ) -> Answer | Failed:
        answer: Answer | Failed = sync(
            self._files.loop, self._send_repeatedly, kinds, method, url, request
        )
        return answer

    async def _send_repeatedly(
        self, kinds: tuple[Kind, ...], method: str, url: str, request: Request
    ) -> Answer | Failed:
        answer = await self._send(method, url, **request)
        for pause in _PAUSES:
            if not isinstance(answer, Failed) or answer.kind not in kinds:
                break
            await asyncio.sleep(pause)
            answer = await self._send(method, url, **request)
        return answer

    async def _send(
        self,
        method: str,
        url: str,
        *,
        params: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        data: bytes | None = None,
    ) -> Answer | Failed:
        try:
            session = await self._files._set_session()  # has no public name
            signed = await asyncio.to_thread(self._files._get_headers, dict(headers or {}))
            async with session.request(
                method,
                url,
                params=params,
                headers=signed,
                data=io.BytesIO(data) if data else data,  # a file: aiohttp warns about large bytes
                timeout=_SECONDS,
                allow_redirects=False,
            ) as reply:
                content = await reply.read()
                if reply.status < 300 or reply.status == INCOMPLETE:
                    return Answer(reply.status, reply.headers, content)
                return _judge(reply.status, content, reply.headers.get("Date"))
        except (google.auth.exceptions.GoogleAuthError, gcsfs.retry.HttpError) as error:
            return Failed(Kind.REFUSED, type(error).__name__)
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            return Failed(Kind.LOST, type(error).__name__)


def _judge(status: int, content: bytes, date: str | None) -> Failed:
    """Judge an error by its status, and a missing bucket by the word for it."""
    kind = _KINDS.get(status)
    if status == 404 and b"bucket does not exist" in content:
        kind = Kind.REFUSED
    if kind is None:
        kind = Kind.REFUSED if 400 <= status < 500 else Kind.LOST
    return Failed(kind, str(status), date)
