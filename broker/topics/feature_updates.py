"""The rules of UpdateFeatures: which finalized feature levels may change (KIP-584, KIP-1022).
Checks have the order and the texts of Kafka 4.3 ``FeatureControlManager``. One rejected update
rejects the whole request."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from protocol.errors import INVALID_UPDATE_VERSION

UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3
"""The values of the field UpgradeType in UpdateFeatures."""
SupportedLevels = Mapping[str, tuple[int, int]]
"""The lowest level above 0 and the highest level that a broker supports, by feature name."""


class FeatureUpdate(NamedTuple):
    """One requested change of a feature level."""

    name: str
    level: int
    """The requested level; 0 disables the feature."""
    type: int


class RefusedUpdate(Exception):
    """Raised if an update is rejected; contains the error for the response."""

    def __init__(self, error_code: int, text: str) -> None:
        super().__init__(text)
        self.error_code = error_code


def updated(
    levels: Mapping[str, int],
    updates: Iterable[FeatureUpdate],
    nodes: Mapping[str, SupportedLevels],
) -> dict[str, int]:
    """Returns the levels after ``updates``; features of level 0 are omitted. Raises RefusedUpdate.

    ``nodes`` contains the supported levels of each broker, by the broker's name in error texts.
    """
    fresh = dict(levels)
    for update in updates:
        if reason := _refusal(update, levels.get(update.name, 0), nodes):
            raise refused(update, reason)
        fresh[update.name] = update.level
    return {name: level for name, level in fresh.items() if level > 0}


def refused(update: FeatureUpdate, reason: str) -> RefusedUpdate:
    """Returns the error for an invalid update. Its text contains ``reason`` in Kafka's wording."""
    return RefusedUpdate(
        INVALID_UPDATE_VERSION,
        "The update failed for all features since the following feature had an error: Invalid"
        f" update version {update.level} for feature {update.name}. {reason}",
    )


def _refusal(update: FeatureUpdate, before: int, nodes: Mapping[str, SupportedLevels]) -> str:
    """Returns the reason why an update is rejected; "" if it is allowed."""
    if update.type not in (UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE):
        return "The controller does not support the given upgrade type."
    if update.level < 0:
        return "A feature version cannot be less than 0."
    for node, supported in nodes.items():
        low, high = supported.get(update.name, (0, 0))
        if update.level and not high:
            return f"{node} does not support this feature."
        if update.level and not low <= update.level <= high:
            return f"{node} only supports versions 0-{high}"
    if not before and not any(update.name in supported for supported in nodes.values()):
        return f"Feature {update.name} not found."
    if update.level < before and update.type == UPGRADE:
        return (
            "Can't downgrade the version of this feature without setting the upgrade type to"
            " either safe or unsafe downgrade."
        )
    if update.level > before and update.type != UPGRADE:
        return "Can't downgrade to a newer version."
    return ""
