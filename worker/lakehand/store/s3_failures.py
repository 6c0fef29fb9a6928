"""What a failed S3 request means: judged by error code, never by class.

A refused connection counts as lost, not as nothing done: after a dropped one the HTTP client
sends a request again by itself.
"""

from __future__ import annotations

import asyncio

import aiohttp
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    NoCredentialsError,
    ParamValidationError,
    PartialCredentialsError,
    ProfileNotFound,
)

from lakehand.store.failures import Failed, Kind

REQUEST_ERRORS = (
    BotoCoreError,
    ClientError,
    OSError,
    asyncio.TimeoutError,
    aiohttp.ClientError,
)
"""Everything that a request is known to raise."""


_KINDS = {
    "NoSuchKey": Kind.ABSENT,
    "NotFound": Kind.ABSENT,
    "404": Kind.ABSENT,
    "NoSuchUpload": Kind.NO_UPLOAD,
    "InvalidPart": Kind.LOST,  # somebody aborts or completes the upload at this moment
    "PreconditionFailed": Kind.CONDITION,
    "412": Kind.CONDITION,
    "ConditionalRequestConflict": Kind.CONFLICTING,
    "OperationAborted": Kind.CONFLICTING,
    "SlowDown": Kind.BUSY,
    "SlowDownRead": Kind.BUSY,
    "SlowDownWrite": Kind.BUSY,
    "Throttling": Kind.BUSY,
    "ThrottlingException": Kind.BUSY,
    "TooManyRequests": Kind.BUSY,
    "RequestLimitExceeded": Kind.BUSY,
    "BandwidthLimitExceeded": Kind.BUSY,
    "429": Kind.BUSY,
    "RequestTimeout": Kind.LOST,
    "408": Kind.LOST,
}


def judge(error: BaseException) -> Failed:
    """Say what ``error`` means. Only codes are kept: messages may quote what was sent."""
    if isinstance(error, ClientError):
        code = str(error.response.get("Error", {}).get("Code", ""))
        metadata = error.response.get("ResponseMetadata", {})
        status = int(metadata.get("HTTPStatusCode", 0))
        date = metadata.get("HTTPHeaders", {}).get("date")
        kind = _KINDS.get(code) or _KINDS.get(str(status) if not code else "")
        if kind is None and status == 409:
            kind = Kind.CONFLICTING  # servers have words of their own for it
        elif kind is None:
            kind = Kind.REFUSED if 400 <= status < 500 else Kind.LOST
        return Failed(kind, code or str(status), date)
    if isinstance(
        error,
        NoCredentialsError | PartialCredentialsError | ProfileNotFound | ParamValidationError,
    ):
        return Failed(Kind.REFUSED, type(error).__name__)
    return Failed(Kind.LOST, type(error).__name__)
