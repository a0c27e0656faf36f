"""Creates and deletes topics of a standalone broker, and adds partitions. Only one change runs at a
time. A change is first written to disk, and then becomes visible. A thread works on the disk, so
that requests do not wait while many partitions are created."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress

import structlog

from broker.config.config import Config, topic_settings
from broker.config.protection import without_secrets
from broker.loop.internal_errors import InternalErrors
from broker.time import Time
from broker.topics.deletions import Deletions
from broker.topics.directory.disk_changes import DiskChanges
from broker.topics.logs import LeftBehind, LogManager
from broker.topics.owned_topics import OWNED, OwnedTopic
from broker.topics.registry import StoredRegistry, Topic, colliding
from broker.topics.topic_changes import (
    LEFT_TO_BROKER,
    Assignment,
    NoSuchTopic,
    TopicExists,
    check_factor,
    check_replicas,
)
from broker.topics.topic_logs import TopicLogs
from protocol.topic_names import check_topic_name

logger = structlog.get_logger(__name__)


class TopicAdmin:
    """Implements `TopicChanges` and `SettingsStore`. No other code changes the registry or creates
    and removes logs."""

    is_controller = True

    def __init__(
        self,
        config: Config,
        registry: StoredRegistry,
        logs: LogManager,
        time: Time,
        disk_changes: DiskChanges,
        deletions: Deletions,
        *,
        serve: Mapping[str, Callable[[TopicLogs], None]],
        on_deleted: Iterable[Callable[[Topic], None]],
        internal_errors: InternalErrors,
    ) -> None:
        """Creates the object.

        ``serve`` contains a function for the topic of each coordinator. The function starts the
        coordinator's shards after the topic is created. The functions ``on_deleted`` are called
        after a topic is deleted.
        """
        self._config = config
        self._registry = registry
        self._logs = logs
        self._time = time
        self._disk_changes = disk_changes
        self._deletions = deletions
        self._serve = serve
        self.on_deleted = list(on_deleted)
        self._internal_errors = internal_errors
        self._pending: dict[str, asyncio.Future[Topic]] = {}
        """The topics that are being created, by name. `ensure` waits for the future of a topic that
        another call is creating."""
        self.changing = asyncio.Lock()
        """The lock that a change holds from the read of the old state to the write of the new
        state."""

    # -- creating

    def check_new(self, name: str) -> None:
        check_topic_name(name)
        if self._registry.topic(name) or name in self._pending or name in self._deletions:
            raise TopicExists(f"Topic '{name}' already exists.")

    def collisions(self, name: str) -> list[str]:
        return colliding(name, self._registry.topics)

    def placed(self, partitions: int, factor: int) -> Assignment:
        if factor == LEFT_TO_BROKER:
            if self._config["default.replication.factor"] > 1:
                logger.info("default.replication.factor lowered to 1, the number of brokers")
        else:
            check_factor(factor, 1)
        return [(self._registry.node_id,)] * partitions

    def check_assignment(self, assignment: Assignment) -> None:
        self.check_more("", 0, assignment)

    def check_more(self, name: str, first: int, assignment: Assignment) -> None:  # noqa: ARG002
        for partition, broker_ids in enumerate(assignment, first):
            check_replicas(partition, broker_ids, (self._registry.node_id,))

    async def create(
        self,
        name: str,
        partitions: int,
        configs: Mapping[str, str],
        assignment: Assignment | None = None,  # noqa: ARG002 - all are this broker's
    ) -> Topic:
        """Implements `TopicChanges.create`. The topic is visible when this method returns. Raises
        OSError, and BadValue if the settings contradict the broker's dynamic settings."""
        self.check_new(name)
        topic = Topic(name, self._time.fresh_id(), partitions, dict(configs))
        done = asyncio.get_running_loop().create_future()
        self._pending[name] = done
        try:
            async with self.changing:
                topic_settings(self._config, configs)  # a default may have changed since the check
                entry = await self._made(topic)
                self._show(topic, entry)
        except BaseException as error:
            done.set_exception(error)
            done.exception()  # raised below; marks it as retrieved if no other call waits
            raise
        finally:
            del self._pending[name]
        done.set_result(topic)
        logger.info("topic created", topic=name, partitions=partitions)
        return topic

    async def ensure(self, name: str) -> Topic:
        topic = self._registry.topic(name)
        if topic is not None:
            return topic
        if name in OWNED:
            return await self.ensure_owned(OWNED[name])
        if name in self._pending:
            return await asyncio.shield(self._pending[name])
        return await self.create(name, self._config["num.partitions"], {})

    async def ensure_owned(self, owned: OwnedTopic) -> Topic:
        """Implements `TopicChanges.ensure_owned`. Raises BadValue, OSError."""
        name = owned.name
        topic = self._registry.topic(name)
        if topic is not None:
            return topic
        if name in self._pending:
            return await asyncio.shield(self._pending[name])
        if name in self._deletions:
            raise FileExistsError(
                errno.EEXIST, f"the directories of the deleted topic {name} still exist"
            )
        owned.log_replication(self._config)
        return await self.create(
            name, owned.partitions(self._config), owned.created_with(self._config)
        )

    async def add_partitions(
        self,
        name: str,
        total: int,
        assignment: Assignment | None = None,  # noqa: ARG002 - all are this broker's
    ) -> Topic:
        async with self.changing:
            old = self._registry.topic(name)
            if old is None:
                raise NoSuchTopic(name)
            topic = old.with_partitions(max(total, old.partitions))
            entry = await self._made(topic, old.partitions)
            self._show(topic, entry)
        logger.info("partitions added", topic=name, partitions=total)
        return topic

    async def stored_topic(self, topic: Topic) -> Mapping[str, str]:
        return topic.configs

    async def stored_broker(self, name: str) -> Mapping[str, str]:
        return self._config.dynamic_own if name else self._config.dynamic_default

    async def alter(self, topic: Topic) -> None:
        """Stores the own settings of ``topic``, which the caller has checked, and applies them. The
        caller must have acquired `changing` before it read the old settings. Raises OSError."""
        await self._disk_changes.run(self._registry.store, topic)
        self._registry.show(topic)
        self._logs.configure(topic)
        logger.info("settings changed", topic=topic.name, configs=dict(topic.configs))

    async def alter_broker(self, name: str, settings: Mapping[str, str]) -> None:
        """Stores the dynamic configs of a broker, or of all brokers if ``name`` is "". Raises
        OSError."""
        await self._disk_changes.run(self._registry.store_broker_configs, name, settings)
        shown = without_secrets(settings)
        logger.info("settings changed", broker=name or "all", configs=shown)

    async def stored_group(self, group_id: str) -> Mapping[str, str]:
        return self._registry.group_configs.get(group_id, {})

    async def alter_group(self, group_id: str, settings: Mapping[str, str]) -> None:
        await self._disk_changes.run(self._registry.store_group_configs, group_id, settings)
        logger.info("settings changed", group=group_id, configs=dict(settings))

    async def _made(self, topic: Topic, first: int = 0) -> TopicLogs:
        left = self._deletions.offsets_left(topic.name)
        try:
            return await self._disk_changes.run(self._make, topic, first, left)
        except OSError:
            self._finish_left_behind(topic)
            raise

    def _finish_left_behind(self, topic: Topic) -> None:
        deleted = self._registry.dying.get(topic.name)
        if deleted is not None and deleted.topic.topic_id == topic.topic_id:
            self._deletions.begin(topic)

    def _make(self, topic: Topic, first: int, offsets_below: Mapping[int, int]) -> TopicLogs:
        registry = self._registry
        before = registry.topic(topic.name)
        checkpoints = self._logs.checkpoints
        if topic.name in checkpoints.outdated:
            # An old checkpoint still lists the deleted topic: if the broker were killed after the
            # next line, the next start would report logs of the new topic as missing.
            checkpoints.forget(topic.name)
        registry.store(topic, offsets_below if before is None else None)
        try:
            return self._logs.make(topic, range(first, topic.partitions))
        except OSError as error:
            # Such as a full disk, or too many open files: no part of the topic may remain.
            if isinstance(error, LeftBehind) and before is None:
                with suppress(OSError):
                    registry.mark_deleted(topic.name)
            else:
                with suppress(OSError):
                    registry.take_back(topic.name, before)
            raise

    def _show(self, topic: Topic, entry: TopicLogs) -> None:
        self._logs.show(entry)
        self._registry.show(topic)
        if topic.name in self._serve:
            self._serve[topic.name](entry)

    # -- deleting

    async def led(self, topics: Mapping[str, int], timeout_ms: int) -> Collection[str]:  # noqa: ARG002
        """Implements `TopicChanges.led`. Returns no topics, because a standalone broker leads each
        topic as soon as it is created."""
        return ()

    async def gone(self, names: Collection[str], timeout_ms: int) -> Collection[str]:  # noqa: ARG002
        """Implements `TopicChanges.gone`. Waits for nothing, because a topic is already deleted
        when `delete` returns."""
        return ()

    async def delete(self, name: str) -> Topic:
        """Deletes a topic. Its files are removed after ``file.delete.delay.ms``; a failed removal
        is retried.

        First the topic is marked as deleted on disk. While the mark is being written, the topic
        still accepts records and commits. Raises NoSuchTopic. Raises OSError if the mark could not
        be written; the topic is then unchanged.
        """
        registry = self._registry
        async with self.changing:
            topic = registry.topic(name)
            if topic is None:
                raise NoSuchTopic(name)
            await self._disk_changes.run(registry.mark_deleted, name)
            registry.hide(name)
            entry = self._logs.topics.pop(name)  # from here on the topic accepts no appends
            delay_ms = entry.settings["file.delete.delay.ms"]
            deleted = self._deletions.add(topic, entry.partitions, delay_ms)
        for forget in self.on_deleted:
            try:
                forget(topic)
            except Exception as error:  # noqa: BLE001 - `caught` counts and logs it
                self._internal_errors.caught("topic_gone", error, topic=topic.name)
        await self._deletions.finish(deleted)
        logger.info("topic deleted", topic=name, files_deleted_in_ms=delay_ms)
        return topic
