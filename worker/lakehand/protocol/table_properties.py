"""Load, create and change ``hoodie.properties``, beside Java processes that do so too.

Java replaces the file in steps, and without the table lock::

    (0) no hoodie.properties? copy the backup there; then delete the backup
    (1) read   (2) create the backup   (3) delete hoodie.properties   (4) write the new one
    (5) read it again, compare the checksum   (6) delete the backup

so between (3) and (5) the backup is the truth, and Java's readers try both files in turn.

Lakehand takes the same steps with the store's stronger means. (0) and (1) are one read that falls
back to the backup when the file is missing or torn. (2), (3), (4) and (6) become *one* write:
``put_if`` on the version that was read, or ``put_new`` when the file was missing. It replaces the
content at once, so there is no moment without whole properties, and nothing that a backup could
save. (5) stays: the file is read again, because a Java process in the middle of its own update
overwrites blindly, and a lost reply leaves us not knowing; what is not there is done again, a
bounded number of times.

Lakehand neither writes nor deletes a backup, on purpose. A backup of ours that appears between
Java's (0) and (2) makes that update fail; deleting one that Java wrote at (2) just before its (3)
leaves, if Java dies there, a table without properties. One that a dead Java left is harmless: as
long as hoodie.properties is there and whole nobody reads it, and Java's next update removes it
in (0).

What a crash leaves, after each store call of ``update``:

==========================  ===================  ==========================================
after                       hoodie.properties    Java and we then
==========================  ===================  ==========================================
the reads, ``now``          as it was            read it (or its backup) as before
the write                   the new content      read the new; the same update changes nothing
the read that confirms      the new content      the same
==========================  ===================  ==========================================
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakehand.errors import Conflict, Corrupt, NotFound
from lakehand.formats import table_properties
from lakehand.ports import PutOutcome

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from lakehand.ports import Store, StoredObject

PATH = ".hoodie/hoodie.properties"
BACKUP_PATH = ".hoodie/hoodie.properties.backup"

_ATTEMPTS = 10
"""How often a read or write starts anew because another writer came between."""


@dataclass(frozen=True, slots=True)
class _Current:
    """The properties in force, and the version of the file to replace (None: it is missing).

    ``intact`` is False when they came from the backup, so that the file needs writing anyway.
    """

    properties: dict[str, str]
    version: str | None
    intact: bool


def load(store: Store) -> dict[str, str]:
    """Return the table's properties. Raises ``NotFound`` where there is no table."""
    return _read(store).properties


def create(store: Store, properties: Mapping[str, str]) -> dict[str, str]:
    """Write the properties of a new table and return them.

    Repeating it after a crash is harmless. Another table under the same base is a ``Conflict``.
    """
    content = table_properties.encode(
        properties, comments=table_properties.creation_comments(store.now())
    )
    for _ in range(_ATTEMPTS):
        # A lone backup is a table too: Java is in the middle of an update, or died there.
        found = _read_if_there(store)
        if found is not None:
            if _says_the_same(found.properties, properties) and found.intact:
                return found.properties
            raise Conflict(f"{store.uri} holds a table already; open it instead of creating it")
        store.put_new(PATH, content)
    raise Conflict(f"{store.uri}: {PATH} does not stay as it was written; try again")


def update(
    store: Store, change: Callable[[Mapping[str, str]], Mapping[str, str]]
) -> dict[str, str]:
    """Replace the properties by ``change`` of them and return the new ones.

    ``change`` may be called several times, each time with what the table says by then, and must
    come to the same end when called again on its own result. Hold the table lock: it keeps our
    writers apart, though not Java's (see above). ``Conflict`` when others keep coming between.
    """
    for _ in range(_ATTEMPTS):
        current = _read(store)
        wanted = dict(change(dict(current.properties)))
        if current.intact and _says_the_same(current.properties, wanted):
            return current.properties
        content = table_properties.encode(
            wanted, comments=table_properties.update_comments(store.now())
        )
        if current.version is None:
            outcome = store.put_new(PATH, content)
        else:
            outcome = store.put_if(PATH, content, current.version)
        if outcome is PutOutcome.EXISTS:
            continue
        # Written, or the reply was lost: only what is there now tells.
        there = _read_if_there(store)
        if there is not None and there.intact and _says_the_same(there.properties, wanted):
            return there.properties
    raise Conflict(f"{store.uri}: others keep changing {PATH}; try again when they are done")


def _read(store: Store) -> _Current:
    found = _read_if_there(store)
    if found is None:
        raise NotFound(f"{store.uri} is not a Hudi table: it has no {PATH}")
    return found


def _read_if_there(store: Store) -> _Current | None:
    """Read the file, or its backup; None if neither is there."""
    for _ in range(_ATTEMPTS):
        main = _get(store, PATH)
        torn: Corrupt | None = None
        if main is not None:
            try:
                return _Current(_decode(store, main, PATH), main.version, intact=True)
            except Corrupt as error:
                torn = error
        backup = _get(store, BACKUP_PATH)
        if backup is not None:
            try:
                properties = _decode(store, backup, BACKUP_PATH)
            except Corrupt as error:
                raise torn or error from error
            return _Current(properties, None if main is None else main.version, intact=False)
        # An update may have ended, and removed the backup, between the two reads.
        again = _get(store, PATH)
        if _version(again) == _version(main):
            if torn is not None:
                raise torn
            return None
    raise Conflict(f"{store.uri}: others keep changing {PATH}; try again when they are done")


def _decode(store: Store, found: StoredObject, path: str) -> dict[str, str]:
    return table_properties.decode(found.content, where=f"{store.uri}/{path}")


def _version(found: StoredObject | None) -> str | None:
    return None if found is None else found.version


def _get(store: Store, path: str) -> StoredObject | None:
    try:
        return store.get(path)
    except NotFound:
        return None


def _says_the_same(one: Mapping[str, str], other: Mapping[str, str]) -> bool:
    return table_properties.without_checksum(one) == table_properties.without_checksum(other)
