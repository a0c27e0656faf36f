"""The rows of `/api/live` for the share partitions of a share group. Times are rounded, so that a
row does not change only because time passes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from broker.metrics.sources import Sources
from broker.web.live.events import Row, steady
from broker.web.views.share import View, delivery_limits, share_places
from coordinator.read_only import GroupView
from coordinator.share.group_view import ShareGroupView

_TIMES = ("known_since_ms", "since_ms", "until_ms", "at_ms")


def share_settings(sources: Sources, group: GroupView) -> View | None:
    """Returns the delivery settings of a share group; None for a group of another type."""
    if not isinstance(group, ShareGroupView):
        return None
    return delivery_limits(sources, group.group_id)


def share_rows(sources: Sources, group: GroupView) -> Iterator[Row | None]:
    """Yields a row of the table ``share`` for each share partition of a share group. Yields None
    where a slice may end."""
    if isinstance(group, ShareGroupView):
        for place in share_places(sources, group):
            key = f"{place.topic}-{place.partition}"
            for view in place.make():
                yield None if view is None else Row("share", key, None, partial(_steadied, view))


def _steadied(value: Any) -> Any:
    """Returns a copy of ``value`` in which all times are rounded, also in nested values."""
    if isinstance(value, Mapping):
        return {
            name: steady(each) if name in _TIMES and each is not None else _steadied(each)
            for name, each in value.items()
        }
    return [_steadied(each) for each in value] if isinstance(value, list) else value
