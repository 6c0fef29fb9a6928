"""Names of timeline files: which instant a file stands for, and the file that an instant needs.

::

    T.<action>.requested   T.<action>.inflight   T.<action>.aborted     both layouts
    T.inflight             a commit's inflight file, in both layouts
    T.<action>             completed, layout 1 (and instants that layout 2 took over from it)
    T_C.<action>           completed at C, layout 2

What may stand after the first dot is a small set, so each layout has one table of it, made from
the rules below, and the way back is the same table turned round. Names outside the table are not
instants: Java leaves unknown extensions alone, and so does Lakehand.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakehand.core.instants import FIRST_STATES, Action, Instant, State, completed_action
from lakehand.errors import Invalid

if TYPE_CHECKING:
    from collections.abc import Iterator

_Suffixes = dict[str, tuple[Action, State]]


def parse(name: str, layout: int) -> Instant | None:
    """Return the instant that the file ``name`` stands for, or None if it stands for none."""
    head, _, suffix = name.partition(".")
    found = _SUFFIXES[layout].get(suffix)
    if found is None:
        return None
    action, state = found
    if head.isdecimal() and head.isascii():
        return Instant(head, action, state)
    if layout == 1 or state is not State.COMPLETED:
        return None
    time, _, completion = head.partition("_")
    if time.isdecimal() and completion.isdecimal() and head.isascii():
        return Instant(time, action, state, completion)
    return None


def file_name(instant: Instant, layout: int) -> str:
    """Return the name of the file that stands for ``instant``.

    In layout 1 a completion time has no place in the name. In layout 2 a completed instant without
    one is an instant that was taken over from layout 1; new ones must carry it.
    """
    suffix = _NAMES[layout].get((_shown_as(instant, layout), instant.state))
    if suffix is None:
        raise Invalid(
            f"layout {layout} has no file for a {instant.action.value} that is "
            f"{instant.state.value} ({instant.time})"
        )
    if layout == 2 and instant.is_completed and instant.completion_time is not None:
        return f"{instant.time}_{instant.completion_time}.{suffix}"
    return f"{instant.time}.{suffix}"


def _shown_as(instant: Instant, layout: int) -> Action:
    """Return the action that a file's name says: layout 1 has no word of its own for clustering."""
    is_nameless = layout == 1 and instant.action is Action.CLUSTERING and not instant.is_completed
    return completed_action(instant.action) if is_nameless else instant.action


def _suffixes(layout: int) -> Iterator[tuple[str, tuple[Action, State]]]:
    for action in Action:
        if action is Action.CLUSTERING and layout == 1:
            continue  # layout 1 calls a pending clustering a replacecommit
        if FIRST_STATES[action] is State.REQUESTED:
            yield f"{action.value}.requested", (action, State.REQUESTED)
        inflight = "inflight" if action is Action.COMMIT else f"{action.value}.inflight"
        yield inflight, (action, State.INFLIGHT)
        yield f"{action.value}.aborted", (action, State.ABORTED)
        if completed_action(action) is action:
            yield action.value, (action, State.COMPLETED)


_SUFFIXES: dict[int, _Suffixes] = {layout: dict(_suffixes(layout)) for layout in (1, 2)}
_NAMES = {
    layout: {meaning: suffix for suffix, meaning in suffixes.items()}
    for layout, suffixes in _SUFFIXES.items()
}
