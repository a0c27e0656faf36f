"""Reads a group's journal as a list of events in the words of `muster groups why`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from broker.cores.groups.runtime import HostedGroups
from broker.metrics.sources import Sources
from broker.web.views.groups import journal_head, rebalances

View = dict[str, Any]
_LAST = 1 << 30
_NAMED = 3
_NOT_ENDED = {
    "interrupted": "not completed: another rebalance began",
    "unloaded": "not completed: the group's partition of __consumer_offsets was unloaded",
    "stopped": "not completed: the broker stopped",
}


def events(sources: Sources, hosted: HostedGroups | None, group_id: str) -> list[View]:
    """Returns a group's events, oldest first. The list is empty if neither the group nor its
    journal exists."""
    head = journal_head(sources, hosted, group_id)
    if head is None:
        return []
    found: list[View] = []
    if head["restored"] is not None:
        found.append(_restored(head["restored"]))
    for _, make in rebalances(sources, hosted, group_id, _LAST):
        found += _rebalance(make())
    found += [
        {"at_ms": note["at_ms"], "what": note["kind"], "sentence": note["text"]}
        for note in head["notes"]
    ]
    found += [_moved_back(each) for each in head["moved_back"]["last"]]
    found += [
        {"at_ms": each["at_ms"], "what": "lost", "sentence": each["sentence"]}
        for each in head["losses"]["last"]
    ]
    found += [_rejected(each, "commit") for each in head["rejected_commits"]]
    found += [_rejected(each, "join") for each in head["refused_joins"]]
    return sorted(found, key=lambda each: int(each["at_ms"]))


def _rebalance(entry: View) -> Iterator[View]:
    yield {
        "at_ms": entry["began_ms"],
        "what": "rebalance",
        "sentence": entry["why"] or _generation(entry),
        "cause": entry["cause"],
        "member": entry["member"],
        "generation_before": entry["generation_before"],
        "phase": entry["phase"],
        "awaited": [each["member"] for each in entry["awaited"]],
    }
    for change in entry["changes"]:
        colon = ":" if change["what"].startswith(("session expired", "its ")) else ""
        who = change["instance"] or change["member"]
        yield {
            "at_ms": change["at_ms"],
            "what": "member",
            "sentence": f"{who} from {change['host']}{colon} {change['what']}",
            "member": change["member"],
            "client_id": change["client"],
        }
    if entry["outcome"] and entry["ended_ms"] is not None:
        yield {
            "at_ms": entry["ended_ms"],
            "what": "generation" if entry["outcome"] == "assigned" else entry["outcome"],
            "sentence": _outcome(entry),
            "generation_id": entry["generation"],
            "members": entry["members"],
            "join_ms": entry["join_ms"],
            "sync_ms": entry["sync_ms"],
        }


def _outcome(entry: View) -> str:
    if str(entry["outcome"]).startswith("nobody"):
        return "no members were left: the group is empty"
    if entry["outcome"] != "assigned":
        return _NOT_ENDED.get(entry["outcome"], str(entry["outcome"]))
    got = [
        f"{each['instance'] or each['member']} got {_partitions(each)}"
        for each in entry["assigned"]
    ]
    more = f" and {len(got) - _NAMED} more" if len(got) > _NAMED else ""
    return _generation(entry) + (f": {', '.join(got[:_NAMED])}{more}" if got else "")


def _partitions(member: View) -> str:
    owned = member["partitions"]
    if owned is None:
        return f"{member['assignment_bytes']} bytes"
    parts = [f"{topic}:{_ranges(each)}" for topic, each in sorted(owned.items()) if each]
    return " ".join(parts) or "nothing"


def _ranges(partitions: list[int]) -> str:
    """Returns partition numbers as a text with ranges: 0,1,2,5 becomes 0-2,5."""
    runs: list[list[int]] = []
    for each in sorted(partitions):
        if runs and each == runs[-1][-1] + 1:
            runs[-1].append(each)
        else:
            runs.append([each])
    return ",".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)


def _generation(entry: View) -> str:
    protocol = f" ({entry['protocol']})" if entry["protocol"] else ""
    members = "1 member" if entry["members"] == 1 else f"{entry['members']} members"
    return f"generation {entry['generation']}{protocol}, {members}"


def _restored(restored: View) -> View:
    last = restored["generations"][-1]
    members = "1 member" if last["members"] == 1 else f"{last['members']} members"
    return {
        "at_ms": restored["at_ms"],
        "what": "loaded",
        "sentence": (
            f"the coordinator started and loaded the group from offset {last['log_offset']} of its"
            f" log: generation {last['generation']}, {members}"
        ),
    }


def _moved_back(moved: View) -> View:
    one = moved["examples"][0]
    more = f" and {moved['offsets'] - 1} more" if moved["offsets"] > 1 else ""
    who = moved["member"] or moved["client"] or "unknown client"
    return {
        "at_ms": moved["at_ms"],
        "what": "moved_back",
        "sentence": (
            f"{who} from {moved['host']} moved the committed offset of"
            f" {one['topic']}:{one['partition']} back from {one['from']} to {one['to']}{more}"
        ),
    }


def _rejected(rejected: View, request: str) -> View:
    last = rejected["last"]
    who = last["member"] or last["client"] or "unknown client"
    count = f"1 {request}" if rejected["count"] == 1 else f"{rejected['count']} {request}s"
    return {
        "at_ms": rejected["last_ms"],
        "what": "refused_joins" if request == "join" else "rejected_commits",
        "sentence": (
            f"{count} refused with {rejected['error']}, the last: {who} from {last['host']},"
            f" {last['why']}"
        ),
        "error": rejected["error"],
        "count": rejected["count"],
    }
