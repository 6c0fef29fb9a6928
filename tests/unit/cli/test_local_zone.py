"""The machine's own time zone, summer time and all."""

from __future__ import annotations

import os
import time
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from lakehand.core.instants import format_instant_time, parse_instant_time
from lakehand.local_zone import LocalZone

ZONES = ["Europe/Oslo", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe", "UTC"]


@pytest.fixture(params=ZONES)
def zone(request, monkeypatch):
    monkeypatch.setenv("TZ", request.param)
    time.tzset()
    yield ZoneInfo(request.param)
    monkeypatch.undo()
    time.tzset()
    assert os.environ["TZ"] == "UTC"


def test_it_agrees_with_the_time_zone_database_at_every_hour_of_a_year(zone):
    moment = datetime(2026, 1, 1, tzinfo=UTC)
    for _ in range(366 * 24):
        ours, theirs = moment.astimezone(LocalZone()), moment.astimezone(zone)
        assert ours.replace(tzinfo=None) == theirs.replace(tzinfo=None)
        assert (ours.fold, ours.utcoffset()) == (theirs.fold, theirs.utcoffset())
        assert ours.astimezone(UTC) == moment
        moment += timedelta(hours=1)


def test_instant_times_are_the_walls(zone):
    for millis in (1_768_000_000_123, 1_784_000_000_456):
        text = format_instant_time(millis, LocalZone())
        assert text == format_instant_time(millis, zone)
        assert parse_instant_time(text, LocalZone()) == millis


def test_it_says_nothing_without_a_moment():
    assert LocalZone().utcoffset(None) is None
    assert LocalZone().tzname(None) is None
    assert LocalZone().dst(datetime(2026, 1, 1)) is None  # noqa: DTZ001 - a wall's time
    assert LocalZone().tzname(datetime(2026, 1, 1)) == "UTC"  # noqa: DTZ001
