"""hudi-rs, the second foreign reader: a whole table as Arrow."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
from hudi import HudiReadOptions, HudiTableBuilder

if TYPE_CHECKING:
    from pathlib import Path


class HudiRsFailed(RuntimeError):
    """It refused or panicked; a panic is no ``Exception`` in Python."""


def read(path: Path, *, as_of: str | None = None) -> pa.Table:
    try:
        table = HudiTableBuilder.from_base_uri(str(path)).build()
        options = HudiReadOptions()
        if as_of is not None:
            options = options.with_as_of_timestamp(as_of)
        batches = table.read(options)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:
        raise HudiRsFailed(f"{type(error).__name__}: {error}") from error
    return pa.Table.from_batches(batches)
