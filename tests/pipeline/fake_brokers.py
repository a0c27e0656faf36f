"""Fake Kafka brokers on real sockets. The test specifies the response to each API."""

from __future__ import annotations

import socketserver
import struct
import threading
from collections.abc import Callable, Mapping
from typing import Any

from protocol.headers import decode_request_header, response_header
from protocol.messages import BY_KEY, BY_NAME
from protocol.records.stored import iter_stored

Value = dict[str, Any]
Answer = Callable[["FakeBroker", Value], "Value | bytes | None"]
"""A function that returns a response to a request. Bytes are sent unchanged; None closes the
connection."""

OFFSETS_TOPIC = "__consumer_offsets"
VERSIONS = {"ApiVersions": (0, 0), "Metadata": (0, 12), "ListOffsets": (1, 7), "Fetch": (3, 12)}


class FakeBroker:
    """A broker of a fake cluster. The attribute `asked` lists the received requests."""

    def __init__(
        self, answers: Mapping[str, Answer], versions: Mapping[str, tuple[int, int]] | None = None
    ) -> None:
        self.answers = answers
        self.versions = {**VERSIONS, **(versions or {})}
        self.asked: list[tuple[str, Value]] = []
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.fake = self
        self.port: int = self._server.server_address[1]
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.01,), daemon=True
        )

    def __enter__(self) -> FakeBroker:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def requests(self, name: str) -> list[Value]:
        return [value for api, value in self.asked if api == name]

    def answer(self, name: str, value: Value) -> Value | bytes | None:
        self.asked.append((name, value))
        if name == "ApiVersions":
            ranges = [
                {"api_key": BY_NAME[api].key, "min_version": least, "max_version": most}
                for api, (least, most) in self.versions.items()
            ]
            return {"error_code": 0, "api_keys": ranges}
        return self.answers[name](self, value)


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    allow_reuse_address = True
    fake: FakeBroker


class _Handler(socketserver.BaseRequestHandler):
    server: _Server

    def handle(self) -> None:
        stream = self.request.makefile("rb")
        while head := stream.read(4):
            frame = stream.read(struct.unpack(">i", head)[0])
            header = decode_request_header(frame)
            api = BY_KEY[header.api_key]
            value = api.decode_request(header.api_version, frame, header.position)
            answer = self.server.fake.answer(api.name, value)
            if answer is None:
                return
            if isinstance(answer, dict):
                first = response_header(api.key, header.api_version, header.correlation_id)
                body = first + api.encode_response(header.api_version, answer)
                answer = struct.pack(">i", len(body)) + body
            self.request.sendall(answer)


def metadata(
    brokers: Mapping[int, FakeBroker], leaders: Mapping[int, int], topic: str = OFFSETS_TOPIC
) -> Value:
    """Returns a Metadata response with the brokers of the cluster and the partition leaders of one
    topic."""
    return {
        "brokers": [
            {"node_id": node, "host": "127.0.0.1", "port": broker.port}
            for node, broker in brokers.items()
        ],
        "cluster_id": "a-cluster",
        "topics": [
            {
                "error_code": 0,
                "name": topic,
                "topic_id": bytes(16),
                "partitions": [
                    {
                        "error_code": 0,
                        "partition_index": number,
                        "leader_id": node,
                        "replica_nodes": [],
                        "isr_nodes": [],
                    }
                    for number, node in leaders.items()
                ],
            }
        ],
    }


def listed(value: Value, offset_of: Callable[[int, int], int], code: int = 0) -> Value:
    """Returns a response to the ListOffsets request ``value``. ``offset_of`` returns the offset for
    a partition and a timestamp."""
    return {
        "topics": [
            {
                "name": topic["name"],
                "partitions": [
                    {
                        "partition_index": each["partition_index"],
                        "error_code": code,
                        "offset": offset_of(each["partition_index"], each["timestamp"]),
                    }
                    for each in topic["partitions"]
                ],
            }
            for topic in value["topics"]
        ]
    }


def fetched(entries: list[Value], throttle_time_ms: int = 0) -> Value:
    """Returns a Fetch response. ``entries`` are its partitions."""
    return {
        "throttle_time_ms": throttle_time_ms,
        "responses": [{"topic": OFFSETS_TOPIC, "partitions": entries}] if entries else [],
    }


def entry(number: int, records: bytes = b"", code: int = 0, high_watermark: int = 1 << 40) -> Value:
    """Returns the part of a Fetch response for one partition."""
    return {
        "partition_index": number,
        "error_code": code,
        "high_watermark": high_watermark,
        "aborted_transactions": None,
        "records": records,
    }


def from_log(log: bytes) -> Callable[[Value, int], Value]:
    """Returns a function that answers a Fetch request with the batch that contains the fetch
    offset, as a broker whose log has the bytes ``log``."""
    batches = [(header, log[at : header.end]) for header, at in iter_stored(log)]

    def answer(asked: Value, number: int) -> Value:
        for header, data in batches:
            if header.last_offset >= asked["fetch_offset"]:
                return entry(number, data)
        return entry(number)

    return answer


def asked_of(value: Value) -> dict[int, Value]:
    """Returns the partitions of a Fetch request, by partition number."""
    return {each["partition"]: each for topic in value["topics"] for each in topic["partitions"]}
