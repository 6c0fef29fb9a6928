"""The stream into a staged file on S3: parts of a multipart upload, one on its way at a time.

While one part is being sent the next is being filled, so a writer holds at most three parts
(the one sent, its copy in the HTTP client, the one filled) however long the stream is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakehand.errors import Fenced, Invalid, LimitExceeded
from lakehand.ports import Staged
from lakehand.store.failures import Failed, Kind

if TYPE_CHECKING:
    from concurrent.futures import Future
    from types import TracebackType
    from typing import Any, Self

    from lakehand.store.s3_requests import Requests

_MOST_PARTS = 10_000


class S3StagedWriter:
    """Sends parts as they fill up; the upload stays open until somebody promotes it."""

    def __init__(
        self, requests: Requests, staged: Staged, key: str, upload: str, *, part_size: int
    ) -> None:
        self._requests = requests
        self._staged = staged
        self._key = key
        self._upload = upload
        self._part_size = part_size
        self._filling = bytearray()
        self._tags: list[str] = []
        self._sending: Future[dict[str, Any] | Failed] | None = None
        self._is_closed = False

    @property
    def staged(self) -> Staged:
        """The handle."""
        return self._staged

    @property
    def closed(self) -> bool:
        """Tell whether it takes no more."""
        return self._is_closed

    def write(self, data: bytes | memoryview) -> int:
        """Append ``data``; send every part that is full."""
        if self._is_closed:
            raise Invalid(f"the staged file for {self._staged.final!r} is closed")
        view = memoryview(data).cast("B")
        written = len(view)
        while view:
            room = self._part_size - len(self._filling)
            self._filling += view[:room]
            view = view[room:]
            if len(self._filling) >= self._part_size:
                self._send()
        return written

    def close(self) -> None:
        """Send what is left; an empty file is one empty part."""
        if self._is_closed:
            return
        if self._filling or (not self._tags and self._sending is None):
            self._send()
        self._await()
        self._is_closed = True
        self._staged = Staged(self._staged.final, self._staged.place, tuple(self._tags))

    def _send(self) -> None:
        self._await()
        number = len(self._tags) + 1
        if number > _MOST_PARTS:
            raise LimitExceeded(
                f"{self._staged.final!r}: S3 takes {_MOST_PARTS} parts; raise part_size "
                f"(now {self._part_size})"
            )
        part, self._filling = self._filling, bytearray()
        self._sending = self._requests.begin(
            "upload_part", Key=self._key, UploadId=self._upload, PartNumber=number, Body=part
        )

    def _await(self) -> None:
        """Wait for the part on its way."""
        if self._sending is None:
            return
        answer, self._sending = self._sending.result(), None
        if not isinstance(answer, Failed):
            self._tags.append(answer["ETag"])
            return
        if answer.kind is Kind.NO_UPLOAD:
            raise Fenced(f"what was staged for {self._staged.final!r} was discarded meanwhile")
        raise answer.as_error(f"a part of {self._staged.final!r}")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None:
            self.close()
            return
        self._is_closed = True
        if self._sending is not None:
            # S3 may keep a part that arrives after the upload was aborted
            self._sending.exception()
        self._requests.again("abort_multipart_upload", Key=self._key, UploadId=self._upload)
