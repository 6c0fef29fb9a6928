"""S3 requests: one attempt each, repeated only by whoever knows that repeating is harmless.

s3fs finds the credentials and owns the event loop; the requests go to its low-level client,
whose own retries are off. ``once`` sends one request; ``again`` repeats one that may be repeated
(reads, and writes without condition whose twin does no harm). Failures are values.
"""

from __future__ import annotations

import asyncio
import io
import time
from dataclasses import dataclass, field
from datetime import timedelta
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any

import s3fs
from fsspec.asyn import sync

from lakehand.store.failures import Failed, Kind
from lakehand.store.s3_failures import REQUEST_ERRORS, judge

if TYPE_CHECKING:
    from concurrent.futures import Future
    from datetime import datetime

_PAUSES = (0.05, 0.2, 0.8, 1.6)
"""Seconds between attempts: one attempt more than there are pauses."""

_TURNED_AWAY = (Kind.BUSY, Kind.CONFLICTING)
_PASSING = (*_TURNED_AWAY, Kind.LOST)
_CONNECT_SECONDS = 5
_READ_SECONDS = 60
_CONNECTIONS = 64


@dataclass(frozen=True, slots=True)
class S3Options:
    """What may be said about an S3 bucket; what is not said comes from the environment."""

    key: str | None = field(default=None, repr=False)
    """Access key id; None: boto's usual chain of environment, profile and instance role."""

    secret: str | None = field(default=None, repr=False)
    """Secret access key."""

    token: str | None = field(default=None, repr=False)
    """Session token of temporary credentials."""

    profile: str | None = None
    """Name of a profile in the AWS configuration."""

    anon: bool = False
    """Send requests without a signature, for public buckets."""

    endpoint_url: str | None = field(default=None, repr=False)
    """URL of an S3-compatible server; None: AWS."""

    region: str | None = None
    """Region name; None: as configured."""

    addressing_style: str = "auto"
    """``auto``, ``path`` or ``virtual``: where the bucket's name stands in a URL."""

    part_size: int = 8 * 1024 * 1024
    """Bytes of one part of a staged file; a writer holds at most three. S3 takes 10,000 parts of
    5 MiB to 5 GiB, so this default reaches 78 GiB."""


class Requests:
    """Requests to one bucket."""

    def __init__(self, bucket: str, options: S3Options) -> None:
        self._bucket = bucket
        self._dated: tuple[datetime, float] | None = None
        self._files = s3fs.S3FileSystem(
            key=options.key,
            secret=options.secret,
            token=options.token,
            anon=options.anon,
            endpoint_url=options.endpoint_url,
            client_kwargs={} if options.region is None else {"region_name": options.region},
            config_kwargs={
                "retries": {"total_max_attempts": 1, "mode": "standard"},
                "connect_timeout": _CONNECT_SECONDS,
                "read_timeout": _READ_SECONDS,
                "max_pool_connections": _CONNECTIONS,
                # other servers than AWS do not know the newer checksums
                "request_checksum_calculation": "when_required",
                "response_checksum_validation": "when_required",
                "s3": {"addressing_style": options.addressing_style},
            },
            use_listings_cache=False,
            **({} if options.profile is None else {"profile": options.profile}),
        )

    def date(self, *, within_s: float) -> datetime | None:
        """Return the date of the last response if it came so recently, brought up to now."""
        dated = self._dated
        if dated is None:
            return None
        age_s = time.monotonic() - dated[1]
        return dated[0] + timedelta(seconds=age_s) if age_s <= within_s else None

    def once(self, operation: str, **params: object) -> dict[str, Any] | Failed:
        """Send one request; send it again only if it was turned away before it did anything."""
        return self._repeat(_TURNED_AWAY, operation, params)

    def again(self, operation: str, **params: object) -> dict[str, Any] | Failed:
        """Send one request, up to five times while the store is busy or silent."""
        return self._repeat(_PASSING, operation, params)

    def begin(self, operation: str, **params: object) -> Future[dict[str, Any] | Failed]:
        """Send one request as ``again`` does, without waiting for its answer."""
        return asyncio.run_coroutine_threadsafe(
            self._send_repeatedly(_PASSING, operation, params), self._files.loop
        )

    def _repeat(
        self, kinds: tuple[Kind, ...], operation: str, params: dict[str, object]
    ) -> dict[str, Any] | Failed:
        answer: dict[str, Any] | Failed = sync(
            self._files.loop, self._send_repeatedly, kinds, operation, params
        )
        return answer

    async def _send_repeatedly(
        self, kinds: tuple[Kind, ...], operation: str, params: dict[str, object]
    ) -> dict[str, Any] | Failed:
        answer = await self._send(operation, params)
        for pause in _PAUSES:
            if not isinstance(answer, Failed) or answer.kind not in kinds:
                break
            await asyncio.sleep(pause)
            answer = await self._send(operation, params)
        return answer

    async def _send(self, operation: str, params: dict[str, object]) -> dict[str, Any] | Failed:
        body = params.get("Body")
        if isinstance(body, bytes | bytearray):
            # as a file: aiohttp warns about large bodies in one piece
            params = {**params, "Body": io.BytesIO(body)}
        try:
            client = await self._files.set_session()
            answer: dict[str, Any] = await getattr(client, operation)(Bucket=self._bucket, **params)
            if operation == "get_object":
                async with answer["Body"] as stream:
                    answer["Content"] = await stream.read()
        except REQUEST_ERRORS as error:
            failed = judge(error)
            self._remember(failed.date)
            return failed
        self._remember(answer["ResponseMetadata"]["HTTPHeaders"].get("date"))
        return answer

    def _remember(self, date: str | None) -> None:
        if date is not None:
            self._dated = parsedate_to_datetime(date), time.monotonic()
