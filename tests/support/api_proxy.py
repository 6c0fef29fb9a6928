"""A loopback proxy before etcd or kube-apiserver that loses requests and replies on purpose.

It ends TLS with the server's own certificate, so that a rule sees method, path and body of every
request: ``fate_of`` says what becomes of each.
"""

from __future__ import annotations

import contextlib
import json
import ssl
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

import urllib3

from lock_kinds import Fate

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

HOP_HEADERS = {"connection", "transfer-encoding", "keep-alive", "content-length", "host"}


@dataclass(frozen=True)
class Call:
    """A request that came by."""

    method: str
    path: str
    body: bytes


@dataclass
class ApiProxy:
    """The running proxy: where it is, what it does, and what it saw."""

    endpoint: str
    fate_of: Callable[[Call], Fate | None]
    fails: bool = False
    """A lost reply is replaced by an answer 500 instead of none."""
    seen: list[Call] = field(default_factory=list)


@contextlib.contextmanager
def proxy_before(
    upstream: str, *, certificate: Path | None = None, private_key: Path | None = None
) -> Iterator[ApiProxy]:
    """Run a proxy before the server at ``upstream`` for the time of the block."""
    scheme = "http" if certificate is None else "https"
    proxy = ApiProxy("", lambda _call: None)
    pool = urllib3.PoolManager(ca_certs=certificate and str(certificate), retries=False, maxsize=32)

    class Handler(_Handler):
        rules = proxy
        target = upstream
        connections = pool

    listener = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    listener.daemon_threads = True
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, private_key)
        listener.socket = context.wrap_socket(
            listener.socket, server_side=True, do_handshake_on_connect=False
        )
    proxy.endpoint = f"{scheme}://127.0.0.1:{listener.server_address[1]}"
    thread = threading.Thread(target=listener.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield proxy
    finally:
        listener.shutdown()
        listener.server_close()
        thread.join()
        pool.clear()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    rules: ApiProxy
    target: str
    connections: urllib3.PoolManager

    def handle_any(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        call = Call(self.command, self.path, body)
        self.rules.seen.append(call)
        match self.rules.fate_of(call):
            case None:
                reply = self._pass_on(body)
                if reply is None:
                    self._hang_up()
                else:
                    self._answer(*reply)
            case Fate.REPLY_LOST:
                self._pass_on(body)
                if self.rules.fails:
                    self._answer(500, {}, json.dumps({"code": 2, "message": "broken"}).encode())
                else:
                    self._hang_up()
            case Fate.REQUEST_LOST:
                self._hang_up()
            case Fate.TURNED_AWAY:
                self._answer(429, {}, json.dumps({"code": 8, "message": "slow down"}).encode())

    do_GET = do_PUT = do_POST = do_PATCH = do_DELETE = handle_any  # noqa: N815

    def _pass_on(self, body: bytes) -> tuple[int, dict[str, str], bytes] | None:
        """Return the server's answer; None if it is down."""
        headers = {k: v for k, v in self.headers.items() if k.lower() not in HOP_HEADERS}
        try:
            reply = self.connections.request(
                self.command, f"{self.target}{self.path}", body=body, headers=headers
            )
        except urllib3.exceptions.HTTPError:
            return None
        return reply.status, dict(reply.headers), reply.data

    def _answer(self, status: int, headers: dict[str, str], content: bytes) -> None:
        self.send_response_only(status)
        for name, value in headers.items():
            if name.lower() not in HOP_HEADERS:
                self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def _hang_up(self) -> None:
        self.close_connection = True
        self.connection.close()

    def log_message(self, *_args) -> None:
        pass
