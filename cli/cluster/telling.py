"""The words of `muster cluster why`: what was found of a partition, a broker or the controller."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from cli.cluster.stories import in_order
from cli.groups.why import some
from cli.names import partitions_text
from cli.output import counted
from cli.times import instant

Value = dict[str, Any]

_NOTHING = "its story is not known: no broker that could be asked has seen anything of it"
_KEPT = "  [kept]"
_LEGEND = "[kept]: written down before the broker's last start"
_WAITS_SHOWN = 10
_WAITS = {
    "deletion": "the deletion of {name} waits for {brokers}, to return or to answer",
    "reassignment": "the reassignment of {name} waits for {brokers}, to be in sync",
    "leader": "{name} waits for {brokers}, to return: the last in-sync replicas are there",
}


def lines_of_partition(found: Value, last: int) -> list[str]:
    """A partition: who leads it and why, who is out of sync and why, its story."""
    name = f"{found['topic']}-{found['partition']}"
    leads = "nobody leads" if found["leader"] is None else f"broker {found['leader']} leads"
    epoch = "" if found["leader_epoch"] is None else f", in leader epoch {found['leader_epoch']}"
    lines = [f"{name}  {leads}{epoch}"]
    lines.append(f"replicas {_ids(found['replicas'])}  ISR {_ids(found['isr'])}")
    moved = found["moved"]
    knows = _unasked(found, found["controller"], "the controller")
    if moved is None:
        knows = knows or "who saw it could not be asked, or has forgotten"
        lines.append(f"why it is so is not known: {knows}")
    else:
        lines.append(f"so since {instant(moved['at_ms'])}: {moved['why']}{_by(moved)}")
        if moved["cause"] == "told":
            knows = knows or f"the controller of epoch {moved['controller_epoch']} knew"
            lines.append(f"    why is not known: {knows}")
    leader = _unasked(found, found["leader"], "its leader")
    lines += [line for each in found["out"] for line in _out(each, leader)]
    if found["moving"]:
        adding = f", which brings {_brokers(found['adding'])}" if found["adding"] else ""
        lines.append(f"a reassignment is under way{adding}")
    lines += lines_of_waits(found["waits"] or [])
    return lines + _story([*found["topic_story"], *found["story"]], last)


def _unasked(found: Value, broker: int | None, what: str) -> str:
    """Who would know and could not be asked; nothing where that broker could be."""
    if any(each["broker"] == broker for each in found["unasked"]):
        return f"broker {broker}, {what}, knows and could not be asked"
    return ""


def _out(out: Value, leader: str) -> Iterator[str]:
    who = f"broker {out['broker']} is out of the ISR"
    left = out["left"]
    if left is None:
        unknown = "; since when is not known" + (f": {leader}" if leader else "")
        yield who + (": a reassignment brings it" if out["adding"] else unknown)
    else:
        reason = left["why"].partition("; broker ")[0]  # who leads instead is told above
        yield f"{who} since {instant(left['at_ms'])}: {reason}{_by(left)}"
    if not out["alive"]:
        yield f"    now: broker {out['broker']} is not there"
    elif out["fetched_ms"] is not None:
        behind = counted(out["records"], "record")
        yield f"    now: it is {behind} behind, and fetched at {instant(out['fetched_ms'])}"
    elif out["records"] is None and left is not None:
        yield "    now: it has not fetched since its leader leads, or its leader does not tell"
    if out["held_up"] is not None:
        yield f"    broker {out['broker']} says: {out['held_up']}"


def lines_of_broker(found: Value, last: int) -> list[str]:
    """A broker: whether it is there, what it leads, where it is out of sync, its story."""
    there = found["address"] if found["alive"] else "is not there"
    lines = [f"broker {found['broker']}  {there}"]
    if found["epoch"] is not None:
        lines[0] += f"  epoch {found['epoch']}"
    zookeeper = found["zookeeper"]
    if zookeeper is not None:
        lines.append(f"its session with ZooKeeper ({zookeeper['connect']}) is {zookeeper['state']}")
    lines.append(
        f"it leads {counted(found['leads'], 'partition')}, is the preferred leader of"
        f" {found['preferred']}, and has replicas of {found['replicas']}"
    )
    if found["out_of_isr"]:
        lines.append(f"it is out of the ISR of {counted(found['out_of_isr'], 'partition')}")
    lines += _out_by_reason(found["out"])
    for leader in sorted({each["leader"] for each in found["out_elsewhere"]}):
        rows = [each for each in found["out_elsewhere"] if each["leader"] == leader]
        knows = _unasked(found, leader, "which leads")
        lines.append(f"    {_partitions(rows)}; {knows or 'why is not known'}")
    knows = _unasked(found, found["controller"], "the controller")
    return lines + _story([*found["story"], *found["session_story"]], last, knows)


def _out_by_reason(out: list[Value]) -> Iterator[str]:
    """One line for the partitions that it left for one reason."""
    reasons: dict[tuple[str | None, str | None], list[Value]] = {}
    for each in out:
        reasons.setdefault((each["cause"], each["held_up"]), []).append(each)
    for rows in reasons.values():
        oldest = min(rows, key=lambda each: each["since_ms"] or 0)
        since = "" if oldest["since_ms"] is None else f" since {instant(oldest['since_ms'])}"
        why = f": {oldest['why']}" if oldest["why"] else "; why is in the story of each"
        yield f"    {_partitions(rows)}{since}{why}"
        if rows[0]["held_up"] is not None:
            yield f"        it says: {rows[0]['held_up']}"


def _partitions(rows: list[Value]) -> str:
    by_topic: dict[str, list[int]] = {}
    for each in rows:
        by_topic.setdefault(each["topic"], []).append(each["partition"])
    return some(partitions_text(topic, numbers) for topic, numbers in by_topic.items())


def lines_of_controller(found: Value, last: int) -> list[str]:
    """The controller: who it is since when, what it is at, what it waits for, its story."""
    head = "the cluster has no controller"
    if found["controller"] is not None:
        head = f"broker {found['controller']} is the controller"
        since = [each for each in found["views"] if each["broker"] == found["controller"]]
        if since and since[0]["controller_epoch"] is not None:
            head += f", of epoch {since[0]['controller_epoch']}"
            if since[0]["since_ms"] is not None:
                head += f", since {instant(since[0]['since_ms'])}"
    lines = [head]
    for each in found["views"]:
        if each["controller"] != found["controller"]:
            named = "nobody" if each["controller"] is None else f"broker {each['controller']}"
            lines.append(f"broker {each['broker']} obeys {named}")
    if found["doing"] is not None:
        lines += _doing(found["doing"])
        waits = lines_of_waits(found["waits"])
        lines += waits or ["it waits for nobody"]
        if found["more_waits"]:
            lines.append(f"and for {found['more_waits']} more")
    elif found["controller"] is not None:
        lines.append("what it is at is not known: it could not be asked, or is not a Muster")
    return lines + _story(found["story"], last)


def _doing(doing: Value) -> Iterator[str]:
    busy = [
        counted(doing[field], noun) + words
        for field, noun, words in (
            ("partitions_left", "partition", " to look at"),
            ("writes", "write", " under way to ZooKeeper"),
            ("retries", "failure", " to try again"),
            ("calls", "request", " to answer"),
        )
        if doing[field]
    ]
    yield f"it has {', '.join(busy)}" if busy else "it has nothing to do"
    for each in doing["shutdowns"]:
        left = counted(each["partitions"], "partition")
        yield f"broker {each['broker']} is about to stop: {left} are not settled"
    for each in doing["unanswered"]:
        line = f"broker {each['broker']} has not answered {each['request']} since"
        line += f" {instant(each['since_ms'])}; {counted(each['requests'], 'request')} wait for it"
        yield line + (f": {each['reason']}" if each["reason"] else "")


def lines_of_waits(waits: list[Value]) -> list[str]:
    """What the controller waits for, a line each."""
    lines = []
    for each in waits[:_WAITS_SHOWN]:
        name = each["topic"]
        if each["partition"] is not None:
            name += f"-{each['partition']}"
        line = _WAITS[each["what"]].format(name=name, brokers=_brokers(each["brokers"]))
        since = "" if each["since_ms"] is None else f", since {instant(each['since_ms'])}"
        lines.append(f"{line}{since}")
    if len(waits) > _WAITS_SHOWN:
        lines.append(f"and {len(waits) - _WAITS_SHOWN} more wait")
    return lines


def _story(story: list[Value], last: int, knows: str = "") -> list[str]:
    """The last entries; ``knows`` names who would have told the rest."""
    shown = in_order(story)[-last:]
    if not shown:
        return [f"its story is not known: {knows}" if knows else _NOTHING]
    lines = [f"{instant(each['at_ms'])}  {_entry(each)}{_by(each)}" for each in shown]
    return lines + [_LEGEND] * any(line.endswith(_KEPT) for line in lines)


def _entry(entry: Value) -> str:
    if entry["kind"] == "leader":
        leads = "nobody leads" if entry["leader"] is None else f"broker {entry['leader']} leads"
        return f"{leads} (epoch {entry['leader_epoch']}, ISR {_ids(entry['isr'])}): {entry['why']}"
    if entry["kind"] == "isr":
        return f"ISR {_ids(entry['isr'])}: {entry['why']}"
    return str(entry["why"])


def _by(entry: Value) -> str:
    """Who says so, and whether it is from before its last start."""
    told_by = f"  (broker {entry['told_by']})" if "told_by" in entry else ""
    return told_by + (_KEPT if entry["source"] == "kept" else "")


def _ids(brokers: list[int]) -> str:
    return ", ".join(map(str, brokers)) or "none"


def _brokers(brokers: list[int]) -> str:
    return f"{'broker' if len(brokers) == 1 else 'brokers'} {_ids(brokers)}"
