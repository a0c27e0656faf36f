"""A broker that consists of the network layer, the runtime and real logs."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Any

from broker.apis.shared.services import Services
from broker.apis.tables.standalone import SERVED
from broker.config.config import Config
from broker.config.listeners import Endpoint
from broker.cores.groups.runtime import group_runtime
from broker.cores.groups.topic_regexes import TopicRegexes
from broker.cores.hooks import Hooks
from broker.cores.runtime_settings import RuntimeSettings
from broker.loop.disk_reads import DiskReads
from broker.loop.internal_errors import InternalErrors
from broker.loop.slices import Slicer
from broker.loop.watchdog import Watchdog
from broker.loop.worker import Worker
from broker.metrics.totals import Metrics
from broker.net.advertised import Advertised
from broker.net.clients.stuck_clients import StuckClients
from broker.net.clients.unsupported import Unsupported
from broker.net.connection import TurnWrites
from broker.net.limits.connections import Limits
from broker.net.listener import Listener
from broker.net.long_requests import LongRequests
from broker.net.request import ServedApi
from broker.net.server import Server
from broker.net.sockets import bind
from broker.time import Time
from broker.topics.cluster_view import AloneView, PartitionView
from broker.topics.owned_topics import OwnedTopic
from broker.topics.partition import Partition
from broker.topics.registry import OFFSETS_TOPIC, Features, Topic
from coordinator.config import GroupConfig
from log.config import LogConfig
from log.files.filesystem import FileSystem, OsFileSystem
from log.partition_log import PartitionLog
from protocol.headers import decode_response_header, encode_request_header
from protocol.messages import BY_KEY
from protocol.messages.heartbeat import API as HEARTBEAT
from protocol.messages.join_group import API as JOIN_GROUP
from protocol.messages.offset_commit import API as OFFSET_COMMIT
from protocol.messages.offset_fetch import API as OFFSET_FETCH
from protocol.messages.sync_group import API as SYNC_GROUP
from tests.broker.partitions import partition_for, services_with

GROUPS = GroupConfig(min_session_timeout_ms=100, initial_rebalance_delay_ms=0)
_LENGTH = struct.Struct(">i")


async def eventually(condition: Callable[[], object], within_s: float = 60) -> None:
    """Runs the event loop until ``condition`` is true. Fails after ``within_s`` seconds."""
    deadline = monotonic() + within_s
    while not condition():
        assert monotonic() < deadline, f"not within {within_s} s"
        await asyncio.sleep(0.002)


@dataclass(eq=False)
class Taker:
    """A ticket that passes its reply to a function."""

    take: Callable[[Any], object]


class Topics:
    """A registry whose topics do not change."""

    node_id = 1
    cluster_id = "AAAAAAAAAAAAAAAAAAAAAA"
    features = Features(1, {"transaction.version": 2})

    def __init__(self, partitions: Mapping[str, int]) -> None:
        self.topics = {
            name: Topic(name, bytes([7] * 15 + [number]), count)
            for number, (name, count) in enumerate(partitions.items(), 1)
        }

    def topic(self, name: str) -> Topic | None:
        return self.topics.get(name)

    def topic_by_id(self, topic_id: bytes) -> Topic | None:
        return next((t for t in self.topics.values() if t.topic_id == topic_id), None)

    def topic_name(self, topic_id: bytes) -> str | None:
        topic = self.topic_by_id(topic_id)
        return None if topic is None else topic.name


class LeadsAll(AloneView):
    """A cluster view in which this broker leads every partition."""

    def partition(self, topic: str, index: int) -> PartitionView:
        return PartitionView(self.controller_id, 0, (1,), (1,))


class NotHere:
    """Replaces a part of a broker that `EdgeBroker` does not have. Any use of it fails."""


class EdgeBroker:
    """A broker in this process that has only the parts that the handlers of group APIs use."""

    def __init__(
        self,
        directory: Path,
        *,
        limits: Limits | None = None,
        served: Mapping[int, ServedApi] | None = None,
        settings: RuntimeSettings | None = None,
        time: Time | None = None,
        fs: FileSystem | None = None,
        log_config: LogConfig | None = None,
        partitions: int = 2,
        cleaned_to: Callable[[int], int] | None = None,
    ) -> None:
        self.directory = directory
        self.fs: FileSystem = fs or OsFileSystem()
        self.log_config = log_config or LogConfig(cleanup_policy="compact")
        self.partitions = partitions
        self.time = time or Time()
        self.watchdog = Watchdog(self.time)
        self.slicer = Slicer(self.time, self.watchdog)
        self.worker = Worker(self.time)
        self.registry = Topics({"orders": 3, "payments": 100})
        errors = InternalErrors()
        writes = TurnWrites(self.time, self.watchdog, errors)
        self.fatal: list[str] = []
        self.groups = group_runtime(
            settings or RuntimeSettings(GROUPS),
            self.time,
            self.slicer,
            hooks=Hooks(
                before_replies=writes.hold,
                after_replies=writes.flush,
                cleaned_to=cleaned_to or (lambda _: 0),
            ),
        )
        served = SERVED if served is None else served
        disk_reads = DiskReads(self.time)
        self.unsupported = Unsupported(self.time)
        self.stuck_clients = StuckClients(self.unsupported, lambda *_: False, lambda *_: None)
        config = Config({"listeners": "PLAINTEXT://127.0.0.1:0"})
        self.advertised = Advertised(config, 1)
        self.server = Server(
            self._services(config, served, disk_reads),
            served,
            limits or Limits(),
            writes=writes,
            long=LongRequests(self.slicer, self.worker, self.spawn),
            disk_reads=disk_reads,
            unsupported=self.unsupported,
            stuck_clients=self.stuck_clients,
            time=self.time,
            watchdog=self.watchdog,
            internal_errors=errors,
        )
        self.logs: list[PartitionLog] = []
        self.served_partitions: list[Partition] = []
        self.partition_services = services_with(
            fatal=self.fatal, time=self.time, errors=self.groups.errors
        )
        self.port = 0
        self.tasks: set[asyncio.Task[Any]] = set()

    def _services(
        self, config: Config, served: Mapping[int, ServedApi], disk_reads: DiskReads
    ) -> Services:
        not_here: Any = NotHere()
        registry: Any = self.registry
        topics: Any = self
        return Services(
            config=config,
            served=served,
            time=self.time,
            advertised=self.advertised,
            cluster=LeadsAll(1, not_here, self.advertised.node),
            groups=self.groups,
            topic_regexes=TopicRegexes(),
            transactions=not_here,
            share_persister=not_here,
            share_coordinator=not_here,
            markers=not_here,
            local_markers=not_here,
            producer_ids=not_here,
            registry=registry,
            logs=not_here,
            topics=topics,
            config_changes=not_here,
            long_polls=not_here,
            maintenance=not_here,
            old_offsets=not_here,
            fetch_sessions=not_here,
            metrics=Metrics(),
            slicer=self.slicer,
            worker=self.worker,
            disk_reads=disk_reads,
            unsupported=self.unsupported,
            stuck_clients=self.stuck_clients,
            quotas=not_here,
        )

    async def ensure_owned(self, owned: OwnedTopic) -> bool:
        assert owned.name == OFFSETS_TOPIC
        return await self.ensure_offsets_topic()

    async def ensure_offsets_topic(self) -> bool:
        if not self.groups.hosted_shards:
            self.groups.start(self.open_partitions())
            count = len(self.groups.hosted_shards)
            self.registry.topics[OFFSETS_TOPIC] = Topic(OFFSETS_TOPIC, bytes([9] * 16), count)
        return True

    def spawn(self, work: Coroutine[Any, Any, None], name: str) -> None:
        task = self.watchdog.task(name, work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    def open_partitions(self) -> list[Partition]:
        self.logs = [
            PartitionLog.open(
                self.fs,
                str(self.directory / f"__consumer_offsets-{partition}"),
                "__consumer_offsets",
                partition,
                self.log_config,
            )
            for partition in range(self.partitions)
        ]
        self.served_partitions = [partition_for(log, self.partition_services) for log in self.logs]
        return self.served_partitions

    async def __aenter__(self) -> EdgeBroker:
        bound = bind("127.0.0.1", 0, self.server.limits)
        self.port = bound.getsockname()[1]
        await self.server.accept(bound, Listener(Endpoint("PLAINTEXT", "127.0.0.1", self.port)))
        self.advertised.listening([self.port])
        if self.log_exists:
            await self.ensure_offsets_topic()
        return self

    @property
    def log_exists(self) -> bool:
        return (self.directory / "__consumer_offsets-0").exists()

    async def __aexit__(self, *_: object) -> None:
        for partition in self.served_partitions:
            partition.stop()
        await self.groups.stop()
        await self.server.close()
        self.worker.stop()
        for log in self.logs:
            log.close(clean=False)

    async def client(self) -> Client:
        return await Client.connect(self.port)


class Client:
    """A connection to a broker. It encodes its requests with the reference codec."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self.client_id = "tester"
        self._correlation_id = 0

    @classmethod
    async def connect(cls, port: int) -> Client:
        return cls(*await asyncio.open_connection("127.0.0.1", port))

    def send(self, api_key: int, version: int, **value: Any) -> tuple[int, int, int]:
        """Sends a request. Returns a handle for `receive`."""
        self._correlation_id += 1
        header = encode_request_header(api_key, version, self._correlation_id, self.client_id)
        body = BY_KEY[api_key].encode_request(version, value)
        self.send_raw(_LENGTH.pack(len(header) + len(body)) + header + body)
        return api_key, version, self._correlation_id

    def send_raw(self, data: bytes) -> None:
        self.writer.write(data)

    async def receive(self, handle: tuple[int, int, int], within_s: float = 60) -> dict[str, Any]:
        """Returns the next response, which must belong to the request with this handle."""
        frame = await asyncio.wait_for(self.receive_raw(), within_s)
        api_key, version, correlation_id = handle
        answered, position = decode_response_header(api_key, version, frame)
        assert answered == correlation_id
        return BY_KEY[api_key].decode_response(version, frame, position)

    async def receive_raw(self) -> bytes:
        (size,) = _LENGTH.unpack(await self.reader.readexactly(4))
        return await self.reader.readexactly(size)

    async def call(self, api_key: int, version: int, **value: Any) -> dict[str, Any]:
        return await self.receive(self.send(api_key, version, **value))

    def send_commit(self, group_id: str, offset: int, **more: Any) -> tuple[int, int, int]:
        """Sends OffsetCommit of ``offset`` for the first ``partitions`` partitions of a topic.
        Returns a handle for `receive`."""
        partitions = [
            {"partition_index": p, "committed_offset": offset, "committed_metadata": ""}
            for p in range(more.pop("partitions", 1))
        ]
        return self.send(
            OFFSET_COMMIT.key,
            more.pop("version", 8),
            group_id=group_id,
            generation_id_or_member_epoch=more.pop("generation_id", -1),
            member_id=more.pop("member_id", ""),
            topics=[{"name": more.pop("topic", "orders"), "partitions": partitions}],
            **more,
        )

    async def commit(self, group_id: str, offset: int, **more: Any) -> int:
        """Sends OffsetCommit. Returns the error code of the first partition."""
        reply = await self.receive(self.send_commit(group_id, offset, **more))
        code: int = reply["topics"][0]["partitions"][0]["error_code"]
        return code

    def send_fetch(self, group_id: str, topic: str = "orders") -> tuple[int, int, int]:
        topics = [{"name": topic, "partition_indexes": [0]}]
        return self.send(OFFSET_FETCH.key, 7, group_id=group_id, topics=topics)

    async def fetch(self, group_id: str, topic: str = "orders") -> int:
        """Returns the committed offset of partition 0. If the group has error code N, returns -1000
        - N."""
        reply = await self.receive(self.send_fetch(group_id, topic))
        if reply["error_code"]:
            return -1000 - int(reply["error_code"])
        offset: int = reply["topics"][0]["partitions"][0]["committed_offset"]
        return offset

    def send_join(
        self,
        group_id: str,
        *,
        member_id: str = "",
        instance_id: str | None = None,
        session_timeout_ms: int = 30_000,
    ) -> tuple[int, int, int]:
        """Sends JoinGroup of a consumer. An empty ``member_id`` means a new member. Returns a
        handle for `receive`."""
        return self.send(
            JOIN_GROUP.key,
            3 if instance_id is None else 5,
            group_id=group_id,
            session_timeout_ms=session_timeout_ms,
            rebalance_timeout_ms=30_000,
            member_id=member_id,
            group_instance_id=instance_id,
            protocol_type="consumer",
            protocols=[{"name": "range", "metadata": b""}],
        )

    async def join_alone(self, group_id: str, **more: Any) -> tuple[str, int]:
        """Forms a Stable group with one member. Returns member id and generation."""
        session_timeout_ms = more.get("session_timeout_ms", 30_000)
        joined = await self.receive(self.send_join(group_id, session_timeout_ms=session_timeout_ms))
        assert joined["error_code"] == 0, joined
        member_id, generation_id = joined["member_id"], joined["generation_id"]
        synced = await self.call(
            SYNC_GROUP.key,
            3,
            group_id=group_id,
            generation_id=generation_id,
            member_id=member_id,
            assignments=[{"member_id": member_id, "assignment": more.get("assignment", b"mine")}],
        )
        assert synced["error_code"] == 0, synced
        return member_id, generation_id

    async def heartbeat(self, group_id: str, member_id: str, generation_id: int) -> int:
        reply = await self.call(
            HEARTBEAT.key,
            3,
            group_id=group_id,
            generation_id=generation_id,
            member_id=member_id,
        )
        code: int = reply["error_code"]
        return code

    async def closed_by_peer(self, within_s: float = 60) -> bool:
        """Returns True if the broker closes the connection, possibly after more bytes."""
        try:
            await asyncio.wait_for(self.reader.read(), within_s)
        except ConnectionResetError:
            return True
        except TimeoutError:
            return False
        return self.reader.at_eof()

    def close(self) -> None:
        self.writer.close()
