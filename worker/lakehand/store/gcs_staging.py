"""The stream into a staged file on Cloud Storage: all but its last bytes go into the upload."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakehand.errors import Fenced, Invalid, Unavailable
from lakehand.ports import Staged
from lakehand.store.failures import Failed, Kind
from lakehand.store.gcs_requests import INCOMPLETE

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

    from lakehand.store.gcs import GcsStore
    from lakehand.store.gcs_requests import Requests

CHUNK = 256 * 1024
"""Cloud Storage takes multiples of this from a request that does not finish an upload."""


class GcsStagedWriter:
    """Sends full chunks; the last bytes wait in a side object until somebody promotes."""

    def __init__(
        self, store: GcsStore, requests: Requests, staged: Staged, tail: str, *, part_size: int
    ) -> None:
        if part_size < CHUNK or part_size % CHUNK:
            raise Invalid(f"part_size is a multiple of {CHUNK}, not {part_size}")
        self._store = store
        self._requests = requests
        self._staged = staged
        self._upload = staged.place.partition(":")[2]
        self._tail = tail
        self._part_size = part_size
        self._filling = bytearray()
        self._sent = 0
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
            if len(self._filling) == self._part_size:
                self._send(self._part_size)
        return written

    def close(self) -> None:
        """Send what is left in chunks, and put the rest aside."""
        if self._is_closed:
            return
        whole = len(self._filling) // CHUNK * CHUNK
        if whole:
            self._send(whole)
        self._store.put(self._tail, bytes(self._filling))
        self._is_closed = True
        size = str(self._sent + len(self._filling))
        self._staged = Staged(self._staged.final, self._staged.place, (size, self._tail))

    def _send(self, length: int) -> None:
        part = bytes(self._filling[:length])
        del self._filling[:length]
        span = f"{self._sent}-{self._sent + length - 1}"
        answer = self._requests.again(
            "PUT", **self._store.upload_request(self._upload, content=part, span=span, total="*")
        )
        final = self._staged.final
        if isinstance(answer, Failed):
            if answer.kind in (Kind.NO_UPLOAD, Kind.ABSENT):
                raise Fenced(f"what was staged for {final!r} was discarded meanwhile")
            raise answer.as_error(f"a part of {final!r}")
        self._sent += length
        if answer.status != INCOMPLETE or not answer.headers.get("Range", "").endswith(
            f"-{self._sent - 1}"
        ):
            raise Unavailable(f"a part of {final!r} was not kept whole; stage it again")

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
        else:
            self._is_closed = True
            self._store.discard(self._staged)
