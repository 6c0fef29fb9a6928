"""One JVM for each bundle of Hudi, started when first asked for and kept for the whole run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from java_hudi import JavaHudi


class Javas:
    def __init__(self) -> None:
        self._running: dict[str, JavaHudi] = {}

    def __getitem__(self, bundle: str) -> JavaHudi:
        from java_hudi import JavaHudi

        if bundle not in self._running:
            self._running[bundle] = JavaHudi(bundle)
            self._running[bundle].start()
        return self._running[bundle]

    def close(self) -> None:
        for running in self._running.values():
            running.close()


@pytest.fixture(scope="session")
def javas() -> Iterator[Javas]:
    javas = Javas()
    yield javas
    javas.close()
