"""All themes: importing this fills the catalog."""

import importlib
from pathlib import Path

for script in sorted(Path(__file__).parent.glob("theme_*.py")):
    importlib.import_module(script.stem)
