"""The forecasts of disks in words, for tiles and below tables.

other_disks(load.disks[20:]) == "12 not within a year, 3 shrinking"
"""

from collections.abc import Sequence

from counterpoise.model.load import DiskForecast, Outlook
from counterpoise.units import format_count, format_seconds


def other_disks(disks: Sequence[DiskForecast]) -> str:
    """Return the number of disks by outlook: `12 not within a year, 3 shrinking`."""
    fills = sum(disk.outlook is Outlook.FILLS for disk in disks)
    words = [f"{format_count(fills)} full later within a year"] if fills else []
    for outlook in (Outlook.NOT_KNOWN, Outlook.NOT_WITHIN_A_YEAR, Outlook.SHRINKING):
        found = [disk for disk in disks if disk.outlook is outlook]
        words += [f"{format_count(len(found))} {found[0].in_words}"] if found else []
    return ", ".join(words)


def first_disk_full(disks: Sequence[DiskForecast]) -> str:
    if not disks:
        return "not known"
    known = [disk for disk in disks if disk.outlook is not Outlook.NOT_KNOWN]
    if known and known[0].outlook is Outlook.FILLS:
        return known[0].in_words.removeprefix("full ")
    return "not within a year" if known else "not known"


def why_no_disk_fills(disks: Sequence[DiskForecast]) -> str:
    unknown = [disk for disk in disks if disk.outlook is Outlook.NOT_KNOWN]
    if not disks:
        return "no log dir is known"
    if not unknown:
        return f"all {format_count(len(disks))} disks"
    if any(disk.usable_bytes is None for disk in unknown):
        return f"the free space of {format_count(len(unknown))} disks is not known"
    watched = max(disk.watched_seconds for disk in unknown)
    return (
        f"observed for {format_seconds(watched)}; a forecast needs a day"
        if watched
        else "not observed yet"
    )
