"""Hostile and careless clients, which send invalid bytes or too many requests. The broker must
serve all other clients as if these clients did not exist."""

from __future__ import annotations

import struct

from protocol.headers import encode_request_header
from tests.simulation.clients import TOPICS
from tests.simulation.whole.agenda import MS, S
from tests.simulation.whole.client import Client, Sent, WireRequest

REQUESTS_AT_ONCE = 60
"""Number of requests in flight. Their responses do not fit into the kernel's buffers and the
broker's transport buffer."""
_TOPIC = 2


class Hostile(Client):
    """Sends invalid bytes, some of which resemble a request."""

    def act(self) -> None:
        assert self.wire is not None
        if self.calm:
            return
        self.may_be_closed = True
        self.world.happened["hostile bytes"] += 1
        self.wire.on_frame = lambda frame: None
        self.wire.send(self._nonsense())
        self.think_after(self.chance.choice((100, 3_000)) * MS)
        if self.chance.random() < 0.7:
            self.drop_connection()

    def _nonsense(self) -> bytes:
        chance = self.chance
        key = chance.choice((0, 1, 3, 8, 9, 11, 14, 18, 19, 42, 60, 999))
        header = encode_request_header(key, chance.randint(0, 9), 1, "hostile")
        body = chance.randbytes(chance.choice((0, 3, 40, 2_000)))
        counts = struct.pack(">ii", chance.choice((-1, 0, 2**31 - 1)), 2**31 - 1)
        whole = header + chance.choice((b"", counts)) + body
        return chance.choice(
            (
                struct.pack(">i", chance.choice((-1, 0, 5, 2**31 - 1, 1 << 27))),
                chance.randbytes(chance.choice((1, 4, 100))),
                struct.pack(">i", len(whole)) + whole,
                struct.pack(">i", len(whole) + 10) + whole,
                struct.pack(">i", len(whole)) + whole + b"\x00\x00",
            )
        )

    def leaves(self, sent: Sent, frame: bytes) -> None: ...


class Glutton(Client):
    """Sends many requests at once and does not read for some time. Afterwards it must receive all
    responses."""

    def act(self) -> None:
        assert self.wire is not None
        resources = [
            {"resource_type": _TOPIC, "resource_name": name, "configuration_keys": None}
            for name in TOPICS[:2]
        ]
        look = {"resources": resources, "include_synonyms": True, "include_documentation": True}
        partition = {"partition_index": 0, "committed_offset": 7, "committed_metadata": ""}
        commit = {
            "group_id": self.name,
            "generation_id_or_member_epoch": -1,
            "member_id": "",
            "topics": [{"name": TOPICS[0], "partitions": [partition]}],
        }
        for _ in range(2 if self.calm else self.chance.choice((2, 20, REQUESTS_AT_ONCE))):
            if self.chance.random() < 0.9:
                self.send(WireRequest("DescribeConfigs", self.chance.randint(3, 4), look))
            else:
                self.send(WireRequest("OffsetCommit", self.chance.randint(2, 8), commit))
        if not self.calm:
            wire = self.wire
            wire.read(False)
            self.world.agenda.after(self.chance.choice((1, 8)) * S, wire.read, True)

    def hear(self, sent: Sent, frame: bytes) -> None:
        answer = sent.answer_in(frame)
        if sent.request.name == "DescribeConfigs":
            assert len(answer["results"]) == 2, answer
        if not self.sent:
            self.world.happened["gluttony"] += 1
            self.think_after(self.chance.choice((5, 20)) * S)
