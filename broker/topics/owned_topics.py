"""The topics that coordinators own: their settings at creation, and the settings that must not
change.

Every committed offset is a record of ``__consumer_offsets``, and every transaction is a record of
``__transaction_state``. Retention that deletes old segments would delete live state: the
coordinator would return the state from memory until the next start, and then lose it. The
``cleanup.policy`` of these topics is therefore always ``compact``, whatever the source of the
settings. Clients can't delete these topics or add partitions, since the partition count determines
the partition of each key.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

import structlog

from broker.config.config import Config
from broker.config.config_value import BadValue
from broker.topics.registry import OFFSETS_TOPIC, TRANSACTION_TOPIC, StoredRegistry
from protocol.slotted import slotted

logger = structlog.get_logger(__name__)

POLICY = "cleanup.policy"
_COMPACT = "compact"
_REPLICAS = 1
"""The number of replicas that a standalone broker can have."""


@slotted(frozen=True)
class OwnedTopic:
    """An internal topic that a coordinator owns."""

    name: str
    owner: str
    keeps: str
    """The name for the contents of the topic's records in messages, a noun."""
    keys: str
    """The name in messages for the keys that determine the partition of a record, a noun."""
    partitions_setting: str
    replication_setting: str
    segment_setting: str
    """The name of the broker setting for the topic's segment size."""
    min_isr_setting: str | None = None
    configs: Mapping[str, str] = field(default_factory=dict)
    """The further settings that the topic gets at creation, as in Kafka."""

    def created_with(self, config: Config, replicas: int = _REPLICAS) -> dict[str, str]:
        """Returns the settings that the topic gets at creation with this number of replicas, as in
        Kafka."""
        configs = {
            POLICY: _COMPACT,
            **self.configs,
            "segment.bytes": str(config[self.segment_setting]),
        }
        if self.min_isr_setting is not None:
            configs["min.insync.replicas"] = str(min(config[self.min_isr_setting], replicas))
        return configs

    def partitions(self, config: Config) -> int:
        """Returns the number of partitions with which the topic is created."""
        count: int = config[self.partitions_setting]
        return count

    def log_replication(self, config: Config) -> None:
        """Logs a line if the topic gets fewer replicas than configured."""
        name = self.replication_setting
        if config[name] > _REPLICAS:
            logger.info(
                f"{name} lowered to {_REPLICAS}, the number of brokers", wanted=config[name]
            )

    def warn_about_partitions(self, config: Config, there: int) -> None:
        """Logs a warning if the configured partition count is not ``there``, the count that the
        topic has."""
        name = self.partitions_setting
        if config.is_given(name) and config[name] != there:
            logger.warning(
                f"{name} ignored: {self.name} already exists",
                wanted=config[name],
                partitions=there,
            )


OWNED: Mapping[str, OwnedTopic] = {
    topic.name: topic
    for topic in (
        OwnedTopic(
            name=OFFSETS_TOPIC,
            owner="the group coordinator",
            keeps="committed offsets",
            keys="groups",
            partitions_setting="offsets.topic.num.partitions",
            replication_setting="offsets.topic.replication.factor",
            segment_setting="offsets.topic.segment.bytes",
            configs={"compression.type": "producer"},
        ),
        OwnedTopic(
            name=TRANSACTION_TOPIC,
            owner="the transaction coordinator",
            keeps="transactions",
            keys="transactional ids",
            partitions_setting="transaction.state.log.num.partitions",
            replication_setting="transaction.state.log.replication.factor",
            segment_setting="transaction.state.log.segment.bytes",
            min_isr_setting="transaction.state.log.min.isr",
            configs={
                "compression.type": "uncompressed",
                "unclean.leader.election.enable": "false",
            },
        ),
    )
}
"""The owned topics by name."""


def keep_compact(name: str, configs: Mapping[str, str]) -> dict[str, str]:
    """Returns the own settings of the topic ``name``; an owned topic always gets a cleanup policy.

    If the policy is absent, it becomes ``compact``, the only default of an owned topic. Raises
    BadValue for a policy that would lose records.
    """
    own = dict(configs)
    owned = OWNED.get(name)
    if owned is None:
        return own
    text = own.setdefault(POLICY, _COMPACT)
    if not _is_compact(text):
        raise BadValue(
            f"{POLICY}={text} is not allowed: {name} must have only {_COMPACT}, since retention"
            f" would delete {owned.keeps}, and without compaction the topic would grow"
            " without bound"
        )
    return own


def mend_policies(registry: StoredRegistry) -> None:
    """Restores the cleanup policy of owned topics, which an older Muster let users change.

    Called before the logs are opened. The policy takes effect even if it can't be stored.
    """
    for owned in OWNED.values():
        topic = registry.topic(owned.name)
        if topic is None or _is_compact(topic.configs.get(POLICY, "")):
            continue
        mended = topic.with_configs({**topic.configs, POLICY: _COMPACT})
        logger.warning(
            f"cleanup.policy of {owned.name} reset to compact: with the previous policy, retention"
            f" would delete {owned.keeps}",
            previous_policy=topic.configs.get(POLICY, "the broker's log.cleanup.policy"),
        )
        try:
            registry.store(mended)
        except OSError as error:
            logger.warning(
                "restored cleanup.policy can't be stored, each start restores it again",
                error=str(error),
            )
        registry.show(mended)


def _is_compact(policy: str) -> bool:
    return {part.strip() for part in policy.split(",") if part.strip()} == {_COMPACT}
