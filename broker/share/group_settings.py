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
"""The maximum number of groups whose settings are kept."""


@slotted(frozen=True)
class DeliverySettings:
    """The settings of one group: its own values, otherwise those of the broker."""

    limits: ShareSettings = ShareSettings()
    auto_offset_reset: str = "latest"
    """share.auto.offset.reset: ``latest``, ``earliest`` or ``by_duration:PT1H``."""
    read_committed: bool = False
    """share.isolation.level: members get only records of committed transactions."""
    may_renew: bool = True
    """share.renew.acknowledge.enable: members may renew their acquisition locks."""


def delivery_settings(config: Config, own: Mapping[str, str]) -> DeliverySettings:
    """Returns the settings in effect for a group that has the settings ``own``, as text."""
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
    """The settings of each group, which are computed again when settings have changed."""

    def __init__(
        self, config: Config, group_configs: Callable[[], Mapping[str, Mapping[str, str]]]
    ) -> None:
        """``group_configs`` returns the own settings of all groups: another object after each
        change."""
        self._config = config
        self._group_configs = group_configs
        self._made_from: tuple[object, object] = None, None
        """The objects that changes replace: the broker's settings that were changed at run time,
        and the own settings of all groups."""
        self._found: dict[str, DeliverySettings] = {}

    def of(self, group_id: str) -> DeliverySettings:
        """Returns the settings in effect for a group."""
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
