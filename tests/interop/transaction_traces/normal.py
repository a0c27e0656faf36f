"""Normalizes responses for comparison: names replace producer ids, and random values and times are
removed."""

from __future__ import annotations

from typing import Any

from protocol.records.batch import records_of
from protocol.records.stored import iter_stored
from tests.interop.transaction_traces.side import Side

_DROPPED = frozenset(
    {
        "throttle_time_ms",
        "_tagged_fields",
        "error_message",
        "last_timestamp",
        "leader_epoch",
        "host",
        "port",
        "node_id",
        "node_endpoints",
        "current_leader",
        "preferred_read_replica",
        "session_id",
        "diverging_epoch",
        "snapshot_id",
        "log_append_time_ms",
    }
)
_ONLY_WHETHER = frozenset({"transaction_start_time_ms", "coordinator_epoch"})
"""Fields whose values differ between brokers. The comparison of two responses checks only whether
both have a value in such a field."""


def normal(side: Side, value: Any, key: str = "") -> Any:
    """Returns a response without the values that may differ between equivalent brokers."""
    if isinstance(value, dict):
        plain = {k: normal(side, v, k) for k, v in value.items() if k not in _DROPPED}
        if value.get("error_code") and "transaction_state" in value:
            plain["producer_id"] = value["producer_id"]  # the field's default is not a producer id
        if value.get("error_code"):
            plain.pop("log_start_offset", None)  # 3.9.2 returns the field in addition to an error
        topic_id = plain.pop("topic_id", None)
        if topic_id and topic_id != bytes(16):
            [plain["name"]] = [n for n, i in side.target.topic_ids.items() if i == topic_id]
        return plain
    if key == "records":
        return _records(side, value or b"")
    if isinstance(value, list | tuple):
        return sorted((normal(side, each) for each in value), key=repr)
    if key == "producer_id":
        return side.pid_names.get(value, value if value < 0 else "unknown")
    if key in _ONLY_WHETHER:
        return value >= 0
    return value


def _records(side: Side, data: bytes) -> list[Any]:
    """Returns the batches in order, with the fields that matter for consumers and for the producer
    state."""
    found = []
    for header, _ in iter_stored(data, partial=True):
        records = records_of(data, header)
        if header.is_control:
            content: Any = [(record.key or b"").hex() for record in records]
        else:
            content = [(record.offset, record.value) for record in records]
        owner = side.pid_names.get(header.producer_id, header.producer_id)
        kind = (header.is_transactional, header.is_control, header.base_sequence)
        found.append((header.base_offset, owner, header.producer_epoch, *kind, content))
    return found


def of_trace(side: Side, api: str, answer: dict[str, Any]) -> dict[str, Any]:
    """Returns a response without the entries of other traces that run at the same time."""
    if api != "ListTransactions":
        return answer
    mine = [
        each
        for each in answer["transaction_states"]
        if each["transactional_id"].startswith(f"{side.name}-")
    ]
    return {**answer, "transaction_states": mine}


def codes(value: Any) -> list[int]:
    """Returns the nonzero error codes in a response, or [0] if all are 0."""

    def found(part: Any) -> set[int]:
        if isinstance(part, dict):
            own = {code for key, code in part.items() if key.endswith("error_code")}
            return own.union(*map(found, part.values()))
        return set().union(*map(found, part)) if isinstance(part, list) else set()

    return sorted(found(value) - {0}) or [0]
