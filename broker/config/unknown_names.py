"""Gives advice on names of settings that Kafka does not know."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from broker.config.config_table import BROKER, BROKER_NAME_OF_TOPIC_SETTING
from broker.config.variables import dotted

REMOVED: Final[Mapping[str, str]] = {
    "advertised.host.name": "advertised.listeners",
    "advertised.port": "advertised.listeners",
    "host.name": "listeners",
    "port": "listeners",
}
"""Settings that Kafka 3.0 removed, each with the setting that replaces it."""
_LIKENESS: Final = 0.8


def hint(name: str) -> str | None:
    """Returns advice on an unknown setting name, such as the most similar name; None without
    advice."""
    name = dotted(name)
    if name in REMOVED:
        return f"Kafka 3.0 removed the setting: set {REMOVED[name]}=PLAINTEXT://HOST:PORT"
    of_topics = BROKER_NAME_OF_TOPIC_SETTING.get(name.removeprefix("log."))
    if of_topics:
        return f"did you mean {of_topics[0]}?"
    from difflib import get_close_matches

    near = get_close_matches(name, BROKER, 1, _LIKENESS)
    return f"did you mean {near[0]}?" if near else None
