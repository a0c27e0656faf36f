"""Tests of reads from faulty brokers: leaders move, brokers fail, logs are truncated, and responses
are wrong."""

from __future__ import annotations

import struct
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pyarrow as pa
import pytest

from cli.errors import UNREACHABLE
from pipeline.errors import PipelineError, Unreachable
from pipeline.model.events import EVENTS
from pipeline.sources.wire.brokers import Brokers, Reach
from pipeline.sources.wire.listing import LATEST, list_known
from pipeline.sources.wire.log import LogPart
from pipeline.sources.wire.source import BrokerSource
from protocol import errors
from tests.cli.running import run
from tests.pipeline.fake_brokers import (
    OFFSETS_TOPIC,
    FakeBroker,
    Value,
    asked_of,
    entry,
    fetched,
    from_log,
    listed,
    metadata,
)
from tests.pipeline.small_logs import NOON, batch_of, commit

LOG = b"".join(batch_of(n, commit("g", "orders", [10 * n]), at_ms=NOON + n) for n in range(6))
HELD = [0, 10, 20, 30, 40, 50]
SOON_S = 2.0


class Fakes:
    """A cluster of fake brokers. `leaders` maps partitions of __consumer_offsets to brokers."""

    def __init__(self, ends: ExitStack) -> None:
        self._ends = ends
        self.brokers: dict[int, FakeBroker] = {}
        self.leaders = {0: 1}
        self.start, self.end = 0, 6

    def add(self, **answers: object) -> FakeBroker:
        known = {"Metadata": self.metadata, "ListOffsets": self.bounds, "Fetch": self.fetch}
        broker = self._ends.enter_context(FakeBroker({**known, **answers}))  # type: ignore[dict-item]
        self.brokers[len(self.brokers) + 1] = broker
        return broker

    def metadata(self, _: FakeBroker, asked: Value) -> Value:
        return metadata(self.brokers, self.leaders)

    def bounds(self, _: FakeBroker, asked: Value) -> Value:
        return listed(asked, lambda _, at: self.end if at == LATEST else self.start)

    def fetch(self, _: FakeBroker, asked: Value) -> Value:
        answer = from_log(LOG)
        return fetched([answer(each, number) for number, each in asked_of(asked).items()])

    def reach(self, timeout_s: float = SOON_S) -> Reach:
        return Reach((("127.0.0.1", self.brokers[1].port),), timeout_s=timeout_s)

    def read(self, timeout_s: float = SOON_S) -> list[int]:
        """Reads the log and returns the committed offsets in log order."""
        rows = self.rows(timeout_s)
        assert [row["kind"] for row in rows] == ["commit"] * len(rows)
        return [row["committed_offset"] for row in rows]

    def rows(self, timeout_s: float = SOON_S) -> list[Value]:
        parts = BrokerSource("here", self.reach(timeout_s)).event_parts(None)
        batches = [each for part in parts for each in part.read()]
        return pa.Table.from_batches(batches, EVENTS).to_pylist()


@pytest.fixture
def fakes() -> Iterator[Fakes]:
    with ExitStack() as ends:
        yield Fakes(ends)


def test_reader_reads_the_complete_log_of_a_single_broker(fakes: Fakes) -> None:
    first = fakes.add()

    assert fakes.read() == HELD
    assert {each["isolation_level"] for each in first.requests("Fetch")} == {0}


def test_reader_follows_a_leader_that_moves_to_another_broker(fakes: Fakes) -> None:
    def moved(_: FakeBroker, asked: Value) -> Value:
        fakes.leaders[0] = 2
        return fetched([entry(0, code=errors.NOT_LEADER_OR_FOLLOWER)])

    first = fakes.add(Fetch=moved)
    second = fakes.add()

    assert fakes.read() == HELD
    assert len(first.requests("Fetch")) == 1
    assert len(second.requests("Fetch")) == 6


def test_reader_continues_at_the_new_leader_without_duplicates(
    fakes: Fakes,
) -> None:
    def short(broker: FakeBroker, asked: Value) -> Value | None:
        if len(broker.requests("Fetch")) < 4:
            return fakes.fetch(broker, asked)
        fakes.leaders[0] = 2
        return None

    fakes.add(Fetch=short)
    second = fakes.add()

    assert fakes.read() == HELD
    assert [asked_of(each)[0]["fetch_offset"] for each in second.requests("Fetch")] == [3, 4, 5]


def test_reader_continues_at_the_new_log_start_offset(fakes: Fakes) -> None:
    def cut(broker: FakeBroker, asked: Value) -> Value:
        if asked_of(asked)[0]["fetch_offset"] in (2, 3):
            fakes.start = 4
            return fetched([entry(0, code=errors.OFFSET_OUT_OF_RANGE)])
        return fakes.fetch(broker, asked)

    fakes.add(Fetch=cut)

    assert fakes.read() == [0, 10, 40, 50]


def test_reader_stops_at_the_end_of_a_truncated_log(fakes: Fakes) -> None:
    def cut(broker: FakeBroker, asked: Value) -> Value:
        if asked_of(asked)[0]["fetch_offset"] >= 3:
            fakes.end = 3
            return fetched([entry(0, code=errors.OFFSET_OUT_OF_RANGE)])
        return fakes.fetch(broker, asked)

    fakes.add(Fetch=cut)

    assert fakes.read() == [0, 10, 20]


def test_reader_does_not_wait_for_compacted_offsets_at_the_log_end(fakes: Fakes) -> None:
    fakes.add()
    fakes.end = 9

    assert fakes.read(timeout_s=600) == HELD


def test_partition_without_records_is_first_in_the_next_fetch(fakes: Fakes) -> None:
    """Kafka fills a Fetch response in the order of the request, and guarantees a batch only to the
    first partition."""

    def one_at_a_time(_: FakeBroker, asked: Value) -> Value:
        answer = from_log(LOG)
        partitions = list(asked_of(asked).items())
        [first, *others] = partitions
        return fetched([answer(first[1], first[0]), *(entry(number) for number, _ in others)])

    fakes.leaders = {0: 1, 1: 1, 2: 1}
    broker = fakes.add(Fetch=one_at_a_time)

    assert sorted(fakes.read(timeout_s=600)) == sorted(HELD * 3)
    assert [next(iter(asked_of(each))) for each in broker.requests("Fetch")][:4] == [0, 1, 2, 0]


def test_reader_continues_after_an_empty_throttled_response(fakes: Fakes) -> None:
    def throttled(broker: FakeBroker, asked: Value) -> Value:
        if len(broker.requests("Fetch")) % 2:
            return fetched([], throttle_time_ms=1)
        return fakes.fetch(broker, asked)

    fakes.add(Fetch=throttled)

    assert fakes.read() == HELD


def test_reader_fetches_from_several_brokers_concurrently(fakes: Fakes) -> None:
    """Each fake broker delays its first response until the other broker has received a request."""
    both = threading.Barrier(2)

    def together(broker: FakeBroker, asked: Value) -> Value:
        if len(broker.requests("Fetch")) == 1:
            both.wait(20)
        return fakes.fetch(broker, asked)

    fakes.leaders = {0: 1, 1: 2}
    fakes.add(Fetch=together)
    fakes.add(Fetch=together)

    assert sorted(fakes.read(timeout_s=20)) == sorted(HELD * 2)


@pytest.mark.parametrize("node", [-1, 7])
def test_partition_without_leader_is_reported_unreachable(fakes: Fakes, node: int) -> None:
    fakes.add()
    fakes.leaders = {0: node}

    said = (
        f"{OFFSETS_TOPIC}:0 .*(has no leader|led by broker 7); no broker served the partition"
        " within 0.2 s"
    )
    with pytest.raises(Unreachable, match=said):
        fakes.read(timeout_s=0.2)


def test_closed_connection_is_reported_unreachable(fakes: Fakes) -> None:
    fakes.add(Fetch=lambda *_: None)

    with pytest.raises(Unreachable, match="closed the connection during Fetch"):
        fakes.read(timeout_s=1.0)


def test_command_has_the_exit_code_unreachable_when_its_broker_fails(
    fakes: Fakes, tmp_path: Path
) -> None:
    fakes.add(Fetch=lambda *_: None)
    where = f"127.0.0.1:{fakes.brokers[1].port}"

    ran = run(
        "pipeline", "commits", "--source", where, "--out", str(tmp_path / "out"), "--timeout", "1"
    )

    assert ran.code == UNREACHABLE
    assert ran.err.startswith(f"muster: the broker at {where} closed the connection during Fetch;")


def test_response_whose_size_field_claims_2_gb_is_rejected(fakes: Fakes) -> None:
    fakes.add(Fetch=lambda *_: struct.pack(">i", (1 << 31) - 1))

    with pytest.raises(Unreachable, match="does not speak Kafka's protocol"):
        fakes.read(timeout_s=1.0)


def test_unauthorized_fetch_names_the_missing_acl(fakes: Fakes) -> None:
    refused = fetched([entry(0, code=errors.TOPIC_AUTHORIZATION_FAILED)])
    fakes.add(Fetch=lambda *_: refused)

    with pytest.raises(PipelineError, match="needs the ACL Read on the topic"):
        fakes.read()


def test_batch_with_wrong_checksum_is_one_damaged_row(fakes: Fakes) -> None:
    size = len(LOG) // 6
    broken = bytearray(LOG)
    broken[2 * size + 40] ^= 1
    answer = from_log(bytes(broken))
    fakes.add(Fetch=lambda _, asked: fetched([answer(asked_of(asked)[0], 0)]))

    rows = fakes.rows()

    assert [row["kind"] for row in rows] == ["commit", "commit", "damaged", *["commit"] * 3]
    assert "CRC" in rows[2]["damage"]["reason"]
    assert rows[2]["log_offset"] == 2


def test_garbage_instead_of_a_batch_ends_the_read_with_a_row_of_kind_damaged(fakes: Fakes) -> None:
    answer = from_log(LOG[: len(LOG) // 2])
    junk = bytes(16) + b"\x09" + bytes(80)

    def fetch(_: FakeBroker, asked: Value) -> Value:
        found = answer(asked_of(asked)[0], 0)
        return fetched([found if found["records"] else entry(0, junk)])

    fakes.add(Fetch=fetch)

    rows = fakes.rows()

    assert [row["kind"] for row in rows] == ["commit"] * 3 + ["damaged"]
    assert "The rest of the fetched records was not read" in rows[3]["damage"]["reason"]


def test_offsets_by_time_are_unknown_when_a_partition_has_no_leader(fakes: Fakes) -> None:
    fakes.add(
        ListOffsets=lambda _, asked: listed(asked, lambda *_: 0, errors.NOT_LEADER_OR_FOLLOWER)
    )
    with Brokers(fakes.reach(0.3)) as brokers:
        brokers.look(None)
        asks = [((OFFSETS_TOPIC, 0), LATEST), (("gone", 0), LATEST)]

        assert list_known(brokers, asks) == [None, None]


def test_lookup_of_offsets_raises_unreachable_when_no_broker_responds(fakes: Fakes) -> None:
    broker = fakes.add()
    with Brokers(fakes.reach(0.3)) as brokers:
        brokers.look(None)
        brokers.close()
        broker.__exit__()

        with pytest.raises(Unreachable, match="no broker answers"):
            list_known(brokers, [((OFFSETS_TOPIC, 0), LATEST)])


def test_reader_omits_records_outside_the_requested_offsets_from_a_fetched_batch(
    fakes: Fakes,
) -> None:
    fakes.add()
    whole = batch_of(0, *(commit("g", "orders", [n]) for n in range(6)))
    answer = from_log(whole)
    fakes.brokers[1].answers = {
        **fakes.brokers[1].answers,
        "Fetch": lambda _, asked: fetched([answer(asked_of(asked)[0], 0)]),
    }

    [rows] = LogPart(fakes.reach(), ((0, 2, 4),)).read()

    assert rows["log_offset"].to_pylist() == [2, 3]
