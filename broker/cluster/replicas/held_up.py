"""Why a replica that is followed here does not go on, in words: what its leader can't know."""

from __future__ import annotations

from broker.cluster.replicas.fetchers import Fetchers
from broker.cluster.replicas.missing_logs import MissingLogs


def held_up(missing: MissingLogs, fetchers: Fetchers, topic: str, index: int) -> str | None:
    """The reason; None where it is fetched, or where it is not followed here."""
    why_missing = missing.why_missing(topic, index)
    if why_missing is not None:
        return f"its log can't be made, which is tried again: {why_missing}"
    fetcher, followed = fetchers.fetcher(topic, index), fetchers.followed(topic, index)
    if fetcher is None or followed is None:
        return None
    if followed.is_stopped:
        why = followed.trouble or "its log has failed"
        return f"it is not fetched until its leader changes or this broker restarts: {why}"
    if fetcher.lost is not None:
        return f"broker {fetcher.leader}, its leader, can't be fetched from: {fetcher.lost}"
    if followed.trouble is not None:
        return f"what its leader sends can't be taken, which is tried again: {followed.trouble}"
    if followed.is_held_back:
        return "replication is throttled (follower.replication.throttled.rate)"
    return None
