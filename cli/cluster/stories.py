"""The story of a partition, a broker or the controller, as several brokers tell it: one of many.

Each broker's journal has what it saw: the controller why a leader moved, a leader why a replica is
out of sync, the others what they were told. Of one change the one who knows most is believed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

Value = dict[str, Any]

_HEARSAY = {"leader": {"told"}, "isr": {"isr", "controller"}, "controller": {"told"}}
"""Causes by kind that say nothing beside those of who did it."""


def merged(told: Mapping[int, Iterable[Value]]) -> list[Value]:
    """The entries of several journals, by the id of the broker that has each; the oldest first.

    Each entry gets ``told_by``. Entries of one change are one, or as many as say something.
    """
    changes: dict[tuple[Any, ...], list[Value]] = {}
    for node in sorted(told):
        for entry in told[node]:
            changes.setdefault(_change(entry), []).append({**entry, "told_by": node})
    found: list[Value] = []
    for entries in changes.values():
        knowing = [each for each in entries if not _is_hearsay(each)]
        found += _distinct(knowing) or entries[:1]
    return sorted(found, key=lambda each: each["at_ms"])


def _change(entry: Value) -> tuple[Any, ...]:
    """What entries of one change have in common."""
    match entry["kind"]:
        case "leader":
            return "leader", entry["leader_epoch"], entry["leader"]
        case "isr":
            return "isr", entry["leader_epoch"], tuple(sorted(entry["isr"]))
        case "controller":
            return "controller", entry["controller_epoch"], entry["cause"] == "resigned"
        case kind:
            return kind, entry["at_ms"], entry["why"]


def _is_hearsay(entry: Value) -> bool:
    return entry["cause"] in _HEARSAY.get(entry["kind"], ())


def _distinct(entries: list[Value]) -> list[Value]:
    """Each sentence once."""
    return list({each["why"]: each for each in reversed(entries)}.values())[::-1]


def left_isr(story: Iterable[Value], replica: int) -> Value | None:
    """The entry of a merged story with which a replica left the in-sync replicas for good."""
    found: Value | None = None
    for entry in story:
        before, after = entry["isr_before"], entry["isr"]
        if replica in after:
            found = None
        elif replica in before and (found is None or not _is_about(found, replica)):
            found = entry
    return found


def _is_about(entry: Value, replica: int) -> bool:
    return bool(entry["broker"] == replica)


def last_move(story: Iterable[Value], leader: int | None) -> Value | None:
    """The entry with which a partition got the leader that it has; None: nobody has it."""
    found = None
    for entry in story:
        if entry["kind"] == "leader":
            found = entry
    return None if found is None or found["leader"] != leader else found
