"""Normalizes responses for comparison: replaces generated ids by names, and sorts lists whose order
has no meaning."""

from __future__ import annotations

from typing import Any

from tests.interop.differential.knowledge import Knowledge
from tests.interop.differential.trace import Step

Answer = dict[str, Any]


def normal(step: Step, answer: Answer, knowledge: Knowledge) -> Answer:
    """Returns a response without the values that may differ between equivalent brokers."""
    if "closed" in answer:
        return answer
    plain = _plain(answer)
    shape = _SHAPES.get(step.api)
    if shape:
        shape(plain, knowledge)
    return plain


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            key: _plain(part)
            for key, part in value.items()
            if key not in ("throttle_time_ms", "_tagged_fields")
        }
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    return value


def _join(answer: Answer, knowledge: Knowledge) -> None:
    answer["member_id"] = knowledge.name(answer["member_id"])
    answer["leader"] = knowledge.name(answer["leader"])
    _members(answer["members"], knowledge)


def _members(members: list[Answer], knowledge: Knowledge) -> None:
    for member in members:
        member["member_id"] = knowledge.name(member["member_id"])
    members.sort(key=lambda m: (m["member_id"], m["group_instance_id"] or ""))


def _leave(answer: Answer, knowledge: Knowledge) -> None:
    for member in answer["members"]:
        member["member_id"] = knowledge.name(member["member_id"])


def _topics(topics: list[Answer], knowledge: Knowledge) -> None:
    for topic in topics:
        id_ = topic.pop("topic_id", None)
        if id_ and id_ != bytes(16):
            topic["name"] = knowledge.topic_names.get(id_, id_.hex())
        topic["partitions"].sort(key=lambda p: p["partition_index"])
    topics.sort(key=lambda t: t["name"])


def _commit(answer: Answer, knowledge: Knowledge) -> None:
    _topics(answer["topics"], knowledge)


def _fetch(answer: Answer, knowledge: Knowledge) -> None:
    _topics(answer["topics"], knowledge)
    for group in answer["groups"]:
        _topics(group["topics"], knowledge)


def _describe(answer: Answer, knowledge: Knowledge) -> None:
    for group in answer["groups"]:
        _members(group["members"], knowledge)
    answer["groups"].sort(key=lambda g: g["group_id"])


def _list(answer: Answer, knowledge: Knowledge) -> None:
    mine = [g for g in answer["groups"] if g["group_id"].startswith(knowledge.group)]
    answer["groups"] = sorted(mine, key=lambda g: g["group_id"])


def _find(answer: Answer, knowledge: Knowledge) -> None:
    for found in [answer, *answer["coordinators"]]:
        found["here"] = found.pop("port", -1) > 0
        for key in ("host", "node_id"):
            found.pop(key, None)


def _delete(answer: Answer, knowledge: Knowledge) -> None:
    answer["results"].sort(key=lambda r: r["group_id"])


_SHAPES = {
    "JoinGroup": _join,
    "LeaveGroup": _leave,
    "OffsetCommit": _commit,
    "OffsetFetch": _fetch,
    "DescribeGroups": _describe,
    "ListGroups": _list,
    "FindCoordinator": _find,
    "DeleteGroups": _delete,
    "OffsetDelete": _commit,
}


def errors(answer: Answer) -> list[int]:
    """Returns the distinct error codes in a response, or [0] if all are 0."""
    found: set[int] = set()

    def look(value: Any) -> None:
        if isinstance(value, dict):
            for key, part in value.items():
                if key == "error_code":
                    found.add(part)
                else:
                    look(part)
        elif isinstance(value, list):
            for part in value:
                look(part)

    look(answer)
    return sorted(found - {0}) or [0]


def difference(mine: Any, other: Any, path: str = "") -> str:
    """Returns the parts in which two responses differ, as one line of text."""
    if isinstance(mine, dict) and isinstance(other, dict):
        keys = sorted(mine.keys() | other.keys())
        parts = [
            difference(mine.get(key), other.get(key), f"{path}.{key}" if path else key)
            for key in keys
            if mine.get(key) != other.get(key)
        ]
        return ", ".join(parts)
    if isinstance(mine, list) and isinstance(other, list) and len(mine) == len(other):
        parts = [
            difference(a, b, f"{path}[{index}]")
            for index, (a, b) in enumerate(zip(mine, other, strict=True))
            if a != b
        ]
        return ", ".join(parts)
    return f"{path} {mine!r} against {other!r}"
