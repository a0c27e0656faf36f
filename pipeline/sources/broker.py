"""A few questions to a broker before Spark starts: its cluster, its topics and their ends.

Spark's connector tries a broker that is not there again and again for minutes; a socket knows at
once. Plain connections only.
"""

from __future__ import annotations

import re
import socket
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pipeline.errors import PipelineError
from protocol.errors import NAMES, ProtocolError
from protocol.headers import encode_request_header, response_header
from protocol.messages import BY_NAME

CLIENT_ID = "muster-pipeline"
TIMEOUT_S = 10.0
_SCHEME = "kafka://"
_ADDRESS = re.compile(r"(?P<host>[\w.-]+|\[[0-9a-fA-F:.]+\]):(?P<port>\d{1,5})")
_NEWEST = {"Metadata": 12, "ListOffsets": 7}
"""The newest versions that name topics rather than number them."""
_ANSWER_BYTES_MAX = 256 << 20
_LATEST = -1

Address = tuple[str, int]


@dataclass
class ClusterView:
    """The brokers and topics of a cluster."""

    cluster_id: str | None
    brokers: dict[int, Address]
    leaders: dict[str, dict[int, int]] = field(default_factory=dict)
    """Topic to partition to the node that leads it, -1 without one."""


def addresses_of(where: str) -> list[Address] | None:
    """The brokers in `HOST:PORT,...` or `kafka://HOST:PORT,...`; None for what is neither."""
    text = where.removeprefix(_SCHEME).rstrip("/") if where.startswith(_SCHEME) else where
    found = [_ADDRESS.fullmatch(part.strip()) for part in text.split(",")]
    if all(found):
        return [(match["host"].strip("[]"), int(match["port"])) for match in found if match]
    if where.startswith(_SCHEME):
        raise PipelineError(f"{where} is not an address: write kafka://HOST:PORT")
    return None


def bootstrap_of(addresses: Iterable[Address]) -> str:
    """What Kafka's clients call `bootstrap.servers`."""
    return ",".join(f"[{h}]:{p}" if ":" in h else f"{h}:{p}" for h, p in addresses)


def look_at(addresses: Sequence[Address]) -> ClusterView:
    """The cluster's id, brokers and topics, from the first address that answers.

    PipelineError when none does.
    """
    for number, address in enumerate(addresses, 1):
        try:
            with _Connection(address) as connection:
                answer = connection.call(
                    "Metadata", {"topics": None, "allow_auto_topic_creation": False}
                )
                break
        except PipelineError:
            if number == len(addresses):
                raise
    return ClusterView(
        answer["cluster_id"],
        {broker["node_id"]: (broker["host"], broker["port"]) for broker in answer["brokers"]},
        {
            topic["name"]: {p["partition_index"]: p["leader_id"] for p in topic["partitions"]}
            for topic in answer["topics"]
        },
    )


def end_offsets(view: ClusterView, topics: Sequence[str]) -> dict[str, dict[int, int]]:
    """Topic to partition to the offset behind its last record. PipelineError without a leader."""
    by_leader: dict[int, dict[str, list[int]]] = {}
    for topic in topics:
        for partition, leader in view.leaders[topic].items():
            if leader not in view.brokers:
                raise PipelineError(
                    f"{topic}:{partition} has no leader now: try again when its brokers are back"
                )
            by_leader.setdefault(leader, {}).setdefault(topic, []).append(partition)
    ends: dict[str, dict[int, int]] = {topic: {} for topic in topics}
    for leader, wanted in by_leader.items():
        with _Connection(view.brokers[leader]) as connection:
            answer = connection.call("ListOffsets", _ask_for_ends(wanted))
        for topic in answer["topics"]:
            for found in topic["partitions"]:
                if found["error_code"]:
                    raise PipelineError(
                        f"the end of {topic['name']}:{found['partition_index']} is not known:"
                        f" {NAMES.get(found['error_code'], found['error_code'])}"
                    )
                ends[topic["name"]][found["partition_index"]] = found["offset"]
    return ends


def _ask_for_ends(wanted: Mapping[str, Sequence[int]]) -> dict[str, Any]:
    return {
        "replica_id": -1,
        "topics": [
            {
                "name": topic,
                "partitions": [{"partition_index": p, "timestamp": _LATEST} for p in partitions],
            }
            for topic, partitions in wanted.items()
        ],
    }


class _Connection:
    """One blocking connection, one request in flight."""

    def __init__(self, address: Address) -> None:
        self.address = bootstrap_of([address])
        try:
            self._socket = socket.create_connection(address, TIMEOUT_S)
        except OSError as error:
            raise PipelineError(
                f"no broker answers at {self.address} ({error.strerror or error}): start one with"
                " `muster serve`, or name another with --source"
            ) from None
        answer = self._exchange("ApiVersions", 0, {})
        self._ranges = {
            api["api_key"]: (api["min_version"], api["max_version"]) for api in answer["api_keys"]
        }

    def __enter__(self) -> _Connection:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def call(self, name: str, value: dict[str, Any]) -> dict[str, Any]:
        """The answer to one request, in the newest version that both sides know."""
        api = BY_NAME[name]
        least, most = self._ranges.get(api.key, (0, -1))
        version = min(most, api.versions[-1], _NEWEST[name])
        if version < least:
            raise PipelineError(
                f"the broker at {self.address} does not serve {name} to this client"
            )
        return self._exchange(name, version, value)

    def _exchange(self, name: str, version: int, value: dict[str, Any]) -> dict[str, Any]:
        api = BY_NAME[name]
        head = encode_request_header(api.key, version, 1, CLIENT_ID)
        body = api.encode_request(version, value)
        expected = response_header(api.key, version, 1)
        try:
            self._socket.sendall(struct.pack(">i", len(head) + len(body)) + head + body)
            (size,) = struct.unpack(">i", self._read(4))
            if not len(expected) <= size <= _ANSWER_BYTES_MAX:
                raise PipelineError(f"{self.address} does not speak Kafka's protocol")
            answer = self._read(size)
        except OSError as error:
            raise PipelineError(
                f"the broker at {self.address} did not answer {name}: {error.strerror or error};"
                " is it a Kafka listener without TLS?"
            ) from None
        try:
            return api.decode_response(version, answer, len(expected))
        except ProtocolError as error:
            raise PipelineError(f"the broker at {self.address} answered {name}: {error}") from None

    def _read(self, size: int) -> bytes:
        chunks = []
        while size:
            chunk = self._socket.recv(min(size, 1 << 20))
            if not chunk:
                raise ConnectionResetError("it closed the connection")
            chunks.append(chunk)
            size -= len(chunk)
        return b"".join(chunks)
