"""Formats the output of `muster cluster why` about a partition, a broker or the controller."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from cli.cluster.stories import in_order
from cli.groups.why import some
from cli.names import partitions_text
from cli.output import counted
from cli.times import instant

Value = dict[str, Any]

_NOTHING = "no history: the brokers that could be queried have recorded no event"
_KEPT = "  [kept]"
_LEGEND = "[kept]: recorded before the broker's last start"
_WAITS_SHOWN = 10
_MORE_WAITS = "further deletions, reassignments and elections that wait for brokers: {}"
_WAITS = {
    "deletion": "deletion of {name}: waiting{since} for {brokers} to return or respond",
    "reassignment": "reassignment of {name}: waiting{since} for {brokers} to join the ISR",
    "leader": "leader election of {name}: waiting{since} for {brokers} of the last ISR to return",
}


def lines_of_partition(found: Value, last: int) -> list[str]:
    """Returns lines about a partition's leader, its out-of-sync replicas, and its history."""
    name = f"{found['topic']}-{found['partition']}"
    leads = "no leader" if found["leader"] is None else f"broker {found['leader']} leads"
    epoch = "" if found["leader_epoch"] is None else f", leader epoch {found['leader_epoch']}"
    lines = [f"{name}  {leads}{epoch}"]
    lines.append(f"replicas {_ids(found['replicas'])}  ISR {_ids(found['isr'])}")
    moved = found["moved"]
    knows = _unasked(found, found["controller"], "the controller")
    if moved is None:
        knows = knows or "the brokers that could be queried have no record of the election"
        lines.append(f"reason unknown: {knows}")
    else:
        what = "no leader" if found["leader"] is None else "leader"
        lines.append(f"{what} since {instant(moved['at_ms'])}: {moved['why']}{_by(moved)}")
        if moved["cause"] == "told":
            epoch = moved["controller_epoch"]
            knows = knows or f"only the controller of epoch {epoch} recorded the reason"
            lines.append(f"    reason unknown: {knows}")
    leader = _unasked(found, found["leader"], "the partition's leader")
    lines += [line for each in found["out"] for line in _out(each, leader)]
    if found["moving"]:
        adding = f": {_brokers(found['adding'])} will be added" if found["adding"] else ""
        lines.append(f"reassignment in progress{adding}")
    lines += lines_of_waits(found["waits"] or [])
    return lines + _story([*found["topic_story"], *found["story"]], last)


def _unasked(found: Value, broker: int | None, what: str) -> str:
    """Returns a hint that ``broker`` may know the reason of an event, but could not be queried.
    Returns "" if it was queried."""
    if any(each["broker"] == broker for each in found["unasked"]):
        return f"broker {broker}, {what}, could not be queried"
    return ""


def _out(out: Value, leader: str) -> Iterator[str]:
    head = f"broker {out['broker']} is out of the ISR"
    left = out["left"]
    if left is None:
        unknown = " since an unknown time" + (f": {leader}" if leader else "")
        yield head + (": a reassignment is adding the replica" if out["adding"] else unknown)
    else:
        reason = _reason_without_successor(left["why"])
        yield f"{head} since {instant(left['at_ms'])}: {reason}{_by(left)}"
    if not out["alive"]:
        yield f"    now: broker {out['broker']} is down"
    elif out["fetched_ms"] is not None:
        behind = counted(out["records"], "record")
        fetched = instant(out["fetched_ms"])
        yield f"    now: the replica is {behind} behind the leader, last fetch at {fetched}"
    elif out["records"] is None and left is not None:
        yield (
            "    now: the replica has not fetched since the leader's election, or the leader does"
            " not report fetches"
        )
    if out["held_up"] is not None:
        yield f"    broker {out['broker']} reports: {out['held_up']}"


def _reason_without_successor(why: str) -> str:
    """Returns ``why``, the reason why a replica left the ISR, but leaves out the leader that was
    elected at that time: another broker may lead the partition now."""
    return why.partition("; broker ")[0]


def lines_of_broker(found: Value, last: int) -> list[str]:
    """Returns lines about a broker's state, partitions, out-of-sync replicas, and history."""
    there = found["address"] if found["alive"] else "down"
    lines = [f"broker {found['broker']}  {there}"]
    if found["epoch"] is not None:
        lines[0] += f"  epoch {found['epoch']}"
    zookeeper = found["zookeeper"]
    if zookeeper is not None:
        lines.append(f"the session with ZooKeeper ({zookeeper['connect']}) is {zookeeper['state']}")
    lines.append(
        f"the broker leads {counted(found['leads'], 'partition')}, is the preferred leader of"
        f" {found['preferred']}, and has replicas of {found['replicas']}"
    )
    if found["out_of_isr"]:
        partitions = counted(found["out_of_isr"], "partition")
        lines.append(f"the broker is out of the ISR of {partitions}")
    lines += _out_by_reason(found["out"])
    for leader in sorted({each["leader"] for each in found["out_elsewhere"]}):
        rows = [each for each in found["out_elsewhere"] if each["leader"] == leader]
        knows = _unasked(found, leader, "the leader")
        lines.append(f"    {_partitions(rows)}; {knows or 'reason unknown'}")
    knows = _unasked(found, found["controller"], "the controller")
    return lines + _story([*found["story"], *found["session_story"]], last, knows)


def _out_by_reason(out: list[Value]) -> Iterator[str]:
    """Yields lines about the broker's out-of-sync replicas. Partitions with the same reason share a
    line. Reasons that differ only in durations are the same; reasons that name the leader are the
    same only if the leader is the same."""
    reasons: dict[tuple[str | None, str | None, str | None], list[Value]] = {}
    for each in out:
        why = each["why"] and _reason_without_successor(each["why"])
        of_leader = why if why and why.startswith("the leader, ") else None
        key = each["cause"], of_leader, each["held_up"]
        reasons.setdefault(key, []).append({**each, "why": why})
    for rows in reasons.values():
        oldest = min(rows, key=lambda each: each["since_ms"] or 0)
        since = "" if oldest["since_ms"] is None else f" since {instant(oldest['since_ms'])}"
        why = (
            f": {oldest['why']}"
            if oldest["why"]
            else "; run `muster cluster why` for each partition"
        )
        yield f"    {_partitions(rows)}{since}{why}"
        if rows[0]["held_up"] is not None:
            yield f"        the broker reports: {rows[0]['held_up']}"


def _partitions(rows: list[Value]) -> str:
    by_topic: dict[str, list[int]] = {}
    for each in rows:
        by_topic.setdefault(each["topic"], []).append(each["partition"])
    return some(partitions_text(topic, numbers) for topic, numbers in by_topic.items())


def lines_of_controller(found: Value, last: int) -> list[str]:
    """Returns lines about the controller's broker, pending work, waits, and history."""
    head = "the cluster has no controller"
    if found["controller"] is not None:
        head = f"broker {found['controller']} is the controller"
        since = [each for each in found["views"] if each["broker"] == found["controller"]]
        if since and since[0]["controller_epoch"] is not None:
            head += f", epoch {since[0]['controller_epoch']}"
            if since[0]["since_ms"] is not None:
                head += f", since {instant(since[0]['since_ms'])}"
    lines = [head]
    for each in found["views"]:
        if each["controller"] != found["controller"]:
            named = "no broker" if each["controller"] is None else f"broker {each['controller']}"
            lines.append(f"broker {each['broker']} considers {named} the controller")
    if found["doing"] is not None:
        lines += _doing(found["doing"])
        waits = lines_of_waits(found["waits"])
        lines += waits or ["the controller is not waiting for any broker"]
        if found["more_waits"]:
            lines.append(_MORE_WAITS.format(found["more_waits"]))
    elif found["controller"] is not None:
        lines.append(
            "the controller's pending work is unknown: the broker could not be queried, or is not a"
            " Muster broker"
        )
    return lines + _story(found["story"], last)


def _doing(doing: Value) -> Iterator[str]:
    busy = [
        counted(doing[field], noun) + words
        for field, noun, words in (
            ("partitions_left", "partition", " to check"),
            ("writes", "write", " to ZooKeeper in flight"),
            ("retries", "failure", " to retry"),
            ("calls", "request", " to answer"),
        )
        if doing[field]
    ]
    yield f"pending work: {', '.join(busy)}" if busy else "no pending work"
    for each in doing["shutdowns"]:
        left = counted(each["partitions"], "partition")
        yield (
            f"broker {each['broker']} is shutting down; the controller must still move the"
            f" leadership of {left}"
        )
    for each in doing["unanswered"]:
        line = f"broker {each['broker']} has not responded to {each['request']} since"
        line += f" {instant(each['since_ms'])}; {counted(each['requests'], 'request')} queued"
        yield line + (f": {each['reason']}" if each["reason"] else "")


def lines_of_waits(waits: list[Value]) -> list[str]:
    """Returns a line for each deletion, reassignment and election that waits for brokers."""
    lines = []
    for each in waits[:_WAITS_SHOWN]:
        name = each["topic"]
        if each["partition"] is not None:
            name += f"-{each['partition']}"
        since = "" if each["since_ms"] is None else f" since {instant(each['since_ms'])}"
        brokers = _brokers(each["brokers"])
        lines.append(_WAITS[each["what"]].format(name=name, brokers=brokers, since=since))
    if len(waits) > _WAITS_SHOWN:
        lines.append(_MORE_WAITS.format(len(waits) - _WAITS_SHOWN))
    return lines


def _story(story: list[Value], last: int, knows: str = "") -> list[str]:
    """Returns the last ``last`` entries of a history as lines. If the history has no entries,
    returns one line that the history is unknown, with the reason ``knows`` or a general reason."""
    shown = in_order(story)[-last:]
    if not shown:
        return [f"history unknown: {knows}" if knows else _NOTHING]
    lines = [f"{instant(each['at_ms'])}  {_entry(each)}{_by(each)}" for each in shown]
    return lines + [_LEGEND] * any(line.endswith(_KEPT) for line in lines)


def _entry(entry: Value) -> str:
    if entry["kind"] == "leader":
        leads = "no leader" if entry["leader"] is None else f"broker {entry['leader']} leads"
        return f"{leads} (epoch {entry['leader_epoch']}, ISR {_ids(entry['isr'])}): {entry['why']}"
    if entry["kind"] == "isr":
        return f"ISR {_ids(entry['isr'])}: {entry['why']}"
    return str(entry["why"])


def _by(entry: Value) -> str:
    """Returns the broker that recorded an entry, with a mark if the entry precedes the broker's
    last start."""
    told_by = f"  (broker {entry['told_by']})" if "told_by" in entry else ""
    return told_by + (_KEPT if entry["source"] == "kept" else "")


def _ids(brokers: list[int]) -> str:
    return ", ".join(map(str, brokers)) or "none"


def _brokers(brokers: list[int]) -> str:
    return f"{'broker' if len(brokers) == 1 else 'brokers'} {_ids(brokers)}"
