"""Dynamic configs: changes of the settings of a topic, of this broker, or of all brokers.

A change is checked as a whole, stored, and then applied: the logs, the connection limits and the
coordinator get the new values in one step of the event loop. The check includes everything that the
change affects. Therefore a stored change can't make a later start of the broker fail.
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
from broker.config.group_settings import GROUP, group_setting, group_values
from broker.config.protection import Unprotected, may_be_secret, protection_fault
from broker.topics.directory.missing import CONFIGS_FILE
from broker.topics.logs import LogManager
from broker.topics.owned_topics import keep_fixed, restore_fixed
from broker.topics.registry import Registry, StoredRegistry, Topic
from broker.topics.topic_changes import CannotChange
from protocol.errors import (
    INVALID_CONFIG,
    INVALID_REQUEST,
    INVALID_TOPIC_EXCEPTION,
    KAFKA_STORAGE_ERROR,
    REQUEST_TIMED_OUT,
    UNKNOWN_TOPIC_OR_PARTITION,
)
from protocol.topic_names import BadTopicName, check_topic_name

logger = structlog.get_logger(__name__)

TOPIC_RESOURCE = 2
BROKER_RESOURCE = 4
GROUP_RESOURCE = 32
EVERY_BROKER = ""

Rows = Callable[[str], Setting]
"""A function that returns the definition of a dynamic setting by name. Raises BadValue for any
other name."""
Current = Callable[[str], str]
"""A function that returns the current value of a setting as text, by name."""
Edit = Callable[[Mapping[str, str], Rows, Current], dict[str, str]]
"""A function that applies a requested change to a resource's own settings, and returns the new own
settings. Raises BadValue."""


class ConfigRefused(Exception):
    """Raised if a change was rejected. The settings of the resource are unchanged."""

    def __init__(self, error_code: int, message: str) -> None:
        super().__init__(message)
        self.error_code = error_code
        self.message = message


class SettingsStore(Protocol):
    """Stores the settings that topics, brokers and groups have of their own. `TopicAdmin` stores
    them in files, `ClusterConfigs` in ZooKeeper. If a method raises OSError or CannotChange, no
    setting has changed."""

    @property
    def changing(self) -> asyncio.Lock:
        """The lock that a change holds from the read of the old settings to the write of the new
        settings."""

    async def stored_topic(self, topic: Topic) -> Mapping[str, str]:
        """Returns the own settings of a topic. Raises CannotChange."""

    async def stored_broker(self, name: str) -> Mapping[str, str]:
        """Returns the own settings of this broker if ``name`` is its id, or of all brokers if
        ``name`` is "". Raises CannotChange."""

    async def alter(self, topic: Topic) -> None:
        """Stores the own settings of ``topic``, and applies them on this broker."""

    async def alter_broker(self, name: str, settings: Mapping[str, str]) -> None:
        """Stores dynamic broker settings: the settings of this broker if ``name`` is its id, or the
        settings for all brokers if ``name`` is ""."""

    async def stored_group(self, group_id: str) -> Mapping[str, str]:
        """Returns the own settings of a group. The group does not need to exist. Raises
        CannotChange."""

    async def alter_group(self, group_id: str, settings: Mapping[str, str]) -> None: ...


class Prepares(Protocol):
    """Reads the files and resolves the host names to which settings refer, before the settings are
    applied."""

    async def prepared(self, config: Config) -> Any:
        """Reads and returns the data to which ``config`` refers. Raises BadValue if the data can't
        be used."""

    def use(self, fresh: Any) -> None: ...


class ConfigChanges:
    """Changes settings, one change at a time. Only the event loop's thread may use this class."""

    def __init__(
        self,
        config: Config,
        registry: Registry,
        logs: LogManager,
        store: SettingsStore,
        apply: Callable[[], None],
        preparing: Sequence[Prepares] = (),
    ) -> None:
        """Creates the object. ``apply`` passes the current settings to the parts of the broker that
        keep copies."""
        self._preparing = preparing
        self._config = config
        self._registry = registry
        self._logs = logs
        self._store = store
        self._apply = apply

    async def change(self, kind: int, name: str, edit: Edit, validate_only: bool) -> None:
        """Changes the settings of one resource. If ``validate_only`` is True, only checks the
        change. If ConfigRefused is raised, nothing has changed."""
        async with self._store.changing:
            try:
                if kind == TOPIC_RESOURCE:
                    await self._change_topic(name, edit, validate_only)
                elif kind == BROKER_RESOURCE:
                    await self._change_broker(name, edit, validate_only)
                elif kind == GROUP_RESOURCE:
                    await self._change_group(name, edit, validate_only)
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
            configs = keep_fixed(name, configs)
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

    async def _change_group(self, group_id: str, edit: Edit, validate_only: bool) -> None:
        if not group_id:
            raise ConfigRefused(INVALID_REQUEST, "Default group resources are not allowed.")
        before = await self._store.stored_group(group_id)
        values = group_values(self._config, {})
        try:
            configs = edit(
                before,
                group_setting,
                lambda key: before.get(key) or _text(GROUP[key], values[key]),
            )
            group_values(self._config, configs)
        except BadValue as error:
            raise ConfigRefused(INVALID_CONFIG, str(error)) from None
        if not validate_only and configs != before:
            await self._store.alter_group(group_id, configs)
            self._apply()

    async def _prepared(self, changed: Config) -> list[Any]:
        """Reads the files to which ``changed`` refers; the files may have changed even if their
        settings have not."""
        return [await each.prepared(changed) for each in self._preparing]

    def _use(self, fresh: list[Any]) -> None:
        """Makes each object in `_preparing` use its data in ``fresh``, which `_prepared` returned.
        Called before `apply`."""
        for each, its_own in zip(self._preparing, fresh, strict=True):
            each.use(its_own)

    def _check_secrets(self, configs: Mapping[str, str]) -> None:
        """Raises BadValue for a password that would be stored in ZooKeeper as plain text."""
        secret = next((name for name in configs if row(name).type == PASSWORD), None)
        if secret is not None and self._config.is_in_cluster:
            raise BadValue(
                f"Cannot update {secret} dynamically: in a cluster it would be stored in"
                " ZooKeeper in plain text; use a PEM file, which needs no password"
            )

    async def reload(self, fresh: Config) -> None:
        """Applies and logs the dynamic settings of a properties file that was read again. Settings
        stored by AlterConfigs take precedence. If any value is invalid, applies nothing."""
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
        """Raises BadValue if settings that are set on a topic itself contradict the changed broker
        settings."""
        for topic in self._registry.topics.values():
            try:
                topic_settings(changed, topic.configs)
            except BadValue as error:
                raise BadValue(
                    f"the change would make the configs of topic {topic.name} invalid: {error}"
                ) from None


def wrong_broker(ours: str, name: str) -> str | None:
    """Returns an error text if ``name`` differs from ``ours``, the id of this broker; otherwise
    None."""
    if not name.isdecimal():
        return f"Broker id must be an integer, but it is: {name}"
    if name.lstrip("0").rjust(1, "0") != ours:
        return f"Unexpected broker id, expected {ours} or empty string, but received {name}"
    return None


def _text(setting: Setting, value: Any) -> str:
    return render(setting, value) or ""


def restore(config: Config, registry: StoredRegistry, directory: str) -> None:
    """Applies the stored dynamic configs at the start, before the logs are opened.

    Settings that contradict the broker's properties are logged and not applied. Raises BadConfig
    for an invalid security setting, which only another version of Muster can have stored.
    """
    restore_fixed(registry)
    stored = registry.broker_configs
    for kept in stored.values():
        protecting = protection_fault(kept)
        if protecting is not None:
            raise BadConfig(f"{directory}/{CONFIGS_FILE}: {protecting.sentence}")
    own = stored.get(str(registry.node_id), {})
    config.adopt(with_fitting(config, stored.get(EVERY_BROKER, {}), own))


def with_fitting(config: Config, default: Mapping[str, str], own: Mapping[str, str]) -> Config:
    """Returns a copy of ``config`` with the dynamic configs ``default``, which apply to all
    brokers, and ``own``, which apply to this broker. Invalid dynamic configs are logged and
    omitted."""
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
        waiting = [each for each, _ in refused]  # may be valid together with a later setting
    for (_, key, text), reason in refused:
        logger.error(
            "dynamic config ignored",
            setting=key,
            value="(hidden)" if may_be_secret(key) else text,
            reason=reason,
        )
    return fitting


def fitting_topic(config: Config, name: str, configs: Mapping[str, str]) -> dict[str, str]:
    """Returns the valid settings that are set on the topic itself. Logs each invalid setting, which
    another program may have written."""
    kept: dict[str, str] = {}
    for key, text in configs.items():
        try:
            topic_settings(config, keep_fixed(name, {**kept, key: text}))
            kept[key] = text
        except BadValue as error:
            logger.error(
                "topic config ignored",
                topic=name,
                setting=key,
                value=text,
                reason=str(error),
            )
    return keep_fixed(name, kept)


def fitting_group(config: Config, group_id: str, configs: Mapping[str, str]) -> dict[str, str]:
    """Returns a group's own settings without invalid settings, which are logged."""
    kept: dict[str, str] = {}
    for key, text in configs.items():
        try:
            group_values(config, {**kept, key: text})
            kept[key] = text
        except BadValue as error:
            logger.error(
                "group config ignored", group=group_id, setting=key, value=text, reason=str(error)
            )
    return kept
