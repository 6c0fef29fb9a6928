"""The house rules that a machine can check: layout, sizes, names, and what may be imported."""

import ast
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCES = sorted((ROOT / "worker" / "lakehand").rglob("*.py"))
TESTS = sorted((ROOT / "tests").rglob("*.py"))

MODULE_LINES = 700
TEST_MODULE_LINES = 400
FUNCTION_LINES = 70

# What the pure core may import of the standard library: nothing that can touch the world.
CORE_MAY_IMPORT = {
    "__future__", "bisect", "collections", "collections.abc", "dataclasses", "datetime",
    "decimal", "enum", "functools", "itertools", "json", "math", "operator", "re", "string",
    "struct", "types", "typing", "zlib", "zoneinfo",
}  # fmt: skip


@pytest.mark.parametrize("folder", ["operator", "worker"])
def test_source_roots_hold_packages_only(folder):
    """A loose module there would shadow the standard library in an editable install."""
    loose = [path.name for path in (ROOT / folder).glob("*.py")]
    assert loose == []


def test_no_test_folder_shadows_the_standard_library():
    assert not (ROOT / "tests" / "operator").exists()
    assert list((ROOT / "tests").rglob("__init__.py")) == []


def test_modules_and_functions_fit_a_reader():
    long_modules = [
        f"{path.relative_to(ROOT)}: {lines} lines"
        for path in SOURCES + TESTS
        if (lines := len(path.read_text(encoding="utf-8").splitlines()))
        > (TEST_MODULE_LINES if path.name.startswith("test_") else MODULE_LINES)
    ]
    long_functions = [
        f"{path.relative_to(ROOT)}:{node.lineno} {node.name}: {length} lines"
        for path in SOURCES
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef)
        and (length := (node.end_lineno or 0) - node.lineno + 1) > FUNCTION_LINES
    ]
    assert long_modules + long_functions == []


def test_every_module_says_why_it_exists():
    silent = [
        str(path.relative_to(ROOT))
        for path in SOURCES
        if ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) is None
    ]
    assert silent == []


def _imports(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            yield node.module


def test_the_core_is_pure():
    impure = [
        f"{path.relative_to(ROOT)} imports {name}"
        for path in SOURCES
        if path.is_relative_to(ROOT / "worker" / "lakehand" / "core")
        for name in _imports(path)
        if name not in CORE_MAY_IMPORT and not name.startswith(("lakehand.core", "lakehand.errors"))
    ]
    assert impure == []


def test_a_hoodie_key_stands_in_one_file_only():
    """A table's keys are data in core/table_keys.py, a write's own in write/option_table.py."""
    key = re.compile(r"hoodie\.[a-z_]+(\.[a-z_]+)+$")
    strays = [
        f"{path.relative_to(ROOT)}:{node.lineno} {node.value}"
        for path in SOURCES
        if path.name not in {"table_keys.py", "option_table.py"}
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and key.fullmatch(node.value)
        and node.value not in {"hoodie.properties", "hoodie.properties.backup"}
    ]
    assert strays == []


def test_no_host_and_no_machine_path_is_written_into_the_project():
    files = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout.splitlines()
    banned = re.compile(
        r"(/wor"
        r"k/|/roo"
        r"t/|pypi\.o"
        r"rg|files\.pythonhoste"
        r"d|repo1?\.maven|proxy\.golan"
        r"g)"
    )
    found = []
    for name in files:
        path = ROOT / name
        if path.suffix in {".zip", ".png"} or not path.is_file():
            continue
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            if banned.search(line):
                found.append(f"{name}:{number}: {line.strip()[:80]}")
    assert found == []
