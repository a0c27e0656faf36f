"""The producers of a partition in little memory: a flat tuple each, spread over many small dicts.

A tuple is replaced, never changed. So the whole can be frozen at once: `ProducerTable.freeze` gives
the dicts away, and a dict is copied before the first change that it gets afterwards. No dict is
large, so that neither a copy nor its growth takes more than a millisecond.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

State = tuple[int, ...]
"""Epoch, timestamp of the last batch or marker, highest epoch of a coordinator, first offset of the
open transaction; then of each batch that is kept, the oldest first: first sequence number, last
offset delta, first offset, timestamp. -1 stands for none."""
EPOCH, TIMESTAMP, COORDINATOR_EPOCH, BEGAN, FIRST_BATCH = range(5)
A_BATCH = 4
LAST_SEQUENCE, LAST_DELTA, LAST_OFFSET = -4, -3, -2
"""Of the last batch, where there is one; LAST_SEQUENCE is that of its first record."""
NEW: State = (-1, -1, -1, -1)
"""A producer that is not known."""

SPREAD_ABOVE = 2048
"""So many producers fit into one dict: 1 ms of work."""
_A_PIECE = 256
"""So few, since the last of a million that go may give back all their memory: 0.1 ms a MiB."""
_SHARDS = 257  # a prime: ids that differ by a power of two do not meet in one


class ProducerTable:
    """States by producer id."""

    __slots__ = ("_frozen", "_shards", "get")

    def __init__(self) -> None:
        self._frozen: set[int] = set()
        """Which of the dicts somebody else has too."""
        self._use([{}])

    def __len__(self) -> int:
        return sum(map(len, self._shards))

    @property
    def is_large(self) -> bool:
        """Whether going through all is more than one piece of work."""
        return len(self._shards) > 1

    def put(self, producer_id: int, state: State) -> None:
        """Enter what is known now."""
        shards = self._shards
        index = producer_id % len(shards)
        if self._frozen:
            self._thaw(index)
        shard = shards[index]
        shard[producer_id] = state
        if len(shard) > SPREAD_ABOVE and len(shards) == 1:
            self._spread()

    def forget(self, producer_id: int) -> None:
        """Drop a producer that is known."""
        index = producer_id % len(self._shards)
        self._thaw(index)
        del self._shards[index][producer_id]

    def pieces(self) -> Iterator[list[tuple[int, State]]]:
        """Ids and states, a little at a time; they may change between two pieces."""
        return pieces(tuple(self._shards))

    def freeze(self) -> Sequence[dict[int, State]]:
        """All as they are now, whatever is entered later; until `thaw` that costs copies."""
        self._frozen.update(range(len(self._shards)))
        return tuple(self._shards)

    def thaw(self) -> None:
        """Nobody reads what was frozen any more."""
        self._frozen.clear()

    def clear(self) -> None:
        """Forget all."""
        self._frozen.clear()
        self._use([{}])

    def _use(self, shards: list[dict[int, State]]) -> None:
        """Have a producer in the dict at its id modulo how many there are."""
        self._shards = shards
        few = len(shards) == 1
        self.get: Callable[[int], State | None] = shards[0].get if few else partial(_find, shards)
        """What is known of a producer. On the hot path one look-up, as long as there are few."""

    def _thaw(self, index: int) -> None:
        if index in self._frozen:
            self._frozen.discard(index)
            self._shards[index] = self._shards[index].copy()
            self._use(self._shards)

    def _spread(self) -> None:
        shards: list[dict[int, State]] = [{} for _ in range(_SHARDS)]
        for producer_id, state in self._shards[0].items():
            shards[producer_id % _SHARDS][producer_id] = state
        self._frozen.clear()
        self._use(shards)


def pieces(shards: Sequence[dict[int, State]]) -> Iterator[list[tuple[int, State]]]:
    """Ids and states of dicts that may change in between, a little at a time."""
    for shard in shards:
        ids = list(reversed(shard))
        while ids:
            some = ids[-_A_PIECE:]
            del ids[-_A_PIECE:]  # nothing of those that are forgotten is held
            found = [(each, shard.get(each)) for each in reversed(some)]
            yield [(each, state) for each, state in found if state is not None]


def _find(shards: Sequence[dict[int, State]], producer_id: int) -> State | None:
    return shards[producer_id % len(shards)].get(producer_id)
