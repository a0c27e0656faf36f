"""Builders of small histories: lists of dicts with the columns of the schema EVENTS."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from pipeline.model.events import (
    COMMIT,
    COMMIT_TOMBSTONE,
    DAMAGED,
    GROUP,
    GROUP_TOMBSTONE,
    MARKER,
    TOMBSTONE,
    UNKNOWN,
)
from tests.pipeline.conftest import at

STREAMS = "streams"


class History:
    """Events in the order of their log offsets. All times are seconds after 2026-01-01 00:00
    UTC."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []

    def add(self, seconds: float, kind: str, group: str | None, **columns: Any) -> History:
        row = {"log_partition": 0, "log_offset": len(self.rows), "written_at": at(seconds)}
        self.rows.append({**row, "kind": kind, "group_id": group, **columns})
        return self

    def marker(self, seconds: float, producer_id: int, ends: str, epoch: int = 0) -> History:
        """Adds the marker that ends a transaction. ``ends`` is COMMITTED or ABORTED."""
        ended = {"producer_id": producer_id, "producer_epoch": epoch, "marker": ends}
        return self.add(seconds, MARKER, None, **ended)

    def unknown(self, seconds: float, group: str | None, key: bytes | None = b"\0\x63") -> History:
        return self.add(seconds, UNKNOWN, group, raw_key=key, raw_value=b"four")

    def damaged(self, seconds: float) -> History:
        why = {"file": "0.log", "position": 7, "reason": "its checksum is wrong"}
        return self.add(seconds, DAMAGED, None, damage=why)

    def commit(self, seconds: float, group: str, offset: int, **columns: Any) -> History:
        place = {"topic": "orders", "partition": 0, "committed_offset": offset, "metadata": ""}
        return self.add(seconds, COMMIT, group, **{**place, "commit_at": at(seconds), **columns})

    def forget(self, seconds: float, group: str, **columns: Any) -> History:
        place = {"topic": "orders", "partition": 0}
        return self.add(seconds, COMMIT_TOMBSTONE, group, **{**place, **columns})

    def generation(
        self, seconds: float, group: str, number: int, *members: dict[str, Any], **columns: Any
    ) -> History:
        row = {
            "generation": number,
            "members": list(members),
            "protocol_type": "consumer",
            "protocol": "range" if members else None,
            "leader": members[0]["member_id"] if members else None,
            "state_at": at(seconds),
        }
        return self.add(seconds, GROUP, group, **{**row, **columns})

    def delete(self, seconds: float, group: str) -> History:
        return self.add(seconds, GROUP_TOMBSTONE, group)


class ModernGroup:
    """Adds the records of a consumer group (KIP-848), share group (KIP-932) or streams group
    (KIP-1071) to a history."""

    def __init__(self, history: History, group: str, kind: str = "consumer") -> None:
        self._history = history
        self._group = group
        self._kind = kind

    def member(self, seconds: float, name: str, **columns: Any) -> None:
        """Adds a record of type 5 with the metadata of a member. ``columns`` sets fields of the
        record, such as ``regex`` or ``assignor``."""
        details = json.dumps({"subscribed_topic_regex": columns.pop("regex", "")})
        assignor = columns.pop("assignor", None)
        row = {**member(name), "assignment": None, **columns}
        self._member(seconds, "member", name, members=[row], details=details, protocol=assignor)

    def epoch(self, seconds: float, number: int) -> None:
        """Adds a record of type 3: the epoch of the group."""
        self.add(seconds, "epoch", generation=number)

    def target(self, seconds: float, name: str, *partitions: int, **place: Any) -> None:
        """Adds the target assignment of a member. The record has type 7. In a streams group it has
        type 21 and active tasks of subtopology 0."""
        columns: dict[str, Any] = {"members": [_holder(name, partitions, place)]}
        if self._kind == STREAMS:
            details = json.dumps({"active_tasks": _tasks(partitions)})
            columns = {"members": [{"member_id": name}], "details": details}
        self._member(seconds, "target_member", name, **columns)

    def targeted(self, seconds: float, number: int) -> None:
        """Adds the epoch of the target assignment, a record of type 6."""
        self.add(seconds, "target", generation=number)

    def current(
        self, seconds: float, name: str, *partitions: int, epoch: int = 2, state: int = 0,
        revoking: Sequence[int] = (), previous: int = 0, **place: Any,
    ) -> None:  # fmt: skip
        """Adds a record of type 8: the current assignment of a member. ``state`` is 1 if the member
        must still revoke partitions. In a streams group, the record has type 22, and ``state`` is
        greater by one."""
        holder = _holder(name, partitions, place)
        pending = [{"topic_id": "T1", "partitions": list(revoking), **place}] if revoking else []
        details: dict[str, Any] = {
            "member_epoch": epoch, "previous_member_epoch": previous, "state": state,
        }  # fmt: skip
        if self._kind == STREAMS:
            holder["assignment"] = None
            details["active_tasks"] = _tasks(partitions)
            details["active_tasks_pending_revocation"] = _tasks(revoking)
        else:
            details["partitions_pending_revocation"] = pending
        columns = {"members": [holder], "generation": epoch, "details": json.dumps(details)}
        self._member(seconds, "current_member", name, **columns)

    def pattern(self, seconds: float, regex: str, *topics: str) -> None:
        """Adds a record of type 16, with the topics that match a regular expression."""
        details = json.dumps({"regular_expression": regex, "topics": topics})
        self.add(seconds, "pattern", details=details)

    def gone(self, seconds: float, *names: str) -> None:
        """Adds tombstones of types 8, 7 and 5 for each member that left."""
        for name in names:
            for kind in ("current_member", "target_member", "member"):
                self._member(seconds, kind + TOMBSTONE, name)

    def deleted(self, seconds: float, *names: str) -> None:
        """Adds tombstones of all members and of the group, in Kafka's order."""
        for kind in ("current_member", "target_member"):
            for name in names:
                self._member(seconds, kind + TOMBSTONE, name)
        self.add(seconds, "target" + TOMBSTONE)
        for name in names:
            self._member(seconds, "member" + TOMBSTONE, name)
        self.add(seconds, "epoch" + TOMBSTONE)

    def add(self, seconds: float, kind: str, **columns: Any) -> None:
        """Adds a record of the group with the given kind and columns."""
        whole = f"{self._kind}_group_{kind}"
        self._history.add(seconds, whole, self._group, protocol_type=self._kind, **columns)

    def _member(self, seconds: float, kind: str, name: str, **columns: Any) -> None:
        self.add(seconds, kind, member_id=name, **columns)


def member(name: str, *partitions: int, topic: str = "orders", **columns: Any) -> dict[str, Any]:
    """Returns a member of a generation. Its client id is the part of ``name`` before the last
    dash."""
    return {
        "member_id": name,
        "client_id": name.rpartition("-")[0] or name,
        "client_host": "/10.0.0.1",
        "rebalance_timeout_ms": 60_000,
        "session_timeout_ms": 10_000,
        "subscription": [topic],
        "assignment": [{"topic": topic, "partitions": list(partitions)}],
        **columns,
    }


def _holder(name: str, partitions: Sequence[int], place: dict[str, Any]) -> dict[str, Any]:
    held = {"topic": "orders", "topic_id": "T1", "partitions": list(partitions), **place}
    return {"member_id": name, "assignment": [held] if partitions else []}


def _tasks(partitions: Sequence[int]) -> list[dict[str, Any]]:
    return [{"subtopology_id": "0", "partitions": list(partitions)}] if partitions else []
