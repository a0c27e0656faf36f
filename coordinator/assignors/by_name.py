"""The assignors by their names in ``group.consumer.assignors``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from coordinator.assignors import range as range_assignor
from coordinator.assignors import uniform
from coordinator.assignors.subscriptions import GroupSubscriptions
from offsets.consumer_records import Assignment

Assignor = Callable[[GroupSubscriptions], dict[str, Assignment]]

ASSIGNORS: Final[Mapping[str, Assignor]] = {
    uniform.NAME: uniform.assign,
    range_assignor.NAME: range_assignor.assign,
}
