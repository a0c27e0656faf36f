"""The follower's side of a fetch session (KIP-227), in which requests and responses contain only
changes.

| session epoch | content of the next Fetch | effect of the response |
|---|---|---|
| 0 | all partitions; closes the previous session | epoch becomes 1; session id 0 means no session |
| n | new, changed and removed partitions | epoch becomes n + 1 |

If a Fetch is rejected, or its response is lost, the epoch becomes 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from broker.cluster.replicas.fetch_messages import Asked, TopicKey

NO_SESSION = 0
_EPOCH_MAX = (1 << 31) - 1

Place = tuple[TopicKey, int]


class SessionFields(NamedTuple):
    """The fields of a Fetch request that depend on the fetch session."""

    session_id: int
    epoch: int
    asked: Mapping[TopicKey, list[Asked]]
    """The partitions that the request must contain, because they are new or have changed."""
    forgotten: Mapping[TopicKey, list[int]]
    """The partitions that the leader must remove from the session."""


class FetchSession:
    """The fetch session that this broker, as a follower, has with one leader."""

    def __init__(self) -> None:
        self._id = NO_SESSION
        self._epoch = 0
        self._by_id = False
        self._known: Mapping[Place, Asked] = {}
        """The partitions of the session, each as this broker last requested it."""

    def fields_for(self, wanted: Mapping[Place, Asked], *, by_id: bool) -> SessionFields:
        """Returns the fields for the next Fetch. After this Fetch, the leader's session has exactly
        the ``wanted`` partitions.

        A session identifies all its topics by id, or all by name.
        """
        if by_id != self._by_id:
            self.broken()
            self._by_id = by_id
        known = self._known if self._epoch else {}
        asked: dict[TopicKey, list[Asked]] = {}
        for place, each in wanted.items():
            if known.get(place) != each:
                asked.setdefault(place[0], []).append(each)
        forgotten: dict[TopicKey, list[int]] = {}
        for topic, index in known:
            if (topic, index) not in wanted:
                forgotten.setdefault(topic, []).append(index)
        self._known = wanted
        return SessionFields(self._id, self._epoch, asked, forgotten)

    @property
    def lasts(self) -> bool:
        """True if the leader has a fetch session for this follower."""
        return self._epoch > 0

    def unchanged_fields(self) -> SessionFields:
        """Returns the session fields of a Fetch that adds, changes and removes no partition. The
        caller must check with `lasts` that the session exists."""
        return SessionFields(self._id, self._epoch, {}, {})

    def answered(self, session_id: int) -> None:
        """Moves the session to its next epoch after a response. ``session_id`` is the id in the
        response."""
        if session_id == NO_SESSION:
            self.broken(is_unknown=True)
        elif not self._epoch:
            self._id, self._epoch = session_id, 1
        else:
            self._epoch = 1 if self._epoch == _EPOCH_MAX else self._epoch + 1

    def broken(self, *, is_unknown: bool = False) -> None:
        """Makes the next Fetch contain all partitions, because the leader may have missed the last
        Fetch or lost the session."""
        self._epoch, self._known = 0, {}
        if is_unknown:
            self._id = NO_SESSION
