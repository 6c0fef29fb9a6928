"""What each call of a port does to the world, in one step: the ports' laws can be read off it.

Versions are digests of the content: the port allows a version to come back with its content, so
here it does. A listing may also begin at one step and end at another (``Begun``); then it sees of
what changed meanwhile the one part old and the other part new, as the port's law allows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakehand.errors import LockTimeout, NotFound
from lakehand.ports import Listing, LockHolder, ObjectInfo, PromoteOutcome, PutOutcome
from lakehand.store import paths
from sim_calls import Begun, Call, Raised
from sim_world import LockRecord, StagedFile, World

if TYPE_CHECKING:
    from collections.abc import Callable


def do(world: World, process: str, call: Call) -> object:
    """Carry out one call and return its reply."""
    return _DO[call.method](world, process, call)


def _missing(path: str) -> Raised:
    return Raised(NotFound, (f"no object {path!r}",))


def _get(world: World, _: str, call: Call) -> object:
    return world.objects.get(call.path) or _missing(call.path)


def _head(world: World, _: str, call: Call) -> object:
    found = world.objects.get(call.path)
    if found is None:
        return None
    return ObjectInfo(call.path, len(found.content), found.modified_ms)


def shape_listing(world: World, method: str, folder: str, infos: tuple[ObjectInfo, ...]) -> object:
    """Turn everything below ``folder`` into the reply of ``list``, ``names`` or ``walk``.

    Folders of staged files are there, as on a disk.
    """
    if method == "walk":
        return infos
    prefix = paths.below(folder)
    objects, folders = [], paths.folders_in(folder, world.staged)
    for info in infos:
        name, slash, _ = info.path[len(prefix) :].partition("/")
        if slash:
            folders.add(prefix + name)
        else:
            objects.append(info)
    listing = Listing(tuple(objects), tuple(sorted(folders)))
    return listing if method == "list" else paths.names_of(listing, folder)


def _listing(world: World, _: str, call: Call) -> object:
    return shape_listing(world, call.method, call.path, world.infos(call.path))


def _list_end(world: World, _: str, call: Call) -> object:
    method, _seen = call.args
    return shape_listing(world, method, call.path, world.infos(call.path))


def begin_listing(world: World, call: Call) -> Begun:
    """Begin a listing that another step will end."""
    return Begun(world.infos(call.path))


def changed_since(world: World, call: Call) -> list[str]:
    """Return the paths that a begun listing (``list_end``) may see in their old or new state."""
    _method, seen = call.args
    old, new = set(seen), set(world.infos(call.path))
    return sorted({info.path for info in old ^ new})


def torn_listing(world: World, call: Call, *, first: str, count: int) -> object:
    """End a listing that saw the first ``count`` changed paths old (or new), and the others not."""
    method, seen = call.args
    changed = changed_since(world, call)
    before = {info.path: info for info in seen}
    after = {info.path: info for info in world.infos(call.path)}
    one, other = (before, after) if first == "old" else (after, before)
    chosen = {path: (one if place < count else other) for place, path in enumerate(changed)}
    mixed = [
        info
        for path in sorted(before.keys() | after.keys())
        if (info := chosen.get(path, after).get(path)) is not None
    ]
    return shape_listing(world, method, call.path, tuple(mixed))


def _put(world: World, _: str, call: Call) -> None:
    world.put(call.path, call.args[0])


def _put_new(world: World, process: str, call: Call) -> PutOutcome:
    if call.path in world.objects:
        return PutOutcome.EXISTS
    _put(world, process, call)
    return PutOutcome.WRITTEN


def _put_if(world: World, process: str, call: Call) -> PutOutcome:
    found = world.objects.get(call.path)
    if found is None or found.version != call.args[1]:
        return PutOutcome.EXISTS
    _put(world, process, call)
    return PutOutcome.WRITTEN


def _delete(world: World, _: str, call: Call) -> None:
    world.drop_object(call.path)


def _now(world: World, _process: str, _call: Call) -> int:
    return world.store_now()


def _stage(world: World, _: str, call: Call) -> None:
    world.set_staged(call.path, StagedFile(call.args[0], None))


def _stage_close(world: World, _: str, call: Call) -> None:
    found = world.staged.get(call.path)
    if found is not None:  # else it was discarded meanwhile: what is written can never appear
        world.set_staged(call.path, found._replace(content=call.args[0]))


def _promote(world: World, _: str, call: Call) -> PromoteOutcome:
    place = call.args[0]
    found = world.staged.get(place)
    if found is None or found.content is None:
        return PromoteOutcome.GONE
    world.set_staged(place, None)
    if call.path in world.objects:
        return PromoteOutcome.EXISTS
    world.put(call.path, found.content)
    return PromoteOutcome.WRITTEN


def _discard(world: World, _: str, call: Call) -> None:
    if call.args[0] in world.staged:
        world.set_staged(call.args[0], None)


def _discard_area(world: World, _: str, call: Call) -> None:
    for place in [one for one in world.staged if one.startswith(f"{call.path}/")]:
        world.set_staged(place, None)


def _acquire(world: World, process: str, call: Call) -> object:
    owner, token, timeout_s = call.args
    if not world.is_free(call.path):
        record = world.locks[call.path]
        named = (("holder", record.owner), ("age_s", timeout_s), ("waited_s", timeout_s))
        return Raised(LockTimeout, (), named)
    world.set_lock(call.path, LockRecord(process, owner, token, None))
    return token


def _release(world: World, _: str, call: Call) -> None:
    record = world.locks.get(call.path)
    if record is not None and record.token == call.args[0]:
        world.set_lock(call.path, None)


def _holder(world: World, _: str, call: Call) -> LockHolder | None:
    record = world.locks.get(call.path)
    if record is None:
        return None
    left = None if record.until_ms is None else (record.until_ms - world.real_ms) / 1000
    lease_s = world.lease_ms / 1000
    age_s = 0.0 if left is None else lease_s - left
    return LockHolder(record.owner, record.token, age_s, lease_s if left is None else left)


def _break_lock(world: World, _: str, call: Call) -> bool:
    record = world.locks.get(call.path)
    if record is None or record.token != call.args[0]:
        return False
    world.set_lock(call.path, None)
    return True


def _left_s(world: World, _: str, call: Call) -> float:
    token = call.args[0]
    record = world.locks.get(call.path)
    if token in world.liars:
        return world.lease_ms / 1000
    if record is None or record.token != token:
        return 0.0
    if record.until_ms is None:
        return world.lease_ms / 1000
    return max(0, record.until_ms - world.real_ms) / 1000


def _monotonic(world: World, process: str, _: Call) -> float:
    return world.monotonic_s(process)


def _nothing(_world: World, _process: str, _call: Call) -> None:
    return None


_DO: dict[str, Callable[[World, str, Call], object]] = {
    "get": _get,
    "open": _get,
    "head": _head,
    "list": _listing,
    "names": _listing,
    "walk": _listing,
    "list_end": _list_end,
    "put": _put,
    "put_new": _put_new,
    "put_if": _put_if,
    "delete": _delete,
    "now": _now,
    "stage": _stage,
    "stage_close": _stage_close,
    "promote": _promote,
    "discard": _discard,
    "discard_area": _discard_area,
    "acquire": _acquire,
    "release": _release,
    "holder": _holder,
    "break_lock": _break_lock,
    "left_s": _left_s,
    "monotonic": _monotonic,
    "sleep": _nothing,
    "due": _nothing,
    "join": _nothing,
}
