"""A simulated table of random history: a reader sees every committed write, and only those.

The simulated writer follows Hudi's protocol on one file group: delta commits that overlap, fail
and are rolled back, compactions that are scheduled and run between them, archival, and (version
6) no delta commit across the scheduling of a compaction. Each file remembers whose data it holds,
so what a reader should see is known without any slicing rule.
"""

from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from lakehand.core.file_slices import FileEntry, build_file_groups, unsettled_instants
from lakehand.core.instants import Action, Instant, State
from lakehand.core.log_validity import BlockHeader, BlockKind, select_blocks
from lakehand.core.timeline import Timeline

ID = "aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee-0"
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["begin", "end", "fail", "schedule", "compact", "archive", "zombie"]),
        st.integers(0, 5),
    ),
    max_size=30,
)


@dataclass
class SimulatedTable:
    version: int
    clock: int = 0
    instants: dict[str, Instant] = field(default_factory=dict)
    archived: dict[str, str] = field(default_factory=dict)
    base_content: dict[FileEntry, frozenset[str]] = field(default_factory=dict)
    log_blocks: dict[FileEntry, list[BlockHeader]] = field(default_factory=dict)
    open_writes: dict[str, FileEntry] = field(default_factory=dict)
    scheduled: str | None = None
    plan: frozenset[str] = frozenset()
    committed: list[str] = field(default_factory=list)

    def now(self) -> str:
        self.clock += 1
        return f"2024{self.clock:013d}"

    def timeline(self) -> Timeline:
        return Timeline.of(self.instants.values(), archived_completions=self.archived)

    def groups(self, timeline: Timeline):
        plans = {} if self.scheduled is None else {ID: self.scheduled}
        files = [*self.base_content, *self.log_blocks]
        return build_file_groups("", files, timeline, self.version, pending_compactions=plans)

    def seen(self, timeline: Timeline) -> set[str]:
        """Whose data a reader gets, from base files and the blocks that count."""
        seen: set[str] = set()
        for group in self.groups(timeline):
            last = group.latest_slice
            if last.base_file is not None:
                seen |= self.base_content[last.base_file]
            blocks = [block for log in last.log_files for block in self.log_blocks[log]]
            selected = select_blocks(blocks, timeline, self.version)
            seen |= {blocks[index].instant for index in selected.read}
        return seen

    # -- what writers do ----------------------------------------------------------------------

    def begin(self) -> None:
        instant = self.now()
        self.instants[instant] = Instant(instant, Action.DELTA_COMMIT, State.INFLIGHT)
        groups = self.groups(self.timeline())
        if self.version >= 8:
            name = f".{ID}_{instant}.log.1_0-1-0"
        else:
            opened = groups[0].slices[-1] if groups else None
            over = opened.base_instant if opened else instant
            taken = sum(f"_{over}.log." in log.name for log in self.log_blocks)
            name = f".{ID}_{over}.log.{taken + 1}_0-1-0"
        entry = FileEntry(name, 1)
        self.log_blocks[entry] = [BlockHeader(BlockKind.DATA, instant)]
        self.open_writes[instant] = entry

    def end(self, which: int) -> None:
        if self.open_writes:
            instant = sorted(self.open_writes)[which % len(self.open_writes)]
            del self.open_writes[instant]
            self._complete(instant, Action.DELTA_COMMIT)
            self.committed.append(instant)

    def fail(self, which: int) -> None:
        if not self.open_writes:
            return
        instant = sorted(self.open_writes)[which % len(self.open_writes)]
        entry = self.open_writes.pop(instant)
        del self.instants[instant]
        opens_slice = f"_{instant}.log." in entry.name
        if self.version >= 8 or opens_slice:
            del self.log_blocks[entry]
        else:
            command = BlockHeader(BlockKind.ROLLBACK, self.now(), target=instant)
            self.log_blocks[entry] += [BlockHeader(BlockKind.CORRUPT), command]

    def schedule(self) -> None:
        has_open = self.version < 8 and bool(self.open_writes)
        if self.scheduled is None and self.committed and not has_open:
            timeline = self.timeline()
            self.plan = frozenset(self.seen(timeline))
            self.scheduled = self.now()
            self.instants[self.scheduled] = Instant(
                self.scheduled, Action.COMPACTION, State.REQUESTED
            )

    def compact(self) -> None:
        if self.scheduled is not None:
            instant, self.scheduled = self.scheduled, None
            self.base_content[FileEntry(f"{ID}_0-9-0_{instant}.parquet", 1)] = self.plan
            self._complete(instant, Action.COMMIT)

    def archive(self) -> None:
        """Archive the oldest instant unless it is pending or the last that completed."""
        first = min(self.instants, default=None)
        done = [instant for instant in self.instants.values() if instant.is_completed]
        if first is None or len(done) < 2 or self.instants[first].is_pending:
            return
        self.archived[first] = self.instants.pop(first).completion_time or first

    def zombie(self) -> None:
        """A dead writer of an instant that was rolled back leaves a file behind."""
        if self.instants and self.timeline().start is not None and self.version >= 8:
            self.log_blocks[FileEntry(f".{ID}_{self.now()}.log.1_6-6-6", 1)] = []

    def _complete(self, instant: str, action: Action) -> None:
        end = self.now() if self.version >= 8 else None
        self.instants[instant] = Instant(instant, action, State.COMPLETED, end)

    def run(self, step: str, which: int) -> None:
        match step:
            case "end" | "fail":
                getattr(self, step)(which)
            case _:
                getattr(self, step)()


def one_writer_at_a_time(table: SimulatedTable, step: str) -> bool:
    """Version 6 keeps overlapping writers apart only by locks that this model leaves out."""
    return not (table.version < 8 and step == "begin" and table.open_writes)


@given(STEPS, st.sampled_from([6, 9]))
def test_a_reader_sees_every_committed_write_and_no_other(steps, version):
    table = SimulatedTable(version)
    for step, which in steps:
        if one_writer_at_a_time(table, step):
            table.run(step, which)
        assert table.seen(table.timeline()) == set(table.committed)


@given(STEPS, st.sampled_from([6, 9]), st.integers(0, 60))
def test_a_reader_of_the_past_sees_every_write_that_was_requested_by_then(steps, version, moment):
    table = SimulatedTable(version)
    for step, which in steps:
        if one_writer_at_a_time(table, step):
            table.run(step, which)
    time = f"2024{moment:013d}"
    expected = {instant for instant in table.committed if instant <= time}
    assert table.seen(table.timeline().as_of(time)) == expected


@given(STEPS)
def test_only_the_completion_times_that_are_asked_for_are_needed(steps):
    table = SimulatedTable(9)
    for step, which in steps:
        table.run(step, which)
    files = [entry.name for entry in (*table.base_content, *table.log_blocks)]
    bare = Timeline.of(table.instants.values())
    needed = unsettled_instants(files, bare)
    looked_up = {time: end for time, end in table.archived.items() if time in needed}
    told = Timeline.of(table.instants.values(), archived_completions=looked_up)
    assert table.seen(told) == set(table.committed)
