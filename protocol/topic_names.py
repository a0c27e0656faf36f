"""The names of Kafka's internal topics, and the rule for valid topic names."""

from __future__ import annotations

import re

OFFSETS_TOPIC = "__consumer_offsets"
TRANSACTION_TOPIC = "__transaction_state"
SHARE_STATE_TOPIC = "__share_group_state"
INTERNAL_TOPICS = frozenset({OFFSETS_TOPIC, TRANSACTION_TOPIC, SHARE_STATE_TOPIC})
NAME_LENGTH_MAX = 249
_LEGAL_NAME = re.compile(r"[a-zA-Z0-9._-]+")


class BadTopicName(ValueError):
    """A topic name is invalid. The text is the same as in Kafka."""


def check_topic_name(name: str) -> None:
    """Raises BadTopicName for an invalid name. Source: Kafka 3.9 ``Topic.validate``."""
    problem = _problem(name)
    if problem is not None:
        raise BadTopicName(f"Topic name is invalid: {problem}")


def is_legal(name: str) -> bool:
    return _problem(name) is None


def _problem(name: str) -> str | None:
    if not name:
        return "the empty string is not allowed"
    if name in (".", ".."):
        return "'.' or '..' is not allowed"
    if len(name) > NAME_LENGTH_MAX:
        return f"the length of '{name}' is longer than the max allowed length {NAME_LENGTH_MAX}"
    if not _LEGAL_NAME.fullmatch(name):
        return (
            f"'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_'"
            " and '-'"
        )
    return None
