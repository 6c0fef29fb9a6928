"""A store in an Azure container with a hierarchical namespace.

Objects are blobs, written under ``If-None-Match: *`` or ``If-Match``. A staged file is a blob in
the staging area; promotion is one rename under ``If-None-Match: *``, which only hierarchical
namespaces have. A flat one can be read, but staging in it is refused: uncommitted blocks could
not be discarded there. A version is an entity tag, which Azure changes with every write.
"""

from __future__ import annotations

import uuid
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from azure.core import MatchConditions
from azure.storage.blob import BlobPrefix

from lakehand.errors import Invalid, NotFound, Unavailable, Unsupported
from lakehand.ports import (
    Listing,
    ObjectInfo,
    PromoteOutcome,
    PutOutcome,
    Staged,
    StoredObject,
    Swapped,
)
from lakehand.store import paths
from lakehand.store.abfs_requests import AbfsOptions, Requests
from lakehand.store.abfs_staging import AbfsStagedWriter
from lakehand.store.failures import Failed, Kind
from lakehand.store.ranges import RangeFile

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from azure.storage.blob import BlobClient, BlobProperties

__all__ = ["AbfsOptions", "AbfsStore"]

MARK = "lakehandmark"


class AbfsStore:
    """Objects below a folder of a container. Threads may share it."""

    def __init__(self, container: str, account: str, base: str, options: AbfsOptions) -> None:
        """Take the table's place in the container, ``base`` without slashes at its ends."""
        self._container = container
        self._account = account
        self._base = paths.checked_folder(base)
        self._prefix = paths.below(base)
        self._part_size = options.part_size
        self._requests = Requests(container, account, options)
        self._may_stage = False

    def __repr__(self) -> str:
        return f"AbfsStore({self.uri!r})"

    @property
    def uri(self) -> str:
        """``abfss://container@account/base``."""
        return f"abfss://{self._container}@{self._account}/{self._base}".rstrip("/")

    # Reading

    def get(self, path: str) -> StoredObject:
        """Return the whole object; the SDK asks for every piece under the first one's tag."""
        blob = self._blob(path)

        def download() -> tuple[bytes, Any]:
            stream = blob.download_blob()
            return stream.readall(), stream.properties

        answer = self._requests.again(download)
        if isinstance(answer, Failed):
            raise self._not_readable(path, answer)
        content, about = answer
        if _is_folder(about):
            raise self._not_readable(path, Failed(Kind.ABSENT, "folder"))
        return StoredObject(content, about.etag, _millis(about.last_modified))

    def open(self, path: str) -> pa.NativeFile:
        """Open for ranged reads of the version that is there now."""
        about = self._properties(path)
        if isinstance(about, Failed):
            raise self._not_readable(path, about)
        blob, tag = self._blob(path), about.etag

        def fetch(start: int, end: int) -> bytes:
            def download() -> bytes:
                content: bytes = blob.download_blob(
                    offset=start,
                    length=end - start,
                    etag=tag,
                    match_condition=MatchConditions.IfNotModified,
                ).readall()
                return content

            part = self._requests.again(download)
            if isinstance(part, Failed):
                raise self._not_readable(path, part)
            return part

        return pa.PythonFile(RangeFile(about.size, fetch), mode="r")

    def head(self, path: str) -> ObjectInfo | None:
        """Return size and modification time."""
        about = self._properties(path)
        if isinstance(about, Failed):
            if about.kind is Kind.ABSENT:
                return None
            raise about.as_error(self._where(path))
        return ObjectInfo(path, about.size, _millis(about.last_modified))

    def list(self, folder: str) -> Listing:
        """Return the direct children."""
        prefix = self._prefix + paths.below(paths.checked_folder(folder))
        found = self._requests.again(
            lambda: [
                *self._requests.blobs.walk_blobs(
                    name_starts_with=prefix, include=["metadata"], delimiter="/"
                )
            ]
        )
        if isinstance(found, Failed):
            raise found.as_error(self._where(folder))
        folders = {
            each.name.rstrip("/")[len(self._prefix) :]
            for each in found
            if isinstance(each, BlobPrefix) or _is_folder(each)
        }
        blobs = [each for each in found if not isinstance(each, BlobPrefix)]
        return Listing(
            tuple(sorted(self._infos(blobs), key=lambda info: info.path)),
            tuple(sorted(each for each in folders if each and not paths.is_hidden(each))),
        )

    def names(self, folder: str) -> tuple[str, ...]:
        """Return the names of the objects of a listing."""
        return paths.names_of(self.list(folder), folder)

    def walk(self, folder: str) -> Iterator[ObjectInfo]:
        """Yield from one flat listing, page by page."""
        return self._walk(self._prefix + paths.below(paths.checked_folder(folder)), folder)

    def _walk(self, prefix: str, folder: str) -> Iterator[ObjectInfo]:
        blobs = self._requests.blobs.list_blobs(name_starts_with=prefix, include=["metadata"])
        pages = blobs.by_page()
        while True:
            page = self._requests.once(lambda: next(pages, None))
            if isinstance(page, Failed):
                raise page.as_error(self._where(folder))
            if page is None:
                return
            yield from self._infos(page)

    def _infos(self, blobs: Any) -> Iterator[ObjectInfo]:  # noqa: ANN401 - the SDK's lists
        for blob in blobs:
            path = blob.name[len(self._prefix) :]
            is_object = path and not path.endswith("/") and not _is_folder(blob)
            if is_object and not paths.is_hidden(path):
                yield ObjectInfo(path, blob.size, _millis(blob.last_modified))

    # Writing

    def put_new(self, path: str, content: bytes) -> PutOutcome:
        """Upload under ``If-None-Match: *``."""
        return self._put_conditionally(path, content, overwrite=False)

    def put_if(self, path: str, content: bytes, version: str) -> PutOutcome:
        """Upload under ``If-Match``."""
        return self._put_conditionally(
            path,
            content,
            overwrite=True,
            etag=version,
            match_condition=MatchConditions.IfNotModified,
        )

    def _put_conditionally(self, path: str, content: bytes, **condition: Any) -> PutOutcome:  # noqa: ANN401
        blob, mark = self._blob(path), uuid.uuid4().hex
        answer = self._requests.once(
            lambda: blob.upload_blob(content, metadata={MARK: mark}, **condition)
        )
        if not isinstance(answer, Failed):
            return PutOutcome.WRITTEN
        match answer.kind:
            case Kind.CONDITION | Kind.ABSENT:
                match self._bears(path, mark):
                    case True:
                        return PutOutcome.WRITTEN  # it was sent twice: the first one won
                    case False:
                        return PutOutcome.EXISTS
                    case None:
                        return PutOutcome.UNKNOWN
            case Kind.LOST | Kind.NO_UPLOAD:
                return PutOutcome.WRITTEN if self._bears(path, mark) else PutOutcome.UNKNOWN
            case Kind.REFUSED | Kind.BUSY | Kind.CONFLICTING:
                raise answer.as_error(self._where(path))  # nothing was done

    def swap(self, path: str, content: bytes, version: str | None) -> Swapped:
        """Do either; the version that it left has to be read."""
        if version is None:
            return Swapped(self.put_new(path, content))
        return Swapped(self.put_if(path, content, version))

    def put(self, path: str, content: bytes) -> None:
        """Upload without condition."""
        blob = self._blob(path)
        answer = self._requests.again(lambda: blob.upload_blob(content, overwrite=True))
        if isinstance(answer, Failed):
            raise answer.as_error(self._where(path))

    def delete(self, path: str) -> None:
        """DELETE. Nobody's Hadoop client keeps ``.crc`` files there, so there is none to remove."""
        blob = self._blob(path)
        answer = self._requests.again(blob.delete_blob)
        if isinstance(answer, Failed) and answer.kind is not Kind.ABSENT:
            raise answer.as_error(self._where(path))

    def now(self) -> int:
        """Return the date of a response; that of a missing object does as well."""
        blob = self._blob(".hoodie/hoodie.properties")
        dates: list[str | None] = []
        answer = self._requests.again(
            lambda: blob.get_blob_properties(
                raw_response_hook=lambda reply: dates.append(
                    reply.http_response.headers.get("Date")
                )
            )
        )
        if isinstance(answer, Failed):
            if answer.kind is not Kind.ABSENT:
                raise answer.as_error(self._where(""))
            dates.append(answer.date)
        if not dates or dates[-1] is None:
            raise Unavailable(f"{self.uri}: the server's responses bear no date")
        return _millis(parsedate_to_datetime(dates[-1]))

    # Staging

    def stage(self, final: str, *, area: str) -> AbfsStagedWriter:
        """Create an empty blob in ``area``; the writer may only replace that very blob."""
        staged = Staged(paths.checked(final), paths.staged_place(area, uuid.uuid4().hex))
        self._refuse_flat()
        blob = self._blob(staged.place)
        answer = self._requests.again(lambda: blob.upload_blob(b"", overwrite=True))
        if isinstance(answer, Failed):
            raise answer.as_error(self._where(staged.place))
        return AbfsStagedWriter(
            self, self._requests, staged, blob, answer["etag"], part_size=self._part_size
        )

    def _refuse_flat(self) -> None:
        if self._may_stage:
            return
        answer = self._requests.is_hierarchical()
        if isinstance(answer, Failed):
            raise answer.as_error(f"kind of namespace of {self.uri}")
        if not answer:
            raise Unsupported(
                f"{self.uri}: the storage account has a flat namespace, where staged files "
                "cannot be discarded safely; use an account with a hierarchical namespace"
            )
        self._may_stage = True

    def promote(self, staged: Staged) -> PromoteOutcome:
        """Rename what is staged to its final name under ``If-None-Match: *``."""
        source = self._prefix + paths.checked_place(staged.place)
        target = self._key(staged.final)
        if not staged.parts:
            raise Invalid(f"the staged file for {staged.final!r} was never closed")
        folder = target.rpartition("/")[0]
        prepared = self._requests.again(
            lambda: self._requests.make_folder(folder) if folder else None
        )
        if isinstance(prepared, Failed):
            raise prepared.as_error(self._where(staged.final))
        answer = self._requests.once(lambda: self._requests.rename_exclusively(source, target))
        if not isinstance(answer, Failed):
            return PromoteOutcome.WRITTEN
        match answer.kind:
            case Kind.NO_UPLOAD | Kind.ABSENT:
                return PromoteOutcome.GONE
            case Kind.CONDITION:
                return self._consumed(staged)
            case Kind.LOST:
                return PromoteOutcome.UNKNOWN
            case Kind.REFUSED | Kind.BUSY | Kind.CONFLICTING:
                raise answer.as_error(self._where(staged.final))  # nothing was done

    def _consumed(self, staged: Staged) -> PromoteOutcome:
        """Drop what is staged for a name that is taken; GONE if it was this that took it."""
        blob = self._blob(staged.place)
        answer = self._requests.again(blob.delete_blob)
        if isinstance(answer, Failed):
            is_gone = answer.kind is Kind.ABSENT
            return PromoteOutcome.GONE if is_gone else PromoteOutcome.UNKNOWN
        return PromoteOutcome.EXISTS

    def discard(self, staged: Staged) -> None:
        """Delete the staged blob: a writer that goes on can no longer replace it."""
        self.delete(paths.checked_place(staged.place))

    def discard_area(self, area: str) -> None:
        """Delete every staged blob there."""
        below = f"{self._prefix}{paths.checked_area(area)}/"
        found = self._requests.again(
            lambda: [*self._requests.blobs.list_blobs(name_starts_with=below)]
        )
        if isinstance(found, Failed):
            raise found.as_error(self._where(area))
        for blob in found:
            if blob.name.endswith(paths.STAGED_SUFFIX):
                self.delete(blob.name[len(self._prefix) :])

    # Helpers

    def _properties(self, path: str) -> BlobProperties | Failed:
        blob = self._blob(path)
        about = self._requests.again(blob.get_blob_properties)
        if not isinstance(about, Failed) and _is_folder(about):
            return Failed(Kind.ABSENT, "folder")
        return about

    def _bears(self, path: str, mark: str) -> bool | None:
        """Tell whether the object is there with this mark; None if that cannot be learnt."""
        about = self._properties(path)
        if isinstance(about, Failed):
            return False if about.kind is Kind.ABSENT else None
        return bool((about.metadata or {}).get(MARK) == mark)

    def _blob(self, path: str) -> BlobClient:
        return self._requests.blobs.get_blob_client(self._key(path))

    def _key(self, path: str) -> str:
        return self._prefix + paths.checked(path)

    def _where(self, path: str) -> str:
        return f"{path!r} in {self.uri}"

    def _not_readable(self, path: str, failed: Failed) -> Exception:
        match failed.kind:
            case Kind.ABSENT:
                return NotFound(f"no object {self._where(path)}")
            case Kind.CONDITION:
                return Unavailable(f"{self._where(path)}: it was replaced while it was read")
            case _:
                return failed.as_error(self._where(path))


def _is_folder(about: BlobProperties) -> bool:
    """Tell whether a blob stands for a folder of the hierarchical namespace."""
    return bool((about.metadata or {}).get("hdi_isfolder") == "true")


def _millis(moment: datetime) -> int:
    return int(moment.timestamp()) * 1000
