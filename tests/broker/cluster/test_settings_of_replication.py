"""Tests that each setting for replication and for the controller is applied."""

from __future__ import annotations

from typing import Any

import pytest

from broker.cluster.membership.settings import controller_config
from broker.cluster.peers.inter_broker import parse
from broker.cluster.replicas.replication_settings import replication_settings
from broker.config.config import Config
from broker.config.config_table import BROKER

SPOKEN = parse("3.9")


@pytest.mark.parametrize(
    ("setting", "text", "field", "value"),
    [
        ("num.replica.fetchers", "7", "fetchers", 7),
        ("replica.fetch.wait.max.ms", "77", "wait_max_ms", 77),
        ("replica.fetch.min.bytes", "77", "min_bytes", 77),
        ("replica.fetch.response.max.bytes", "77777", "max_bytes", 77777),
        ("replica.fetch.max.bytes", "77777", "partition_max_bytes", 77777),
        ("replica.fetch.backoff.ms", "77", "backoff_ms", 77),
        ("replica.socket.timeout.ms", "77777", "socket_timeout_ms", 77777),
        ("request.timeout.ms", "77777", "request_timeout_ms", 77777),
        ("replica.lag.time.max.ms", "77777", "lag_time_max_ms", 77777),
        ("replica.high.watermark.checkpoint.interval.ms", "77", "checkpoint_ms", 77),
    ],
)
def test_configured_replication_setting_is_applied(
    setting: str, text: str, field: str, value: int
) -> None:
    def of(given: dict[str, str]) -> Any:
        return getattr(replication_settings(Config(given), 1, SPOKEN, "PLAINTEXT"), field)

    assert of({}) == BROKER[setting].default != value
    assert of({setting: text}) == value
    assert BROKER[setting].has_effect


@pytest.mark.parametrize(
    ("setting", "text", "field", "value"),
    [
        ("auto.leader.rebalance.enable", "false", "auto_leader_rebalance_enable", False),
        (
            "leader.imbalance.per.broker.percentage",
            "77",
            "leader_imbalance_per_broker_percentage",
            77,
        ),
        (
            "leader.imbalance.check.interval.seconds",
            "77",
            "leader_imbalance_check_interval_ms",
            77_000,
        ),
        ("unclean.leader.election.enable", "true", "unclean_leader_election_enable", True),
        ("delete.topic.enable", "false", "delete_topic_enable", False),
    ],
)
def test_configured_controller_setting_is_applied(
    setting: str, text: str, field: str, value: object
) -> None:
    def of(given: dict[str, str]) -> Any:
        return getattr(controller_config(Config(given), SPOKEN, 1), field)

    assert of({}) != value
    assert of({setting: text}) == value
    assert BROKER[setting].has_effect
