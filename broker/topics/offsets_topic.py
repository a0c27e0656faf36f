"""The settings of ``__consumer_offsets``: those that it is created with, and those that it keeps.

Every committed offset is a record of this topic, and retention that deletes old segments would
delete the offsets in them: the coordinator would answer from its cache until the next start, and
-1 from then on. So its ``cleanup.policy`` is always ``compact``, wherever settings come from.
"""

from __future__ import annotations

from collections.abc import Mapping

import structlog

from broker.config.config import Config
from broker.config.config_value import BadValue
from broker.topics.registry import OFFSETS_TOPIC, Registry

logger = structlog.get_logger(__name__)

POLICY = "cleanup.policy"
_COMPACT = "compact"


def offsets_topic_configs(segment_bytes: int) -> dict[str, str]:
    """The settings that ``__consumer_offsets`` is created with, as in Kafka."""
    return {
        POLICY: _COMPACT,
        "compression.type": "producer",
        "segment.bytes": str(segment_bytes),
    }


def warn_about_partitions(config: Config, there: int) -> None:
    """Logs that a setting is ignored: the topic is there, and has its partitions."""
    name = "offsets.topic.num.partitions"
    if config.is_given(name) and config[name] != there:
        logger.warning(
            f"{name} is ignored: {OFFSETS_TOPIC} has its partitions",
            wanted=config[name],
            there=there,
        )


def keep_compact(name: str, configs: Mapping[str, str]) -> dict[str, str]:
    """The own settings that topic ``name`` is to get; those of the offsets topic name its policy.

    Left out, or put back to its default, it is ``compact``: this topic has no other default. Raises
    BadValue for a policy with which offsets would be lost.
    """
    own = dict(configs)
    if name != OFFSETS_TOPIC:
        return own
    text = own.setdefault(POLICY, _COMPACT)
    if not _is_compact(text):
        raise BadValue(
            f"{POLICY}={text}: {OFFSETS_TOPIC} is always {_COMPACT} and nothing else, since"
            " retention would delete committed offsets, and without compaction it grows for ever"
        )
    return own


def mend_policy(registry: Registry) -> None:
    """Restores the offsets topic's policy if an older Muster let it be changed.

    Called before the logs are opened. The policy holds even if it can't be stored.
    """
    topic = registry.topic(OFFSETS_TOPIC)
    if topic is None or _is_compact(topic.configs.get(POLICY, "")):
        return
    mended = topic.with_configs({**topic.configs, POLICY: _COMPACT})
    logger.warning(
        "__consumer_offsets is compacted again: with the settings that it had, retention would"
        " have deleted committed offsets",
        cleanup_policy=topic.configs.get(POLICY, "the broker's log.cleanup.policy"),
    )
    try:
        registry.store(mended)
    except OSError as error:
        logger.warning("that can't be stored, and is done at each start", error=str(error))
    registry.show(mended)


def _is_compact(policy: str) -> bool:
    return {part.strip() for part in policy.split(",") if part.strip()} == {_COMPACT}
