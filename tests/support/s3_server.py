"""Real S3 servers for the tests: versitygw, and MinIO as the second opinion.

Both are built from Go modules at pinned versions into ``$LAKEHAND_CACHE`` (or
``~/.cache/lakehand``), once per version: the flow is ``binary`` (build under a file lock, then
rename into place) and ``running`` (free loopback port, temporary folder, random credentials,
readiness by polling, ended by pid). Without Go nothing can be proved: ``NoGo`` says so.

``python s3_server.py`` builds both, so that a CI can do it before the tests.
"""

from __future__ import annotations

import contextlib
import fcntl
import http.client
import os
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import s3fs
from fsspec.asyn import sync

if TYPE_CHECKING:
    from collections.abc import Iterator

BUILD_SECONDS = 1500
READY_SECONDS = 30
REGION = "us-east-1"


class NoGo(Exception):
    """There is no Go tool-chain to build the server with."""


@dataclass(frozen=True)
class Tool:
    """A server that is built from a Go module."""

    name: str
    package: str
    version: str


VERSITYGW = Tool("versitygw", "github.com/versity/versitygw/cmd/versitygw", "v1.8.0")
MINIO = Tool("minio", "github.com/minio/minio", "v0.0.0-20260212201848-7aac2a2c5b7c")
TOOLS = {tool.name: tool for tool in (VERSITYGW, MINIO)}


@dataclass(frozen=True)
class S3Server:
    """Where a running server is, and who may use it."""

    endpoint: str
    key: str
    secret: str
    pid: int

    @property
    def storage_options(self) -> dict[str, object]:
        """The options that ``open_store`` takes for this server."""
        return {
            "key": self.key,
            "secret": self.secret,
            "endpoint_url": self.endpoint,
            "region": REGION,
        }


def cache_folder() -> Path:
    """Return the folder that outlives the checkout."""
    home = os.environ.get("LAKEHAND_CACHE")
    return Path(home) if home else Path.home() / ".cache" / "lakehand"


def binary(tool: Tool) -> Path:
    """Return the built server, building it first if this version is not there yet."""
    folder = cache_folder() / "bin"
    path = folder / f"{tool.name}-{tool.version}"
    if path.exists():
        return path
    if shutil.which("go") is None:
        raise NoGo(f"NO-GO: no Go tool-chain to build {tool.name} {tool.version} with")
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f".{path.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # two test runs build it once
        if not path.exists():
            _build(tool, path)
    return path


def _build(tool: Tool, path: Path) -> None:
    with tempfile.TemporaryDirectory(dir=path.parent) as scratch:
        built = subprocess.run(
            ["nice", "go", "install", f"{tool.package}@{tool.version}"],
            env={**os.environ, "GOBIN": scratch},
            capture_output=True,
            text=True,
            timeout=BUILD_SECONDS,
            check=False,
        )
        if built.returncode != 0:
            raise RuntimeError(f"building {tool.name} {tool.version} failed:\n{built.stderr}")
        (Path(scratch) / tool.name).rename(path)


@contextlib.contextmanager
def running(tool: Tool) -> Iterator[S3Server]:
    """Run a server on a free loopback port for the time of the block."""
    program = binary(tool)
    key, secret = f"key{secrets.token_hex(8)}", secrets.token_urlsafe(24)
    with tempfile.TemporaryDirectory(prefix=f"lakehand-{tool.name}-") as scratch:
        log_path = Path(scratch) / "server.log"
        data = Path(scratch) / "data"
        data.mkdir()
        port = free_port()
        with log_path.open("wb") as log:
            server = subprocess.Popen(
                _command(tool, program, port, data),
                env={**_environment(tool, key, secret), "HOME": scratch},
                cwd=scratch,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        try:
            _await_ready(server, port, log_path)
            yield S3Server(f"http://127.0.0.1:{port}", key, secret, server.pid)
        finally:
            server.kill()  # its data goes with the folder, so there is nothing to save
            server.wait()


def _command(tool: Tool, program: Path, port: int, data: Path) -> list[str]:
    address = f"127.0.0.1:{port}"
    match tool.name:
        case "versitygw":
            return [str(program), "--port", address, "--quiet", "posix", str(data)]
        case "minio":
            return [str(program), "server", "--quiet", "--address", address, str(data)]
        case _:
            raise ValueError(f"unknown server {tool.name}")


def _environment(tool: Tool, key: str, secret: str) -> dict[str, str]:
    base = {"PATH": os.environ.get("PATH", "")}
    match tool.name:
        case "versitygw":
            return {**base, "ROOT_ACCESS_KEY": key, "ROOT_SECRET_KEY": secret}
        case "minio":
            return {
                **base,
                "MINIO_ROOT_USER": key,
                "MINIO_ROOT_PASSWORD": secret,
                "MINIO_BROWSER": "off",
                "MINIO_UPDATE": "off",
                "MINIO_CI_CD": "1",  # allows the root disk
            }
        case _:
            raise ValueError(f"unknown server {tool.name}")


def free_port() -> int:
    """Return a port of the loopback that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _await_ready(server: subprocess.Popen[bytes], port: int, log_path: Path) -> None:
    """Poll until the server speaks HTTP and is past its start-up (which answers 503)."""
    deadline = time.monotonic() + READY_SECONDS
    while time.monotonic() < deadline:
        if server.poll() is not None:
            break
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=2)
        try:
            connection.request("GET", "/")
            if connection.getresponse().status < 500:
                return
        except OSError:
            time.sleep(0.02)
        except http.client.HTTPException:
            time.sleep(0.02)
        finally:
            connection.close()
    raise RuntimeError(f"the server did not start:\n{log_path.read_text(errors='replace')}")


def make_bucket(server: S3Server, name: str) -> None:
    """Create a bucket, as a user of the store would have."""
    files = s3fs.S3FileSystem(
        key=server.key,
        secret=server.secret,
        endpoint_url=server.endpoint,
        client_kwargs={"region_name": REGION},
    )
    sync(files.loop, files.connect().create_bucket, Bucket=name)


if __name__ == "__main__":
    for each in TOOLS.values():
        try:
            sys.stdout.write(f"{binary(each)}\n")
        except NoGo as reason:  # the tests will skip, as loudly
            sys.stdout.write(f"{reason}\n")
