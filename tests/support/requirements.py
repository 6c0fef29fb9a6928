"""Which test proves which requirement: docs/requirements.md against the ``req`` marks.

``--write`` writes docs/requirements-proof.md, ``--check`` fails when it is stale, no option
prints it. Marks are read from the source, so that nothing has to run.
"""

import argparse
import ast
import re
import sys
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TABLE = ROOT / "docs" / "requirements.md"
PROOF = ROOT / "docs" / "requirements-proof.md"
_ROW = re.compile(r"^\| ([A-E]-\d\d) \|", re.MULTILINE)


def known_ids() -> list[str]:
    """Return the ids of the table, in its order."""
    return _ROW.findall(TABLE.read_text(encoding="utf-8"))


def proofs() -> dict[str, list[str]]:
    """Return id -> names of the tests whose ``req`` mark names it."""
    found: dict[str, list[str]] = defaultdict(list)
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                for requirement in _marks(node):
                    found[requirement].append(f"{path.relative_to(ROOT)}::{node.name}")
    return found


def _marks(node: ast.FunctionDef | ast.ClassDef) -> list[str]:
    return [
        argument.value
        for mark in node.decorator_list
        if isinstance(mark, ast.Call)
        and isinstance(mark.func, ast.Attribute)
        and mark.func.attr == "req"
        for argument in mark.args
        if isinstance(argument, ast.Constant) and isinstance(argument.value, str)
    ]


def render() -> str:
    """Return the proof table as Markdown."""
    ids, found = known_ids(), proofs()
    unknown = sorted(set(found) - set(ids))
    if unknown:
        raise SystemExit(f"tests name requirements that docs/requirements.md lacks: {unknown}")
    proved = [one for one in ids if one in found]
    lines = [
        "# Requirements and the tests that prove them",
        "",
        "Written by `make requirements` from the `req` marks of the tests; do not edit.",
        "",
        f"{len(proved)} of {len(ids)} rows have a test, {len(ids) - len(proved)} are open.",
        "",
        "| id | proved by |",
        "|---|---|",
    ]
    for one in ids:
        tests = "<br>".join(f"`{name}`" for name in found.get(one, ())) or "open"
        lines.append(f"| {one} | {tests} |")
    return "\n".join(lines) + "\n"


def main() -> int:
    """Print, write or check the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="write docs/requirements-proof.md")
    parser.add_argument("--check", action="store_true", help="fail if that file is stale")
    options = parser.parse_args()
    text = render()
    if options.write:
        PROOF.write_text(text, encoding="utf-8")
    elif options.check:
        if not PROOF.exists() or PROOF.read_text(encoding="utf-8") != text:
            print("docs/requirements-proof.md is stale: run make requirements", file=sys.stderr)
            return 1
    else:
        print(text, end="")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
