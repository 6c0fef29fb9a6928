"""Tables that pass through several children: upgrades by a newer bundle, and killed writers.

A killed writer is a real one: a child with a lock provider writes its data, waits for the table's
lock, which we hold by then, and gets `kill -9`. What it leaves behind (requested and inflight
files, data, markers, its heartbeat) is what any crash at that point leaves.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from java_hudi import JavaFailed, JavaHudi
from maker import FLAVOURS, PAYLOAD, ROOT, Maker, trips

if TYPE_CHECKING:
    from jvm_worker import Session

TWO = ("amsterdam", "berlin")
LOCKED = {
    "hoodie.write.concurrency.mode": "optimistic_concurrency_control",
    "hoodie.cleaner.policy.failed.writes": "LAZY",
    "hoodie.clean.failed.writes.policy": "LAZY",
    "hoodie.write.lock.provider": (
        "org.apache.hudi.client.transaction.lock.FileSystemBasedLockProvider"
    ),
    "hoodie.write.lock.wait_time_ms": "600000",
    "hoodie.write.lock.num_retries": "1000",
}


@dataclass(frozen=True, slots=True)
class Special:
    name: str
    bundles: tuple[str, ...]
    kind: str
    features: tuple[str, ...]
    about: str
    build: Callable[[str], dict[str, Any]]


# -- functions that run in the child ------------------------------------------------


def begin(session: Session, name: str, bundle: str, version: int, kind: str, crc: bool) -> None:
    t = Maker.begin(session, name=name, bundle=bundle, version=version, kind=kind)
    t.crc_files(crc)
    t.write(trips(range(20), 100, cities=TWO), "insert")
    t.write(trips(range(0, 8), 200, cities=TWO))
    if t.is_mor:
        t.write(trips(range(0, 2), 250, cities=TWO), "delete")
        t.compact("both")
    t.write(trips(range(5, 12), 300, cities=TWO))
    t.write(trips(range(30, 34), 400, cities=TWO), "insert")
    t.save()


def write_slowly(session: Session, name: str, operation: str) -> None:
    """A write of a writer among several: it never gets the lock for its commit."""
    t = Maker.resume(session, name)
    t.set(LOCKED)  # type: ignore[arg-type]
    rows = trips(range(4, 24), 900, cities=TWO, note="must not be seen")
    t.write(rows, operation, keep=False)


def upgrade(session: Session, name: str, bundle: str, version: int) -> None:
    """The newer bundle takes the table over with its first write."""
    t = Maker.resume(session, name)
    t.crc_files(wanted=False)
    t.bundle, t.version = bundle, version
    t.set({PAYLOAD: None})
    t.write(trips(range(3, 7), 500, cities=TWO))
    t.write(trips(range(0, 9), 350, cities=TWO, note="late for some"))
    t.write(trips(range(1, 3), 600, cities=TWO), "delete")
    t.save()


def keys_back(session: Session, name: str, bundle: str, version: int, kind: str) -> None:
    """Keys come back after a delete operation, in one slice: 1.0.2 cannot read that itself."""
    t = Maker.begin(session, name=name, bundle=bundle, version=version, kind=kind)
    t.crc_files(wanted=False)
    t.set({"hoodie.metadata.enable": "false"})
    t.write(trips(range(20), 100, cities=TWO), "insert")
    t.write(trips(range(0, 8), 200, cities=TWO))
    t.write(trips(range(5, 9), 300, cities=TWO), "delete")
    t.write(trips(range(7, 12), 400, cities=TWO), keep=False)
    try:
        t.remember()
    except Exception as error:
        t.notes.append(f"1.0.2 cannot read its own table: {str(error)[:300]}")
    t.save()


def travel(session: Session, name: str) -> dict[str, Any]:
    t = Maker.resume(session, name)
    return t.finish(instants=t.completed()[:-1])


def more_writes(session: Session, name: str) -> None:
    """Another writer goes on and rolls the dead one back (its heartbeat is given up at once)."""
    t = Maker.resume(session, name)
    t.set(LOCKED)  # type: ignore[arg-type]
    for file in (t.hoodie / ".heartbeat").glob("*"):
        file.unlink()
    t.write(trips(range(2, 9), 500, cities=TWO))
    t.write(trips(range(40, 43), 600, cities=TWO), "insert")
    t.save()


def finish(session: Session, name: str) -> dict[str, Any]:
    return Maker.resume(session, name).finish()


# -- what the parent does ----------------------------------------------------------


def kill_writer(bundle: str, name: str, operation: str = "upsert") -> None:
    hoodie = ROOT / name / "table" / ".hoodie"
    timeline = hoodie / "timeline" if (hoodie / "timeline").is_dir() else hoodie
    before = _names(timeline)
    lock = hoodie / "lock"
    victim = JavaHudi(bundle)
    victim.start()
    try:
        victim.send("special:write_slowly", name=name, operation=operation)
        _wait(lambda: any("inflight" in n for n in _names(timeline) - before), "an inflight file")
        while True:
            # Whoever holds the lock file holds the lock: Java's writer waits for us from here on.
            try:
                lock.touch(exist_ok=False)
                break
            except FileExistsError:
                time.sleep(0.02)
        new = {n for n in _names(timeline) - before}
        instant = min(new)[:17]
        _wait((hoodie / ".temp" / instant).is_dir, "the writer's markers")
        _wait(lambda: _quiet(hoodie.parent), "the writer to wait for the lock")
        done = [n for n in _names(timeline) - before if n.count(".") == 1 and "inflight" not in n]
        assert not done, f"the writer had committed: {done}"
    finally:
        victim.kill()
    lock.unlink()
    for leftover in hoodie.glob(".lock.crc"):
        leftover.unlink()


def _names(folder: Path) -> set[str]:
    """The timeline's own files: in layout 1 they share their folder with much else."""
    return {file.name for file in folder.iterdir() if file.name[:17].isdigit()}


_seen: dict[Path, tuple[float, int]] = {}


def _quiet(table: Path) -> bool:
    """Nothing below the table has changed for three seconds, the heartbeat aside."""
    size = sum(
        f.stat().st_size + f.stat().st_mtime_ns % 1_000_003
        for f in table.rglob("*")
        if f.is_file() and ".heartbeat" not in f.parts and not f.name.startswith(".lock")
    )
    now = time.monotonic()
    since, last = _seen.get(table, (now, -1))
    if size != last:
        _seen[table] = (now, size)
        return False
    return now - since > 3


def _wait(done: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + 180
    while not done():
        if time.monotonic() > deadline:
            raise TimeoutError(f"no sign of {what}")
        time.sleep(0.05)


def killed(bundle: str, *, rolled_back: bool) -> Callable[[str], dict[str, Any]]:
    flavour = next(f for f, (b, _) in FLAVOURS.items() if b == bundle)

    def build(name: str) -> dict[str, Any]:
        kind = name.split("_")[1]
        with JavaHudi(bundle) as hudi:
            version = FLAVOURS[flavour][1]
            hudi.run(
                "special:begin",
                name=name,
                bundle=bundle,
                version=version,
                kind=kind,
                crc=not rolled_back,
            )
            kill_writer(bundle, name)
            if rolled_back:
                hudi.run("special:more_writes", name=name)
            result: dict[str, Any] = hudi.run("special:finish", name=name)
        return result

    return build


def upgraded(older: str, newer: str) -> Callable[[str], dict[str, Any]]:
    def build(name: str) -> dict[str, Any]:
        kind = name.split("_")[1]
        version = next(v for b, v in FLAVOURS.values() if b == older)
        with JavaHudi(older) as hudi:
            hudi.run(
                "special:begin",
                name=name,
                bundle=older,
                version=version,
                kind=kind,
                crc=False,
            )
        with JavaHudi(newer) as hudi:
            hudi.run("special:upgrade", name=name, bundle=newer, version=9)
            result: dict[str, Any] = hudi.run("special:finish", name=name)
        return result

    return build


def read_by_another(name: str) -> dict[str, Any]:
    with JavaHudi("1.0.2") as hudi:
        hudi.run("special:keys_back", name=name, bundle="1.0.2", version=8, kind="mor")
    with JavaHudi("1.2.0") as hudi:
        result: dict[str, Any] = hudi.run("special:travel", name=name)
    for read in result["reads"]:
        read["source"] = "java 1.2.0"
    return result


def catalog() -> list[Special]:
    found = [
        Special(
            name="v8_mor_keys_back",
            bundles=("1.0.2", "1.2.0"),
            kind="mor",
            features=("keys back after a delete operation",),
            about="Keys come back after a delete operation; 1.0.2 cannot read it, 1.2.0 did.",
            build=read_by_another,
        )
    ]
    for flavour, bundle in (("v9", "1.2.0"), ("v8", "1.0.2"), ("v6", "0.15.0")):
        for kind in ("cow", "mor"):
            found.append(
                Special(
                    name=f"{flavour}_{kind}_killed",
                    bundles=(bundle,),
                    kind=kind,
                    features=("inflight write left behind", "heartbeat", "markers"),
                    about="The last writer was killed after it wrote its data, before its commit.",
                    build=killed(bundle, rolled_back=False),
                )
            )
        found.append(
            Special(
                name=f"{flavour}_mor_killed_rolled_back",
                bundles=(bundle,),
                kind="mor",
                features=("rollback of a failed write", "lazy rollback"),
                about="A writer was killed; a later writer's clean rolled it back.",
                build=killed(bundle, rolled_back=True),
            )
        )
    for name, older in (("v6to9", "0.15.0"), ("v8to9", "1.0.2")):
        for kind in ("cow", "mor"):
            found.append(
                Special(
                    name=f"{name}_{kind}_upgraded",
                    bundles=(older, "1.2.0"),
                    kind=kind,
                    features=("upgraded table",),
                    about=f"Written by {older}, upgraded by 1.2.0, written again.",
                    build=upgraded(older, "1.2.0"),
                )
            )
    return found


def make(
    only: list[str],
    bundles: set[str],
    *,
    exists: Callable[[str], bool],
    publish: Callable[..., None],
) -> list[str]:
    failed = []
    for special in catalog():
        if only and not any(text in special.name for text in only):
            continue
        if special.bundles[-1] not in bundles or exists(special.name):
            continue
        try:
            result = special.build(special.name)
        except (JavaFailed, TimeoutError, AssertionError) as error:
            failed.append(special.name)
            print(f"! {special.name}: {str(error)[:1500]}", flush=True)
            continue
        flavour = special.name.split("_")[0]
        publish(
            special.name,
            result,
            bundle=special.bundles[0] if flavour == "v8" else special.bundles[-1],
            bundles=list(special.bundles),
            version={"v8": 8, "v6": 6}.get(flavour, 9),
            kind=special.kind,
            script="tests/golden/make/special.py",
            theme=special.name.split("_", 2)[2],
            flavour=flavour,
            features=list(special.features),
            about=special.about,
        )
        shutil.rmtree(ROOT / special.name, ignore_errors=True)
    return failed
