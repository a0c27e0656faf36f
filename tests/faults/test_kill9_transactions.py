"""Kill -9 of the broker under transactional producers; half of the kills happen before a response.

Two programs copy records in transactions, and commit the offsets that they have read:
confluent-kafka (transaction.version 1) copies to two partitions, and Apache's
TransactionalMessageCopier of 4.3.1 (version 2) copies to one partition. A read_committed consumer
reads the copies of each program all the time. After each kill, both programs must continue without
help. Each consumer must read each transaction as a whole or not at all, only once, and in order. At
the end, the group's offset must be the offset after the last copied record.
"""

from __future__ import annotations

import os
import random
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from protocol.errors import UNSTABLE_OFFSET_COMMIT
from protocol.messages import BY_NAME
from tests import waiting
from tests.brokers import Broker
from tests.faults.killing_proxy import KillingProxy
from tests.interop.cluster import Cluster
from tests.interop.copying import CommittedReader, Copier, Copying, seed
from tests.interop.programs import Program, ending

pytestmark = [pytest.mark.faults, pytest.mark.proves("transactions 46")]

ROUNDS = 20
"""The number of kills of the broker in one run of the test."""
CAMPAIGNS = 10
"""The number of times that `make soak` runs the test. Each run kills the broker ROUNDS times."""
RECORDS = 10_000
"""The number of records to copy. When the Java copier has copied these records, the test adds
another 10,000."""
PARTITIONS = 2
GOES_ON_WITHIN_S = 60.0
PATIENCE_S = 2.0
SETTINGS = {"offsets.topic.num.partitions": "3", "transaction.state.log.num.partitions": "3"}
# A kill is before the response to this API; `None` means at a random moment.
APIS = ("EndTxn", "Produce", "TxnOffsetCommit", "AddPartitionsToTxn", "AddOffsetsToTxn")


class Confluent:
    """The process `tests/faults/transactor.py`, which is restarted when it hangs.

    The process hangs in librdkafka if the broker died before it answered AddOffsetsToTxn. This also
    happens with Kafka. Other clients must not wait for such a producer.
    """

    STANDS_STILL_S = 3.0

    def __init__(self, bootstrap: str, source: str, target: str, seed: int) -> None:
        self.arguments = [bootstrap, source, target, str(PARTITIONS), str(seed)]
        self.group = f"{target}-group"
        self.lives: list[Program] = []
        self.start()

    def start(self) -> None:
        script = Path(__file__).parent / "transactor.py"
        self.lives.append(Program("confluent", [sys.executable, str(script), *self.arguments]))

    def kill(self) -> None:
        self.lives[-1].kill()

    def count(self, word: str) -> int:
        return sum(line.startswith(word) for life in self.lives for line in list(life.lines))

    def acknowledged(self) -> int:
        """Returns the highest source offset that an acknowledged transaction committed."""
        ends = [
            int(line.split()[1])
            for life in self.lives
            for line in life.lines
            if line.startswith("committed")
        ]
        return max(ends, default=0)

    def until_commits(self, more: int) -> None:
        wanted = self.count("committed") + more
        deadline = time.monotonic() + GOES_ON_WITHIN_S
        while self.count("committed") < wanted:
            try:
                self.lives[-1].until(
                    f"{more} more transactions are committed",
                    lambda: self.count("committed") >= wanted,
                    self.STANDS_STILL_S,
                )
            except AssertionError:
                if time.monotonic() > deadline or not self.lives[-1].runs:
                    raise
                self.kill()
                self.start()


@pytest.fixture
def proxy() -> Iterator[KillingProxy]:
    made = KillingProxy()
    yield made
    made.close()


def until_stable(cluster: Cluster, group: str, topic: str) -> int:
    """Waits until all transactions that a kill left open have ended. Returns the committed offset
    of the group."""
    asked = [{"name": topic, "partition_indexes": [0]}]

    def answered() -> int | None:
        found = cluster.call("OffsetFetch", 7, group_id=group, topics=asked, require_stable=True)
        [partition] = found["topics"][0]["partitions"]
        codes = (found["error_code"], partition["error_code"])
        assert codes in ((0, 0), (0, UNSTABLE_OFFSET_COMMIT)), found
        return None if codes[1] else int(partition["committed_offset"])

    return waiting.until("the offsets are stable", answered, GOES_ON_WITHIN_S, ()) or 0


def assert_is_what_was_committed(
    who: str, sent: list[str], read: list[list[str]], committed: int
) -> None:
    """Checks that the records ``read`` from each partition are the first ``committed`` records of
    ``sent``, in order and without duplicates."""
    for partition, values in enumerate(read):
        told = f"{who}, partition {partition}: {len(values)} records, {committed} committed"
        assert len(set(values)) == len(values), f"a record came out twice: {told}"
        assert values == sent[: len(values)], f"another order, or a hole: {told}"
        assert len(values) == committed, f"offsets and data differ: {told}"


def campaign(broker: Broker, proxy: KillingProxy, name: str, rounds: int) -> None:
    """Kills the broker ``rounds`` times while two clients copy records in transactions. Then
    compares the copies with the records that were sent to the source topic."""
    seed_of_all = int(os.environ.get("MUSTER_SEED", random.randrange(1 << 32)))
    print(f"MUSTER_SEED={seed_of_all}")
    chance = random.Random(seed_of_all)
    cluster = Cluster(broker.bootstrap)
    source, ours, theirs = f"{name}-in", f"{name}-confluent", f"{name}-java"
    for topic, partitions in ((source, 1), (ours, PARTITIONS), (theirs, 1)):
        cluster.create_topic(topic, partitions)
    [sent] = seed(broker.bootstrap, source, 1, RECORDS)
    copying = Copying(source, theirs, f"{theirs}-group", 10, 20_000, group_metadata=True)
    copier = Copier(copying, proxy.bootstrap, 0)
    confluent = Confluent(proxy.bootstrap, source, ours, seed_of_all)
    hits = proxy.hits
    with (
        ending(copier, confluent),
        CommittedReader(proxy.bootstrap, ours, PARTITIONS) as along_ours,
        CommittedReader(proxy.bootstrap, theirs, 1) as along_theirs,
    ):
        for number in range(rounds):
            confluent.until_commits(3)
            if copier.is_done():
                copier.until_done()
                sent += seed(broker.bootstrap, source, 1, RECORDS, len(sent))[0]
                copier.start()
            before = int(copier.status().get("totalProcessed", 0))
            copier.until_copied(before + 10, GOES_ON_WITHIN_S)
            if number % 3 == 2:
                proxy.kill_in(-1, 0, chance.uniform(0, 0.2))
            else:
                api = BY_NAME[chance.choice(APIS)].key
                proxy.kill_in(api, chance.choice((0, chance.uniform(0, 0.01))), PATIENCE_S)
            proxy.start_again()
        confluent.until_commits(3)
        confluent.kill()
        copier.program.stop()
        done = until_stable(cluster, confluent.group, source)
        assert done >= confluent.acknowledged(), "an acknowledged commit is missing"
        copied = until_stable(cluster, copying.group, source)
        along_ours.until_read(done * PARTITIONS)
        along_theirs.until_read(copied)
    told = {word: confluent.count(word) for word in ("committed", "aborted", "producer")}
    print(f"{rounds} kills, {proxy.hits - hits} between a request and its reply; {proxy.passed}")
    print(f"confluent-kafka: {told}, {len(confluent.lives)} processes, {done} records")
    print(f"Java: {copied} records")
    assert proxy.hits - hits >= rounds / 2
    for topic, partitions, end, along in (
        (ours, PARTITIONS, done, along_ours),
        (theirs, 1, copied, along_theirs),
    ):
        with CommittedReader(broker.bootstrap, topic, partitions) as after:
            after.until_read(end * partitions)
        assert_is_what_was_committed(f"{topic}, read along", sent, along.values, end)
        assert_is_what_was_committed(f"{topic}, read afterwards", sent, after.values, end)


def broker_behind(proxy: KillingProxy, brokers: Callable[..., Broker]) -> Broker:
    settings = {**SETTINGS, "advertised.listeners": f"PLAINTEXT://127.0.0.1:{proxy.port}"}
    proxy.broker = brokers(settings)
    return proxy.broker


@pytest.mark.proves("transactions 23")
@pytest.mark.timeout(300)
@pytest.mark.parametrize("rounds", [pytest.param(3, marks=pytest.mark.smoke), ROUNDS])
def test_transactions_survive_broker_kills(
    brokers: Callable[..., Broker], proxy: KillingProxy, name: str, rounds: int
) -> None:
    campaign(broker_behind(proxy, brokers), proxy, name, rounds)


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_transactions_survive_many_broker_kills(
    brokers: Callable[..., Broker], proxy: KillingProxy, name: str
) -> None:
    broker = broker_behind(proxy, brokers)
    for number in range(CAMPAIGNS):
        campaign(broker, proxy, f"{name}-{number}", ROUNDS)


@pytest.mark.smoke
@pytest.mark.planted("kill -9 under transactions")
@pytest.mark.parametrize(
    ("read", "committed", "found"),
    [
        ([["a", "b", "b"]], 3, "came out twice"),
        ([["a", "c"]], 2, "another order, or a hole"),
        ([["b", "a"]], 2, "another order, or a hole"),
        ([["a", "b"], ["a"]], 2, "offsets and data differ"),
        ([["a", "b"]], 1, "offsets and data differ"),
    ],
)
def test_transaction_checker_detects_duplicates_gaps_and_wrong_order(
    read: list[list[str]], committed: int, found: str
) -> None:
    with pytest.raises(AssertionError, match=found):
        assert_is_what_was_committed("planted", ["a", "b", "c"], read, committed)
