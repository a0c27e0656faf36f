"""The response to a Fetch: all partitions or, in an incremental fetch session, the changed
partitions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from broker.apis.fetch.reading import NO_NEWS
from broker.apis.fetch.response import Fetched
from broker.apis.fetch.sessions import NO_SESSION, Session, TopicKey, Wanted
from broker.net.request import Chunk, Request
from broker.topics.replicas.replica_of import replica_of
from protocol.errors import NONE
from protocol.generated.fetch import ENCODE_RESPONSE

if TYPE_CHECKING:
    from broker.apis.shared.services import Services


class Answer:
    """Collects and sends the response to one Fetch."""

    def __init__(
        self,
        request: Request,
        session: Session | None,
        is_incremental: bool,
        wanted: Sequence[Wanted],
        found: Sequence[Fetched],
        replica_id: int,
    ) -> None:
        """``replica_id`` is the id of the broker that fetches; -1 for a consumer."""
        self.partitions = 0
        """The number of partitions in the response."""
        self._replica_id = replica_id
        self._request = request
        self._session = session
        self._is_incremental = is_incremental
        self._wanted = wanted
        self._found = found
        self._topics: dict[TopicKey, list[Fetched]] = {}
        self._sizes: dict[TopicKey, int] = {}
        """The size of the records in the response in bytes, by topic."""
        self._worst = NONE

    def steps(self) -> Iterator[None]:
        """Adds the fetched partitions to the response, one partition in each step."""
        session = self._session
        for wanted, entry in zip(self._wanted, self._found, strict=True):
            if entry is NO_NEWS:
                yield
                continue
            self._worst = self._worst or entry.error_code
            if session is None or _is_news(wanted, entry) or not self._is_incremental:
                self._topics.setdefault(wanted.topic, []).append(entry)
                self.partitions += 1
            if entry.size_bytes:
                self._sizes[wanted.topic] = self._sizes.get(wanted.topic, 0) + entry.size_bytes
                if session is not None:
                    session.gave_data(wanted.key)
            yield

    def frame(self) -> list[Chunk]:
        """Returns the encoded response; may be called in any thread."""
        session_id = NO_SESSION if self._session is None else self._session.session_id
        request = self._request
        encode = ENCODE_RESPONSE[request.api_version]
        return encode(request.correlation_id, 0, NONE, session_id, self._topics.items())

    def send(self, services: Services, frame: list[Chunk] | None = None) -> None:
        """Sends ``frame`` as the response. If ``frame`` is None, encodes the response first."""
        if self._replica_id >= 0:
            self._count_replicated(services)
        else:
            registry, topics = services.registry, services.logs.topics
            for key, size_bytes in self._sizes.items():
                name = registry.topic_name(key) if isinstance(key, bytes) else key
                if name in topics:
                    topics[name].bytes_out += size_bytes
        self._request.complete(self.frame() if frame is None else frame, self._worst)

    def _count_replicated(self, services: Services) -> None:
        registry, topics = services.registry, services.logs.topics
        for key, entries in self._topics.items():
            name = registry.topic_name(key) if isinstance(key, bytes) else key
            topic = None if name is None else topics.get(name)
            for entry in entries:
                partition = None if topic is None else topic.partition(entry.partition)
                replica = replica_of(partition)
                if replica is not None:
                    replica.quotas.leader.count(replica.topic, replica.index, entry.size_bytes)
                    replica.totals.given(replica.state, self._replica_id, entry.size_bytes)


def _is_news(wanted: Wanted, entry: Fetched) -> bool:
    """Returns True if the response of an incremental Fetch must include the partition of ``entry``.
    Also stores the high watermark and the log start offset of ``entry`` in ``wanted``."""
    news = (
        entry.size_bytes > 0
        or entry.error_code != NONE
        or entry.diverging is not None
        or entry.high_watermark != wanted.high_watermark
        or entry.log_start_offset != wanted.log_start_offset
    )
    # After an error, the next response without the error must include the partition.
    wanted.high_watermark = -1 if entry.error_code else entry.high_watermark
    wanted.log_start_offset = entry.log_start_offset
    return news
