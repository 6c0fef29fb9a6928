"""Make the golden tables: `python tests/golden/make/make.py [--only TEXT] [--bundle 1.2.0]`.

One child per bundle makes all tables of its flavours. A zip is written to a temporary name and
renamed, so whoever reads the folder meanwhile sees whole files only.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import time
import zipfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
GOLDEN = HERE.parent
sys.path[:0] = [str(HERE), str(GOLDEN.parent / "support")]

from java_hudi import JavaFailed, JavaHudi  # noqa: E402
from maker import FLAVOURS, ROOT, THEMES, Theme  # noqa: E402

import special  # noqa: E402
import themes  # noqa: E402, F401

ZIP_DATE = (2026, 1, 1, 0, 0, 0)


def pack(folder: Path, name: str) -> int:
    """`table/` and `expected/` of the folder, empty directories too, names sorted."""
    target = GOLDEN / f"{name}.zip"
    temporary = GOLDEN / f".{name}.zip.{os.getpid()}"
    with zipfile.ZipFile(temporary, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for top in ("table", "expected"):
            for entry in sorted((folder / top).rglob("*")):
                inside = entry.relative_to(folder).as_posix()
                if entry.is_dir():
                    if not any(entry.iterdir()):
                        archive.writestr(zipfile.ZipInfo(inside + "/", ZIP_DATE), b"")
                    continue
                info = zipfile.ZipInfo(inside, ZIP_DATE)
                info.compress_type = zipfile.ZIP_DEFLATED
                info.external_attr = 0o644 << 16
                archive.writestr(info, entry.read_bytes())
    temporary.rename(target)
    return target.stat().st_size


def publish(
    name: str, result: dict, *, bundle: str, version: int, kind: str, **about: object
) -> None:
    folder = ROOT / name
    meta = {
        "name": name,
        "bundle": bundle,
        "table_version": version,
        "table_type": {"cow": "COPY_ON_WRITE", "mor": "MERGE_ON_READ"}[kind],
        "made_at": str(folder / "table"),
        **about,
        **result,
    }
    (folder / "expected" / "meta.json").write_text(json.dumps(meta, indent=1, ensure_ascii=False))
    size = pack(folder, name)
    odd = [r["as_of"] for r in result["reads"] if r.get("matches_live") is False]
    print(
        f"  {name}: {size // 1024} KiB, rows {[r['rows'] for r in result['reads']]}"
        + (f", time travel differs from then at {odd}" if odd else "")
        + (f", faults {result['known_fault']}" if result["known_fault"] else ""),
        flush=True,
    )


def kinds_of(theme: Theme, flavour: str) -> tuple[str, ...]:
    """Some flavours are made in one kind only: merge-on-read where there is a choice."""
    return theme.kinds[-1:] if flavour in theme.single else theme.kinds


def jobs(bundle: str, only: list[str]) -> list[tuple[str, str, str]]:
    found = []
    for theme in THEMES.values():
        for flavour in theme.flavours:
            if FLAVOURS[flavour][0] != bundle:
                continue
            for kind in kinds_of(theme, flavour):
                name = f"{flavour}_{kind}_{theme.name}"
                if not only or any(text in name for text in only):
                    found.append((theme.name, flavour, kind))
    return found


def make_bundle(bundle: str, only: list[str], *, missing: bool) -> list[str]:
    failed = []
    todo = jobs(bundle, only)
    if missing:
        todo = [(t, f, k) for t, f, k in todo if not (GOLDEN / f"{f}_{k}_{t}.zip").exists()]
    if not todo:
        return []
    with JavaHudi(bundle, niceness=1) as hudi:
        for theme_name, flavour, kind in todo:
            name = f"{flavour}_{kind}_{theme_name}"
            started = time.monotonic()
            try:
                result = hudi.run("maker:make", theme=theme_name, flavour=flavour, kind=kind)
            except JavaFailed as error:
                failed.append(name)
                print(f"! {name}: {str(error)[:1500]}", flush=True)
                continue
            theme = THEMES[theme_name]
            fault = theme.known_fault.get(flavour, theme.known_fault.get("all"))
            if fault:
                result["known_fault"].append({"known": fault})
            publish(
                name,
                result,
                bundle=bundle,
                version=FLAVOURS[flavour][1],
                kind=kind,
                script=f"tests/golden/make/{theme.script}",
                theme=theme_name,
                flavour=flavour,
                features=list(theme.features),
                about=theme.about,
                refused=theme.refused,
            )
            print(f"    {time.monotonic() - started:.1f} s", flush=True)
            shutil.rmtree(ROOT / name, ignore_errors=True)
    return failed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", action="append", default=[], help="part of a name; repeatable")
    parser.add_argument("--bundle", action="append", default=[])
    parser.add_argument("--missing", action="store_true", help="only what has no zip yet")
    parser.add_argument("--list", action="store_true")
    arguments = parser.parse_args()
    bundles = arguments.bundle or ["1.2.0", "1.0.2", "0.15.0"]
    if arguments.list:
        for bundle in bundles:
            for theme, flavour, kind in jobs(bundle, arguments.only):
                print(f"{flavour}_{kind}_{theme}")
        for found in special.catalog():
            print(found.name)
        return
    failed = []
    for bundle in bundles:
        print(f"{bundle}:", flush=True)
        failed += make_bundle(bundle, arguments.only, missing=arguments.missing)
    failed += special.make(
        arguments.only,
        set(bundles),
        exists=lambda name: arguments.missing and (GOLDEN / f"{name}.zip").exists(),
        publish=publish,
    )
    if failed:
        sys.exit(f"failed: {failed}")


if __name__ == "__main__":
    main()
