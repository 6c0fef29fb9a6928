"""Hudi's lock providers inside the JVM's child process, kept in the session under a name.

``StorageBasedLockProvider`` is Java's own, with its heartbeat, its record's (de)serialiser and its
judgement of time. Only its client, which Hudi ships apart from the bundle (``hudi-aws``), is ours:
a thin class over the table's store that does what Java's S3 client does, request by request.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from pyspark.java_gateway import ensure_callback_server_started

from lakehand.errors import NotFound
from lakehand.ports import PutOutcome
from lakehand.store.open import open_store

if TYPE_CHECKING:
    from jvm_worker import Session
    from lakehand.ports import Store

LOCK = "org.apache.hudi.client.transaction.lock"
FUNCTION = "org.apache.hudi.common.util.Functions$Function3"
RECORD = ".hoodie/.locks/table_lock.json"


class StoreClient:
    """Java's ``StorageLockClient``: read with version, write under the condition of a version."""

    def __init__(self, jvm: Any, store: Store, path: str) -> None:
        if path != f"{store.uri}/{RECORD}":
            raise ValueError(f"Java's record lies elsewhere: {path}")
        self._jvm = jvm
        self._store = store
        self._option = jvm.org.apache.hudi.common.util.Option
        self._pair = jvm.org.apache.hudi.common.util.collection.Pair
        self._models = jvm.org.apache.hudi.client.transaction.lock.models

    def readCurrentLockFile(self) -> Any:  # noqa: N802 - Java's name
        try:
            found = self._store.get(RECORD)
        except NotFound:
            return self._pair.of(self._models.LockGetResult.NOT_EXISTS, self._option.empty())
        stream = self._jvm.java.io.ByteArrayInputStream(found.content)
        file = self._models.StorageLockFile.createFromStream(stream, found.version)
        return self._pair.of(self._models.LockGetResult.SUCCESS, self._option.of(file))

    def tryUpsertLockFile(self, data: Any, previous: Any) -> Any:  # noqa: N802 - Java's name
        content = bytes(self._models.StorageLockFile.toByteArray(data))
        if previous.isPresent():
            outcome = self._store.put_if(RECORD, content, previous.get().getVersionId())
        else:
            outcome = self._store.put_new(RECORD, content)
        result = self._models.LockUpsertResult
        if outcome is not PutOutcome.WRITTEN:
            lost = outcome is PutOutcome.EXISTS
            return self._pair.of(
                result.ACQUIRED_BY_OTHERS if lost else result.UNKNOWN_ERROR, self._option.empty()
            )
        file = self._models.StorageLockFile(data, self._store.get(RECORD).version)
        return self._pair.of(result.SUCCESS, self._option.of(file))

    def readObject(self, _path: str, _checked: bool) -> Any:  # noqa: N802 - Java's
        return self._option.empty()

    def writeObject(self, _path: str, _content: str) -> bool:  # noqa: N802 - Java's name
        return True

    def close(self) -> None:
        pass

    class Java:
        implements = [f"{LOCK}.StorageLockClient"]  # noqa: RUF012 - py4j wants a list


class Maker:
    """Java's ``Function3``."""

    def __init__(self, make: Any) -> None:
        self._make = make

    def apply(self, first: Any, second: Any, third: Any) -> Any:
        return self._make(first, second, third)

    class Java:
        implements = [FUNCTION]  # noqa: RUF012 - py4j wants a list


def open_storage_lock(
    session: Session, *, name: str, uri: str, options: dict[str, Any], validity_s: int, renew_s: int
) -> str:
    """Make a provider with Java's own heartbeat; return its owner id."""
    gateway = session.spark.sparkContext._gateway
    ensure_callback_server_started(gateway)
    jvm = gateway.jvm
    properties = jvm.org.apache.hudi.common.config.TypedProperties()
    properties.setProperty("hoodie.base.path", uri)
    properties.setProperty("hoodie.write.lock.storage.validity.timeout.secs", str(validity_s))
    for key in ("renew.interval.secs", "heartbeat.poll.secs"):  # 1.2.0's name and 1.0.2's
        properties.setProperty(f"hoodie.write.lock.storage.{key}", str(renew_s))
    store = open_store(uri, options)
    heartbeat = Maker(
        jvm.org.apache.hudi.client.transaction.lock.models.LockProviderHeartbeatManager
    )
    client = Maker(lambda _owner, path, _properties: StoreClient(jvm, store, path))
    log = jvm.org.slf4j.LoggerFactory.getLogger("storage lock")
    loader = jvm.Thread.currentThread().getContextClassLoader()
    provider = jvm.java.lang.Class.forName(f"{LOCK}.StorageBasedLockProvider", True, loader)
    (constructor,) = [
        each for each in provider.getDeclaredConstructors() if each.getParameterCount() >= 5
    ]
    constructor.setAccessible(True)
    given = [f"java-{name}", properties, heartbeat, client, log, None]
    arguments = jvm.java.util.ArrayList()  # an array of Java's takes no Python objects
    for each in given[: constructor.getParameterCount()]:
        arguments.add(each)
    session.keep[name] = constructor.newInstance(arguments.toArray())
    return f"java-{name}"


def open_file_lock(session: Session, *, name: str, table: str, expire_minutes: int) -> None:
    """Make a provider as a writer's configuration would."""
    jvm = session.spark._jvm
    properties = jvm.org.apache.hudi.common.config.TypedProperties()
    properties.setProperty("hoodie.base.path", table)
    properties.setProperty("hoodie.write.lock.filesystem.expire", str(expire_minutes))
    configuration = jvm.org.apache.hudi.common.config.LockConfiguration(properties)
    hadoop = session.spark.sparkContext._jsc.hadoopConfiguration()
    storage = jvm.org.apache.hudi.storage.hadoop.HadoopStorageConfiguration(hadoop)
    session.keep[name] = jvm.org.apache.hudi.client.transaction.lock.FileSystemBasedLockProvider(
        configuration, storage
    )


def try_lock(session: Session, *, name: str, seconds: float = 0.5) -> bool:
    """Ask for it as Hudi's lock manager does."""
    unit = session.spark._jvm.java.util.concurrent.TimeUnit.MILLISECONDS
    return bool(session.keep[name].tryLock(int(seconds * 1000), unit))


def unlock(session: Session, *, name: str) -> None:
    session.keep[name].unlock()


def close(session: Session, *, name: str) -> None:
    session.keep.pop(name).close()


def owner_info(session: Session, *, name: str) -> str:
    """What Java read of whoever keeps it out."""
    return str(session.keep[name].getCurrentOwnerLockInfo())


def believes_to_hold(session: Session, *, name: str) -> bool:
    return session.keep[name].getLock() is not None


def parse_record(session: Session, *, content: str) -> list[Any]:
    """Java's reading of a record."""
    jvm = session.spark._jvm
    stream = jvm.java.io.ByteArrayInputStream(content.encode())
    file = jvm.org.apache.hudi.client.transaction.lock.models.StorageLockFile.createFromStream(
        stream, "version"
    )
    return [file.isExpired(), file.getValidUntilMs(), file.getOwner(), int(time.time() * 1000)]


def record(session: Session, *, is_expired: bool, valid_until: int, owner: str) -> str:
    """A record as Java writes it."""
    models = session.spark._jvm.org.apache.hudi.client.transaction.lock.models
    data = models.StorageLockData(is_expired, valid_until, owner)
    return bytes(models.StorageLockFile.toByteArray(data)).decode()
