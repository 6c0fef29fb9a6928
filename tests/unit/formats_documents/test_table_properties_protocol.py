"""The update protocol of hoodie.properties: crashes, lost replies, and Java at the same file."""

from collections.abc import Callable, Iterator
from itertools import combinations_with_replacement

import pytest

from lakehand.errors import Conflict, Corrupt, NotFound
from lakehand.formats import table_properties as file_format
from lakehand.ports import PutOutcome, StoredObject
from lakehand.protocol import table_properties
from lakehand.protocol.table_properties import BACKUP_PATH, PATH
from lakehand.store.memory import MemoryStore

NAME = "hoodie.table.name"
OURS, JAVAS = "hoodie.ours", "hoodie.javas"
BASE = {NAME: "t1", "hoodie.table.version": "9"}


class Crash(Exception):
    """The process died."""


class WatchedStore:
    """A store that calls ``before`` and ``after`` around each call of the protocol."""

    def __init__(self, inner: MemoryStore) -> None:
        self.inner = inner
        self.uri = inner.uri
        self.calls = 0
        self.before: Callable[[int, str], None] = lambda number, name: None
        self.after: Callable[[int, str], None] = lambda number, name: None
        self.outcomes: dict[int, PutOutcome] = {}

    def _call(self, name: str, *arguments: object) -> object:
        number = self.calls
        self.calls += 1
        self.before(number, name)
        try:
            result = getattr(self.inner, name)(*arguments)
        finally:
            self.after(number, name)
        return self.outcomes.get(number, result)

    def get(self, path: str) -> StoredObject:
        return self._call("get", path)

    def put_new(self, path: str, content: bytes) -> PutOutcome:
        return self._call("put_new", path, content)

    def put_if(self, path: str, content: bytes, version: str) -> PutOutcome:
        return self._call("put_if", path, content, version)

    def now(self) -> int:
        return self._call("now")


def table(properties: dict[str, str] | None = None) -> WatchedStore:
    inner = MemoryStore()
    inner.put_new(PATH, file_format.encode(properties or BASE))
    return WatchedStore(inner)


def set_ours(properties: dict[str, str]) -> dict[str, str]:
    return {**properties, OURS: "1"}


def java_reads(store: MemoryStore) -> dict[str, str]:
    """What Java's reader finds: the file, else its backup."""
    for path in (PATH, BACKUP_PATH):
        try:
            return file_format.decode(store.get(path).content, where=path)
        except (NotFound, Corrupt):
            continue
    raise AssertionError("Java finds no table")


def java_update(store: MemoryStore, *, torn: bool = False) -> Iterator[str]:
    """Java's update, a step at a time; ``torn``: it dies in the middle of writing the new file."""
    try:
        store.get(PATH)
    except NotFound:
        store.put(PATH, store.get(BACKUP_PATH).content)
    store.delete(BACKUP_PATH)
    yield "0 recovered"
    properties = java_reads(store)
    yield "1 read"
    if store.put_new(BACKUP_PATH, file_format.encode(properties)) is not PutOutcome.WRITTEN:
        raise AssertionError("Java's update fails because a backup is in its way")
    yield "2 backed up"
    store.delete(PATH)
    yield "3 deleted"
    content = file_format.encode(properties | {JAVAS: "1"})
    if torn:
        store.put(PATH, content[:10])
        return
    store.put(PATH, content)
    yield "4 written"
    file_format.decode(store.get(PATH).content, where=PATH)
    yield "5 verified"
    store.delete(BACKUP_PATH)
    yield "6 done"


def test_a_created_table_loads_and_creating_it_again_is_harmless():
    store = WatchedStore(MemoryStore())
    created = table_properties.create(store, BASE)
    assert created == BASE | {"hoodie.table.checksum": file_format.checksum(BASE)}
    assert table_properties.create(store, BASE) == created == table_properties.load(store)
    assert store.inner.get(PATH).content.startswith(b"#Properties saved on ")


def test_another_table_at_the_same_place_is_a_conflict():
    with pytest.raises(Conflict):
        table_properties.create(table(), BASE | {NAME: "t2"})


def test_a_table_that_java_has_in_hand_is_not_created_anew():
    store = table()
    steps = java_update(store.inner)
    while next(steps) != "3 deleted":
        pass
    with pytest.raises(Conflict):
        table_properties.create(store, BASE)


def test_no_table_is_not_found():
    with pytest.raises(NotFound, match="not a Hudi table"):
        table_properties.load(WatchedStore(MemoryStore()))
    with pytest.raises(NotFound):
        table_properties.update(WatchedStore(MemoryStore()), set_ours)


def test_an_update_that_changes_nothing_writes_nothing():
    store = table()
    version = store.inner.get(PATH).version
    table_properties.update(store, dict)
    assert store.inner.get(PATH).version == version


def test_an_update_is_five_calls_at_most():
    store = table()
    table_properties.update(store, set_ours)
    assert store.calls <= 4


def test_keys_can_be_removed_and_the_checksum_follows_the_name():
    store = table(BASE | {OURS: "1"})
    changed = table_properties.update(store, lambda _: {NAME: "t2"})
    assert changed == {NAME: "t2", "hoodie.table.checksum": file_format.checksum({NAME: "t2"})}


@pytest.mark.parametrize("side", ["before", "after"])
@pytest.mark.parametrize("create", [True, False])
def test_after_a_crash_at_any_call_the_table_opens_and_a_repeat_comes_to_the_same_end(side, create):
    def run(store: WatchedStore) -> None:
        if create:
            table_properties.create(store, BASE)
        table_properties.update(store, set_ours)

    whole = WatchedStore(MemoryStore()) if create else table()
    run(whole)
    for crash_at in range(whole.calls):
        store = WatchedStore(MemoryStore()) if create else table()

        def die(number: int, _name: str, crash_at: int = crash_at) -> None:
            if number == crash_at:
                raise Crash

        setattr(store, side, die)
        with pytest.raises(Crash):
            run(store)
        if store.inner.head(PATH) is not None or not create:
            java_reads(store.inner)
            table_properties.load(WatchedStore(store.inner))
        again = WatchedStore(store.inner)
        if create and store.inner.head(PATH) is None:
            table_properties.create(again, BASE)
        table_properties.update(again, set_ours)
        final = table_properties.load(again)
        assert final == file_format.decode(whole.inner.get(PATH).content, where="")


@pytest.mark.parametrize("applied", [True, False])
def test_a_lost_reply_is_settled_by_looking(applied):
    store = table()

    def drop_write(number: int, name: str) -> None:
        if name == "put_if" and not applied and store.outcomes == {}:
            store.outcomes[number] = PutOutcome.UNKNOWN
            store.inner.put(PATH, store.inner.get(PATH).content)  # a write that ours loses to

    def lose_reply(number: int, name: str) -> None:
        if name == "put_if" and applied and store.outcomes == {}:
            store.outcomes[number] = PutOutcome.UNKNOWN

    store.before, store.after = drop_write, lose_reply
    changed = table_properties.update(store, set_ours)
    assert changed[OURS] == "1"
    assert table_properties.load(store) == changed


def test_edits_that_come_between_are_kept():
    store = table()

    def other_writer(_number: int, name: str) -> None:
        if name == "put_if":
            store.before = lambda number, name: None
            properties = java_reads(store.inner)
            store.inner.put(PATH, file_format.encode(properties | {"hoodie.other": "1"}))

    store.before = other_writer
    changed = table_properties.update(store, set_ours)
    assert (changed[OURS], changed["hoodie.other"]) == ("1", "1")


def test_a_writer_that_always_comes_between_ends_in_a_conflict():
    store = table()

    def other_writer(number: int, name: str) -> None:
        if name == "put_if":
            content = file_format.encode(BASE | {"hoodie.other": str(number)})
            store.inner.put(PATH, content)

    store.before = other_writer
    with pytest.raises(Conflict):
        table_properties.update(store, set_ours)


@pytest.mark.parametrize("dead_after", range(8))
def test_wherever_java_died_we_load_and_repair_and_java_goes_on(dead_after):
    store = table()
    steps = java_update(store.inner, torn=dead_after == 7)
    for _ in range(4 if dead_after == 7 else dead_after):
        next(steps)
    next(steps, None) if dead_after == 7 else None
    before = table_properties.load(store)
    assert before.items() >= BASE.items()
    changed = table_properties.update(store, set_ours)
    assert changed == before | {OURS: "1"}
    assert file_format.decode(store.inner.get(PATH).content, where="") == changed
    for _ in java_update(store.inner):
        java_reads(store.inner)
    assert java_reads(store.inner) == changed | {JAVAS: "1"}
    assert store.inner.head(BACKUP_PATH) is None


JAVA_STEPS = 7
OUR_CALLS = 6


@pytest.mark.parametrize("java_lives", range(JAVA_STEPS + 1))
def test_in_every_interleaving_with_java_the_table_stays_readable(java_lives):
    """Java's step k happens before our call ``places[k]``; it dies after ``java_lives`` steps."""
    for places in combinations_with_replacement(range(OUR_CALLS + 1), java_lives):
        _weave(places)


def _weave(places: tuple[int, ...]) -> None:
    store = table()
    steps = java_update(store.inner)
    taken = 0

    def java_goes_on(number: int, _name: str) -> None:
        nonlocal taken
        while taken < len(places) and places[taken] <= number:
            next(steps)
            taken += 1
            java_reads(store.inner)

    store.before = java_goes_on
    changed = table_properties.update(store, set_ours)
    assert changed[OURS] == "1"
    java_was_done = taken == len(places)
    java_goes_on(OUR_CALLS, "")
    java_reads(store.inner)
    final = table_properties.load(WatchedStore(store.inner))
    # Java writes blindly what it read before: only an edit of ours after that is sure to stay.
    assert final.get(OURS) == "1" or not java_was_done


def test_when_both_files_are_torn_the_main_one_is_named():
    store = table()
    store.inner.put(PATH, b"torn")
    store.inner.put(BACKUP_PATH, b"")
    with pytest.raises(Corrupt) as caught:
        table_properties.load(store)
    assert caught.value.where.endswith("/hoodie.properties")


def test_a_torn_file_without_a_backup_is_corrupt_and_never_overwritten():
    store = table()
    store.inner.put(PATH, b"torn")
    for attempt in (table_properties.load, lambda it: table_properties.update(it, set_ours)):
        with pytest.raises(Corrupt):
            attempt(store)
    assert store.inner.get(PATH).content == b"torn"


def test_an_update_that_ends_between_our_two_reads_is_seen():
    store = table()
    content = store.inner.get(PATH).content
    store.inner.delete(PATH)

    def java_ends(number: int, _name: str) -> None:
        if number == 1:
            store.inner.put(PATH, content)

    store.before = java_ends
    assert table_properties.load(store)[NAME] == "t1"
