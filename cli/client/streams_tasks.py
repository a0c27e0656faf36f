"""The tasks of streams group members (KIP-1071), from the response to StreamsGroupDescribe."""

from __future__ import annotations

from cli.names import partitions_text
from client.connection import Value

_ROLES = {"active_tasks": "", "standby_tasks": "standby ", "warmup_tasks": "warm-up "}


def tasks_text(assignment: Value) -> str:
    """Returns the tasks of an assignment as text, such as ``0:0-2 1:0; standby 1:2``."""
    parts = []
    for role, prefix in _ROLES.items():
        given = sorted(assignment[role], key=lambda each: str(each["subtopology_id"]))
        named = [
            partitions_text(each["subtopology_id"], sorted(each["partitions"]))
            for each in given
            if each["partitions"]
        ]
        if named:
            parts.append(prefix + " ".join(named))
    return "; ".join(parts)


def inputs_of(topology: Value | None, member: Value) -> dict[str, list[int]]:
    """Returns the partitions of source topics and repartition topics that the member's active tasks
    read."""
    active = {
        each["subtopology_id"]: sorted(each["partitions"])
        for each in member["assignment"]["active_tasks"]
    }
    found: dict[str, list[int]] = {}
    for part in (topology or {}).get("subtopologies") or ():
        read = active.get(part["subtopology_id"], [])
        repartition = [topic["name"] for topic in part["repartition_source_topics"]]
        for name in (*part["source_topics"], *repartition) if read else ():
            found.setdefault(name, []).extend(read)
    return found
