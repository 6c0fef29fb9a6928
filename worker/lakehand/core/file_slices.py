"""File groups and slices: which files of a partition hold what a reader may see.

All files with one file id are a *file group*; each base file opens a *slice* at its instant, and
log files add to a slice. Which slice a log file belongs to depends on who wrote it:

* **up to table version 7** its name says so: it carries the slice's base instant. A pending
  compaction counts as a slice at the compaction's instant. Which of the file's *blocks* count is
  ``core.log_validity``'s question.
* **from version 8 on** its name carries the delta commit's own instant ``d``, and it belongs to
  the slice with the greatest base instant that is not after the *completion* of ``d``: so delta
  commits may straddle the scheduling of a compaction. Files of unfinished instants are hidden.
  Tables that were upgraded keep files with old names; a log file whose instant *is* the base
  instant of a slice is one of those, and goes there.

Base files of uncommitted instants, orphans of removed ones, CDC logs and side files are hidden.
Time travel needs nothing here: build the groups with ``timeline.as_of(time)``.

``FileEntry``, ``FileSlice`` and ``FileGroup`` are named tuples, not dataclasses: a view holds
hundreds of thousands of them, and they are made three times as fast.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from typing import TYPE_CHECKING, NamedTuple

from lakehand.core.file_names import split_base_name, split_log_name
from lakehand.errors import Corrupt

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Mapping

    from lakehand.core.timeline import Timeline

    _LogKey = tuple[str, int, str]
    _Logs = list[tuple[_LogKey, "FileEntry"]]
    _Bases = dict[str, "FileEntry"]

FIRST_VERSION_BY_COMPLETION = 8
"""The first table version that slices by completion time."""

_NO_PLANS: Mapping[str, str] = {}


class FileEntry(NamedTuple):
    """A file of a partition's listing; ``size`` in bytes."""

    name: str
    size: int


class FileSlice(NamedTuple):
    """A base file, if there is one, and the log files on top of it, oldest first."""

    partition: str
    file_id: str
    base_instant: str
    base_file: FileEntry | None
    log_files: tuple[FileEntry, ...] = ()

    @property
    def total_size(self) -> int:
        """The bytes of all files of the slice."""
        base = 0 if self.base_file is None else self.base_file.size
        return base + sum(log.size for log in self.log_files)


class FileGroup(NamedTuple):
    """The visible slices of one file id, oldest first.

    ``pending_compaction`` is the instant of the scheduled compaction that opened the last slice:
    writers add to that slice, readers see it merged with the one before (``latest_slice``).
    """

    partition: str
    file_id: str
    slices: tuple[FileSlice, ...]
    pending_compaction: str | None = None

    @property
    def latest_slice(self) -> FileSlice:
        """The slice that a reader reads now.

        While a compaction is pending its slice has no base file yet, so it is read together with
        the slice before it.
        """
        last = self.slices[-1]
        if len(self.slices) < 2 or last.base_instant != self.pending_compaction:
            return last
        before = self.slices[-2]
        return before._replace(log_files=before.log_files + last.log_files)


def build_file_groups(
    partition: str,
    files: Iterable[FileEntry],
    timeline: Timeline,
    version: int,
    *,
    pending_compactions: Mapping[str, str] = _NO_PLANS,
    base_extension: str = ".parquet",
) -> list[FileGroup]:
    """Return the file groups of one partition that have a visible slice.

    ``pending_compactions`` maps file ids of this partition to the instants of the scheduled
    compactions whose plans name them. Readers may leave it out (what they read is the same);
    writers and planners may not. Raises ``Corrupt`` if a committed instant has two base files
    for one file id: Hudi reads whichever it lists last, hudi-rs none, so nobody can know.
    """
    bases, logs = _collect(partition, files, timeline, version, base_extension)
    assign = _logs_by_completion if version >= FIRST_VERSION_BY_COMPLETION else _logs_by_name
    scheduled = timeline.pending_compaction_times
    groups: list[FileGroup] = []
    for file_id, files_by_instant in bases.items():
        plan = pending_compactions.get(file_id)
        own_logs = logs.pop(file_id, None)
        if own_logs is None and plan is None:
            slices = [
                FileSlice(partition, file_id, instant, files_by_instant[instant])
                for instant in sorted(files_by_instant)
            ]
            groups.append(FileGroup(partition, file_id, tuple(slices)))
            continue
        plan = plan if plan in scheduled else None
        slices, opened = assign(
            partition, file_id, files_by_instant, own_logs, timeline=timeline, plan=plan
        )
        groups.append(FileGroup(partition, file_id, tuple(slices), opened))
    for file_id, only_logs in logs.items():
        plan = pending_compactions.get(file_id)
        plan = plan if plan in scheduled else None
        slices, opened = assign(partition, file_id, {}, only_logs, timeline=timeline, plan=plan)
        groups.append(FileGroup(partition, file_id, tuple(slices), opened))
    return groups


def latest_slices(
    groups: Iterable[FileGroup], replaced: Container[tuple[str, str]] = frozenset()
) -> list[FileSlice]:
    """Return what a snapshot query reads: the latest slice of every group that is not replaced.

    ``replaced`` holds pairs of partition and file id, as ``replaced_groups`` gives them.
    """
    if not replaced:
        return [group.latest_slice for group in groups]
    return [
        group.latest_slice for group in groups if (group.partition, group.file_id) not in replaced
    ]


def replaced_groups(
    timeline: Timeline,
    replacements: Iterable[tuple[str, Mapping[str, Iterable[str]]]],
) -> frozenset[tuple[str, str]]:
    """Return the (partition, file id) pairs that committed replace commits have replaced.

    ``replacements`` holds pairs of a replace commit's time and its map from partition to the
    replaced file ids. With ``timeline.as_of(time)`` later replacements do not count yet.
    """
    return frozenset(
        (partition, file_id)
        for time, by_partition in replacements
        if timeline.is_committed(time)
        for partition, file_ids in by_partition.items()
        for file_id in file_ids
    )


def unsettled_instants(names: Iterable[str], timeline: Timeline) -> frozenset[str]:
    """Return the archived instants whose completion times the slicing of these files needs.

    From version 8 on only: a log file of an archived delta commit may belong to a base file with
    a *later* instant, if the commit completed after that. Where a file group has such a base
    file, look the completion time up in the history (``Timeline.archived_completions``).
    """
    newest_base: dict[str, str] = {}
    logs: list[tuple[str, str]] = []
    for name in names:
        base = split_base_name(name)
        if base is not None:
            file_id, _, instant, _ = base
            newest_base[file_id] = max(instant, newest_base.get(file_id, ""))
            continue
        log = split_log_name(name)
        if log is not None:
            logs.append(log[:2])
    known = timeline.committed_times
    return frozenset(
        instant
        for file_id, instant in logs
        if instant not in known
        and instant < newest_base.get(file_id, "")
        and timeline.is_committed(instant)
        and instant not in timeline.archived_completions
    )


def _collect(
    partition: str,
    files: Iterable[FileEntry],
    timeline: Timeline,
    version: int,
    base_extension: str,
) -> tuple[dict[str, _Bases], dict[str, _Logs]]:
    """Sort the visible files into base files and logs by file id."""
    bases: dict[str, _Bases] = {}
    logs: dict[str, _Logs] = {}
    is_committed = timeline.is_committed
    committed = timeline.committed_times
    # Up to version 7 a log may carry the instant of a compaction that is still pending.
    log_openers = frozenset[str]()
    if version < FIRST_VERSION_BY_COMPLETION:
        log_openers = timeline.pending_compaction_times
    for entry in files:
        name = entry.name
        if name[:1] != ".":
            base = split_base_name(name)
            if base is None or base[3] != base_extension:
                continue
            file_id, _, instant, _ = base
            if instant not in committed and not is_committed(instant):
                continue
            own = bases.get(file_id)
            if own is None:
                bases[file_id] = {instant: entry}
            elif instant in own:
                raise _two_base_files(partition, own[instant].name, name)
            else:
                own[instant] = entry
            continue
        log = split_log_name(name)
        if log is None:
            continue
        file_id, instant, log_version, token, is_cdc = log
        if is_cdc or not (instant in committed or instant in log_openers or is_committed(instant)):
            continue
        item = ((instant, log_version, token), entry)
        if file_id in logs:
            logs[file_id].append(item)
        else:
            logs[file_id] = [item]
    return bases, logs


def _logs_by_name(
    partition: str,
    file_id: str,
    bases: _Bases,
    logs: _Logs | None,
    *,
    timeline: Timeline,
    plan: str | None,
) -> tuple[list[FileSlice], str | None]:
    """Slice by the base instant in the names of the log files (versions up to 7)."""
    by_slice: dict[str, list[FileEntry]] = {instant: [] for instant in bases}
    if plan is not None:
        by_slice.setdefault(plan, [])
    for (instant, _, _), entry in sorted(logs or ()):
        by_slice.setdefault(instant, []).append(entry)
    slices = _slices(partition, file_id, bases, by_slice)
    # Logs over a pending compaction tell of it even when nobody passed its plan.
    last = slices[-1].base_instant
    return slices, last if last in timeline.pending_compaction_times else None


def _logs_by_completion(
    partition: str,
    file_id: str,
    bases: _Bases,
    logs: _Logs | None,
    *,
    timeline: Timeline,
    plan: str | None,
) -> tuple[list[FileSlice], str | None]:
    """Slice by the completion times of the delta commits (version 8 and later)."""
    by_slice: dict[str, list[FileEntry]] = {instant: [] for instant in bases}
    if plan is not None:
        by_slice.setdefault(plan, [])
    openers = sorted(by_slice)
    for (instant, _, _), entry in sorted(logs or ()):
        if instant in by_slice:  # a name from before an upgrade, or the log that opened a slice
            by_slice[instant].append(entry)
            continue
        place = bisect_right(openers, instant)
        if place < len(openers):
            # A slice was opened after the delta commit began: did the commit end before that?
            place = bisect_right(openers, timeline.completion_time(instant) or instant)
        if place == 0:
            insort(openers, instant)
            by_slice[instant] = [entry]
        else:
            by_slice[openers[place - 1]].append(entry)
    return _slices(partition, file_id, bases, by_slice), plan


def _slices(
    partition: str, file_id: str, bases: _Bases, by_slice: dict[str, list[FileEntry]]
) -> list[FileSlice]:
    return [
        FileSlice(partition, file_id, instant, bases.get(instant), tuple(by_slice[instant]))
        for instant in sorted(by_slice)
    ]


def _two_base_files(partition: str, one: str, other: str) -> Corrupt:
    return Corrupt(
        f"two base files for one file id and one committed instant: {one} and {other}; "
        "find out from the instant's commit metadata which one it wrote, and move the other away",
        where=partition or "the table's base folder",
    )
