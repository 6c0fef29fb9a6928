"""A store in an S3 bucket, by conditional requests that are never repeated behind our back.

``put_new`` and ``put_if`` are one PUT under ``If-None-Match: *`` or ``If-Match``. A staged file
is a multipart upload to the final key that nobody completed yet; promotion completes it under
``If-None-Match: *``, and the upload is gone afterwards, so it cannot appear again.

Every object carries the mark of the call that made it (user metadata). A lost reply, a condition
that failed because the HTTP client or a proxy had sent the request twice, and a completion that
is answered 200 a second time are told apart by looking at the mark: what bears mine is mine.

A version is the entity tag, which on S3 is a digest: equal content may have an equal version.
Times have S3's resolution of a second, everywhere, so that they can be compared.
"""

from __future__ import annotations

import re
import uuid
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lakehand.errors import Invalid, NotFound, Unavailable
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
from lakehand.store.failures import Failed, Kind
from lakehand.store.ranges import RangeFile
from lakehand.store.s3_requests import Requests
from lakehand.store.s3_staging import S3StagedWriter

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lakehand.store.s3_requests import S3Options

MARK = "lakehand-mark"
_FRESH_SECONDS = 1.0
"""A response's date is good for so long: the store's clock is told in whole seconds anyway."""

_PLACE = re.compile(r"(?P<mark>[0-9a-f]{32}):(?P<upload>[!-~]{1,2048})")


class S3Store:
    """Objects below a prefix of a bucket. Threads may share it; it does not survive a fork."""

    def __init__(self, bucket: str, base: str, options: S3Options) -> None:
        """Take the table's place in the bucket, ``base`` without slashes at its ends."""
        self._bucket = bucket
        self._base = paths.checked_folder(base)
        self._prefix = paths.below(base)
        self._part_size = options.part_size
        self._requests = Requests(bucket, options)

    def __repr__(self) -> str:
        return f"S3Store({self.uri!r})"

    @property
    def uri(self) -> str:
        """``s3://bucket/base``."""
        return f"s3://{self._bucket}/{self._base}".rstrip("/")

    # Reading

    def get(self, path: str) -> StoredObject:
        """Return the whole object by one request."""
        answer = self._requests.again("get_object", Key=self._key(path))
        if isinstance(answer, Failed):
            raise self._not_readable(path, answer)
        return StoredObject(answer["Content"], answer["ETag"], _millis(answer["LastModified"]))

    def open(self, path: str) -> pa.NativeFile:
        """Open for ranged reads of the version that is there now."""
        key = self._key(path)
        answer = self._requests.again("head_object", Key=key)
        if isinstance(answer, Failed):
            raise self._not_readable(path, answer)
        tag = answer["ETag"]

        def fetch(start: int, end: int) -> bytes:
            part = self._requests.again(
                "get_object", Key=key, Range=f"bytes={start}-{end - 1}", IfMatch=tag
            )
            if isinstance(part, Failed):
                raise self._not_readable(path, part)
            content: bytes = part["Content"]
            if len(content) != end - start:
                raise Unavailable(
                    f"{self._where(path)}: {len(content)} of {end - start} bytes came"
                )
            return content

        return pa.PythonFile(RangeFile(int(answer["ContentLength"]), fetch), mode="r")

    def head(self, path: str) -> ObjectInfo | None:
        """Return size and modification time."""
        answer = self._requests.again("head_object", Key=self._key(path))
        if isinstance(answer, Failed):
            if answer.kind is Kind.ABSENT:
                return None
            raise answer.as_error(self._where(path))
        return ObjectInfo(path, int(answer["ContentLength"]), _millis(answer["LastModified"]))

    def list(self, folder: str) -> Listing:
        """Return the direct children, a thousand names a request."""
        objects: list[ObjectInfo] = []
        folders: list[str] = []
        for page in self._pages(folder, Delimiter="/"):
            objects.extend(self._infos(page))
            for common in page.get("CommonPrefixes", ()):
                path = common["Prefix"][len(self._prefix) : -1]
                if path and not paths.is_hidden(path):
                    folders.append(path)
        return Listing(
            tuple(sorted(objects, key=lambda info: info.path)), tuple(sorted(set(folders)))
        )

    def names(self, folder: str) -> tuple[str, ...]:
        """Return the names of the objects of a listing."""
        return paths.names_of(self.list(folder), folder)

    def walk(self, folder: str) -> Iterator[ObjectInfo]:
        """Yield from one flat listing, page by page."""
        paths.checked_folder(folder)
        return (info for page in self._pages(folder) for info in self._infos(page))

    def _pages(self, folder: str, **params: str) -> Iterator[dict[str, Any]]:
        prefix = self._prefix + paths.below(paths.checked_folder(folder))
        while True:
            page = self._requests.again("list_objects_v2", Prefix=prefix, **params)
            if isinstance(page, Failed):
                raise page.as_error(self._where(folder))
            yield page
            if not page.get("IsTruncated"):
                return
            params["ContinuationToken"] = page["NextContinuationToken"]

    def _infos(self, page: dict[str, Any]) -> Iterator[ObjectInfo]:
        """Yield the objects of a page, without markers of folders (keys that end with a slash)."""
        skip = len(self._prefix)
        for entry in page.get("Contents", ()):
            path = entry["Key"][skip:]
            if path and not path.endswith("/") and not paths.is_hidden(path):
                yield ObjectInfo(path, entry["Size"], _millis(entry["LastModified"]))

    # Writing

    def put_new(self, path: str, content: bytes) -> PutOutcome:
        """PUT under ``If-None-Match: *``."""
        return self._put_conditionally(path, content, IfNoneMatch="*").outcome

    def put_if(self, path: str, content: bytes, version: str) -> PutOutcome:
        """PUT under ``If-Match``."""
        return self._put_conditionally(path, content, IfMatch=version).outcome

    def swap(self, path: str, content: bytes, version: str | None) -> Swapped:
        """Do either, and keep the entity tag of the answer."""
        if version is None:
            return self._put_conditionally(path, content, IfNoneMatch="*")
        return self._put_conditionally(path, content, IfMatch=version)

    def _put_conditionally(self, path: str, content: bytes, **condition: str) -> Swapped:
        key, mark = self._key(path), uuid.uuid4().hex
        answer = self._requests.once(
            "put_object", Key=key, Body=content, Metadata={MARK: mark}, **condition
        )
        if not isinstance(answer, Failed):
            return Swapped(PutOutcome.WRITTEN, answer["ETag"])
        match answer.kind:
            case Kind.CONDITION | Kind.ABSENT:
                match self._bears(key, mark):
                    case True:
                        return Swapped(PutOutcome.WRITTEN)  # it was sent twice: the first one won
                    case False:
                        return Swapped(PutOutcome.EXISTS)
                    case None:
                        return Swapped(PutOutcome.UNKNOWN)
            case Kind.LOST | Kind.NO_UPLOAD:
                is_mine = self._bears(key, mark)
                return Swapped(PutOutcome.WRITTEN if is_mine else PutOutcome.UNKNOWN)
            case Kind.REFUSED | Kind.BUSY | Kind.CONFLICTING:
                raise answer.as_error(self._where(path))  # nothing was done

    def put(self, path: str, content: bytes) -> None:
        """PUT without condition."""
        answer = self._requests.again("put_object", Key=self._key(path), Body=content)
        if isinstance(answer, Failed):
            raise answer.as_error(self._where(path))

    def delete(self, path: str) -> None:
        """DELETE. Nobody's Hadoop client keeps ``.crc`` files in S3, so there is none to remove."""
        answer = self._requests.again("delete_object", Key=self._key(path))
        if isinstance(answer, Failed) and answer.kind is not Kind.ABSENT:
            raise answer.as_error(self._where(path))

    def now(self) -> int:
        """Return the date of a response: of the last one if it is fresh, else of one made for it.

        That of a missing object does as well.
        """
        date = self._requests.date(within_s=_FRESH_SECONDS)
        if date is None:
            path = f"{self._prefix}.hoodie/hoodie.properties"
            answer = self._requests.again("head_object", Key=path)
            if isinstance(answer, Failed) and answer.kind is Kind.REFUSED:
                raise answer.as_error(self._where(""))
            date = self._requests.date(within_s=_FRESH_SECONDS)
        if date is None:
            raise Unavailable(f"{self.uri}: the server does not answer, or bears no date")
        return _millis(date)

    # Staging

    def stage(self, final: str, *, area: str) -> S3StagedWriter:
        """Begin a multipart upload to the final key. ``area`` is not used, but judged."""
        key, mark = self._key(final), uuid.uuid4().hex
        paths.staged_place(area, mark)
        answer = self._requests.again("create_multipart_upload", Key=key, Metadata={MARK: mark})
        if isinstance(answer, Failed):
            raise answer.as_error(self._where(final))
        staged = Staged(final, f"{mark}:{answer['UploadId']}")
        return S3StagedWriter(
            self._requests, staged, key, answer["UploadId"], part_size=self._part_size
        )

    def promote(self, staged: Staged) -> PromoteOutcome:
        """Complete the upload under ``If-None-Match: *``, and look at what is there then."""
        key = self._key(staged.final)
        mark, upload = _mark_and_upload(staged)
        if not staged.parts:
            raise Invalid(f"the staged file for {staged.final!r} was never closed")
        parts = [{"PartNumber": n, "ETag": tag} for n, tag in enumerate(staged.parts, start=1)]
        answer = self._requests.once(
            "complete_multipart_upload",
            Key=key,
            UploadId=upload,
            MultipartUpload={"Parts": parts},
            IfNoneMatch="*",
        )
        if not isinstance(answer, Failed):
            match self._bears(key, mark):
                case True:
                    return PromoteOutcome.WRITTEN
                case False:
                    return PromoteOutcome.GONE  # the answer to a completion of long ago
                case None:
                    return PromoteOutcome.UNKNOWN
        match answer.kind:
            case Kind.NO_UPLOAD:
                return PromoteOutcome.GONE
            case Kind.CONDITION:
                return self._consumed(key, mark, upload)
            case Kind.LOST | Kind.ABSENT:
                is_mine = self._bears(key, mark)
                return PromoteOutcome.WRITTEN if is_mine else PromoteOutcome.UNKNOWN
            case Kind.REFUSED | Kind.BUSY | Kind.CONFLICTING:
                raise answer.as_error(self._where(staged.final))  # nothing was done

    def _consumed(self, key: str, mark: str, upload: str) -> PromoteOutcome:
        """Say why the name was taken: by this very upload before (GONE), or by another's object.

        A server may judge the condition before it looks for the upload, and may answer a request
        to abort an upload that was completed with success: so the upload is looked for first.
        """
        match self._bears(key, mark):
            case True:
                return PromoteOutcome.GONE
            case None:
                return PromoteOutcome.UNKNOWN
        for operation in ("list_parts", "abort_multipart_upload"):
            answer = self._requests.again(operation, Key=key, UploadId=upload)
            if isinstance(answer, Failed):
                is_gone = answer.kind is Kind.NO_UPLOAD
                return PromoteOutcome.GONE if is_gone else PromoteOutcome.UNKNOWN
        return PromoteOutcome.EXISTS

    def discard(self, staged: Staged) -> None:
        """Abort the upload."""
        _, upload = _mark_and_upload(staged)
        answer = self._requests.again(
            "abort_multipart_upload", Key=self._key(staged.final), UploadId=upload
        )
        if isinstance(answer, Failed) and answer.kind is not Kind.NO_UPLOAD:
            raise answer.as_error(self._where(staged.final))

    def discard_area(self, area: str) -> None:
        """Do nothing: open uploads cannot be listed by area; the bucket's rule ends them."""
        paths.checked_area(area)

    # Helpers

    def _bears(self, key: str, mark: str) -> bool | None:
        """Tell whether the object is there with this mark; None if that cannot be learnt."""
        answer = self._requests.again("head_object", Key=key)
        if isinstance(answer, Failed):
            return False if answer.kind is Kind.ABSENT else None
        return bool(answer.get("Metadata", {}).get(MARK) == mark)

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


def _mark_and_upload(staged: Staged) -> tuple[str, str]:
    found = _PLACE.fullmatch(staged.place)
    if found is None or ".." in staged.place:
        raise Invalid(f"not the place of a staged file in S3: {staged.place[:100]!r}")
    return found["mark"], found["upload"]


def _millis(moment: datetime) -> int:
    return int(moment.astimezone(UTC).timestamp()) * 1000
