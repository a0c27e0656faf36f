"""Reads the cluster settings from a broker's properties, and rejects unsupported values."""

from __future__ import annotations

from dataclasses import dataclass, field

from broker.cluster.controller.channels import ChannelSettings
from broker.cluster.membership.feature_levels import supported_features
from broker.cluster.peers.inter_broker import BadVersionText, InterBroker, parse
from broker.cluster.peers.peer import Connect, connect
from broker.cluster.zookeeper.zookeeper import Where
from broker.config.config import BadConfig, Config
from broker.config.listeners import Endpoint
from broker.topics.feature_updates import SupportedLevels
from controller.config import ControllerConfig
from log.config import format_magic
from protocol.records.batch import MAGIC

_TOPIC_IDS = (2, 8, 0, 0)
_RECOVERY_STATE = (3, 2, 0, 0)


@dataclass(frozen=True, slots=True)
class ClusterSettings:
    """The cluster settings, which are read once when the broker starts."""

    zookeeper: Where
    spoken: InterBroker
    """The inter-broker protocol version."""
    listener: str
    """The name of the inter-broker listener."""
    connect: Connect
    """The function that connects to the inter-broker listener of another broker."""
    configured_id: int | None
    generates_ids: bool
    reserved_id_max: int
    features: SupportedLevels = field(default_factory=dict)
    """The feature levels that this broker supports."""


def cluster_settings(config: Config, connect: Connect = connect) -> ClusterSettings:
    """Returns the settings of a broker that joins a cluster. Raises BadConfig.

    ``connect`` is the function that connects to the inter-broker listener of another broker.
    """
    if config["zookeeper.metadata.migration.enable"]:
        raise BadConfig(
            "zookeeper.metadata.migration.enable=true: Muster does not migrate to KRaft"
        )
    try:
        spoken = parse(config["inter.broker.protocol.version"])
    except BadVersionText as error:
        raise BadConfig(f"inter.broker.protocol.version: {error}") from None
    stored = config["log.message.format.version"]
    if not spoken.has_magic_2 and format_magic(stored) == MAGIC:
        raise BadConfig(
            f"log.message.format.version={stored} with"
            f" inter.broker.protocol.version={config['inter.broker.protocol.version']}:"
            " brokers of that version can't read this format; set log.message.format.version"
            " to the same version"
        )
    listener = inter_broker_listener(config).name
    session_ms = config["zookeeper.session.timeout.ms"]
    return ClusterSettings(
        Where(
            config["zookeeper.connect"].strip(),
            session_ms,
            config["zookeeper.connection.timeout.ms"] or session_ms,
            config["zookeeper.max.in.flight.requests"],
        ),
        spoken,
        listener,
        connect,
        config.configured_id,
        config["broker.id.generation.enable"],
        config["reserved.broker.max.id"],
        supported_features(config, spoken),
    )


def inter_broker_listener(config: Config) -> Endpoint:
    """Returns the inter-broker listener. Raises BadConfig."""
    listeners = {each.name: each for each in config.listeners}
    wanted = config.inter_broker_listener
    if wanted not in listeners:
        raise BadConfig(
            f"the inter-broker listener {wanted} is not in listeners ({', '.join(listeners)}):"
            " set inter.broker.listener.name to one of them"
        )
    return listeners[wanted]


def channel_settings(config: Config, settings: ClusterSettings, node_id: int) -> ChannelSettings:
    """Returns the settings of the controller's connections to brokers."""
    return ChannelSettings(
        node_id,
        settings.spoken,
        settings.listener,
        config["controller.socket.timeout.ms"],
        config["request.timeout.ms"],
        settings.connect,
    )


def controller_config(config: Config, spoken: InterBroker, node_id: int) -> ControllerConfig:
    return ControllerConfig(
        broker_id=node_id,
        unclean_leader_election_enable=config["unclean.leader.election.enable"],
        delete_topic_enable=config["delete.topic.enable"],
        auto_leader_rebalance_enable=config["auto.leader.rebalance.enable"],
        leader_imbalance_per_broker_percentage=config["leader.imbalance.per.broker.percentage"],
        leader_imbalance_check_interval_ms=1000 * config["leader.imbalance.check.interval.seconds"],
        topic_ids=spoken.release >= _TOPIC_IDS,
        recovery_state=spoken.release >= _RECOVERY_STATE,
    )
