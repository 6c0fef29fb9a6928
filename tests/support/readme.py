"""The examples of the README, by the section that they stand in."""

import re
from pathlib import Path

README = Path(__file__).resolve().parents[2] / "README.md"


def blocks(section: str) -> list[str]:
    """Return the Python examples of a section."""
    text = README.read_text(encoding="utf-8")
    (body,) = re.findall(rf"^## {re.escape(section)}$(.*?)^## ", text, re.DOTALL | re.MULTILINE)
    return re.findall(r"```python\n(.*?)```", body, re.DOTALL)
