"""Merges the history of a partition, a broker or the controller from the journals of several
brokers.

A journal contains the events that its broker observed. The controller knows why a leader moved. The
leader knows why a replica is out of sync. Other brokers know only the resulting state. Each change
is shown once, with the entry of the broker that knows the reason.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

Value = dict[str, Any]

_HEARSAY = {"leader": {"told"}, "isr": {"isr", "controller"}, "controller": {"told"}}
"""By kind of journal entry: the causes of entries whose writer did not make the change itself, but
learned of it from another broker."""
_REPEATED = {"unassigned"} | _HEARSAY["isr"]
_LAST = 1 << 62


def merged(journals: Mapping[int, Iterable[Value]]) -> list[Value]:
    """Merges the journals of several brokers into one list, ordered as in `in_order`. ``journals``
    has the journal of each broker by broker id.

    If several brokers recorded the same entry, the list has it once. The field ``told_by`` of an
    entry is the id of the broker that recorded it.
    """
    changes: dict[tuple[Any, ...], list[Value]] = {}
    for node in sorted(journals):
        for entry in journals[node]:
            changes.setdefault(_change(entry), []).append({**entry, "told_by": node})
    found: list[Value] = []
    for entries in changes.values():
        knowing = [each for each in entries if not _is_hearsay(each)]
        first = entries[0]["told_by"]
        found += _distinct(knowing) or [each for each in entries if each["told_by"] == first]
    return _without_repeats(in_order(found))


def in_order(story: Iterable[Value]) -> list[Value]:
    """Returns the entries from oldest to newest. An entry with a later leader epoch is always
    later.

    Timestamps alone would mislead: the controller may already have written the next change when a
    leader learns that its ISR was written.
    """
    entries = sorted(story, key=lambda each: each["at_ms"])
    since: dict[int, int] = {}
    reached_ms = 0
    for epoch in sorted({each["leader_epoch"] or 0 for each in entries}):
        since[epoch] = reached_ms
        of_epoch = [each["at_ms"] for each in entries if each["leader_epoch"] == epoch]
        reached_ms = max([reached_ms, *of_epoch])

    def when(entry: Value) -> tuple[int, int]:
        epoch = entry["leader_epoch"]
        return max(entry["at_ms"], since[epoch or 0]), _LAST if epoch is None else epoch

    return sorted(entries, key=when)


def _without_repeats(story: Iterable[Value]) -> list[Value]:
    """Drops entries that only repeat the leader or the ISR of an earlier entry."""
    found: list[Value] = []
    leader, in_sync = None, set[int]()
    for entry in story:
        match entry["kind"]:
            case "leader":
                if _is_hearsay(entry) and found and entry["leader"] == leader:
                    continue
                leader, in_sync = entry["leader"], {*entry["isr"]}
            case "isr":
                if entry["cause"] in _REPEATED and {*entry["isr"]} == in_sync:
                    continue
                in_sync = {*entry["isr"]}
        found.append(entry)
    return found


def _change(entry: Value) -> tuple[Any, ...]:
    """Returns a key that is equal in all entries about the same change, whichever broker recorded
    them."""
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
    """Returns one entry for each event, even if several brokers recorded the event. Entries of
    different brokers with the same sentence are the same event. Entries of one broker with the same
    sentence are different events."""
    found: dict[tuple[str, int], Value] = {}
    said: Counter[tuple[str, int]] = Counter()
    for entry in entries:
        teller = entry["why"], entry["told_by"]
        found.setdefault((entry["why"], said[teller]), entry)
        said[teller] += 1
    return list(found.values())


def left_isr(story: Iterable[Value], replica: int) -> Value | None:
    """Returns the entry in which a replica last left the ISR; None if it has rejoined."""
    found: Value | None = None
    last: list[int] = []
    for entry in story:
        before, after = entry["isr_before"] or last, entry["isr"]
        last = after or last
        if replica in after:
            found = None
        elif replica in before and (found is None or not _is_about(found, replica)):
            found = entry
    return found


def _is_about(entry: Value, replica: int) -> bool:
    return bool(entry["broker"] == replica)


def last_move(story: Iterable[Value], leader: int | None) -> Value | None:
    """Returns the entry in which the current leader was elected; None if unknown."""
    found = None
    for entry in story:
        if entry["kind"] == "leader":
            found = entry
    return None if found is None or found["leader"] != leader else found
