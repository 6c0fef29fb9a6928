"""Java's order of strings, by UTF-16 code units: the order of record keys in Hudi's footers.

It differs from the order of UTF-8 bytes only where characters beyond the Basic Multilingual Plane
meet U+E000 to U+FFFF; but a range of keys that is wrong there makes Java's BLOOM index miss keys.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    Keys = pa.Array[Any]


def java_order(text: str) -> bytes:
    """Return a sort key that orders strings as Java does: by UTF-16 code units."""
    return text.encode("utf-16-be")


_SURROGATES_BELOW_PRIVATE = np.arange(256, dtype=np.uint8)
_SURROGATES_BELOW_PRIVATE[[0xEE, 0xEF]] = [0xF8, 0xF9]
_BACK = {0xF8: 0xEE, 0xF9: 0xEF}


def java_min_max(keys: Keys) -> tuple[str, str]:
    """Return the smallest and the largest of some non-null strings (at least one), as Java orders.

    UTF-8 bytes order like UTF-16 units once the lead bytes of U+E000 to U+FFFF (EE, EF) are moved
    above those of four-byte characters (F0 to F4): units of those, the surrogates, sort below.
    """
    binary = keys.cast(pa.large_binary())
    _, offsets, data = binary.buffers()
    units = np.frombuffer(memoryview(data or b""), dtype=np.uint8)
    if not len(units) or units.max() < 0xF0:
        ends: Any = pc.min_max(binary).as_py()
        return ends["min"].decode(), ends["max"].decode()
    moved = pa.py_buffer(_SURROGATES_BELOW_PRIVATE[units].data)
    shifted = pa.Array.from_buffers(
        pa.large_binary(), len(binary), [None, offsets, moved], offset=binary.offset
    )
    ends = pc.min_max(shifted).as_py()
    return _moved_back(ends["min"]), _moved_back(ends["max"])


def _moved_back(shifted: bytes) -> str:
    return bytes(_BACK.get(byte, byte) for byte in shifted).decode()
