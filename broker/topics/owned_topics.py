"""The topics that coordinators own: the settings that they are created with, and those they keep.

Every committed offset is a record of ``__consumer_offsets``, every transaction one of
``__transaction_state``. Retention that deletes old segments would delete what is in them: the
coordinator would answer from memory until the next start, and know nothing of it from then on. So
their ``cleanup.policy`` is always ``compact``, wherever settings come from. They are not deleted,
and the number of their partitions, which says where each key is, is fixed.
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
"""How many a broker by itself can have."""


@slotted(frozen=True)
class OwnedTopic:
    """An internal topic, and whose it is."""

    name: str
    owner: str
    keeps: str
    """The contents of its records."""
    keys: str
    """The key that selects the partition."""
    partitions_setting: str
    replication_setting: str
    segment_setting: str
    """The broker's properties for it."""
    min_isr_setting: str | None = None
    configs: Mapping[str, str] = field(default_factory=dict)
    """More settings of its own, as Kafka creates it."""

    def created_with(self, config: Config, replicas: int = _REPLICAS) -> dict[str, str]:
        """The settings that it is created with, as in Kafka, with so many replicas."""
        configs = {
            POLICY: _COMPACT,
            **self.configs,
            "segment.bytes": str(config[self.segment_setting]),
        }
        if self.min_isr_setting is not None:
            configs["min.insync.replicas"] = str(min(config[self.min_isr_setting], replicas))
        return configs

    def partitions(self, config: Config) -> int:
        """How many it is created with."""
        count: int = config[self.partitions_setting]
        return count

    def tell_replication(self, config: Config) -> None:
        """Logs that it has fewer replicas than wanted."""
        name = self.replication_setting
        if config[name] > _REPLICAS:
            logger.info(
                f"{name} lowered to {_REPLICAS}, the number of brokers", wanted=config[name]
            )

    def warn_about_partitions(self, config: Config, there: int) -> None:
        """Logs that a setting is ignored: the topic is there, and has its partitions."""
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
"""By name."""


def keep_compact(name: str, configs: Mapping[str, str]) -> dict[str, str]:
    """The own settings for topic ``name``; an owned topic's include its cleanup policy.

    If it is left out, or reset to its default, it is ``compact``, the only default of such a topic.
    Raises BadValue for a policy that would lose records.
    """
    own = dict(configs)
    owned = OWNED.get(name)
    if owned is None:
        return own
    text = own.setdefault(POLICY, _COMPACT)
    if not _is_compact(text):
        raise BadValue(
            f"{POLICY}={text}: {name} must be {_COMPACT} only; retention would delete"
            f" {owned.keeps}, and without compaction the topic would grow without"
            " bound"
        )
    return own


def mend_policies(registry: StoredRegistry) -> None:
    """Restores the policy of an owned topic if an older Muster let it be changed.

    Called before the logs are opened. The policy holds even if it can't be stored.
    """
    for owned in OWNED.values():
        topic = registry.topic(owned.name)
        if topic is None or _is_compact(topic.configs.get(POLICY, "")):
            continue
        mended = topic.with_configs({**topic.configs, POLICY: _COMPACT})
        logger.warning(
            f"cleanup.policy=compact restored for {owned.name}: its retention would"
            f" have deleted {owned.keeps}",
            cleanup_policy=topic.configs.get(POLICY, "the broker's log.cleanup.policy"),
        )
        try:
            registry.store(mended)
        except OSError as error:
            logger.warning(
                "restored cleanup.policy can't be stored, restored again at each start",
                error=str(error),
            )
        registry.show(mended)


def _is_compact(policy: str) -> bool:
    return {part.strip() for part in policy.split(",") if part.strip()} == {_COMPACT}
