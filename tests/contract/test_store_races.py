"""Races: whatever many threads and processes try at once, each name has exactly one winner."""

from __future__ import annotations

import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

from lakehand.errors import NotFound
from lakehand.ports import PromoteOutcome, PutOutcome
from store_child import count_up
from store_places import AREA, answer_of, stage

RACERS = 8
KEYS = 15
PROCESSES = 3


def race(action):
    """Call ``action(racer)`` in every racer's thread at once; return what each answered."""
    start = threading.Barrier(RACERS)

    def run(racer):
        start.wait()
        return action(racer)

    with ThreadPoolExecutor(RACERS) as pool:
        return list(pool.map(run, range(RACERS)))


def test_of_many_threads_one_creates_each_name(store):
    def action(racer):
        return [store.put_new(f"k/{key}", f"{racer}".encode()) for key in range(KEYS)]

    answers = race(action)
    for key in range(KEYS):
        outcomes = [answer[key] for answer in answers]
        assert Counter(outcomes) == {PutOutcome.WRITTEN: 1, PutOutcome.EXISTS: RACERS - 1}
        winner = outcomes.index(PutOutcome.WRITTEN)
        assert store.get(f"k/{key}").content == f"{winner}".encode()


def test_of_many_threads_one_promotes_each_name(store):
    handles = race(
        lambda racer: [stage(store, f"k/{key}", f"{racer}".encode()) for key in range(KEYS)]
    )
    answers = race(lambda racer: [store.promote(handle) for handle in handles[racer]])
    for key in range(KEYS):
        outcomes = [answer[key] for answer in answers]
        assert Counter(outcomes) == {PromoteOutcome.WRITTEN: 1, PromoteOutcome.EXISTS: RACERS - 1}
        winner = outcomes.index(PromoteOutcome.WRITTEN)
        assert store.get(f"k/{key}").content == f"{winner}".encode()
        store.delete(f"k/{key}")
    again = {store.promote(handle) for racer in handles for handle in racer}
    assert again == {PromoteOutcome.GONE}


def test_of_many_threads_that_promote_one_handle_the_name_appears_once(place):
    store = place.open()
    handles = [stage(store, f"k/{key}", b"x") for key in range(KEYS)]
    answers = race(lambda _: [store.promote(handle) for handle in handles])
    for key, handle in enumerate(handles):
        outcomes = Counter(answer[key] for answer in answers)
        if place.kind in ("memory", "local"):
            assert outcomes == {PromoteOutcome.WRITTEN: 1, PromoteOutcome.GONE: RACERS - 1}
        else:  # S3 may repeat its answer while the object stands
            assert set(outcomes) <= {PromoteOutcome.WRITTEN, PromoteOutcome.GONE}
            assert PromoteOutcome.WRITTEN in outcomes
        store.delete(f"k/{key}")
        assert store.promote(handle) is PromoteOutcome.GONE


def test_of_a_promotion_and_a_discard_one_wins_for_good(store):
    handles = [stage(store, f"k/{key}", b"x") for key in range(KEYS)]

    def action(racer):
        if racer % 2:
            return [store.promote(handle) for handle in handles]
        for handle in handles:
            store.discard(handle)
        return [None] * KEYS

    answers = race(action)
    for key, handle in enumerate(handles):
        was_promoted = any(answer[key] is PromoteOutcome.WRITTEN for answer in answers)
        assert (store.head(f"k/{key}") is not None) is was_promoted
        assert store.promote(handle) is not PromoteOutcome.EXISTS


def test_compare_and_swap_loses_no_update_of_many_threads(store):
    store.put("counter", b"0")
    race(lambda _: count_up(store, "counter", 5))
    assert store.get("counter").content == str(RACERS * 5).encode()


def test_creating_deleting_and_replacing_at_once_keeps_every_object_whole(store):
    contents = [bytes([racer]) * (1000 + racer) for racer in range(RACERS)]

    def action(racer):
        seen = set()
        for _ in range(20):
            match racer % 4:
                case 0:
                    store.put("k", contents[racer])
                case 1:
                    store.put_new("k", contents[racer])
                case 2:
                    store.delete("k")
                case _:
                    store.promote(stage(store, "k", contents[racer]))
            if store.head("k") is not None:
                seen.update(_content_of(store, "k"))
        return seen

    assert set().union(*race(action)) <= set(contents)


def _content_of(store, path):
    try:
        return [store.get(path).content]
    except NotFound:
        return []


def test_many_processes_race_for_every_name_and_lose_no_update(shared_place):
    keys = 15
    store = shared_place.open()
    store.put("counter", b"0")
    children = [
        shared_place.start_child("race", name=f"p{number}", keys=keys, area=AREA)
        for number in range(PROCESSES)
    ]
    for child in children:
        assert child.stdout.readline() == "ready\n", child.stderr.read()
    for child in children:
        child.stdin.write("go\n")
        child.stdin.flush()
    answers = [answer_of(child) for child in children]
    for won, folder in (("created", "new"), ("promoted", "promoted")):
        winners = {path: n for n, answer in enumerate(answers) for path in answer[won]}
        assert sum(len(answer[won]) for answer in answers) == keys
        assert set(winners) == {f"{folder}/{key}" for key in range(keys)}
        for path, number in winners.items():
            assert store.get(path).content == f"p{number}".encode()
    assert store.get("counter").content == str(keys * PROCESSES).encode()
