"""A loopback proxy before a real S3 server that does what bad networks and bad servers do.

``faults`` are rules, first match wins: each looks at a request and says what to do with it.
Dropping the ``If-*`` headers breaks the signature that covers them, so the proxy signs again.
"""

from __future__ import annotations

import contextlib
import http.client
import threading
from dataclasses import dataclass, field
from enum import Enum
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from s3_server import REGION, S3Server

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

HOP_HEADERS = {"connection", "transfer-encoding", "keep-alive", "expect"}


class Fault(Enum):
    """What the proxy does with a request."""

    NONE = "pass it on"
    DROP_CONDITIONS = "pass it on without its If-* headers"
    LOSE_REPLY = "pass it on, then close the connection without an answer"
    LOSE_REQUEST = "close the connection without passing it on"
    FAIL_AFTER = "pass it on, then answer 500"
    TURN_AWAY = "answer 503 SlowDown without passing it on"
    SEND_TWICE = "pass it on twice and give the second answer"


@dataclass
class Proxy:
    """The running proxy: where it is, what it does, and what it saw."""

    endpoint: str
    fault_of: Callable[[str, str], Fault]
    """Takes method and URL of a request."""

    seen: list[tuple[str, str]] = field(default_factory=list)


def times(count: int, fault: Fault, *, method: str, containing: str = "") -> Callable:
    """A rule that strikes ``count`` times, at requests of that method."""
    left = [count]
    lock = threading.Lock()

    def fault_of(seen_method: str, url: str) -> Fault:
        with lock:
            if seen_method == method and containing in url and left[0] > 0:
                left[0] -= 1
                return fault
        return Fault.NONE

    return fault_of


@contextlib.contextmanager
def proxy_before(server: S3Server) -> Iterator[Proxy]:
    """Run a proxy before ``server`` for the time of the block."""
    proxy = Proxy("", lambda _method, _url: Fault.NONE)

    class Handler(_Handler):
        upstream = server
        rules = proxy

    listener = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    listener.daemon_threads = True
    proxy.endpoint = f"http://127.0.0.1:{listener.server_address[1]}"
    thread = threading.Thread(target=listener.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield proxy
    finally:
        listener.shutdown()
        listener.server_close()
        thread.join()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    upstream: S3Server
    rules: Proxy

    def handle_any(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.rules.seen.append((self.command, self.path))
        fault = self.rules.fault_of(self.command, self.path)
        if fault is Fault.LOSE_REQUEST:
            self._hang_up()
            return
        if fault is Fault.TURN_AWAY:
            self._answer_error(503, "SlowDown")
            return
        headers = {k: v for k, v in self.headers.items() if k.lower() not in HOP_HEADERS}
        if fault is Fault.DROP_CONDITIONS:
            headers = self._signed_without_conditions(headers, body)
        status, reply_headers, content = self._pass_on(headers, body)
        if fault is Fault.SEND_TWICE:
            status, reply_headers, content = self._pass_on(headers, body)
        if fault is Fault.LOSE_REPLY:
            self._hang_up()
        elif fault is Fault.FAIL_AFTER:
            self._answer_error(500, "InternalError")
        else:
            self._answer(status, reply_headers, content)

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = handle_any  # noqa: N815

    def _pass_on(self, headers, body):
        connection = http.client.HTTPConnection(urlsplit(self.upstream.endpoint).netloc)
        try:
            connection.request(self.command, self.path, body=body, headers=headers)
            reply = connection.getresponse()
            return reply.status, reply.getheaders(), reply.read()
        finally:
            connection.close()

    def _signed_without_conditions(self, headers, body):
        kept = {
            name: value
            for name, value in headers.items()
            if not name.lower().startswith("if-") and name.lower() != "authorization"
        }
        request = AWSRequest(self.command, f"http://{headers['Host']}{self.path}", kept, body)
        request.context["payload_signing_enabled"] = True
        keys = Credentials(self.upstream.key, self.upstream.secret)
        S3SigV4Auth(keys, "s3", REGION).add_auth(request)
        return dict(request.headers)

    def _answer(self, status, headers, content) -> None:
        self.send_response_only(status)
        for name, value in headers:
            if name.lower() not in HOP_HEADERS:
                self.send_header(name, value)
        if not any(name.lower() == "content-length" for name, _ in headers):
            self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def _answer_error(self, status: int, code: str) -> None:
        content = f"<Error><Code>{code}</Code><Message>by the proxy</Message></Error>".encode()
        self._answer(status, [], content)

    def _hang_up(self) -> None:
        self.close_connection = True
        self.connection.close()

    def log_message(self, *_args) -> None:
        pass
