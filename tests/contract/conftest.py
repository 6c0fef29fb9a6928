"""The stores that the contract is judged on: memory, local disk, and two real S3 servers.

A server is started once per session. Without Go there is no server: those tests skip with a
reason that begins with NO-GO, and the CI fails on that text.
"""

from __future__ import annotations

import json
import os
import uuid
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

import s3_server
from store_places import Place, memory_place

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lakehand.ports import Store

GIVEN_URI = os.environ.get("LAKEHAND_STORE_URI")
"""An empty place in any store, to judge that too (docs/stores.md); the suite fills it."""

GIVEN = () if GIVEN_URI is None else (GIVEN_URI.partition(":")[0],)
S3_KINDS = tuple(pytest.param(name, marks=pytest.mark.s3) for name in s3_server.TOOLS)
BUCKET = "contract"


class Servers:
    """Starts a server when it is first asked for, and keeps it until the session ends."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        self._running: dict[str, s3_server.S3Server] = {}

    def get(self, name: str) -> s3_server.S3Server:
        """Return the running server."""
        if name not in self._running:
            try:
                server = self._stack.enter_context(s3_server.running(s3_server.TOOLS[name]))
            except s3_server.NoGo as no_go:
                pytest.skip(str(no_go))
            s3_server.make_bucket(server, BUCKET)
            self._running[name] = server
        return self._running[name]


@pytest.fixture(scope="session")
def servers() -> Iterator[Servers]:
    with ExitStack() as stack:
        yield Servers(stack)


def _place(kind: str, servers: Servers, tmp_path) -> Place:
    match kind:
        case "memory":
            return memory_place()
        case "local":
            return Place("local", str(tmp_path / "a table"))
        case _ if kind in GIVEN:
            options = json.loads(os.environ.get("LAKEHAND_STORE_OPTIONS", "{}"))
            return Place(kind, f"{GIVEN_URI}/{uuid.uuid4().hex}/a table", options)
        case _:
            server = servers.get(kind)
            uri = f"s3://{BUCKET}/{uuid.uuid4().hex}/a table"
            return Place(kind, uri, {**server.storage_options, "part_size": 5 * 1024 * 1024})


@pytest.fixture(params=["memory", "local", *S3_KINDS, *GIVEN])
def place(request, servers, tmp_path) -> Place:
    """An empty base of each kind."""
    return _place(request.param, servers, tmp_path)


@pytest.fixture(params=["local", *S3_KINDS, *GIVEN])
def shared_place(request, servers, tmp_path) -> Place:
    """An empty base of each kind that other processes can see."""
    return _place(request.param, servers, tmp_path)


@pytest.fixture
def local_place(tmp_path) -> Place:
    return _place("local", None, tmp_path)


@pytest.fixture(params=S3_KINDS)
def s3_place(request, servers, tmp_path) -> Place:
    return _place(request.param, servers, tmp_path)


@pytest.fixture
def store(place: Place) -> Store:
    """A store at an empty base."""
    return place.open()
