"""A store in a Google Cloud Storage bucket, by conditions on generations.

A version is an object's generation: a number that is never used twice. A staged file is a
resumable upload begun under ``ifGenerationMatch=0`` that was not finished: its full chunks (256
KiB each) lie in the upload, and its last bytes in a side object beside the staging area, because
Cloud Storage takes an odd length only from the request that finishes. Promotion sends those last
bytes and so finishes the upload; a finished upload cannot appear again. Uploads live for a week.

Like S3's, objects carry the mark of the call that made them, and times are whole seconds.
"""

from __future__ import annotations

import json
import re
import uuid
from datetime import datetime
from email.utils import parsedate_to_datetime
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
from lakehand.store.gcs_requests import INCOMPLETE, Answer, Requests
from lakehand.store.gcs_staging import GcsStagedWriter
from lakehand.store.ranges import RangeFile

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lakehand.store.gcs_requests import GcsOptions

MARK = "lakehand-mark"
_PLACE = re.compile(r"(?P<mark>[0-9a-f]{32}):(?P<upload>[A-Za-z0-9_\-]{1,2048})")
_BOUNDARY = "lakehand-part"


class GcsStore:
    """Objects below a prefix of a bucket. Threads may share it; it does not survive a fork."""

    def __init__(self, bucket: str, base: str, options: GcsOptions) -> None:
        """Take the table's place in the bucket, ``base`` without slashes at its ends."""
        self._bucket = bucket
        self._base = paths.checked_folder(base)
        self._prefix = paths.below(base)
        self._part_size = options.part_size
        self._requests = Requests(bucket, options)

    def __repr__(self) -> str:
        return f"GcsStore({self.uri!r})"

    @property
    def uri(self) -> str:
        """``gs://bucket/base``."""
        return f"gs://{self._bucket}/{self._base}".rstrip("/")

    # Reading

    def get(self, path: str) -> StoredObject:
        """Return the whole object of one generation."""
        answer = self._requests.again("GET", self._url(path), params={"alt": "media"})
        if isinstance(answer, Failed):
            raise self._not_readable(path, answer)
        headers = answer.headers
        if "x-goog-generation" not in headers or "Last-Modified" not in headers:
            raise Unavailable(f"{self._where(path)}: the answer names no generation")
        modified = parsedate_to_datetime(headers["Last-Modified"]).timestamp()
        return StoredObject(answer.content, headers["x-goog-generation"], int(modified) * 1000)

    def open(self, path: str) -> pa.NativeFile:
        """Open for ranged reads of the generation that is there now."""
        about = self._metadata(path)
        if isinstance(about, Failed):
            raise self._not_readable(path, about)
        params = {"alt": "media", "generation": str(about["generation"])}

        def fetch(start: int, end: int) -> bytes:
            headers = {"Range": f"bytes={start}-{end - 1}"}
            part = self._requests.again("GET", self._url(path), params=params, headers=headers)
            if isinstance(part, Failed):
                if part.kind is Kind.ABSENT:
                    raise Unavailable(f"{self._where(path)}: it was replaced while it was read")
                raise part.as_error(self._where(path))
            if len(part.content) != end - start:
                raise Unavailable(
                    f"{self._where(path)}: {len(part.content)} bytes of {end - start}"
                )
            return part.content

        return pa.PythonFile(RangeFile(int(about["size"]), fetch), mode="r")

    def head(self, path: str) -> ObjectInfo | None:
        """Return size and modification time."""
        about = self._metadata(path)
        if isinstance(about, Failed):
            if about.kind is Kind.ABSENT:
                return None
            raise about.as_error(self._where(path))
        return ObjectInfo(path, int(about["size"]), _updated(about))

    def list(self, folder: str) -> Listing:
        """Return the direct children, a thousand names a request."""
        objects: list[ObjectInfo] = []
        folders: list[str] = []
        for page in self._pages(folder, delimiter="/"):
            objects.extend(self._infos(page))
            for prefix in page.get("prefixes", ()):
                path = prefix[len(self._prefix) : -1]
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
        params["prefix"] = self._prefix + paths.below(paths.checked_folder(folder))
        params["fields"] = "prefixes,nextPageToken,items(name,size,updated)"
        while True:
            answer = self._requests.again("GET", self._requests.objects_url, params=params)
            if isinstance(answer, Failed):
                raise answer.as_error(self._where(folder))
            page: dict[str, Any] = answer.document
            yield page
            if not page.get("nextPageToken"):
                return
            params["pageToken"] = page["nextPageToken"]

    def _infos(self, page: dict[str, Any]) -> Iterator[ObjectInfo]:
        skip = len(self._prefix)
        for entry in page.get("items", ()):
            path = entry["name"][skip:]
            if path and not path.endswith("/") and not paths.is_hidden(path):
                yield ObjectInfo(path, int(entry["size"]), _updated(entry))

    # Writing

    def put_new(self, path: str, content: bytes) -> PutOutcome:
        """Upload under ``ifGenerationMatch=0``."""
        return self._put_conditionally(path, content, "0")

    def put_if(self, path: str, content: bytes, version: str) -> PutOutcome:
        """Upload under ``ifGenerationMatch``; 0 would mean that there is no object."""
        paths.checked(path)
        if not re.fullmatch(r"[1-9][0-9]{0,30}", version):
            return PutOutcome.EXISTS
        return self._put_conditionally(path, content, version)

    def _put_conditionally(self, path: str, content: bytes, generation: str) -> PutOutcome:
        mark = uuid.uuid4().hex
        answer = self._requests.once(
            "POST",
            self._requests.uploads_url,
            params={"uploadType": "multipart", "ifGenerationMatch": generation},
            **_upload(self._key(path), mark, content),
        )
        if isinstance(answer, Answer):
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
        answer = self._requests.again(
            "POST",
            self._requests.uploads_url,
            params={"uploadType": "multipart"},
            **_upload(self._key(path), uuid.uuid4().hex, content),
        )
        if isinstance(answer, Failed):
            raise answer.as_error(self._where(path))

    def delete(self, path: str) -> None:
        """DELETE. Nobody's Hadoop client keeps ``.crc`` files there, so there is none to remove."""
        answer = self._requests.again("DELETE", self._url(path))
        if isinstance(answer, Failed) and answer.kind is not Kind.ABSENT:
            raise answer.as_error(self._where(path))

    def now(self) -> int:
        """Return the date of a response; that of a missing object does as well."""
        answer = self._requests.again("GET", self._url(".hoodie/hoodie.properties"))
        if isinstance(answer, Failed):
            if answer.kind is not Kind.ABSENT:
                raise answer.as_error(self._where(""))
            date = answer.date
        else:
            date = answer.headers.get("Date")
        if date is None:
            raise Unavailable(f"{self.uri}: the server's responses bear no date")
        return int(parsedate_to_datetime(date).timestamp()) * 1000

    # Staging

    def stage(self, final: str, *, area: str) -> GcsStagedWriter:
        """Begin a resumable upload to the final name."""
        mark = uuid.uuid4().hex
        tail = paths.staged_place(area, mark)
        answer = self._requests.again(
            "POST",
            self._requests.uploads_url,
            params={"uploadType": "resumable", "name": self._key(final), "ifGenerationMatch": "0"},
            headers={"Content-Type": "application/json; charset=UTF-8"},
            data=json.dumps({"metadata": {MARK: mark}}).encode(),
        )
        if isinstance(answer, Failed):
            raise answer.as_error(self._where(final))
        found = re.search(r"[?&]upload_id=([^&]+)", answer.headers.get("Location", ""))
        if found is None or not _PLACE.fullmatch(f"{mark}:{found[1]}"):
            raise Unavailable(f"{self._where(final)}: the answer names no resumable upload")
        staged = Staged(final, f"{mark}:{found[1]}")
        return GcsStagedWriter(self, self._requests, staged, tail, part_size=self._part_size)

    def promote(self, staged: Staged) -> PromoteOutcome:
        """Finish the upload, and look at what is there then."""
        mark, upload, tail_place, size = self._parse(staged)
        try:
            tail = self.get(tail_place).content
        except NotFound:
            return PromoteOutcome.GONE  # it goes with the promotion, or the discard
        span = f"{size - len(tail)}-{size - 1}" if tail else "*"
        answer = self._requests.once(
            "PUT", **self.upload_request(upload, content=tail, span=span, total=str(size))
        )
        if isinstance(answer, Failed):
            return self._not_promoted(staged, mark, answer)
        if answer.status == INCOMPLETE:
            raise Unavailable(f"{self._where(staged.final)}: the upload lacks bytes")
        return self._promoted(staged, mark, tail_place)

    def _not_promoted(self, staged: Staged, mark: str, answer: Failed) -> PromoteOutcome:
        match answer.kind:
            case Kind.ABSENT | Kind.NO_UPLOAD:
                return PromoteOutcome.GONE
            case Kind.CONDITION:
                return self._consumed(staged, mark)
            case Kind.LOST:
                is_mine = self._bears(staged.final, mark)
                return PromoteOutcome.WRITTEN if is_mine else PromoteOutcome.UNKNOWN
            case Kind.REFUSED | Kind.BUSY | Kind.CONFLICTING:
                raise answer.as_error(self._where(staged.final))  # nothing was done

    def _promoted(self, staged: Staged, mark: str, tail_place: str) -> PromoteOutcome:
        match self._bears(staged.final, mark):
            case True:
                self.delete(tail_place)
                return PromoteOutcome.WRITTEN
            case False:
                return PromoteOutcome.GONE  # the answer to a completion of long ago
            case None:
                return PromoteOutcome.UNKNOWN

    def _consumed(self, staged: Staged, mark: str) -> PromoteOutcome:
        """Drop what is staged for a name that is taken, and say by whom it is."""
        match self._bears(staged.final, mark):
            case True:
                return PromoteOutcome.GONE
            case None:
                return PromoteOutcome.UNKNOWN
            case False:
                self.discard(staged)
                return PromoteOutcome.EXISTS

    def discard(self, staged: Staged) -> None:
        """Cancel the upload, then drop its last bytes."""
        paths.checked(staged.final)
        mark, upload = _mark_and_upload(staged)
        answer = self._requests.again("DELETE", self._requests.uploads_url, params=_session(upload))
        if isinstance(answer, Failed) and answer.kind not in (Kind.NO_UPLOAD, Kind.ABSENT):
            raise answer.as_error(self._where(staged.final))
        if staged.parts:
            self.delete(_tail_place(staged, mark))

    def upload_request(
        self, upload: str, *, content: bytes, span: str, total: str
    ) -> dict[str, Any]:
        """Return the request that sends a chunk of a resumable upload, or asks for its state."""
        return {
            "url": self._requests.uploads_url,
            "params": _session(upload),
            "headers": {"Content-Range": f"bytes {span}/{total}"},
            "data": content,
        }

    def discard_area(self, area: str) -> None:
        """Do nothing: open uploads cannot be listed by area; the bucket's rule ends them."""
        paths.checked_area(area)

    # Helpers

    def _parse(self, staged: Staged) -> tuple[str, str, str, int]:
        paths.checked(staged.final)
        mark, upload = _mark_and_upload(staged)
        if not staged.parts:
            raise Invalid(f"the staged file for {staged.final!r} was never closed")
        if not re.fullmatch(r"[0-9]{1,15}", staged.parts[0]):
            raise Invalid(f"not the size of a staged file: {staged.parts[0][:50]!r}")
        return mark, upload, _tail_place(staged, mark), int(staged.parts[0])

    def _metadata(self, path: str) -> dict[str, Any] | Failed:
        answer = self._requests.again("GET", self._url(path))
        if isinstance(answer, Failed):
            return answer
        document: dict[str, Any] = answer.document
        return document

    def _bears(self, path: str, mark: str) -> bool | None:
        """Tell whether the object is there with this mark; None if that cannot be learnt."""
        about = self._metadata(path)
        if isinstance(about, Failed):
            return False if about.kind is Kind.ABSENT else None
        return bool(about.get("metadata", {}).get(MARK) == mark)

    def _key(self, path: str) -> str:
        return self._prefix + paths.checked(path)

    def _url(self, path: str) -> str:
        return self._requests.object_url(self._key(path))

    def _where(self, path: str) -> str:
        return f"{path!r} in {self.uri}"

    def _not_readable(self, path: str, failed: Failed) -> Exception:
        if failed.kind is Kind.ABSENT:
            return NotFound(f"no object {self._where(path)}")
        return failed.as_error(self._where(path))


def _upload(key: str, mark: str, content: bytes) -> dict[str, Any]:
    about = json.dumps({"name": key, "metadata": {MARK: mark}}).encode()
    boundary = f"{_BOUNDARY}-{mark}".encode()
    return {
        "headers": {"Content-Type": f"multipart/related; boundary={boundary.decode()}"},
        "data": b"".join(
            (
                b"--%s\r\nContent-Type: application/json; charset=UTF-8\r\n\r\n" % boundary,
                about,
                b"\r\n--%s\r\nContent-Type: application/octet-stream\r\n\r\n" % boundary,
                content,
                b"\r\n--%s--\r\n" % boundary,
            )
        ),
    }


def _session(upload: str) -> dict[str, str]:
    return {"uploadType": "resumable", "upload_id": upload}


def _mark_and_upload(staged: Staged) -> tuple[str, str]:
    found = _PLACE.fullmatch(staged.place)
    if found is None:
        raise Invalid(f"not the place of a staged file in Cloud Storage: {staged.place[:40]!r}")
    return found["mark"], found["upload"]


def _tail_place(staged: Staged, mark: str) -> str:
    place = paths.checked_place(staged.parts[-1])
    if not place.endswith(f"/{mark}{paths.STAGED_SUFFIX}"):
        raise Invalid(f"not the last bytes of this staged file: {place!r}")
    return place


def _updated(about: dict[str, Any]) -> int:
    return int(datetime.fromisoformat(about["updated"]).timestamp()) * 1000
