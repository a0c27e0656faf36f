"""The broker's settings that the controller reads."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True, frozen=True)
class ControllerConfig:
    """The broker's settings for the controller. A setting that Kafka has too keeps Kafka's name."""

    broker_id: int
    unclean_leader_election_enable: bool = False
    delete_topic_enable: bool = True
    auto_leader_rebalance_enable: bool = True
    leader_imbalance_per_broker_percentage: int = 10
    leader_imbalance_check_interval_ms: int = 300_000
    topic_ids: bool = True
    """True if topics without an id get one: inter.broker.protocol.version >= 2.8-IV0."""
    recovery_state: bool = True
    """True if an uncleanly elected leader is in the state RECOVERING: inter.broker.protocol.version
    >= 3.2-IV0."""
