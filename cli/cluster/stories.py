"""Merges the history of a partition, a broker or the controller from several brokers' journals.

Each journal has what its broker observed: the controller knows why a leader moved, a leader why a
replica is out of sync, the other brokers only the resulting updates. For each change, the entry of
the best informed broker is kept.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

Value = dict[str, Any]

_HEARSAY = {"leader": {"told"}, "isr": {"isr", "controller"}, "controller": {"told"}}
"""Causes by kind that are redundant if the broker that made the change has recorded it."""
_REPEATED = {"unassigned"} | _HEARSAY["isr"]
_LAST = 1 << 62


def merged(told: Mapping[int, Iterable[Value]]) -> list[Value]:
    """The entries of several journals, keyed by broker id, merged and `in_order`.

    Each entry gets ``told_by``. Entries of one change become one, or as many as are distinct.
    """
    changes: dict[tuple[Any, ...], list[Value]] = {}
    for node in sorted(told):
        for entry in told[node]:
            changes.setdefault(_change(entry), []).append({**entry, "told_by": node})
    found: list[Value] = []
    for entries in changes.values():
        knowing = [each for each in entries if not _is_hearsay(each)]
        first = entries[0]["told_by"]
        found += _distinct(knowing) or [each for each in entries if each["told_by"] == first]
    return _without_repeats(in_order(found))


def in_order(story: Iterable[Value]) -> list[Value]:
    """Entries ordered from oldest to newest. A later leader epoch is later, whatever the brokers'
    clocks say: a leader learns that the controller has written its ISR only when the next change
    may already be written.
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
    """Drop entries from brokers that learnt of an existing state in a later epoch."""
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
    """The key that entries of one change have in common."""
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
    """Each sentence, repeated as often as a single broker repeats it: it may have happened
    again.
    """
    found: dict[tuple[str, int], Value] = {}
    said: Counter[tuple[str, int]] = Counter()
    for entry in entries:
        teller = entry["why"], entry["told_by"]
        found.setdefault((entry["why"], said[teller]), entry)
        said[teller] += 1
    return list(found.values())


def left_isr(story: Iterable[Value], replica: int) -> Value | None:
    """The entry of a merged story in which a replica finally left the ISR."""
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
    """The entry in which the partition's present leader was elected; None if unknown."""
    found = None
    for entry in story:
        if entry["kind"] == "leader":
            found = entry
    return None if found is None or found["leader"] != leader else found
