"""The sentences of `muster share why`."""

from __future__ import annotations

from typing import Any

from cli import output
from cli.share.reading import deliveries, span_of, who
from cli.times import instant, span

Value = dict[str, Any]

_SAID = {
    "accepted": "accepted {it} after {held}",
    "released": "released {it} after {held}",
    "rejected": "rejected {it} after {held}",
    "gap": "acknowledged {it} after {held} as a gap in the log",
    "lock expired": "did not acknowledge {it}: the lock expired after {held}",
    "session closed": "closed its share session after {held}",
}


def of_partition(row: Value) -> list[str]:
    """Returns lines about a share partition: its progress, and its deleted records."""
    name = _name(row)
    if row["start_offset"] is None:
        return [f"{name}: no member has fetched from it yet"]
    counts = row["records"]
    parts = [f"complete before offset {row['start_offset']}"]
    if counts["acquired"]:
        parts.append(f"members hold {output.counted(counts['acquired'], 'record')}")
    if counts["available"]:
        parts.append(f"{output.counted(counts['available'], 'record')} to deliver again")
    if row["unread"]:
        parts.append(f"{output.counted(row['unread'], 'record')} not delivered yet")
    lines = [f"{name}: {', '.join(parts)}"]
    if row["deleted"] is not None:
        lines.append(
            f"{name} {span_of(row['deleted'])}: deleted from the log before all were accepted,"
            " rejected or archived"
        )
    return lines


def history(row: Value, record: Value, limit: int) -> list[str]:
    """Returns lines about consecutive records with the same delivery history: first the number of
    deliveries, then each delivery. ``limit`` is the group's maximum number of deliveries."""
    many = record["first_offset"] != record["last_offset"]
    it = "them" if many else "it"
    number = record["deliveries"]
    times = {1: "once", 2: "twice"}.get(number, f"{number} times")
    outcomes, held = record["outcomes"], _holders(row, record)
    lines = [
        f"{_name(row)} {span_of(record)} {'were' if many else 'was'} delivered {times}"
        f"{_end(record, it, limit)}"
    ]
    unknown = number - len(outcomes) - bool(held)
    if unknown > 0:
        since = row["known_since_ms"]
        before = "" if since is None else f" before {instant(since)}"
        lines.append(f"    {deliveries(unknown)}{before}: not recorded")
    for each in outcomes:
        time = span(max(0, each["at_ms"] - each["since_ms"]))
        said = _SAID[each["outcome"]].format(it=it, held=time)
        lines.append(f"    {instant(each['at_ms'])}  #{each['delivery']} {who(each)} {said}")
    return lines + [_held(each) for each in held]


def of_record(row: Value, offset: int, limit: int) -> list[str]:
    """Returns lines about one record: its deliveries, or its state if no delivery is known."""
    if row["histories"]:
        return history(row, row["histories"][0], limit)
    name = f"{_name(row)} offset {offset}"
    if row["start_offset"] is None:
        return [f"{name}: no member has fetched from this partition yet"]
    if row["log_end_offset"] is not None and offset >= row["log_end_offset"]:
        return [f"{name} does not exist yet: the log ends at {row['log_end_offset']}"]
    if offset >= row["next_offset"]:
        return [
            f"{name} was not delivered yet: new records are delivered from {row['next_offset']}"
        ]
    if not row["in_flight"]:
        return [_complete(row, name, offset)]
    [inside] = row["in_flight"]
    number = deliveries(inside["deliveries"])
    if inside["state"] == "acquired":
        return [f"{name} is with a member", _held(inside)]
    if inside["state"] == "available":
        return [f"{name} had {number} and is available for the next delivery"]
    done = "accepted" if inside["state"] == "acknowledged" else "archived"
    return [f"{name} was {done} after {number}"]


def _name(row: Value) -> str:
    return f"{row['topic']}-{row['partition']}"


def _end(record: Value, it: str, limit: int) -> str:
    """Returns the end of a sentence about a record. It says whether the record is archived,
    accepted or available."""
    at = instant(record["outcomes"][-1]["at_ms"])
    if record["archived_because"] == "too many deliveries":
        return f"; archived at {at} because delivery.count.limit is {limit}"
    if record["archived_because"] == "rejected":
        return f"; archived at {at} because a member rejected {it}"
    if record["state"] == "acknowledged":
        return f"; accepted at {at}"
    return "; waiting for the next fetch by a member" if record["state"] == "available" else ""


def _holders(row: Value, record: Value) -> list[Value]:
    """Returns ranges of ``row`` that a member has acquired and that contain an offset of
    ``record``."""
    return [
        each
        for each in row["in_flight"]
        if each["state"] == "acquired"
        and each["first_offset"] <= record["last_offset"]
        and each["last_offset"] >= record["first_offset"]
    ]


def _held(each: Value) -> str:
    end = f"until {instant(each['until_ms'])}"
    if each["pending"]:
        end = "until its acknowledgement is stored"
    return f"    {instant(each['since_ms'])}  #{each['deliveries']} {who(each)} holds it {end}"


def _complete(row: Value, name: str, offset: int) -> str:
    deleted, since = row["deleted"], row["known_since_ms"]
    if deleted is not None and deleted["first_offset"] <= offset <= deleted["last_offset"]:
        return f"{name} was deleted from the log before it was accepted, rejected or archived"
    known = "" if since is None else f" since {instant(since)}"
    return (
        f"{name} is complete: it is before the group's start offset {row['start_offset']}; the"
        f" broker has recorded no problem{known}"
    )
