"""Reads a share group from the HTTP API of its brokers, and parses the partition or record that a
user names."""

from __future__ import annotations

import re
from typing import Any, NamedTuple
from urllib.parse import quote

from cli import output
from cli.broker_answers import BrokerAnswers
from cli.client.cluster import Cluster
from cli.errors import USAGE, CommandError
from cli.groups.why import some
from cli.http import api_of, every_api

Value = dict[str, Any]

NO_LEADER = -1
"""The leader id of a partition without a leader."""

_PLACE = re.compile(r"([^:@]+)(?::(\d{1,10})(?:@(\d{1,19}))?)?")


class Place(NamedTuple):
    """The part of a share group that a command shows. None in a field means everything."""

    topic: str | None = None
    partition: int | None = None
    offset: int | None = None


def place_of(text: str | None) -> Place:
    """Returns the place for the text ``TOPIC``, ``TOPIC:PARTITION`` or
    ``TOPIC:PARTITION@OFFSET``."""
    if text is None:
        return Place()
    found = _PLACE.fullmatch(text)
    if found is None:
        raise CommandError(f"{text}: write it as TOPIC:PARTITION or TOPIC:PARTITION@OFFSET", USAGE)
    topic, partition, offset = found.groups()
    return Place(
        topic,
        None if partition is None else int(partition),
        None if offset is None else int(offset),
    )


def read_group(
    cluster: Cluster, what: str, http: str | None, timeout_s: float, group: str, place: Place
) -> Value:
    """Returns the share partitions of a group. Raises CommandError if the group does not read
    ``place``.

    In a cluster, the data of each share partition comes from its leader. ``unanswered`` has the
    leaders that did not answer; a warning names them too. With --http, only the broker at that
    address is queried.
    """
    api = api_of(cluster, what, http, timeout_s, group)
    asked = {name: value for name, value in place._asdict().items() if value is not None}
    path = f"/api/share/{quote(group, safe='')}"
    found: Value = api.get(path, **asked)
    if place.topic is not None and not found["partitions"]:
        where = place.topic if place.partition is None else f"{place.topic}:{place.partition}"
        raise CommandError(f"share group {group} does not read {where}")
    found["unanswered"] = []
    if http is None and found["partitions"]:
        _read_leaders(cluster, what, path, asked, found)
    return found


def _read_leaders(cluster: Cluster, what: str, path: str, asked: Value, found: Value) -> None:
    """In a cluster of several brokers, requests each share partition in ``found`` from its leader,
    and replaces the share partition by the leader's response."""
    topics = list(dict.fromkeys(row["topic"] for row in found["partitions"]))
    metadata = cluster.metadata(topics, cluster.deadline.left_s())
    if len(metadata["brokers"]) < 2:
        return
    leaders = {
        (topic["name"], each["partition_index"]): each["leader_id"]
        for topic in metadata["topics"]
        for each in topic["partitions"]
    }
    brokers = BrokerAnswers(every_api(cluster, what))
    shown: dict[tuple[str, int], dict[int, Value]] = {}
    for topic in topics:
        answers = brokers.all(f"{path}/partitions", **{**asked, "topic": topic})
        for node, answer in answers.items():
            for row in answer["partitions"]:
                shown.setdefault((topic, row["partition"]), {})[node] = row
    clients = {each["member"]: each for each in found["members"]}
    missing: dict[int, list[str]] = {}
    for number, row in enumerate(found["partitions"]):
        where = row["topic"], row["partition"]
        leader, rows = leaders.get(where, NO_LEADER), shown.get(where, {})
        if leader not in rows:
            missing.setdefault(leader, []).append(f"{where[0]}-{where[1]}")
        found["partitions"][number] = _named(_best(row, leader, rows), clients)
    for node, names in sorted(missing.items()):
        why = brokers.unasked.get(node, "it does not know these partitions")
        found["unanswered"].append({"broker": node, "why": why, "partitions": names})
        leader = f"broker {node} did not report these deliveries ({why})"
        if node < 0:
            leader = "the partitions have no leader"
        output.warn(f"deliveries in {some(names)} may be missing: {leader}")


def _best(row: Value, leader: int, rows: dict[int, Value]) -> Value:
    """Returns the most complete row of a share partition. ``row`` is from the group's coordinator,
    and ``rows`` are from the other brokers.

    The leader's row is complete if the leader has loaded the share partition. Otherwise, this
    function returns a row with the stored delivery state, and replaces its log offsets by those of
    the leader's row.
    """
    led = rows.get(leader)
    if led is not None and led["loaded"]:
        return led
    stored = [each for each in (row, *rows.values()) if each["start_offset"] is not None]
    best = {**(stored[0] if stored else led or row)}
    if led is not None:
        end_offset, next_offset = led["log_end_offset"], best["next_offset"]
        best |= {"log_end_offset": end_offset, "log_start_offset": led["log_start_offset"]}
        if end_offset is not None and next_offset is not None:
            best["unread"] = max(0, end_offset - next_offset)
    return best


def _named(row: Value, clients: dict[str, Value]) -> Value:
    """Adds the client and the host of each member to a view, and returns the result. Only the
    coordinator of the group knows the clients and hosts."""
    for each in (
        *row["in_flight"],
        *(one for seen in row["histories"] for one in seen["outcomes"]),
    ):
        known = clients.get(each["member"])
        if each["client"] is None and known is not None:
            each |= {"client": known["client"], "host": known["host"]}
    return row


def who(entry: Value) -> str:
    member, client = entry["member"], entry["client"]
    if client is None:
        return f"former member {member}"
    name = member if member.startswith(client) else f"{client} ({member})"
    return f"{name} from {entry['host']}"


def span_of(entry: Value) -> str:
    """Returns offsets as text, such as ``offset 5`` or ``offsets 5 to 7``."""
    first, last = entry["first_offset"], entry["last_offset"]
    return f"offset {first}" if first == last else f"offsets {first} to {last}"


def deliveries(number: int) -> str:
    return "1 delivery" if number == 1 else f"{number} deliveries"
