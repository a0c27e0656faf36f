"""The producers of a partition in little memory: a flat tuple per producer, distributed over many
small dicts.

A tuple is replaced, never changed, so that the whole table can be frozen at once:
`ProducerTable.freeze` shares the dicts, and a shared dict is copied before its first change. All
dicts are small, so that copying or growing a dict takes at most a millisecond.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

State = tuple[int, ...]
"""The state of one producer as numbers: epoch, timestamp of the last batch or marker, highest
coordinator epoch, first offset of the open transaction. Four numbers follow for each kept batch,
the oldest first: first sequence number, last offset delta, first offset, timestamp. A number that
is not set is -1."""
EPOCH, TIMESTAMP, COORDINATOR_EPOCH, BEGAN, FIRST_BATCH = range(5)
A_BATCH = 4
LAST_SEQUENCE, LAST_DELTA, LAST_OFFSET = -4, -3, -2
"""The indexes of three numbers about the last batch in a State. LAST_SEQUENCE is the index of the
sequence number of the batch's first record. A State without batches has none of these numbers."""
NEW: State = (-1, -1, -1, -1)

SPREAD_ABOVE = 2048
"""The maximum number of producers in one dict. A copy of a dict of this size takes 1 ms."""
_A_PIECE = 256
"""The number of producers in each list that `pieces` yields. The lists are short, so that removing
the producers of one list does not free much memory at once. Freeing 1 MiB takes 0.1 ms."""
_SHARDS = 257  # a prime, so that ids with distances of a power of two are spread


class ProducerTable:
    """The states of producers, by producer id."""

    __slots__ = ("_frozen", "_shards", "get")

    def __init__(self) -> None:
        self._frozen: set[int] = set()
        """The indexes of the dicts that are shared with a frozen copy of the table."""
        self._use([{}])

    def __len__(self) -> int:
        return sum(map(len, self._shards))

    @property
    def is_large(self) -> bool:
        """Returns whether an iteration over all producers must be split into several pieces of
        work."""
        return len(self._shards) > 1

    def put(self, producer_id: int, state: State) -> None:
        shards = self._shards
        index = producer_id % len(shards)
        if self._frozen:
            self._thaw(index)
        shard = shards[index]
        shard[producer_id] = state
        if len(shard) > SPREAD_ABOVE and len(shards) == 1:
            self._spread()

    def forget(self, producer_id: int) -> None:
        """Removes a producer, which must be in the table."""
        index = producer_id % len(self._shards)
        self._thaw(index)
        del self._shards[index][producer_id]

    def pieces(self) -> Iterator[list[tuple[int, State]]]:
        """Yields the producer ids with their states, in short lists. The states may change before
        the next list is yielded."""
        return pieces(tuple(self._shards))

    def freeze(self) -> Sequence[dict[int, State]]:
        """Returns the current content of the table, which later changes do not affect. Until
        `thaw`, changes copy dicts and therefore cost more."""
        self._frozen.update(range(len(self._shards)))
        return tuple(self._shards)

    def thaw(self) -> None:
        """Must be called when the result of `freeze` is no longer read. Afterwards, changes of
        producers copy no dicts."""
        self._frozen.clear()

    def clear(self) -> None:
        self._frozen.clear()
        self._use([{}])

    def _use(self, shards: list[dict[int, State]]) -> None:
        """Replaces the dicts by ``shards``. A producer id is in the dict whose index is the
        producer id modulo the number of dicts."""
        self._shards = shards
        few = len(shards) == 1
        self.get: Callable[[int], State | None] = shards[0].get if few else partial(_find, shards)
        """A function that returns the state of a producer, or None. It is called for each batch.
        Therefore it is directly the ``get`` of the dict if the table has only one dict."""

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
    """Yields the ids and states of ``shards`` in short lists. The dicts may change between two
    lists."""
    for shard in shards:
        ids = list(reversed(shard))
        while ids:
            some = ids[-_A_PIECE:]
            del ids[-_A_PIECE:]  # so that this list does not reference removed producers
            found = [(each, shard.get(each)) for each in reversed(some)]
            yield [(each, state) for each, state in found if state is not None]


def _find(shards: Sequence[dict[int, State]], producer_id: int) -> State | None:
    return shards[producer_id % len(shards)].get(producer_id)
