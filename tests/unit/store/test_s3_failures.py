"""S3 failures are judged by their code; what may have been carried out counts as lost."""

from __future__ import annotations

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError, NoCredentialsError

from lakehand.errors import Invalid, Unavailable
from lakehand.store.failures import Failed, Kind
from lakehand.store.s3_failures import judge


def answer(code, status, message="Key AKIA in request"):
    return ClientError(
        {
            "Error": {"Code": code, "Message": message},
            "ResponseMetadata": {"HTTPStatusCode": status, "HTTPHeaders": {"date": "d"}},
        },
        "PutObject",
    )


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (answer("NoSuchKey", 404), Kind.ABSENT),
        (answer("404", 404), Kind.ABSENT),
        (answer("NoSuchBucket", 404), Kind.REFUSED),
        (answer("NoSuchUpload", 404), Kind.NO_UPLOAD),
        (answer("PreconditionFailed", 412), Kind.CONDITION),
        (answer("412", 412), Kind.CONDITION),
        (answer("ConditionalRequestConflict", 409), Kind.CONFLICTING),
        (answer("SomethingElse", 409), Kind.CONFLICTING),
        (answer("SlowDown", 503), Kind.BUSY),
        (answer("", 429), Kind.BUSY),
        (answer("ServiceUnavailable", 503), Kind.LOST),
        (answer("", 503), Kind.LOST),
        (answer("InternalError", 500), Kind.LOST),
        (answer("InternalError", 200), Kind.LOST),
        (answer("RequestTimeout", 400), Kind.LOST),
        (answer("AccessDenied", 403), Kind.REFUSED),
        (answer("InvalidPart", 400), Kind.LOST),
        (answer("InvalidRequest", 400), Kind.REFUSED),
        (EndpointConnectionError(endpoint_url="http://user:pw@host"), Kind.LOST),
        (ConnectionResetError(), Kind.LOST),
        (TimeoutError(), Kind.LOST),
        (NoCredentialsError(), Kind.REFUSED),
    ],
)
def test_each_failure_has_its_kind(error, kind):
    assert judge(error).kind is kind


def test_errors_show_codes_and_not_what_was_sent():
    refused = judge(answer("AccessDenied", 403)).as_error("'x' in s3://b/t")
    assert isinstance(refused, Invalid)
    assert "AccessDenied" in str(refused)
    assert "AKIA" not in str(refused)
    assert isinstance(Failed(Kind.BUSY, "SlowDown").as_error("x"), Unavailable)


def test_an_unknown_code_with_a_known_status_is_judged_by_the_status():
    assert judge(answer("", 404)).kind is Kind.ABSENT
    assert judge(answer("", 412)).kind is Kind.CONDITION
