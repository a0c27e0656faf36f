"""Fetch (1): records of partitions, now or when there are enough of them.

v0 and v1 get message sets of magic 0, v2 and v3 of magic 1; v1 throttle time; v3 a bound on the
whole answer; v4 isolation level, and batches of magic 2; v5 log start offsets; v7 sessions
(KIP-227); v9 fencing by leader epoch; v10 zstd; v11 rack; v12 flexible, last fetched epoch; v13
topic ids; v15 the replica's state in place of its id; v16 other leaders (never here); v17 and v18
are for replicas.

The first batch of an answer is whole however large it is, so that every reader gets on. An answer
without enough bytes waits for appends until max_wait_ms.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from broker.fetch_reading import Reader
from broker.fetch_response import Fetched, fetch_frame
from broker.fetch_sessions import (
    FINAL_EPOCH,
    INITIAL_EPOCH,
    NO_SESSION,
    FetchSessionError,
    Key,
    Session,
    TopicKey,
    Wanted,
)
from broker.long_poll import Waiter
from broker.request import Request, ServedApi
from protocol.errors import NONE
from protocol.messages.fetch import API

if TYPE_CHECKING:
    from broker.broker import Broker

_FIRST_WITH_IDS = 13
_INT_MAX = 2**31 - 1


def _handle(broker: Broker, request: Request) -> None:
    try:
        fetch = _Fetch(broker, request)
    except FetchSessionError as error:
        request.complete(
            fetch_frame(
                request.api_version, request.correlation_id, error.error_code, NO_SESSION, ()
            ),
            error.error_code,
        )
        return
    fetch.begin()


class _Fetch:
    """One request from its first look at the logs to its answer."""

    def __init__(self, broker: Broker, request: Request) -> None:
        value = request.value
        self.broker = broker
        self.request = request
        self.uses_ids = request.api_version >= _FIRST_WITH_IDS
        self.session: Session | None = None
        self.is_incremental = False
        self.max_wait_ms: int = value["max_wait_ms"]
        max_bytes = value["max_bytes"] if request.api_version >= 3 else _INT_MAX
        self.max_bytes = min(max_bytes, broker.config["fetch.max.bytes"])
        self.min_bytes = min(value["min_bytes"], self.max_bytes)
        replica_id = value["replica_id"]
        if request.api_version >= 15:
            replica_id = value["replica_state"]["replica_id"]
        self.reader = Reader(
            broker, request.api_version, value["isolation_level"] == 1, replica_id >= 0
        )
        self.wanted = self._wanted()
        self.waiter: Waiter | None = None

    def _wanted(self) -> Sequence[Wanted]:
        """What is to be read, by the request or by its session. Raises FetchSessionError."""
        value = self.request.value
        sessions = self.broker.fetch_sessions
        now_ms = self.broker.clock.now().mono_ms
        wanted = list(self._entries())
        session_id, epoch = value["session_id"], value["session_epoch"]
        if epoch in (FINAL_EPOCH, INITIAL_EPOCH):
            if session_id != NO_SESSION:
                sessions.close(session_id)
            if epoch == INITIAL_EPOCH and self.request.api_version >= 7 and wanted:
                self.session = sessions.create(wanted, self.uses_ids, now_ms)
            return wanted
        session = sessions.resume(
            session_id, epoch, wanted, self._forgotten(), self.uses_ids, now_ms
        )
        if session is None:
            return wanted
        self.session = session
        self.is_incremental = True
        return list(session.partitions.values())

    def _entries(self) -> Iterable[Wanted]:
        for topic in self.request.value["topics"]:
            key = topic["topic_id"] if self.uses_ids else topic["topic"]
            for entry in topic["partitions"]:
                yield Wanted(
                    key,
                    entry["partition"],
                    entry["fetch_offset"],
                    entry["partition_max_bytes"],
                    entry["current_leader_epoch"],
                    entry["last_fetched_epoch"],
                )

    def _forgotten(self) -> Iterable[Key]:
        for topic in self.request.value["forgotten_topics_data"]:
            key = topic["topic_id"] if self.uses_ids else topic["topic"]
            for partition in topic["partitions"]:
                yield key, partition

    # -- answering

    def begin(self) -> None:
        """Answers, or waits for more."""
        fetched, missing = self._read()
        if missing <= 0 or self.max_wait_ms <= 0:
            self._answer(fetched)
            return
        self.request.park()
        self.request.on_disconnect = self._disconnected
        names = self.broker.registry
        partitions = [
            (name, entry.partition)
            for entry in self.wanted
            if (
                name := names.topic_name(entry.topic)
                if isinstance(entry.topic, bytes)
                else entry.topic
            )
        ]
        deadline_ms = self.broker.clock.now().mono_ms + self.max_wait_ms
        self.waiter = Waiter(partitions, deadline_ms, missing, self._woken)
        self.broker.long_polls.wait(self.waiter)

    def _read(self) -> tuple[list[Fetched], int]:
        """What can be answered now, and how many bytes are missing for that to be enough."""
        fetched, size_bytes = self.reader.read(self.wanted, self.max_bytes)
        if not self.wanted or any(entry.error_code or entry.diverging for entry in fetched):
            return fetched, 0
        return fetched, self.min_bytes - size_bytes

    def _woken(self, due: bool) -> None:
        waiter = self.waiter
        assert waiter is not None
        try:
            fetched, missing = self._read()
            if missing > 0 and not due:
                waiter.missing_bytes = missing
                return
            self.broker.long_polls.forget(waiter)
            self._answer(fetched)
        except Exception:  # noqa: BLE001 - told in the log, with its traceback
            self.broker.long_polls.forget(waiter)
            self.request.fail()

    def _disconnected(self) -> None:
        if self.waiter is not None:
            self.broker.long_polls.forget(self.waiter)

    def _answer(self, fetched: list[Fetched]) -> None:
        request = self.request
        topics: dict[TopicKey, list[Fetched]] = {}
        worst = NONE
        for wanted, entry in zip(self.wanted, fetched, strict=True):
            worst = worst or entry.error_code
            if self.session is not None and not _is_news(wanted, entry) and self.is_incremental:
                continue
            topics.setdefault(wanted.topic, []).append(entry)
        session_id = NO_SESSION
        if self.session is not None:
            session_id = self.session.session_id
            for wanted, entry in zip(self.wanted, fetched, strict=True):
                if entry.size_bytes:
                    self.session.gave_data(wanted.key)
        self._count(topics)
        frame = fetch_frame(
            request.api_version, request.correlation_id, NONE, session_id, list(topics.items())
        )
        request.complete(frame, worst)

    def _count(self, topics: Mapping[TopicKey, list[Fetched]]) -> None:
        for key, entries in topics.items():
            size_bytes = sum([entry.size_bytes for entry in entries])
            if size_bytes:
                name = self.broker.registry.topic_name(key) if isinstance(key, bytes) else key
                topic = None if name is None else self.broker.logs.topics.get(name)
                if topic is not None:
                    topic.bytes_out += size_bytes


def _is_news(wanted: Wanted, entry: Fetched) -> bool:
    """Whether an incremental answer must tell of this partition; remembers what is told."""
    news = (
        entry.size_bytes > 0
        or entry.error_code != NONE
        or entry.diverging is not None
        or entry.high_watermark != wanted.high_watermark
        or entry.log_start_offset != wanted.log_start_offset
    )
    # After an error the partition is told of again as soon as the error is gone.
    wanted.high_watermark = -1 if entry.error_code else entry.high_watermark
    wanted.log_start_offset = entry.log_start_offset
    return news


SERVED = ServedApi(API, 0, 18, _handle, elements_max=None)
