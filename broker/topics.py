"""Changes of topics: creating, deleting, growing; one at a time, first on disk, then visible.

The disk work runs in a thread, so that nobody waits while a thousand partitions are made. The
offsets topic alone is made in the caller's own thread, once in the life of a data directory, since
a group's first FindCoordinator wants it at once.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from threading import Lock
from typing import TYPE_CHECKING

import structlog

from broker.config import topic_settings
from broker.logs import TopicLogs
from broker.offsets_topic import offsets_topic_configs
from broker.registry import Topic, check_topic_name, colliding
from broker.runtime import OFFSETS_TOPIC

if TYPE_CHECKING:
    from broker.broker import Broker

logger = structlog.get_logger(__name__)

PARTITIONS_MAX = 10_000
"""Partitions of one topic, and of all topics of one request, as in Kafka; each is a directory."""
PRODUCER_ID_BLOCK = 1000
"""Producer ids written down at once, as Kafka's controller does."""


class TopicExists(Exception):
    """The topic is there already, or is being made."""


class NoSuchTopic(Exception):
    """The topic is not there, or is being deleted."""


class TopicAdmin:
    """The one who changes registry and logs together."""

    def __init__(self, broker: Broker, new_id: Callable[[], bytes]) -> None:
        self.broker = broker
        self._new_id = new_id
        self._pending: dict[str, asyncio.Future[Topic]] = {}
        """Topics that are being made, for those who want the same one."""
        self._disk = Lock()
        """Held while registry file and directories change."""
        self.changing = asyncio.Lock()
        """Held by whoever changes or deletes what is there: what they read is what they replace."""
        self._dying: set[str] = set()
        self._producer_ids = iter(range(0))
        self._producer_ids_lock = asyncio.Lock()

    # -- creating

    def check_new(self, name: str) -> None:
        """Raises BadTopicName or TopicExists where ``name`` cannot be created."""
        check_topic_name(name)
        if self.broker.registry.topic(name) or name in self._pending or name in self._dying:
            raise TopicExists(f"Topic '{name}' already exists.")

    def collisions(self, name: str) -> list[str]:
        """Topics whose names metrics would mix up with ``name``."""
        return colliding(name, self.broker.registry.topics)

    async def create(self, name: str, partitions: int, configs: Mapping[str, str]) -> Topic:
        """Makes a topic whose name and settings have been checked; visible when this returns.

        Raises BadValue when the settings no longer go with the broker's, and OSError.
        """
        self.check_new(name)
        topic = Topic(name, self._new_id(), partitions, dict(configs))
        done = asyncio.get_running_loop().create_future()
        self._pending[name] = done
        try:
            async with self.changing:
                topic_settings(self.broker.config, configs)  # a default may have changed since
                entry = await asyncio.to_thread(self._make, topic)
                self._show(topic, entry)
        except BaseException as error:
            done.set_exception(error)
            done.exception()  # it is told here; nobody else may be waiting
            raise
        finally:
            del self._pending[name]
        done.set_result(topic)
        logger.info("topic created", topic=name, partitions=partitions)
        return topic

    async def ensure(self, name: str) -> Topic:
        """The topic, made with the broker's defaults if it is not there. Raises BadTopicName."""
        topic = self.broker.registry.topic(name)
        if topic is not None:
            return topic
        if name == OFFSETS_TOPIC:
            return self.ensure_offsets_topic()
        if name in self._pending:
            return await asyncio.shield(self._pending[name])
        return await self.create(name, self.broker.config["num.partitions"], {})

    def ensure_offsets_topic(self) -> Topic:
        """``__consumer_offsets``, made in this thread if it is not there. Raises OSError."""
        topic = self.broker.registry.topic(OFFSETS_TOPIC)
        if topic is not None:
            return topic
        config = self.broker.config
        if config["offsets.topic.replication.factor"] > 1:
            logger.info(
                "offsets.topic.replication.factor is lowered to 1, the number of brokers",
                wanted=config["offsets.topic.replication.factor"],
            )
        topic = Topic(
            OFFSETS_TOPIC,
            self._new_id(),
            config["offsets.topic.num.partitions"],
            offsets_topic_configs(config["offsets.topic.segment.bytes"]),
        )
        entry = self._make(topic)
        self._show(topic, entry)
        self.broker.settings_changed()
        self.broker.runtime.start(entry.logs, topic.topic_id)
        logger.info("topic created", topic=topic.name, partitions=topic.partitions)
        return topic

    async def add_partitions(self, name: str, total: int) -> Topic:
        """Grows a topic to ``total`` partitions, which has been checked. Raises NoSuchTopic."""
        async with self.changing:
            old = self.broker.registry.topic(name)
            if old is None:
                raise NoSuchTopic(name)
            topic = old.with_partitions(max(total, old.partitions))
            entry = await asyncio.to_thread(self._make, topic, old.partitions)
            self._show(topic, entry)
        logger.info("partitions added", topic=name, partitions=total)
        return topic

    async def alter(self, topic: Topic) -> None:
        """Gives a topic the settings of ``topic``, which were checked; they hold at once.

        The caller holds `changing` since it read the old ones. Raises OSError.
        """
        await asyncio.to_thread(self._store, topic)
        self.broker.registry.show(topic)
        self.broker.logs.configure(topic)
        logger.info("settings changed", topic=topic.name, configs=dict(topic.configs))

    def _store(self, topic: Topic) -> None:
        with self._disk:
            self.broker.registry.store(topic)

    async def alter_broker(self, name: str, configs: Mapping[str, str]) -> None:
        """Keeps what was changed at run time of broker ``name`` ("": of every one). OSError."""
        await asyncio.to_thread(self.broker.registry.store_broker_configs, name, configs)
        logger.info("settings changed", broker=name or "every one", configs=dict(configs))

    def _make(self, topic: Topic, first: int = 0) -> TopicLogs:
        registry, logs = self.broker.registry, self.broker.logs
        with self._disk:
            before = registry.topic(topic.name)
            registry.store(topic)
            try:
                return logs.make(topic, first)
            except OSError:
                # A disk that is full, or too many files: nothing of the topic may stay behind.
                with suppress(OSError):
                    logs.unmake(topic, first)
                with suppress(OSError):
                    registry.forget(topic.name) if before is None else registry.store(before)
                raise

    def _show(self, topic: Topic, entry: TopicLogs) -> None:
        self.broker.logs.show(entry)
        self.broker.registry.show(topic)

    # -- deleting

    async def delete(self, name: str) -> Topic:
        """Deletes a topic; its files go after ``file.delete.delay.ms``. Raises NoSuchTopic.

        Once it is marked the name is free only when nothing of it is left in the registry.
        """
        registry = self.broker.registry
        async with self.changing:
            topic = registry.topic(name)
            if topic is None:
                raise NoSuchTopic(name)
            registry.hide(name)
            entry = self.broker.logs.topics.pop(name)  # nobody appends to it from here on
            self._dying.add(name)
            try:
                directories = await asyncio.to_thread(self._retire, topic, entry)
            finally:
                self._dying.discard(name)
        self.broker.topic_is_gone(topic)
        delay_ms = entry.settings["file.delete.delay.ms"]
        self.broker.after(delay_ms, lambda: self.broker.logs.remove(directories))
        logger.info("topic deleted", topic=name, files_go_in_ms=delay_ms)
        return topic

    def _retire(self, topic: Topic, entry: TopicLogs) -> list[str]:
        with self._disk:
            self.broker.registry.mark_deleted(topic.name)
            directories = self.broker.logs.retire(topic, entry.logs, os.urandom(16).hex())
            self.broker.registry.forget(topic.name)
            return directories

    # -- producer ids

    async def new_producer_id(self) -> int:
        """A producer id that nobody had before, restarts included."""
        async with self._producer_ids_lock:
            fresh = next(self._producer_ids, None)
            if fresh is None:
                self._producer_ids = iter(await asyncio.to_thread(self._reserve))
                fresh = next(self._producer_ids)
        return fresh

    def _reserve(self) -> range:
        with self._disk:
            return self.broker.registry.reserve_producer_ids(PRODUCER_ID_BLOCK)
