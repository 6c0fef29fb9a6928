"""The time zone of this machine, with all its rules: that of tables whose instants are LOCAL."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, tzinfo


class LocalZone(tzinfo):
    """What the operating system says about local time at any moment, summer time included."""

    def utcoffset(self, moment: datetime | None) -> timedelta | None:
        """Return how far local time is ahead of UTC."""
        return None if moment is None else _system(moment).utcoffset()

    def dst(self, moment: datetime | None) -> timedelta | None:
        """Return None: the system does not say how much of the offset is summer time."""
        return None

    def tzname(self, moment: datetime | None) -> str | None:
        """Return the zone's abbreviation."""
        return None if moment is None else _system(moment).tzname()

    def fromutc(self, moment: datetime) -> datetime:
        """Return the local time of a moment; in a repeated hour ``fold`` says which it is."""
        local = moment.replace(tzinfo=UTC).astimezone()
        shown = local.replace(tzinfo=self)
        is_first = _system(shown).utcoffset() == local.utcoffset()
        return shown if is_first else shown.replace(fold=1)


def _system(moment: datetime) -> datetime:
    return moment.replace(tzinfo=None).astimezone()
