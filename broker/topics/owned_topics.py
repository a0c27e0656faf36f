"""The topics that coordinators own: their settings at creation, and the settings that must not
change.

The state of a coordinator is in the records of its topic: committed offsets in
``__consumer_offsets``, transactions in ``__transaction_state``, share partitions in
``__share_group_state``. If retention deleted old segments, the state would be lost at the next
start.

The first two topics are therefore always compacted. ``__share_group_state`` can't be compacted,
because the state of a key results from several of its records. These records are never deleted by
time or size; the share coordinator deletes redundant records itself.

Clients can't delete these topics or add partitions, since the partition count determines the
partition of each key.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

import structlog

from broker.config.config import Config
from broker.config.config_table import SHARE_VERSION
from broker.config.config_value import BadValue
from broker.topics.registry import (
    OFFSETS_TOPIC,
    SHARE_STATE_TOPIC,
    TRANSACTION_TOPIC,
    Features,
    StoredRegistry,
)
from protocol.slotted import slotted

logger = structlog.get_logger(__name__)

POLICY = "cleanup.policy"
_COMPACTED: Mapping[str, str] = {POLICY: "compact"}
_KEPT: Mapping[str, str] = {POLICY: "delete", "retention.ms": "-1", "retention.bytes": "-1"}
"""Settings under which no record is deleted because of its age or the log's size. Kafka does not
set retention.bytes, so that the broker setting log.retention.bytes would delete records."""
_REPLICAS = 1


@slotted(frozen=True)
class OwnedTopic:
    """An internal topic that a coordinator owns."""

    name: str
    owner: str
    keeps: str
    """A noun for the contents of the topic, for log lines and errors."""
    keys: str
    """The plural noun, for error texts, of the objects whose ids determine the partition of a
    record, such as "groups"."""
    partitions_setting: str
    replication_setting: str
    segment_setting: str
    """The name of the broker setting for the topic's segment size."""
    min_isr_setting: str | None = None
    fixed: Mapping[str, str] = field(default_factory=lambda: _COMPACTED)
    """The settings that must keep these values. With other values the topic would lose live
    records."""
    configs: Mapping[str, str] = field(default_factory=dict)
    """Further settings at the creation of the topic, as in Kafka."""
    feature: str | None = None
    """The feature without which the topic is not created; None if no feature is required."""

    def is_created(self, features: Features) -> bool:
        """Returns True if this broker may create the topic with the features ``features``."""
        return self.feature is None or features.levels.get(self.feature, 0) > 0

    def created_with(self, config: Config, replicas: int = _REPLICAS) -> dict[str, str]:
        """Returns the settings at the topic's creation with ``replicas`` replicas, as in Kafka."""
        configs = {
            **self.fixed,
            **self.configs,
            "segment.bytes": str(config[self.segment_setting]),
        }
        if self.min_isr_setting is not None:
            configs["min.insync.replicas"] = str(min(config[self.min_isr_setting], replicas))
        return configs

    def partitions(self, config: Config) -> int:
        """Returns the number of partitions with which the broker creates the topic."""
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
        """Logs a warning if the configured partition count differs from ``there``, the topic's
        actual count."""
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
        OwnedTopic(
            name=SHARE_STATE_TOPIC,
            owner="the share coordinator",
            keeps="the state of share groups",
            keys="share partitions",
            partitions_setting="share.coordinator.state.topic.num.partitions",
            replication_setting="share.coordinator.state.topic.replication.factor",
            segment_setting="share.coordinator.state.topic.segment.bytes",
            min_isr_setting="share.coordinator.state.topic.min.isr",
            fixed=_KEPT,
            configs={"compression.type": "producer"},
            feature=SHARE_VERSION,
        ),
    )
}


def keep_fixed(name: str, configs: Mapping[str, str]) -> dict[str, str]:
    """Returns the settings ``configs`` of the topic ``name``. For a topic of a coordinator, adds
    its fixed settings. Raises BadValue if ``configs`` has another value for a fixed setting."""
    own = dict(configs)
    owned = OWNED.get(name)
    if owned is None:
        return own
    for setting, value in owned.fixed.items():
        text = own.setdefault(setting, value)
        if not _is_same(text, value):
            reason = f"retention would delete {owned.keeps}"
            if value == "compact":
                reason += ", and without compaction the topic would grow without bound"
            raise BadValue(
                f"{setting}={text} is not allowed: {name} must have the value {value}, since"
                f" {reason}"
            )
    return own


def restore_fixed(registry: StoredRegistry) -> None:
    """Restores the fixed settings of the coordinators' topics, because an older Muster let users
    change them. Called before the logs are opened. If the restored settings can't be stored, the
    broker uses them nevertheless."""
    for owned in OWNED.values():
        topic = registry.topic(owned.name)
        if topic is None:
            continue
        changed = {
            setting: topic.configs.get(setting, "the broker's default")
            for setting, value in owned.fixed.items()
            if not _is_same(topic.configs.get(setting, ""), value)
        }
        if not changed:
            continue
        restored = topic.with_configs({**topic.configs, **owned.fixed})
        settings = " and ".join(f"{each} to {owned.fixed[each]}" for each in changed)
        logger.warning(
            f"settings of {owned.name} reset, {settings}: with the previous settings, retention"
            f" would delete {owned.keeps}",
            previous=changed,
        )
        try:
            registry.store(restored)
        except OSError as error:
            logger.warning(
                "restored settings can't be stored, each start restores them again",
                error=str(error),
            )
        registry.show(restored)


def _is_same(text: str, value: str) -> bool:
    """Returns True if ``text`` is the value ``value``, or a list with this value as its only
    element."""
    return {part.strip() for part in text.split(",") if part.strip()} == {value}
