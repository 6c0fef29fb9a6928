"""The stream into a staged file on Azure: blocks, committed over the empty blob at the end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from azure.core import MatchConditions
from azure.storage.blob import BlobBlock

from lakehand.errors import Fenced, Invalid
from lakehand.ports import Staged
from lakehand.store.failures import Failed, Kind

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

    from azure.storage.blob import BlobClient

    from lakehand.store.abfs import AbfsStore
    from lakehand.store.abfs_requests import Requests


class AbfsStagedWriter:
    """Sends full blocks; closing commits them if nobody has deleted the blob meanwhile."""

    def __init__(
        self,
        store: AbfsStore,
        requests: Requests,
        staged: Staged,
        blob: BlobClient,
        tag: str,
        *,
        part_size: int,
    ) -> None:
        self._store = store
        self._requests = requests
        self._staged = staged
        self._blob = blob
        self._tag = tag
        self._part_size = part_size
        self._filling = bytearray()
        self._blocks: list[BlobBlock] = []
        self._size = 0
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
        """Append ``data``; send every block that is full."""
        if self._is_closed:
            raise Invalid(f"the staged file for {self._staged.final!r} is closed")
        view = memoryview(data).cast("B")
        written = len(view)
        while view:
            room = self._part_size - len(self._filling)
            self._filling += view[:room]
            view = view[room:]
            if len(self._filling) == self._part_size:
                self._send()
        return written

    def close(self) -> None:
        """Send what is left and commit the blocks under the empty blob's tag."""
        if self._is_closed:
            return
        if self._filling:
            self._send()
        answer = self._requests.once(
            lambda: self._blob.commit_block_list(
                self._blocks, etag=self._tag, match_condition=MatchConditions.IfNotModified
            )
        )
        self._settle(answer)
        self._is_closed = True
        self._staged = Staged(self._staged.final, self._staged.place, (str(self._size),))

    def _send(self) -> None:
        name = f"{len(self._blocks):06d}"
        part, self._filling = bytes(self._filling), bytearray()
        self._settle(self._requests.again(lambda: self._blob.stage_block(name, part)))
        self._blocks.append(BlobBlock(name))
        self._size += len(part)

    def _settle(self, answer: object) -> None:
        if not isinstance(answer, Failed):
            return
        if answer.kind in (Kind.ABSENT, Kind.CONDITION, Kind.NO_UPLOAD):
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
        else:
            self._is_closed = True
            self._store.discard(self._staged)
