"""The broker keeps for each share group the settings with which it delivers records."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from broker.config.config import Config
from broker.share import group_settings
from broker.share.group_settings import DeliverySettingsOfGroups

LOCK_MS = "share.record.lock.duration.ms"


def test_changed_group_settings_apply_to_record_delivery() -> None:
    config = Config({})
    configs: Mapping[str, Mapping[str, str]] = {}
    settings = DeliverySettingsOfGroups(config, lambda: configs)
    first = settings.of("g")
    assert first.limits.lock_duration_ms == 30_000
    assert settings.of("g") is first

    configs = {"g": {LOCK_MS: "20000"}}
    assert settings.of("g").limits.lock_duration_ms == 20_000
    assert settings.of("h").limits.lock_duration_ms == 30_000

    config.adopt(config.with_dynamic({"group.share.record.lock.duration.ms": "25000"}, {}))
    assert settings.of("g").limits.lock_duration_ms == 20_000
    assert settings.of("h").limits.lock_duration_ms == 25_000


def test_number_of_share_groups_with_stored_delivery_settings_is_bounded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made: list[Mapping[str, str]] = []
    original = group_settings.delivery_settings

    def counted(config: Config, own: Mapping[str, str]) -> group_settings.DeliverySettings:
        made.append(own)
        return original(config, own)

    monkeypatch.setattr(group_settings, "_KEPT", 2)
    monkeypatch.setattr(group_settings, "delivery_settings", counted)
    no_configs: Mapping[str, Mapping[str, str]] = {}
    settings = DeliverySettingsOfGroups(Config({}), lambda: no_configs)
    for name in ("a", "b", "a", "c", "c", "a"):
        settings.of(name)
    assert len(made) == 4
