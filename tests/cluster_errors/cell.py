"""One cell: a request to one broker of a cluster, and the error codes of its answer.

The topic `orders` has a leader, a second replica, and a broker without any, for each partition:

| partition | leader | follower | no replica |
|---|---|---|---|
| 0 | 1 | 2 | 3 |
| 1 | 2 | 3 | 1 |
| 2 | 3 | 1 | 2 |
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tests.wire import Wire

Value = dict[str, Any]
Codes = list[list[Any]]
"""Places in the answer, each with its code; sorted."""
CLOSED: Codes = [["closed", -2]]
"""The broker closes the connection without an answer."""

TOPIC, NOWHERE = "orders", "nowhere"
ASSIGNED = {0: [1, 2], 1: [2, 3], 2: [3, 1]}
PLACES = {
    "the leader": (TOPIC, 0),
    "a follower": (TOPIC, 2),
    "no replica": (TOPIC, 1),
    "no such partition": (TOPIC, 9),
    "no such topic": (NOWHERE, 0),
}
"""The role of broker 1 for each partition."""
LOST = "lost"
"""A topic whose one replica, at broker 3, is away."""
GROUP, TRANSACTION = "billing", "payments"
TOPIC_ID = b"the topic's id  "
"""In place of the id that the cluster has given to TOPIC."""
DIRECTORY = "the directory of broker 1"
"""In place of the directory of broker 1."""
STRANGE_ID = bytes(range(16))
WAIT_MS = 5_000


@dataclass(frozen=True)
class Cluster:
    """The roles of the brokers in the cluster that is asked."""

    ports: Mapping[int, int]
    controller: int
    of_group: int
    """The coordinator of GROUP, which has committed offsets and no members."""
    of_transaction: int
    """That of TRANSACTION, which has not been used."""
    stands_for: Mapping[Any, Any]
    """The values to use in place of TOPIC_ID and DIRECTORY."""

    def other_than(self, broker: int) -> int:
        """Another broker."""
        return broker % len(self.ports) + 1


Place = Callable[[Cluster], int]


def at_1(_: Cluster) -> int:
    """Broker 1, whatever it is."""
    return 1


@dataclass(frozen=True)
class Cell:
    """One request; the first word of its name is its API."""

    name: str
    version: int
    value: Value
    at: Place = at_1

    def ask(self, cluster: Cluster) -> Codes:
        """The codes of its answer."""
        api = self.name.split()[0].rstrip(",")
        with Wire(cluster.ports[self.at(cluster)]) as wire:
            try:
                asked = _filled(self.value, cluster.stands_for)
                return codes_of(wire.call(api, self.version, asked))
            except ConnectionError:
                return CLOSED


def there_and_elsewhere(
    what: str, there: Place, name: str, version: int, value: Value
) -> Iterator[Cell]:
    """A request at the one broker of a kind, ``what``, and at one that is not it."""
    yield Cell(f"{name} at the {what}", version, value, there)
    yield Cell(
        f"{name} at another broker", version, value, lambda each: each.other_than(there(each))
    )


def _filled(value: Any, stands_for: Mapping[Any, Any]) -> Any:
    if isinstance(value, dict):
        return {key: _filled(each, stands_for) for key, each in value.items()}
    if isinstance(value, list):
        return [_filled(each, stands_for) for each in value]
    return stands_for.get(value, value)


def codes_of(answer: Any, path: str = "") -> Codes:
    """All error codes of an answer."""
    found: Codes = []
    if isinstance(answer, dict):
        for key, value in answer.items():
            if key.endswith("error_code"):
                found.append([f"{path}{key}", value])
            else:
                found += codes_of(value, f"{path}{key}.")
    elif isinstance(answer, list):
        for each in answer:
            found += codes_of(each, path)
    return sorted(found)
