"""A cell: one request to one broker of a cluster, and the error codes of the response.

For each partition of the topic `orders`, the brokers have these roles:

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
"""Sorted pairs: a path in the response, and the error code at this path."""
CLOSED: Codes = [["closed", -2]]
"""The result if the broker closes the connection without a response."""

TOPIC, NOWHERE = "orders", "nowhere"
ASSIGNED = {0: [1, 2], 1: [2, 3], 2: [3, 1]}
PLACES = {
    "the leader": (TOPIC, 0),
    "a follower": (TOPIC, 2),
    "no replica": (TOPIC, 1),
    "no such partition": (TOPIC, 9),
    "no such topic": (NOWHERE, 0),
}
"""A topic and a partition for each role that broker 1 can have."""
LOST = "lost"
"""A topic whose only replica is on broker 3, which is down."""
GROUP, TRANSACTION = "billing", "payments"
TOPIC_ID = b"the topic's id  "
"""A placeholder in requests for the topic id of TOPIC, which the cluster generates."""
DIRECTORY = "the directory of broker 1"
"""A placeholder in requests for the data directory of broker 1."""
STRANGE_ID = bytes(range(16))
WAIT_MS = 5_000


@dataclass(frozen=True)
class Cluster:
    """The ports of the tested cluster, and which brokers are controller and coordinators."""

    ports: Mapping[int, int]
    controller: int
    of_group: int
    """The broker that coordinates the group GROUP, which has committed offsets and no members."""
    of_transaction: int
    """The broker that coordinates the transactional id TRANSACTION, which no producer has used."""
    stands_for: Mapping[Any, Any]
    """The values that replace the placeholders TOPIC_ID and DIRECTORY in requests."""

    def other_than(self, broker: int) -> int:
        return broker % len(self.ports) + 1


Place = Callable[[Cluster], int]


def at_1(_: Cluster) -> int:
    """Returns broker 1. Used for requests that do not depend on a role."""
    return 1


@dataclass(frozen=True)
class Cell:
    """One request to one broker. The first word of ``name`` is the API."""

    name: str
    version: int
    value: Value
    at: Place = at_1

    def ask(self, cluster: Cluster) -> Codes:
        """Sends the request and returns the error codes of the response."""
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
    """Yields two cells with the same request: one to the broker that ``there`` returns, and one to
    another broker."""
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
    """Returns all error codes in a response, each after its path."""
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
