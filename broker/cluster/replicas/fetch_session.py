"""A follower's side of a fetch session (KIP-227): requests and answers have only the changes.

| epoch | the next Fetch has | its answer |
|---|---|---|
| 0 | all partitions; closes the previous session | begins epoch 1; no id: no session |
| n | partitions that are new or have moved, and those to remove | begins epoch n + 1 |

When a Fetch is rejected, or its answer is lost, the epoch returns to 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from broker.cluster.replicas.fetch_messages import Asked, TopicKey

NO_SESSION = 0
_EPOCH_MAX = (1 << 31) - 1

Place = tuple[TopicKey, int]


class Turn(NamedTuple):
    """The session's part of one Fetch."""

    session_id: int
    epoch: int
    asked: Mapping[TopicKey, list[Asked]]
    forgotten: Mapping[TopicKey, list[int]]


class FetchSession:
    """The session with one leader."""

    def __init__(self) -> None:
        self._id = NO_SESSION
        self._epoch = 0
        self._by_id = False
        self._known: Mapping[Place, Asked] = {}
        """The partitions that the leader has in the session."""

    def turn(self, wanted: Mapping[Place, Asked], *, by_id: bool) -> Turn:
        """The request that leaves exactly the ``wanted`` partitions in the leader's session.

        A session names topics in one way: by their ids, or by their names.
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
        return Turn(self._id, self._epoch, asked, forgotten)

    @property
    def lasts(self) -> bool:
        """Whether the leader keeps the session."""
        return self._epoch > 0

    def same_turn(self) -> Turn:
        """All is as the leader knows it, while the session `lasts`."""
        return Turn(self._id, self._epoch, {}, {})

    def answered(self, session_id: int) -> None:
        """The leader has taken the last turn."""
        if session_id == NO_SESSION:
            self.broken(is_unknown=True)
        elif not self._epoch:
            self._id, self._epoch = session_id, 1
        else:
            self._epoch = 1 if self._epoch == _EPOCH_MAX else self._epoch + 1

    def broken(self, *, is_unknown: bool = False) -> None:
        """Starts over with a full Fetch: the leader may have missed the last one, or lost the
        session."""
        self._epoch, self._known = 0, {}
        if is_unknown:
            self._id = NO_SESSION
