"""A real etcd and a real kube-apiserver for the tests: no nodes, no controllers, seconds to start.

etcd speaks plain HTTP on the loopback; the API server makes its own certificate, knows its users
by tokens and asks RBAC. Everything lies in one temporary folder. A server can be killed and
started again at its old port with its old data, because that is what tests do to it.

``python api_server.py`` builds both (for a CI, before the tests); ``python api_server.py up``
runs them until Ctrl-C, for a person or another suite.
"""

from __future__ import annotations

import base64
import contextlib
import json
import secrets
import shutil
import signal
import ssl
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import urllib3

from api_build import ETCD, KUBE_APISERVER, PROGRAMS, binary
from s3_server import NoGo, free_port

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

READY_SECONDS = 60
NAMESPACE = "lakehand-locks"


@dataclass
class ServerProcess:
    """One program that can be killed and started again with the same arguments."""

    command: list[str]
    log: Path
    ready: Callable[[], bool]
    process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, and wait until it answers."""
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [*_ending_with_us(), *self.command],
                cwd=self.log.parent,
                env={"PATH": "/usr/bin:/bin", "HOME": str(self.log.parent)},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        deadline = time.monotonic() + READY_SECONDS
        while self.process.poll() is None and time.monotonic() < deadline:
            if self.ready():
                return
            time.sleep(0.02)
        self.kill()
        said = self.log.read_text(errors="replace")[-4000:]
        raise RuntimeError(f"{self.command[0]} did not start:\n{said}")

    def kill(self) -> None:
        """End it as a power cut would. Idempotent."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def suspend(self) -> None:
        """Stop it from doing anything, its connections stay open."""
        assert self.process is not None
        self.process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let it go on, if it was stopped."""
        if self.process is not None:
            self.process.send_signal(signal.SIGCONT)


def _ending_with_us() -> list[str]:
    """Return a prefix by which the kernel kills the server when this process dies, if it can."""
    setpriv = shutil.which("setpriv")
    return [setpriv, "--pdeathsig", "KILL", "--"] if setpriv else []


@dataclass
class EtcdServer:
    """A running etcd of one member."""

    endpoint: str
    server: ServerProcess

    def call(self, path: str, body: dict[str, Any], token: str | None = None) -> dict[str, Any]:
        """Ask its JSON gateway."""
        headers = {"Content-Type": "application/json"} | ({"Authorization": token} if token else {})
        return _asked(f"{self.endpoint}{path}", body, headers)

    @property
    def upstream(self) -> dict[str, Any]:
        """What a proxy needs to stand before it."""
        return {"upstream": self.endpoint}

    def text(self, encoded: str) -> str:
        """Return what its JSON carries as Base64."""
        return base64.b64decode(encoded).decode()

    def get(self, key: str) -> bytes:
        """Return a key's value."""
        found = self.call("/v3/kv/range", {"key": _base64(key)})["kvs"]
        return base64.b64decode(found[0].get("value", ""))

    def put(self, key: str, value: bytes) -> None:
        """Write a key without a lease, as a person would."""
        self.call("/v3/kv/put", {"key": _base64(key), "value": base64.b64encode(value).decode()})

    def delete(self, key: str) -> None:
        """Delete a key."""
        self.call("/v3/kv/deleterange", {"key": _base64(key)})

    def demand_passwords(self, user: str, password: str, *, key_prefix: str) -> None:
        """Switch authentication on: ``user`` may do everything below ``key_prefix`` and no more."""
        after = key_prefix[:-1] + chr(ord(key_prefix[-1]) + 1)
        permission = {
            "permType": "READWRITE",
            "key": _base64(key_prefix),
            "range_end": _base64(after),
        }
        self.call("/v3/auth/role/add", {"name": "locks"})
        self.call("/v3/auth/role/grant", {"name": "locks", "perm": permission})
        self.call("/v3/auth/user/add", {"name": user, "password": password})
        self.call("/v3/auth/user/grant", {"user": user, "role": "locks"})
        self.call("/v3/auth/user/add", {"name": "root", "password": secrets.token_urlsafe(16)})
        self.call("/v3/auth/user/grant", {"user": "root", "role": "root"})
        self.call("/v3/auth/enable", {})


@contextlib.contextmanager
def running_etcd() -> Iterator[EtcdServer]:
    """Run an etcd on free loopback ports for the time of the block."""
    program = binary(ETCD)
    with tempfile.TemporaryDirectory(prefix="lakehand-etcd-", ignore_cleanup_errors=True) as folder:
        etcd = _etcd(program, Path(folder))
        try:
            etcd.server.start()
            yield etcd
        finally:
            etcd.server.kill()


def _etcd(program: Path, folder: Path) -> EtcdServer:
    endpoint, peers = (f"http://127.0.0.1:{free_port()}" for _ in range(2))
    command = [
        str(program),
        f"--data-dir={folder / 'etcd'}",
        f"--listen-client-urls={endpoint}",
        f"--advertise-client-urls={endpoint}",
        f"--listen-peer-urls={peers}",
        f"--initial-advertise-peer-urls={peers}",
        f"--initial-cluster=default={peers}",
        "--unsafe-no-fsync",  # a test's data need not survive the machine
        # A lease lives for 1.5 elections at least: short ones make leases of one second possible.
        "--heartbeat-interval=20",
        "--election-timeout=200",
        "--log-level=warn",
    ]

    def ready() -> bool:
        answer = _asked_quietly(f"{endpoint}/health", {})
        return answer is not None and json.loads(answer).get("health") == "true"

    return EtcdServer(endpoint, ServerProcess(command, folder / "etcd.log", ready))


@dataclass
class ApiServer:
    """A running kube-apiserver, its etcd, and who may use it."""

    endpoint: str
    folder: Path
    etcd: EtcdServer
    server: ServerProcess
    admin_token: str = field(repr=False)

    @property
    def certificate(self) -> Path:
        """The certificate, with the authority that signed it."""
        return self.folder / "certificates" / "apiserver.crt"

    @property
    def private_key(self) -> Path:
        """The certificate's key: a test's proxy may stand in for the server."""
        return self.folder / "certificates" / "apiserver.key"

    @property
    def upstream(self) -> dict[str, Any]:
        """What a proxy needs to stand before it, and in for it."""
        return {
            "upstream": self.endpoint,
            "certificate": self.certificate,
            "private_key": self.private_key,
        }

    @property
    def admin_kubeconfig(self) -> Path:
        """The kubeconfig of a user who may do everything."""
        return self.folder / "admin.kubeconfig"

    def call(self, method: str, path: str, body: object = None) -> dict[str, Any]:
        """Ask the API as the administrator."""
        headers = {
            "Authorization": f"Bearer {self.admin_token}",
            "Content-Type": "application/merge-patch+json"
            if method == "PATCH"
            else "application/json",
        }
        return _asked(
            f"{self.endpoint}{path}", body, headers, method=method, trust=self.certificate
        )

    def kubeconfig(self, name: str, token: str, *, endpoint: str | None = None) -> Path:
        """Write a kubeconfig for the bearer of ``token``, and return its path."""
        path = self.folder / f"{name}.kubeconfig"
        cluster = {
            "server": endpoint or self.endpoint,
            "certificate-authority-data": base64.b64encode(self.certificate.read_bytes()).decode(),
        }
        context = {"cluster": "local", "user": name, "namespace": NAMESPACE}
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "local", "cluster": cluster}],
            "users": [{"name": name, "user": {"token": token}}],
            "contexts": [{"name": "local", "context": context}],
            "current-context": "local",
        }
        path.touch(mode=0o600)
        path.write_text(json.dumps(document, indent=1))  # JSON is YAML
        return path

    def service_account_token(self, name: str, rules: list[dict[str, Any]]) -> str:
        """Make a service account that may do what ``rules`` of a Role say, and a token for it."""
        core = f"/api/v1/namespaces/{NAMESPACE}"
        rbac = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{NAMESPACE}"
        metadata = {"metadata": {"name": name}}
        self.call("POST", f"{core}/serviceaccounts", metadata)
        self.call("POST", f"{rbac}/roles", metadata | {"rules": rules})
        binding = metadata | {
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": NAMESPACE}],
        }
        self.call("POST", f"{rbac}/rolebindings", binding)
        asked = {"spec": {"expirationSeconds": 86400}}
        return self.call("POST", f"{core}/serviceaccounts/{name}/token", asked)["status"]["token"]


@contextlib.contextmanager
def running() -> Iterator[ApiServer]:
    """Run an API server, and an etcd for it alone, for the time of the block."""
    program = binary(KUBE_APISERVER)
    with (
        running_etcd() as etcd,
        tempfile.TemporaryDirectory(prefix="lakehand-api-", ignore_cleanup_errors=True) as folder,
    ):
        api = _api_server(program, Path(folder), etcd)
        try:
            api.server.start()
            api.kubeconfig("admin", api.admin_token)
            api.call("POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
            yield api
        finally:
            api.server.kill()


def _api_server(program: Path, folder: Path, etcd: EtcdServer) -> ApiServer:
    admin_token = secrets.token_urlsafe(24)
    key, users = folder / "service-accounts.key", folder / "tokens.csv"
    for path, content in (
        (key, _new_signing_key()),
        (users, f'{admin_token},admin,admin,"system:masters"\n'),
    ):
        path.touch(mode=0o600)
        path.write_text(content)
    port = free_port()
    endpoint = f"https://127.0.0.1:{port}"
    command = [
        str(program),
        f"--etcd-servers={etcd.endpoint}",
        "--bind-address=127.0.0.1",
        f"--secure-port={port}",
        f"--cert-dir={folder / 'certificates'}",  # makes a certificate of its own there
        "--authorization-mode=RBAC",
        f"--token-auth-file={users}",
        "--service-account-issuer=https://lakehand.test",
        f"--service-account-key-file={key}",
        f"--service-account-signing-key-file={key}",
        "--service-cluster-ip-range=10.0.0.0/24",
        "--endpoint-reconciler-type=none",  # nobody looks for it under the name "kubernetes"
        "--allow-privileged",
    ]
    api = ApiServer(
        endpoint,
        folder,
        etcd,
        ServerProcess(command, folder / "api.log", lambda: False),
        admin_token,
    )

    def ready() -> bool:
        if not api.certificate.exists():
            return False
        headers = {"Authorization": f"Bearer {admin_token}"}
        return _asked_quietly(f"{endpoint}/readyz", headers, trust=api.certificate) == b"ok"

    api.server.ready = ready
    return api


def _new_signing_key() -> str:
    """Make a P-256 private key: RFC 5915's structure, whose public half the reader computes."""
    order = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
    number = (1 + secrets.randbelow(order - 1)).to_bytes(32, "big")
    curve = bytes.fromhex("a00a06082a8648ce3d030107")
    der = bytes.fromhex("30310201010420") + number + curve
    middle = base64.b64encode(der).decode()
    return f"-----BEGIN EC PRIVATE KEY-----\n{middle}\n-----END EC PRIVATE KEY-----\n"


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def _asked(
    url: str,
    body: object,
    headers: dict[str, str],
    *,
    method: str = "POST",
    trust: Path | None = None,
) -> dict[str, Any]:
    """Send one request of a test's preparation, and return the answer's JSON."""
    with urllib3.PoolManager(ca_certs=trust and str(trust)) as pool:
        content = None if body is None else json.dumps(body)
        reply = pool.request(method, url, body=content, headers=headers, timeout=30, retries=False)
    if reply.status >= 300:
        raise RuntimeError(f"{method} {url}: {reply.status} {reply.data!r}")
    answer: dict[str, Any] = reply.json()
    return answer


def _asked_quietly(url: str, headers: dict[str, str], trust: Path | None = None) -> bytes | None:
    """Return what a server answers that may not be up yet."""
    try:
        with urllib3.PoolManager(ca_certs=trust and str(trust)) as pool:
            return pool.request("GET", url, headers=headers, timeout=5, retries=False).data
    except (urllib3.exceptions.HTTPError, ssl.SSLError):
        return None


def _stay_up() -> None:
    """Run both servers until Ctrl-C or SIGTERM."""
    ended = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: ended.set())
    with running() as api:
        sys.stdout.write(
            f"kubeconfig  {api.admin_kubeconfig}\napi server  {api.endpoint}\n"
            f"etcd        {api.etcd.endpoint}\nCtrl-C ends both\n"
        )
        sys.stdout.flush()
        ended.wait()


if __name__ == "__main__":
    try:
        for each in PROGRAMS:
            sys.stdout.write(f"{binary(each)}\n")
        if sys.argv[1:] == ["up"]:
            _stay_up()
    except NoGo as reason:  # the tests will skip, as loudly
        sys.stdout.write(f"{reason}\n")
