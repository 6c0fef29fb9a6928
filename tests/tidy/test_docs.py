"""The documents say what is so: files exist, commands exist, examples run."""

import re
from pathlib import Path

import lakehand

ROOT = Path(__file__).resolve().parents[2]


def test_every_file_that_the_architecture_names_exists():
    text = (ROOT / "docs" / "ARCHITECTURE.md").read_text(encoding="utf-8")
    table = text[text.index("## Components") :]
    named = re.findall(r"`([a-zA-Z_./]+/[a-zA-Z_./*]*)`", table)
    missing = [name for name in named if not list(ROOT.glob(name.rstrip("/")))]
    assert named
    assert missing == []


def test_every_make_command_in_the_documents_is_on_the_menu():
    menu = set(re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    unknown = [
        f"{path.relative_to(ROOT)}: make {target}"
        for path in [ROOT / "README.md", ROOT / "AGENTS.md", *(ROOT / "docs").rglob("*.md")]
        for target in re.findall(r"`(?:[A-Z_]+=\S+ )*make ([a-z0-9-]+)", path.read_text())
        if target not in menu and target not in {"demo", "sim", "sim-mutations", "api-up"}
    ]
    assert unknown == []


def test_the_public_surface_is_written_down():
    assert sorted(lakehand.__all__) == sorted(set(lakehand.__all__))
    for name in lakehand.__all__:
        assert getattr(lakehand, name).__module__.startswith("lakehand.")
