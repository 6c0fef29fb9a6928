"""HDFS by its own protocol: errors translated, and the one rename that may replace.

PyArrow's ``HadoopFileSystem.move`` cannot be used: when the target exists it deletes the target
and renames again, so of two racers the later one wins. ``hdfs-native`` sends the NameNode's
``rename2``, which either refuses an existing target or replaces it, in one step.
"""

from __future__ import annotations

import contextlib
import importlib
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lakehand.errors import Invalid, Unavailable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_native = importlib.import_module("hdfs_native")

_USER_MENDS = (
    "AccessControlException",
    "InvalidPathException",
    "ParentNotDirectoryException",
    "PathComponentTooLongException",
    "QuotaExceededException",
    "must both be directories",
)
_PRUNED_TIMES = 5


@dataclass(frozen=True, slots=True)
class HdfsOptions:
    """What may be said about a cluster; the rest comes from ``HADOOP_CONF_DIR``."""

    config: Mapping[str, str] | None = None
    """Hadoop's own keys (``dfs.namenode.…``), for name services that have no host."""

    config_dir: str | None = None
    """Folder with ``core-site.xml`` and ``hdfs-site.xml``."""


def connect(host: str, options: HdfsOptions) -> Any:  # noqa: ANN401 - the library has no types
    """Return a client of the cluster; nothing is sent yet."""
    config = None if options.config is None else dict(options.config)
    with translated(host):
        return _native.Client(f"hdfs://{host}", config, options.config_dir)


@contextlib.contextmanager
def translated(where: str) -> Iterator[None]:
    """Translate what the library raises, except that a file is there or is not."""
    try:
        yield
    except (FileNotFoundError, FileExistsError):
        raise
    except (OSError, RuntimeError) as error:
        named = next((name for name in _USER_MENDS if name in str(error)), None)
        if named is not None:
            raise Invalid(f"{where}: HDFS refuses it ({named})") from error
        raise Unavailable(f"{where}: HDFS does not answer as it should") from error


def create(client: Any, path: str) -> Any:  # noqa: ANN401
    """Create a file that is not there yet, and the folders above it."""
    return client.create(path, _native.WriteOptions(create_parent=True))


def write(client: Any, path: str, content: bytes) -> None:  # noqa: ANN401
    """Create a file whole."""
    with create(client, path) as file:
        if content:
            file.write(content)


def rename_into(client: Any, source: str, target: str, *, overwrite: bool) -> None:  # noqa: ANN401
    """Rename, making the target's folder first if it is missing."""
    for _ in range(_PRUNED_TIMES):
        try:
            client.rename(source, target, overwrite=overwrite)
        except FileNotFoundError as error:
            if "parent" not in str(error):
                raise
            client.mkdirs(target.rpartition("/")[0], create_parent=True)
        else:
            return
    raise Unavailable(f"the folder of {target!r} is removed again and again")


def wait_a_little() -> None:
    """Wait before looking again."""
    time.sleep(0.01)
