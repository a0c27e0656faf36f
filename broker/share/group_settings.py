"""The settings with which this broker delivers the records of a share group."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from broker.config.config import Config
from broker.config.group_settings import (
    AUTO_OFFSET_RESET,
    ISOLATION_LEVEL,
    RENEW_ACKNOWLEDGE,
    values_in_effect,
)
from protocol.slotted import slotted
from share.partition.settings import ShareSettings

_KEPT: Final = 1000
"""The maximum number of groups whose settings are cached."""


@slotted(frozen=True)
class DeliverySettings:
    """The settings with which records are delivered to one group. A setting of the group overrides
    the broker's setting."""

    limits: ShareSettings = ShareSettings()
    auto_offset_reset: str = "latest"
    """share.auto.offset.reset: ``latest``, ``earliest`` or ``by_duration:PT1H``."""
    read_committed: bool = False
    """share.isolation.level: members get only records of committed transactions."""
    may_renew: bool = True
    """share.renew.acknowledge.enable: members may renew their acquisition locks."""


def delivery_settings(config: Config, own: Mapping[str, str]) -> DeliverySettings:
    """Returns the effective settings of a group. ``own`` contains the group's own settings as
    text."""
    values = values_in_effect(config, own)
    return DeliverySettings(
        ShareSettings(
            values["share.record.lock.duration.ms"],
            values["share.delivery.count.limit"],
            values["share.partition.max.record.locks"],
        ),
        values[AUTO_OFFSET_RESET],
        values[ISOLATION_LEVEL] == "read_committed",
        values[RENEW_ACKNOWLEDGE],
    )


class DeliverySettingsOfGroups:
    """The cached effective settings of each group. They are computed again after settings have
    changed."""

    def __init__(
        self, config: Config, group_configs: Callable[[], Mapping[str, Mapping[str, str]]]
    ) -> None:
        """``group_configs`` returns the own settings of all groups, as a new object after each
        change."""
        self._config = config
        self._group_configs = group_configs
        self._made_from: tuple[object, object] = None, None
        """The objects from which the cache was computed: the broker's dynamic settings and the
        groups' own settings. A change of settings replaces one of these objects by a new object.
        The cache is outdated if either object has been replaced."""
        self._found: dict[str, DeliverySettings] = {}

    def of(self, group_id: str) -> DeliverySettings:
        changed, configs = self._config.dynamic_own, self._group_configs()
        changed_before, configs_before = self._made_from
        if changed is not changed_before or configs is not configs_before:
            self._made_from = changed, configs
            self._found = {}
        found = self._found.get(group_id)
        if found is None:
            if len(self._found) >= _KEPT:
                self._found = {}
            own = configs.get(group_id, {})
            found = self._found[group_id] = delivery_settings(self._config, own)
        return found
