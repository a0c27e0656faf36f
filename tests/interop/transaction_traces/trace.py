"""Traces of transactional requests that depend only on a seed.

Producers 0 and 1 share the transactional id "x" and fence each other. Producer 2 has the id "y". A
step contains a placeholder for producer id and epoch, such as "own" or "before", which is replaced
by values of the broker. Some steps form complete transactions. Single requests, valid or invalid,
are between them.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass
from typing import Any

from protocol.messages import BY_NAME

TV1, TV2 = "TV1", "TV2"
IDS = ("x", "x", "y")
"""The transactional id of each producer."""
PARTITIONS = {"t": 3, "u": 2}
WHO = ("own", "before", "next", "other")
"""The placeholders for producer id and epoch. "before" and "next" are the producer's own id with
the previous or the next epoch. "other" is the id of another producer."""

VERSIONS = {
    "InitProducerId": (0, 5),
    "AddPartitionsToTxn": (0, 5),
    "AddOffsetsToTxn": (0, 4),
    "EndTxn": (0, 5),
    "TxnOffsetCommit": (0, 5),
    "Produce": (3, 13),
    "WriteTxnMarkers": (1, 2),
    "DescribeTransactions": (0, 0),
    "ListTransactions": (0, 2),
    "DescribeProducers": (0, 0),
    "Fetch": (4, 18),
    "ListOffsets": (2, 11),
    "OffsetFetch": (7, 10),
    "FindCoordinator": (1, 6),
}
"""The first and the last version of each API that traces use, if the brokers serve them."""
LAST_OF_TV1 = {"EndTxn": 4, "TxnOffsetCommit": 4, "Produce": 11, "AddPartitionsToTxn": 5}
_FIRST_OF_TV2 = {"EndTxn": 5, "TxnOffsetCommit": 5, "Produce": 12, "InitProducerId": 3}


@dataclass(frozen=True)
class Step:
    """A request of a producer, or a wait until the broker has aborted its transaction."""

    actor: int
    api: str
    version: int
    says: dict[str, Any]

    def __str__(self) -> str:
        said = " ".join(f"{key}={value}" for key, value in self.says.items())
        return f"producer {self.actor} ({IDS[self.actor]}): {self.api} v{self.version} {said}"


_NOISE = {
    "AddPartitionsToTxn": 3,
    "EndTxn": 8,
    "Fetch": 9,
    "FindCoordinator": 4,
    "ListOffsets": 8,
    "Produce": 4,
}
"""The relative frequency of each single request, by default 2. APIs with many versions have higher
frequencies."""

AWAIT_ABORT = "await abort"
"""The name of a step without a request. It waits until the transaction has timed out and the broker
has aborted it."""


class Script:
    """Creates the steps for one seed."""

    def __init__(self, seed: int, rules: str, ranges: dict[str, tuple[int, int]]) -> None:
        self.rng = random.Random(seed)
        self.seed = seed
        self.rules = rules
        self.ranges = ranges
        self.steps: list[Step] = []
        self.used: Counter[str] = Counter()
        self.started: set[int] = set()

    def run(self) -> list[Step]:
        goals = (self.transaction, self.transaction, self.fence, self.timeout, self.go_on)
        for _ in range(2):
            self.noise_EndTxn(self.rng.randrange(len(IDS)))
        self.noise(2)
        for _ in range(7):
            self.rng.choices(goals, (8, 4, 3, 1, 3))[0]()
            self.noise(self.rng.randrange(7))
        return self.steps

    # ------------------------------------------------------------------------------- choices

    def maybe(self, probability: float) -> bool:
        return self.rng.random() < probability

    def version(self, api: str, rules: str = "") -> int:
        """Returns the next version of an API, in rotation. The seed determines the first
        version."""
        first, last = self.ranges[api]
        if TV1 in (rules, self.rules):
            last = min(last, LAST_OF_TV1.get(api, last))
        elif rules == TV2:
            first = max(first, _FIRST_OF_TV2.get(api, first))
        known = range(first, last + 1)
        self.used[api] += 1
        return known[(self.seed + self.used[api]) % len(known)]

    def add(self, actor: int, api: str, rules: str = "", **says: Any) -> None:
        self.steps.append(Step(actor, api, self.version(api, rules), says))

    def who(self) -> str:
        return self.rng.choices(WHO, (14, 3, 1, 1))[0]

    def partitions(self) -> list[tuple[str, int]]:
        every = [(topic, each) for topic, count in PARTITIONS.items() for each in range(count)]
        return self.rng.sample(every, self.rng.choice((1, 1, 2, 3)))

    # --------------------------------------------------------------------------------- goals

    def start(self, actor: int) -> None:
        if actor not in self.started or self.maybe(0.15):
            self.started.add(actor)
            self.add(actor, "InitProducerId", who="none", timeout_ms=60_000)

    def transaction(self) -> None:
        """Adds the steps of a complete transaction with one of the transaction versions."""
        actor = self.rng.randrange(len(IDS))
        rules = self.rng.choice((TV1, TV2)) if self.rules == TV2 else TV1
        self.start(actor)
        touched = self.partitions()
        if rules == TV1:
            self.add(actor, "AddPartitionsToTxn", rules, who="own", partitions=touched)
        if self.maybe(0.2):
            self.add(actor, "AddPartitionsToTxn", who="before", partitions=touched)
        for partition in touched:
            for _ in range(self.rng.choice((0, 1, 1, 2))):
                self.produce(actor, partition, rules)
            self.noise(self.maybe(0.3))
        if self.maybe(0.5):
            self.offsets(actor, rules)
        end = {"who": "own", "committed": self.maybe(0.6)}
        if self.maybe(0.2):
            self.add(actor, "EndTxn", rules, who="before", committed=self.maybe(0.5))
        self.add(actor, "EndTxn", rules, **end)
        if self.maybe(0.5):
            end["committed"] ^= self.maybe(0.3)
            self.add(actor, "EndTxn", rules, **{**end, "who": self.rng.choice(("own", "before"))})
        if self.maybe(0.3):
            self.look()

    def produce(self, actor: int, partition: tuple[str, int], rules: str = "") -> None:
        kind = self.rng.choices(("next", "repeat", "gap", "plain"), (16, 3, 1, 1))[0]
        who = "own" if self.maybe(0.9) else self.who()
        self.add(actor, "Produce", rules, who=who, partition=partition, kind=kind)

    def offsets(self, actor: int, rules: str) -> None:
        if rules == TV1:
            self.add(actor, "AddOffsetsToTxn", rules, who="own")
        self.noise_TxnOffsetCommit(actor, rules, "own")
        if self.maybe(0.6):
            self.noise_OffsetFetch(actor)

    def fence(self) -> None:
        """Adds an open transaction, and InitProducerId of a second producer with the same
        transactional id."""
        self.start(0)
        self.add(0, "AddPartitionsToTxn", who="own", partitions=self.partitions())
        self.started.add(1)
        self.add(1, "InitProducerId", who="none", timeout_ms=60_000)
        self.noise_EndTxn(0)
        self.add(1, "InitProducerId", who="none", timeout_ms=60_000)
        self.noise_AddPartitionsToTxn(0)
        self.produce(0, self.partitions()[0])

    def timeout(self) -> None:
        """Adds a transaction that times out, and later requests of its producer."""
        actor = self.rng.randrange(len(IDS))
        self.started.add(actor)
        self.add(actor, "InitProducerId", who="none", timeout_ms=1)
        self.add(actor, "InitProducerId", who="none", timeout_ms=1)
        self.add(actor, "AddPartitionsToTxn", who="own", partitions=self.partitions(), last=True)
        self.steps.append(Step(actor, AWAIT_ABORT, 0, {}))
        self.noise_EndTxn(actor)
        self.add(actor, "AddPartitionsToTxn", who="before", partitions=self.partitions())
        self.go_on(actor)
        self.add(actor, "InitProducerId", who="none", timeout_ms=60_000)

    def go_on(self, actor: int | None = None) -> None:
        """Adds an InitProducerId with which a producer continues after an error (KIP-360). The
        request has the producer's current id and epoch, or its previous epoch. Sometimes adds a
        second InitProducerId, with the previous epoch."""
        actor = self.rng.randrange(len(IDS)) if actor is None else actor
        who = self.rng.choice(("own", "own", "before"))
        self.add(actor, "InitProducerId", TV2, who=who, timeout_ms=60_000)
        if self.maybe(0.5):
            self.add(actor, "InitProducerId", TV2, who="before", timeout_ms=60_000)

    # ------------------------------------------------------------------------ single requests

    def noise(self, count: int) -> None:
        for _ in range(count):
            apis = [api for api in VERSIONS if api in self.ranges]
            api = self.rng.choices(apis, [_NOISE.get(each, 2) for each in apis])[0]
            getattr(self, "noise_" + api)(self.rng.randrange(len(IDS)))

    def look(self) -> None:
        for api in ("DescribeTransactions", "DescribeProducers", "Fetch", "OffsetFetch"):
            getattr(self, "noise_" + api)(self.rng.randrange(len(IDS)))

    def noise_InitProducerId(self, actor: int) -> None:
        who = self.rng.choice(("none", *WHO))
        timeout_ms = self.rng.choices((60_000, 0, 900_001), (14, 1, 1))[0]
        if who == "none":
            self.started.add(actor)
        rules = "" if who == "none" else TV2
        self.add(actor, "InitProducerId", rules, who=who, timeout_ms=timeout_ms)

    def noise_AddPartitionsToTxn(self, actor: int) -> None:
        partitions = self.partitions()
        if self.maybe(0.1):
            partitions.append(("nope", 0))
        says = {"who": self.who(), "partitions": partitions, "verify": self.maybe(0.3)}
        self.add(actor, "AddPartitionsToTxn", **says)

    def noise_AddOffsetsToTxn(self, actor: int) -> None:
        self.add(actor, "AddOffsetsToTxn", who=self.who())

    def noise_EndTxn(self, actor: int) -> None:
        who = self.rng.choices(WHO, (8, 6, 1, 1))[0]
        self.add(actor, "EndTxn", who=who, committed=self.maybe(0.5))

    def noise_TxnOffsetCommit(self, actor: int, rules: str = "", who: str = "") -> None:
        offset, generation = self.rng.randrange(1000), self.rng.choices((-1, 3), (9, 1))[0]
        says = {"who": who or self.who(), "offset": offset, "generation": generation}
        self.add(actor, "TxnOffsetCommit", rules, **says)

    def noise_Produce(self, actor: int) -> None:
        self.produce(actor, self.partitions()[0])

    def noise_WriteTxnMarkers(self, actor: int) -> None:
        """Adds a WriteTxnMarkers request that is rejected, because it has an old epoch or an
        unknown partition."""
        partition = self.rng.choice((("nope", 0), ("t", 17)))
        self.add(actor, "WriteTxnMarkers", partition=partition)

    def noise_DescribeTransactions(self, actor: int) -> None:
        ids = self.rng.choice((["x"], ["x", "y"], ["y", "nobody"]))
        self.add(actor, "DescribeTransactions", ids=ids)

    def noise_ListTransactions(self, actor: int) -> None:
        states = self.rng.choice(([], ["Ongoing"], ["Empty", "CompleteCommit"], ["Odd"]))
        duration_ms = self.rng.choice((-1, -1, 3_600_000))
        says = {"states": states, "mine": self.maybe(0.3), "duration_ms": duration_ms}
        self.add(actor, "ListTransactions", **says)

    def noise_DescribeProducers(self, actor: int) -> None:
        self.add(actor, "DescribeProducers", partition=self.partitions()[0])

    def noise_Fetch(self, actor: int) -> None:
        says = {"partition": self.partitions()[0], "committed": self.maybe(0.8)}
        self.add(actor, "Fetch", **says, offset=self.rng.choice((0, 0, 0, 1, 3)))

    def noise_ListOffsets(self, actor: int) -> None:
        says = {"partition": self.partitions()[0], "committed": self.maybe(0.8)}
        self.add(actor, "ListOffsets", **says, timestamp=self.rng.choice((-1, -1, -2)))

    def noise_OffsetFetch(self, actor: int) -> None:
        self.add(actor, "OffsetFetch", stable=self.maybe(0.7), everything=self.maybe(0.3))

    def noise_FindCoordinator(self, actor: int) -> None:
        self.add(actor, "FindCoordinator", group=self.maybe(0.2))


def trace_of(seed: int, rules: str, ranges: dict[str, tuple[int, int]]) -> list[Step]:
    """Returns the steps for a seed. Equal arguments give equal steps."""
    return Script(seed, rules, ranges).run()


def common_ranges(served: list[dict[int, tuple[int, int]]]) -> dict[str, tuple[int, int]]:
    """Returns for each API the range of versions that all brokers serve."""
    found = {}
    for api, (least, most) in VERSIONS.items():
        key = BY_NAME[api].key
        if all(key in ranges for ranges in served):
            first = max([least, *(ranges[key][0] for ranges in served)])
            last = min([most, *(ranges[key][1] for ranges in served)])
            if first <= last:
                found[api] = (first, last)
    return found
