"""Changes of settings while the broker runs: of topics, of this broker, of every broker.

A change is checked as a whole, stored, and then holds at once: the logs, the limits of connections
and the coordinator get their new values in one step of the event loop. It is checked against
everything that it affects before it is stored, so that no start can fail because of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import structlog

from broker.config.config import BadConfig, Config, row, topic_settings
from broker.config.config_table import BROKER, PASSWORD, TOPIC, Setting
from broker.config.config_value import BadValue, render
from broker.config.dynamic_settings import (
    RELOADED,
    NotAList,
    broker_setting,
    check_dynamic,
    is_dynamic,
    topic_setting,
)
from broker.config.protection import Unprotected, may_be_secret, protection_fault
from broker.topics.directory.missing import CONFIGS_FILE
from broker.topics.logs import LogManager
from broker.topics.owned_topics import keep_compact, mend_policies
from broker.topics.registry import (
    BadTopicName,
    Registry,
    StoredRegistry,
    Topic,
    check_topic_name,
)
from broker.topics.topic_changes import CannotChange
from protocol.errors import (
    INVALID_CONFIG,
    INVALID_REQUEST,
    INVALID_TOPIC_EXCEPTION,
    KAFKA_STORAGE_ERROR,
    REQUEST_TIMED_OUT,
    UNKNOWN_TOPIC_OR_PARTITION,
)

logger = structlog.get_logger(__name__)

TOPIC_RESOURCE = 2
BROKER_RESOURCE = 4
EVERY_BROKER = ""

Rows = Callable[[str], Setting]
"""The row of a setting that may be changed, by name; BadValue for others."""
Current = Callable[[str], str]
"""The text of the value that now holds, by name."""
Edit = Callable[[Mapping[str, str], Rows, Current], dict[str, str]]
"""Returns a resource's own settings after the change; raises BadValue."""


class ConfigRefused(Exception):
    """The settings of one resource stay as they are."""

    def __init__(self, error_code: int, message: str) -> None:
        super().__init__(message)
        self.error_code = error_code
        self.message = message


class SettingsStore(Protocol):
    """Stores own settings: `TopicAdmin` in files, `ClusterConfigs` in ZooKeeper's nodes.

    After OSError or CannotChange nothing has changed.
    """

    @property
    def changing(self) -> asyncio.Lock:
        """Held during a change, from the read of the old settings to the write of the new ones."""

    async def stored_topic(self, topic: Topic) -> Mapping[str, str]:
        """A topic's own settings as they are now. Raises CannotChange."""

    async def stored_broker(self, name: str) -> Mapping[str, str]:
        """The settings of this broker, by its id, or ("") of all brokers. Raises CannotChange."""

    async def alter(self, topic: Topic) -> None:
        """Gives a topic the settings of ``topic``; they hold here at once."""

    async def alter_broker(self, name: str, settings: Mapping[str, str]) -> None:
        """Keeps settings of this broker or ("") of every one."""


class Prepares(Protocol):
    """Reads data before settings take effect: certificates, addresses of hosts."""

    async def prepared(self, config: Config) -> Any:
        """The data that changes by these settings. Raises BadValue if it can't be used."""

    def use(self, fresh: Any) -> None:
        """Applies the prepared data."""


class ConfigChanges:
    """Changes settings, one change at a time; use from the event loop's thread alone."""

    def __init__(
        self,
        config: Config,
        registry: Registry,
        logs: LogManager,
        store: SettingsStore,
        apply: Callable[[], None],
        preparing: Sequence[Prepares] = (),
    ) -> None:
        """``apply`` gives those who keep copies of settings the ones that hold now."""
        self._preparing = preparing
        self._config = config
        self._registry = registry
        self._logs = logs
        self._store = store
        self._apply = apply

    async def change(self, kind: int, name: str, edit: Edit, validate_only: bool) -> None:
        """Changes the own settings of one resource, or only says whether it could be done.

        Raises ConfigRefused, with nothing changed.
        """
        async with self._store.changing:
            try:
                if kind == TOPIC_RESOURCE:
                    await self._change_topic(name, edit, validate_only)
                elif kind == BROKER_RESOURCE:
                    await self._change_broker(name, edit, validate_only)
                else:
                    raise ConfigRefused(
                        INVALID_REQUEST, f"Resources of type {kind} have no configs on this broker."
                    )
            except CannotChange as error:
                raise ConfigRefused(REQUEST_TIMED_OUT, str(error)) from None
            except OSError as error:
                logger.error("configs can't be stored", resource=name, error=str(error))
                raise ConfigRefused(
                    KAFKA_STORAGE_ERROR, f"The disk reports: {error.strerror}."
                ) from None

    async def _change_topic(self, name: str, edit: Edit, validate_only: bool) -> None:
        if not name:
            raise ConfigRefused(INVALID_REQUEST, "Default topic resources are not allowed.")
        try:
            check_topic_name(name)
        except BadTopicName as error:
            raise ConfigRefused(INVALID_TOPIC_EXCEPTION, str(error)) from None
        topic = self._registry.topic(name)
        if topic is None:
            raise ConfigRefused(UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist.")
        before = await self._store.stored_topic(topic)
        try:
            values = topic_settings(self._config, before)
            configs = edit(before, topic_setting, lambda key: _text(TOPIC[key], values[key]))
            configs = keep_compact(name, configs)
            topic_settings(self._config, configs)
        except BadValue as error:
            raise ConfigRefused(INVALID_CONFIG, str(error)) from None
        if not validate_only and configs != before:
            await self._store.alter(topic.with_configs(configs))
            self._apply()

    async def _change_broker(self, name: str, edit: Edit, validate_only: bool) -> None:
        ours = str(self._registry.node_id)
        problem = wrong_broker(ours, name) if name != EVERY_BROKER else None
        if problem:
            raise ConfigRefused(INVALID_REQUEST, problem)
        config = self._config
        default, own = config.dynamic_default, config.dynamic_own
        before = await self._store.stored_broker(name and ours)
        if name == EVERY_BROKER:
            default = before
        else:
            own = before
        try:
            configs = edit(before, broker_setting, lambda key: _text(row(key), config[key]))
            check_dynamic(configs, of_every_broker=name == EVERY_BROKER)
            self._check_secrets(configs)
            if name == EVERY_BROKER:
                changed = config.with_dynamic(configs, own)
            else:
                changed = config.with_dynamic(default, configs)
            self._check_topics(changed)
            fresh = await self._prepared(changed)
        except (NotAList, Unprotected) as error:
            raise ConfigRefused(INVALID_CONFIG, str(error)) from None
        except ValueError as error:
            raise ConfigRefused(INVALID_REQUEST, str(error)) from None
        if validate_only:
            return
        if configs != before:
            await self._store.alter_broker(name and ours, configs)
            self._use(fresh)
            self._take(changed)
        else:
            self._use(fresh)

    async def _prepared(self, changed: Config) -> list[Any]:
        """The prepared data of a change, or of files that have changed on the disk."""
        return [await each.prepared(changed) for each in self._preparing]

    def _use(self, fresh: list[Any]) -> None:
        """Before who keeps copies of settings gets the new ones."""
        for each, its_own in zip(self._preparing, fresh, strict=True):
            each.use(its_own)

    def _check_secrets(self, configs: Mapping[str, str]) -> None:
        """Raises BadValue for a password that would be readable in ZooKeeper."""
        secret = next((name for name in configs if row(name).type == PASSWORD), None)
        if secret is not None and self._config.is_in_cluster:
            raise BadValue(
                f"Cannot update {secret} dynamically: in a cluster it would be stored in"
                " ZooKeeper in plain text; use a PEM file, which needs no password"
            )

    async def reload(self, fresh: Config) -> None:
        """Applies the dynamic settings of properties that were read again, and logs them.

        Settings changed by AlterConfigs take precedence. Nothing is applied if the whole is not
        valid.
        """
        config = self._config
        names = {*BROKER, *config.given, *fresh.given}
        differ = sorted(name for name in names if fresh.static(name) != config.static(name))
        taken = [name for name in differ if is_dynamic(name) or name in RELOADED]
        waiting = [name for name in differ if name not in taken and row(name).has_effect]
        async with self._store.changing:
            try:
                changed = config.with_static(fresh, taken)
                self._check_topics(changed)
                prepared = await self._prepared(changed)
            except ValueError as error:
                logger.error("configs not reloaded", reason=str(error))
                return
            self._use(prepared)
            self._take(changed)
        values = {name: _text(row(name), config[name]) for name in taken}
        logger.info("configs reloaded", changed=values, wait_for_a_restart=waiting)

    def _take(self, changed: Config) -> None:
        self._config.adopt(changed)
        for entry in [*self._logs.topics.values()]:
            self._logs.configure(entry.topic)
        self._apply()

    def _check_topics(self, changed: Config) -> None:
        """No topic's own settings may contradict its new defaults."""
        for topic in self._registry.topics.values():
            try:
                topic_settings(changed, topic.configs)
            except BadValue as error:
                raise BadValue(
                    f"the configs of topic {topic.name} would not be valid any more: {error}"
                ) from None


def wrong_broker(ours: str, name: str) -> str | None:
    """Why ``name`` is not the id ``ours``; None when it is."""
    if not name.isdecimal():
        return f"Broker id must be an integer, but it is: {name}"
    if name.lstrip("0").rjust(1, "0") != ours:
        return f"Unexpected broker id, expected {ours} or empty string, but received {name}"
    return None


def _text(setting: Setting, value: Any) -> str:
    return render(setting, value) or ""


def restore(config: Config, registry: StoredRegistry, directory: str) -> None:
    """Applies the settings that were changed at run time before this start; before the logs open.

    Settings that no longer fit the broker's properties are left out, with a log line: only another
    change can fix them. Raises BadConfig for an invalid protecting setting, which only another
    version of Muster can have stored.
    """
    mend_policies(registry)
    stored = registry.broker_configs
    for kept in stored.values():
        protecting = protection_fault(kept)
        if protecting is not None:
            raise BadConfig(f"{directory}/{CONFIGS_FILE}: {protecting.sentence}")
    own = stored.get(str(registry.node_id), {})
    config.adopt(with_fitting(config, stored.get(EVERY_BROKER, {}), own))


def with_fitting(config: Config, default: Mapping[str, str], own: Mapping[str, str]) -> Config:
    """A copy with what fits of settings of run time, for every broker and for this one.

    A line says what is left out.
    """
    fitting = config.with_dynamic({}, {})
    kept: tuple[dict[str, str], dict[str, str]] = ({}, {})
    waiting = [
        (layer, key, text)
        for layer, texts in zip(kept, (default, own), strict=True)
        for key, text in texts.items()
    ]
    while True:
        refused = []
        for layer, key, text in waiting:
            layer[key] = text
            try:
                check_dynamic({key: text}, of_every_broker=layer is kept[0])
                fitting = config.with_dynamic(*kept)
            except ValueError as error:
                del layer[key]
                refused.append(((layer, key, text), str(error)))
        if len(refused) == len(waiting):
            break
        waiting = [each for each, _ in refused]  # one may fit together with another that follows it
    for (_, key, text), reason in refused:
        logger.error(
            "dynamic config ignored",
            setting=key,
            value="(hidden)" if may_be_secret(key) else text,
            reason=reason,
        )
    return fitting


def fitting_topic(config: Config, name: str, configs: Mapping[str, str]) -> dict[str, str]:
    """The valid ones of a topic's own settings, which another program may have written.

    Invalid ones are logged.
    """
    kept: dict[str, str] = {}
    for key, text in configs.items():
        try:
            topic_settings(config, keep_compact(name, {**kept, key: text}))
            kept[key] = text
        except BadValue as error:
            logger.error(
                "topic config ignored",
                topic=name,
                setting=key,
                value=text,
                reason=str(error),
            )
    return keep_compact(name, kept)
