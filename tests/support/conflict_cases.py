"""Instants to be judged, built from the words of the tables of conflicts."""

from itertools import product

from lakehand.core.conflict_tables import JUDGED, Case, Order, Versions
from lakehand.core.footprints import FileGroupKey, Footprint, Kind, Mine, Other, Standing
from lakehand.core.instants import Action, completed_action

PENDING_ACTIONS = {
    Kind.INGESTION: Action.DELTA_COMMIT,
    Kind.OVERWRITE: Action.REPLACE_COMMIT,
    Kind.COMPACTION: Action.COMPACTION,
    Kind.LOG_COMPACTION: Action.LOG_COMPACTION,
    Kind.CLUSTERING: Action.CLUSTERING,
    Kind.CANCELLABLE_COMPACTION: Action.COMPACTION,
    Kind.CANCELLABLE_LOG_COMPACTION: Action.LOG_COMPACTION,
    Kind.CANCELLABLE_CLUSTERING: Action.CLUSTERING,
}
ALL_CASES = [
    Case(versions, mine, other, standing, order)
    for versions, mine, other, standing, order in product(
        (Versions.BEFORE_8, Versions.FROM_8),
        Kind,
        Kind,
        (standing for standing in Standing if standing in JUDGED),
        Order,
    )
]


def at(number):
    return f"20240101{number:09d}"


def groups(*names):
    """``groups("a", "b")``: file groups of one partition."""
    return frozenset(FileGroupKey("p", name) for name in names)


def touching(*names, schema=None):
    return Footprint(groups(*names), schema=schema)


def is_service(kind):
    return kind not in (Kind.INGESTION, Kind.OVERWRITE)


def is_cancellable(kind):
    return kind.value.startswith("cancellable")


def action_of(kind, version, *, completed=False):
    """The action under which an instant of this kind stands on the timeline."""
    action = PENDING_ACTIONS[kind]
    layout_1_clustering = version < 8 and action is Action.CLUSTERING
    return completed_action(action) if completed or layout_1_clustering else action


def my(kind=Kind.INGESTION, number=50, *, version=9, footprint=None, view=40, **changes):
    """My instant, named 50, whose view holds what completed up to 40, on file group a."""
    fields = {
        "time": at(number),
        "action": action_of(kind, version),
        "table_version": version,
        "footprint": touching("a") if footprint is None else footprint,
        "is_table_service": is_service(kind),
        "cancellable": is_cancellable(kind),
        "started_on": at(view),
    }
    return Mine(**(fields | changes))


def other(
    kind=Kind.INGESTION,
    number=45,
    standing=Standing.INFLIGHT_LIVE,
    *,
    version=9,
    footprint=None,
    completed=60,
    **changes,
):
    """Another instant on file group a; a committed one completed after my view."""
    is_done = standing is Standing.COMMITTED
    fields = {
        "time": at(number),
        "action": action_of(kind, version, completed=is_done),
        "standing": standing,
        "footprint": touching("a") if footprint is None else footprint,
        "completion_time": at(completed) if is_done else None,
        "is_table_service": is_service(kind),
        "cancellable": is_cancellable(kind),
    }
    return Other(**(fields | changes))


def instants_of(case):
    """A ``Mine`` and an ``Other`` that are an example of ``case``."""
    version = 6 if case.versions is Versions.BEFORE_8 else 9
    number = 45 if case.order is Order.EARLIER else 55
    return (
        my(case.mine, version=version),
        other(case.other, number, case.standing, version=version),
    )
