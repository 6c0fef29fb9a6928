"""Nothing secret leaves the command: not in output, errors, notes or tracebacks.

Two nets: the place in a URI where credentials stand, and the values of options, wherever they
turn up. Options that are known to be harmless, and words of a few letters, stay readable.
"""

from __future__ import annotations

import re

HIDDEN = "***"

HARMLESS = frozenset(
    {"addressing_style", "anon", "config_dir", "endpoint_url", "part_size", "profile", "region"}
)
"""Options of stores whose values are no secrets; every other is taken for one."""

_SHORTEST_SECRET = 6
_USER_INFO = re.compile(r"(?:(\w+)://)((?:[^/\s]*|[^/\s:@]*:(?!\d+/)\S*)@)")
_PAIR = re.compile(r"([\w.-]+=)(?!VALUE$).+", re.DOTALL)


class Mask:
    """Hides what it was told of, and credentials in URIs."""

    def __init__(self) -> None:
        self._secrets: set[str] = set()

    def hide(self, value: str) -> None:
        """Never show ``value`` from now on."""
        if len(value) >= _SHORTEST_SECRET:
            self._secrets.add(value)

    def __call__(self, text: str) -> str:
        """Return ``text`` as it may be shown."""
        for secret in sorted(self._secrets, key=len, reverse=True):
            text = text.replace(secret, HIDDEN)
        return _USER_INFO.sub(_without_user, text)


def _without_user(found: re.Match[str]) -> str:
    scheme, user = found.groups()
    if scheme in ("abfs", "abfss") and ":" not in user:
        return found.group()  # the container
    return f"{scheme}://{HIDDEN}@"


def without_values(text: str) -> str:
    """Return a usage error's text: a misplaced ``KEY=VALUE`` is shown without its value."""
    return _PAIR.sub(rf"\1{HIDDEN}", text)
