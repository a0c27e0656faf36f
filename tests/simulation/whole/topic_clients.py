"""Who makes topics, takes them away, and looks at what is there."""

from __future__ import annotations

from protocol.errors import COORDINATOR_NOT_AVAILABLE, NONE, TOPIC_ALREADY_EXISTS
from tests.simulation.clients import PARTITIONS, TOPICS
from tests.simulation.whole.agenda import MS, S
from tests.simulation.whole.client import Client, Sent, WireRequest

MADE = TOPICS[:2]
"""The third one's name is none that a topic may have: commits for it are refused by the edge."""


class TopicAdmin(Client):
    """Makes the topics that everybody needs, and has the offsets topic made."""

    def act(self) -> None:
        topics = [
            {"name": name, "num_partitions": PARTITIONS, "replication_factor": 1} for name in MADE
        ]
        if not self.world.topics_made:
            value = {"topics": topics, "timeout_ms": 30_000}
            self.send(WireRequest("CreateTopics", self.chance.randint(2, 4), value))
        else:
            value = {"key": "anything", "key_type": 0}
            self.send(WireRequest("FindCoordinator", self.chance.randint(1, 3), value))

    def hear(self, sent: Sent, frame: bytes) -> None:
        answer = sent.answer_in(frame)
        if sent.request.name == "CreateTopics":
            codes = {topic["error_code"] for topic in answer["topics"]}
            self.world.topics_made = codes <= {NONE, TOPIC_ALREADY_EXISTS}
            self.think_after(100 * MS)
        else:
            assert answer["error_code"] in (NONE, COORDINATOR_NOT_AVAILABLE)
            self.think_after(30 * S)
