"""What a path may be, judged once for every adapter, before it reaches a store.

A path is relative to the table's base, uses ``/``, and has no empty, ``.`` or ``..`` part and no
NUL: so no document, however hostile, can name anything outside the table. The names that the
adapters keep for themselves are here too, because listings have to hide them.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from lakehand.errors import Invalid

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lakehand.ports import Listing

PRIVATE_FOLDER = ".hoodie/.lakehand/.put"
"""Where file systems write aside and lock. Apache Hudi ignores ``.hoodie/.lakehand``."""

STAGING_ROOT = ".hoodie/.temp/"
STAGED_SUFFIX = ".staged"
_AREA = re.compile(rf"{re.escape(STAGING_ROOT)}(?:[^/]+/)+\.staging(?:/[^/]+)?")
_STAGED_PLACE = re.compile(rf"{re.escape(STAGING_ROOT)}(?:[^/]+/)*[0-9a-f]{{1,32}}\.staged")


def checked(path: str) -> str:
    """Return ``path`` if it names something below the base, else raise ``Invalid``."""
    if not isinstance(path, str) or not path:
        raise Invalid(f"not a path inside the table: {path!r}")
    wrapped = f"/{path}/"
    if "//" in wrapped or "/./" in wrapped or "/../" in wrapped or "\0" in path:
        raise Invalid(f"not a path inside the table (absolute, empty, '.' or '..' part): {path!r}")
    if not path.isascii():
        try:
            path.encode()
        except UnicodeEncodeError as error:
            raise Invalid(f"a path that UTF-8 cannot write: {path!r}") from error
    return path


def checked_folder(folder: str) -> str:
    """Return ``folder`` if it is the base (``""``) or below it, else raise ``Invalid``."""
    return folder if folder == "" else checked(folder)


def below(folder: str) -> str:
    """Return the prefix that every path in ``folder`` begins with."""
    return f"{folder}/" if folder else ""


def names_of(listing: Listing, folder: str) -> tuple[str, ...]:
    """Return the names, without folder, of the objects of a listing of ``folder``."""
    before_name = len(below(folder))
    return tuple(info.path[before_name:] for info in listing.objects)


def folders_in(folder: str, found: Iterable[str]) -> set[str]:
    """Return the direct folders of ``folder`` that lead to some of the paths ``found``."""
    prefix = below(folder)
    names = (path[len(prefix) :].partition("/") for path in found if path.startswith(prefix))
    return {prefix + name for name, slash, _ in names if slash}


def side_file(path: str) -> str:
    """Return the path of the ``.crc`` file that Hadoop keeps beside ``path``."""
    folder, slash, name = path.rpartition("/")
    return f"{folder}{slash}.{name}.crc"


def is_side_file(name: str) -> bool:
    """Tell whether ``name`` (without folder) is a checksum that Hadoop keeps beside a file."""
    return name.startswith(".") and name.endswith(".crc") and len(name) > len(".crc")


def is_hidden(path: str) -> bool:
    """Tell whether listings leave out the object at ``path``."""
    if path.endswith(".crc"):
        return is_side_file(path[path.rfind("/") + 1 :])
    if not path.startswith((STAGING_ROOT, PRIVATE_FOLDER)):
        return False
    if path.startswith(PRIVATE_FOLDER):
        return path == PRIVATE_FOLDER or path[len(PRIVATE_FOLDER)] == "/"
    return path.endswith(STAGED_SUFFIX) and path.startswith(STAGING_ROOT)


def staged_place(area: str, unique: str) -> str:
    """Return the path of a new staged file in ``area``."""
    place = f"{checked(area)}/{unique}{STAGED_SUFFIX}"
    if not _STAGED_PLACE.fullmatch(place):
        raise Invalid(f"staging areas lie below {STAGING_ROOT}, not at {area!r}")
    return place


def checked_area(area: str) -> str:
    """Return ``area`` if it is a staging area, or the folder of all of an instant's."""
    if not _AREA.fullmatch(checked(area)):
        raise Invalid(f"not a staging area: {area!r}")
    return area


def checked_place(place: str) -> str:
    """Return the path that a handle names as staged, if a staged file can lie there.

    Handles are read from documents. One that names anything else would turn ``promote`` and
    ``discard`` into a way of moving and deleting data files.
    """
    if not _STAGED_PLACE.fullmatch(checked(place)):
        raise Invalid(f"not the place of a staged file: {place!r}")
    return place
