"""Appending: whatever the store answers, an entry is mine, another's, or said to be unknown."""

from __future__ import annotations

import itertools

import pytest

from journal_entries import LOCK, TABLE, TIMES, claim, plan, prepare
from kernel_faults import TappedStore
from lakehand.core.journal_entries import Blank
from lakehand.errors import Conflict, Corrupt, InvariantBroken, OutcomeUnknown, Unavailable
from lakehand.ports import PutOutcome
from lakehand.protocol import journal as journal_module
from lakehand.protocol.journal import FOLDER, Journal, path_of
from lakehand.store.memory import MemoryStore


class Script:
    """A tap whose answers to ``put_new`` a test writes down, one for each call in turn."""

    def __init__(self) -> None:
        self.puts: list = []
        self.before: dict[tuple[str, str], list] = {}

    def on_puts(self, *answers) -> None:
        """Each takes the call's ``run`` and answers for the store."""
        self.puts = list(answers)

    def once_before(self, method: str, path: str, act) -> None:
        self.before.setdefault((method, path), []).append(act)

    def __call__(self, call, run):
        acts = self.before.get((call.method, call.path), [])
        if acts:
            acts.pop(0)()
        if call.method == "put_new" and self.puts:
            return self.puts.pop(0)(run)
        return run()


def written_but(outcome: PutOutcome):
    def answer(run):
        run()
        return outcome

    return answer


def lost(_run):
    return PutOutcome.UNKNOWN


def refused(_run=None):
    raise Unavailable("refused by the test")


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


def worker(store, name: str = "a") -> Journal:
    ids = itertools.count(1)
    return Journal(store, table=TABLE, writer=name, new_id=lambda: f"{name}-{next(ids)}")


def append(journal: Journal, body):
    return journal.append(body, lock=LOCK, at_ms=1)


@pytest.fixture
def script() -> Script:
    return Script()


@pytest.fixture
def tapped(store, script) -> Journal:
    """A worker that has read one entry, and whose next puts follow the script."""
    append(worker(store, "first"), plan(TIMES[0]))
    journal = worker(TappedStore(store, script))
    journal.refresh()
    return journal


def ids(store) -> list[str]:
    reader = worker(store, "reader")
    reader.refresh()
    found = [reader.read(int(name)) for name in store.names(FOLDER)]
    return [one.entry.id for one in found]


def test_written_is_mine(store, tapped):
    entry = append(tapped, claim(TIMES[0], 1))
    assert ids(store) == ["first-1", entry.id]
    assert tapped.fold.tail == entry.link
    assert worker(store, "b").refresh() == tapped.fold


def test_an_illegal_decision_never_reaches_the_store(store, tapped):
    with pytest.raises(InvariantBroken):
        append(tapped, prepare(TIMES[0], 1))
    assert ids(store) == ["first-1"]


def test_exists_with_my_id_is_mine(store, tapped, script):
    script.on_puts(written_but(PutOutcome.EXISTS))
    entry = append(tapped, claim(TIMES[0], 1))
    assert ids(store) == ["first-1", entry.id]


def test_exists_with_anothers_id_is_a_conflict_and_the_decision_is_made_again(store, tapped):
    rival = worker(store, "rival")
    rival.refresh()
    append(rival, claim(TIMES[0], 1))
    with pytest.raises(Conflict, match="decide again"):
        append(tapped, claim(TIMES[0], 1))
    tapped.refresh()
    assert tapped.fold.record(TIMES[0]).epoch == 1
    append(tapped, claim(TIMES[0], 2))
    assert ids(store) == ["first-1", "rival-1", "a-2"]


def test_unknown_that_had_arrived_is_mine(store, tapped, script):
    script.on_puts(written_but(PutOutcome.UNKNOWN))
    entry = append(tapped, claim(TIMES[0], 1))
    assert ids(store) == ["first-1", entry.id]


def test_unknown_that_was_lost_closes_the_slot_before_it_is_a_conflict(store, tapped, script):
    kept = []
    script.on_puts(lambda run: (kept.append(run), PutOutcome.UNKNOWN)[1])
    with pytest.raises(Conflict):
        append(tapped, claim(TIMES[0], 1))
    assert isinstance(worker(store).read(2).entry.body, Blank)
    assert kept[0]() is PutOutcome.EXISTS  # the lost request arrives at last: its slot is taken
    tapped.refresh()
    assert tapped.fold.record(TIMES[0]).epoch == 0
    append(tapped, claim(TIMES[0], 1))
    assert ids(store) == ["first-1", "a-2", "a-3"]


def test_unknown_that_arrives_just_before_the_blank_is_mine(store, tapped, script):
    kept = []
    script.on_puts(
        lambda run: (kept.append(run), PutOutcome.UNKNOWN)[1],
        lambda run: (kept[0](), run())[1],
    )
    entry = append(tapped, claim(TIMES[0], 1))
    assert ids(store) == ["first-1", entry.id]
    assert worker(store, "b").refresh().record(TIMES[0]).epoch == 1


def test_a_blank_of_unknown_outcome_is_read_back_too(store, tapped, script):
    script.on_puts(lost, written_but(PutOutcome.UNKNOWN))
    with pytest.raises(Conflict):
        append(tapped, claim(TIMES[0], 1))
    assert isinstance(worker(store).read(2).entry.body, Blank)


def test_a_store_that_never_says_leaves_the_outcome_unknown(store, tapped, script):
    script.on_puts(*[lost] * 50)
    with pytest.raises(OutcomeUnknown):
        append(tapped, claim(TIMES[0], 1))


def test_reads_that_fail_after_an_unknown_put_leave_the_outcome_unknown(store, tapped, script):
    script.on_puts(written_but(PutOutcome.UNKNOWN))
    for _ in range(50):
        script.once_before("get", path_of(2), refused)
    with pytest.raises(OutcomeUnknown):
        append(tapped, claim(TIMES[0], 1))


def test_a_put_that_was_refused_is_surely_not_there(store, tapped, script):
    script.on_puts(refused)
    with pytest.raises(Unavailable) as error:
        append(tapped, claim(TIMES[0], 1))
    assert not isinstance(error.value, OutcomeUnknown)
    assert ids(store) == ["first-1"]


def test_without_a_last_look_at_the_tail_nothing_is_known(store, tapped, script):
    script.once_before("get", path_of(1), refused)
    with pytest.raises(OutcomeUnknown):
        append(tapped, claim(TIMES[0], 1))


# -- trimmed past me ------------------------------------------------------------------------------


def move_on(store, name: str = "other") -> Journal:
    """Another worker decides twice more and trims all but the last two checkpoints."""
    other = worker(store, name)
    other.refresh()
    for time in TIMES[1:3]:
        append(other, plan(time))
        other.write_checkpoint(lock=LOCK, at_ms=1)
    other.trim()
    return other


def test_a_tail_trimmed_after_my_entry_was_written_asks_the_checkpoint_and_it_is_mine(
    store, tapped, script
):
    script.once_before("get", path_of(1), lambda: move_on(store))
    entry = append(tapped, claim(TIMES[0], 1))
    assert (entry.seq, entry.id) == (2, "a-1")
    assert store.names(FOLDER)[0] > f"{2:012d}"
    assert tapped.fold == worker(store, "b").refresh()
    assert tapped.fold.record(TIMES[0]).epoch == 1


def test_an_entry_written_where_others_trimmed_is_a_conflict_and_nobody_sees_it(
    store, tapped, script
):
    """A worker that slept puts its entry into a slot that was used and trimmed long ago."""
    script.once_before("put_new", path_of(2), lambda: move_on(store))
    with pytest.raises(Conflict, match="decide again"):
        append(tapped, claim(TIMES[0], 1))
    assert f"{2:012d}" in store.names(FOLDER)
    fresh = worker(store, "fresh").refresh()
    assert fresh.record(TIMES[0]).epoch == 0
    assert tapped.fold == fresh


def test_where_the_checkpoint_does_not_reach_back_so_far_the_outcome_is_unknown(
    store, tapped, script, monkeypatch
):
    monkeypatch.setattr(journal_module, "COVERED", 1)
    script.once_before("put_new", path_of(2), lambda: move_on(store))
    with pytest.raises(OutcomeUnknown, match="Open the table again"):
        append(tapped, claim(TIMES[0], 1))


@pytest.mark.parametrize("covered", [1, 512])
def test_a_very_first_entry_put_after_the_journals_start_was_trimmed_does_not_count(
    store, script, monkeypatch, covered
):
    monkeypatch.setattr(journal_module, "COVERED", covered)
    sleeper = worker(TappedStore(store, script))
    sleeper.refresh()

    def others() -> None:
        append(worker(store, "first"), plan(TIMES[0]))
        move_on(store)

    script.once_before("put_new", path_of(1), others)
    with pytest.raises(OutcomeUnknown if covered == 1 else Conflict):
        append(sleeper, plan(TIMES[4]))
    assert worker(store, "fresh").refresh().record(TIMES[4]).plan is None


def test_of_two_first_entries_one_counts(store):
    one, other = worker(store, "one"), worker(store, "other")
    append(one, plan(TIMES[0]))
    with pytest.raises(Conflict):
        append(other, plan(TIMES[1]))
    assert ids(store) == ["one-1"]


# -- a journal that was damaged -------------------------------------------------------------------


def test_a_tail_that_was_deleted_is_noticed_by_whoever_had_read_it(store, tapped):
    append(tapped, claim(TIMES[0], 1))
    store.delete(path_of(2))
    with pytest.raises(Corrupt, match="restore them from a backup"):
        tapped.refresh()


def test_another_history_than_was_read_is_noticed(store, tapped):
    append(tapped, claim(TIMES[0], 1))
    store.delete(path_of(2))
    rival = worker(store, "rival")
    rival.refresh()
    append(rival, claim(TIMES[0], 1))
    append(rival, prepare(TIMES[0], 1))
    with pytest.raises(Corrupt, match="does not follow"):
        tapped.refresh()


def test_files_that_are_no_entries_are_passed_over(store, tapped):
    for name in ("README", "0000000000009", "00000000000x", "1"):
        store.put(f"{FOLDER}/{name}", b"not ours")
    assert tapped.refresh().tail.seq == 1
