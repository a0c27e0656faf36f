"""Formats partitions, hosts, times and numbers for the texts of findings and for the command
line."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime

from verdicts.facts import GroupFacts, MemberFacts


def ranges(numbers: Iterable[int]) -> str:
    """Returns partition numbers of one topic as ranges: ``0-1,5``."""
    runs: list[list[int]] = []
    for number in sorted(set(numbers)):
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ",".join([str(low) if low == high else f"{low}-{high}" for low, high in runs])


def plain_host(host: str) -> str:
    """Returns the address in a client host. Java formats a host as ``/127.0.0.1`` or
    ``name/127.0.0.1``."""
    return host.rpartition("/")[2]


def instant(wall_ms: int) -> str:
    """Returns a time in UTC with its zone: ``2026-01-31T12:00:00Z``."""
    try:
        return datetime.fromtimestamp(wall_ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (ValueError, OverflowError, OSError):
        return f"{wall_ms} ms since 1970"  # an invalid timestamp from a client


def span(milliseconds: int) -> str:
    """Returns a duration with its unit: ``1.5 s``, ``5 min``."""
    seconds = max(0, milliseconds) / 1000
    if seconds < 120:
        return f"{seconds:.1f} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.0f} h" if seconds < 172_800 else f"{seconds / 86_400:.0f} days"


def since(wall_ms: int | None) -> str:
    """Returns " since" followed by the time, or "" if the time is unknown."""
    return "" if wall_ms is None else f" since {instant(wall_ms)}"


def counted(number: int, noun: str) -> str:
    """Returns a number with its noun. The noun is in the plural unless the number is 1."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def verb(number: int, one: str, many: str) -> str:
    """Returns ``one`` if ``number`` is 1, or else ``many``."""
    return one if number == 1 else many


def named(member: MemberFacts) -> str:
    """Returns the group.instance.id, the member id and the host of a member, as far as they are
    known."""
    name = member.member
    if member.instance is not None:
        name = f"{member.instance} ({member.member})"
    return name if member.host is None else f"{name} on {plain_host(member.host)}"


def reads_nothing(facts: GroupFacts) -> str:
    """Returns text for the end of a sentence, such as "; no member of the group has read since
    ...". Returns "" if a member reads."""
    if facts.reads_nothing_since_ms is None:
        return ""
    return f"; no member of the group has read{since(facts.reads_nothing_since_ms)}"
