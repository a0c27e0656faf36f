"""Each response about transactions equals that of Apache Kafka.

Random traces of producers that fence each other run concurrently on the broker under test and on
Kafka. Kafka 4.3.1 runs with transaction.version 2, and Kafka 3.9.2 with an earlier version. See
tests/interop/transaction_traces and docs/use/differences.md. `SEED=n` runs only the trace of this
seed. `STEPS=n` sets the number of compared responses.
"""

from __future__ import annotations

import asyncio
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from protocol.errors import INVALID_PRODUCER_EPOCH, NONE, OUT_OF_ORDER_SEQUENCE_NUMBER
from tests.brokers import CHECKOUT, KIND, Broker, KafkaBroker, make_broker, running
from tests.interop.differential.brokers import NEW, OLD
from tests.interop.differential.wire import Target, Wire
from tests.interop.transaction_traces.campaign import Campaign
from tests.interop.transaction_traces.rules import NEXT_EPOCH, REASONS, reason_of
from tests.interop.transaction_traces.trace import TV1, TV2, VERSIONS, Step, trace_of

ENOUGH = {TV1: 5000, TV2: 5500}
"""By transaction version: the number of responses that a complete run compares. It is high enough
that the run covers nearly all API versions, and nearly all cells of its coverage table."""
STEPS = os.environ.get("STEPS")
SOAK_STEPS = int(STEPS or "60000")
"""The number of responses that the soak test compares. After every `ENOUGH` responses the test
starts new brokers, because more topics would exhaust Kafka's heap."""
SEEDS_APART = 10_000
SETTINGS = {
    "auto.create.topics.enable": "false",
    "group.coordinator.append.linger.ms": "0",
    "log.retention.ms": "-1",
    "offsets.topic.num.partitions": "4",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "300",
    "transaction.state.log.num.partitions": "4",
}
OURS = {TV1: {"transaction.version": "0"}, TV2: {}}
"""By transaction version: the settings that only Muster gets, not Kafka."""
PEERS = {TV1: OLD, TV2: NEW}


@contextmanager
def brokers(folder: Path, rules: str) -> Iterator[list[Target]]:
    """Yields the broker under test, and a Kafka with the same transaction.version."""
    peer = PEERS[rules]
    theirs = {k: v for k, v in SETTINGS.items() if peer == NEW or not k.startswith("group.")}
    own = {k: v for k, v in SETTINGS.items() if not k.startswith("group.")}
    tested = make_broker(folder / "tested" / "data", {**own, **OURS[rules]})
    kafka = KafkaBroker(folder / peer / "data", theirs, peer)
    if isinstance(tested, KafkaBroker):  # BROKER=kafka compares Kafka with itself
        tested = KafkaBroker(folder / "tested" / "data", theirs, peer)
    with running(tested, kafka):
        yield [Target("tested", tested.port), Target(peer, kafka.port)]


def judge(campaign: Campaign, capsys: pytest.CaptureFixture[str], *, whole: bool) -> None:
    campaign.whole = whole
    asyncio.run(campaign.run())
    with capsys.disabled():
        print("\n" + campaign.report())
    assert not campaign.failed, "\n".join(map(str, campaign.failed))
    if whole and KIND == "muster":
        assert not campaign.missing(), "\n".join(campaign.missing())


@pytest.mark.proves("transactions 32")
@pytest.mark.interop
@pytest.mark.parametrize("rules", [TV2, TV1])
def test_random_transactions_get_the_same_responses_as_from_kafka(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], rules: str
) -> None:
    seed = os.environ.get("SEED")
    with brokers(tmp_path, rules) as targets:
        if seed:
            judge(Campaign(targets, rules, int(seed), 1 << 30, 1), capsys, whole=False)
        else:
            steps = int(STEPS or ENOUGH[rules])
            judge(Campaign(targets, rules, 1, steps), capsys, whole=steps >= ENOUGH[rules])


@pytest.mark.interop
@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("rules", [TV2, TV1])
def test_random_transactions_with_new_seeds_get_the_same_responses_as_from_kafka(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], rules: str
) -> None:
    first_seed = int(os.environ.get("SEED") or secrets.randbelow(1 << 40))
    with capsys.disabled():
        print(f"\nseeds from {first_seed} on")
    for number in range(-(-SOAK_STEPS // ENOUGH[rules])):
        with brokers(tmp_path / str(number), rules) as targets:
            first = first_seed + number * SEEDS_APART
            judge(Campaign(targets, rules, first, ENOUGH[rules]), capsys, whole=True)


class LyingWire(Wire):
    """A connection that replaces error code 0 in responses of AddOffsetsToTxn version 2 by 48."""

    def send(
        self, name: str, version: int, value: dict[str, Any]
    ) -> asyncio.Future[dict[str, Any]]:
        future = super().send(name, version, value)
        if (name, version) != ("AddOffsetsToTxn", 2):
            return future
        return asyncio.ensure_future(self._lie(future))  # type: ignore[return-value]

    async def _lie(self, future: asyncio.Future[dict[str, Any]]) -> dict[str, Any]:
        answer = await future
        return {**answer, "error_code": answer["error_code"] or 48}


@pytest.mark.smoke
@pytest.mark.planted("traces of transactions compared with Kafka")
@pytest.mark.interop
def test_planted_difference_in_a_transaction_response_is_detected(tmp_path: Path) -> None:
    own = {key: value for key, value in SETTINGS.items() if not key.startswith("group.")}
    first, second = (Broker(tmp_path / name / "data", own) for name in ("a", "b"))
    with running(first, second):
        truth = Campaign([Target("a", first.port), Target("b", second.port)], TV2, 1, 400)
        asyncio.run(truth.run())
        assert not truth.failed
        assert truth.compared.total() >= 400
        liar = Target("liar", first.port, connection=LyingWire)
        lie = Campaign([liar, Target("b", second.port)], TV2, 1001, 4000, stop_after=1)
        asyncio.run(lie.run())
        [found, *_] = lie.failed
        assert "b: error_code 48 against 0" in found.difference
        assert "AddOffsetsToTxn v2" in found.story[-1]


def test_transaction_trace_depends_only_on_its_seed() -> None:
    assert trace_of(77, TV2, VERSIONS) == trace_of(77, TV2, VERSIONS)
    assert trace_of(77, TV2, VERSIONS) != trace_of(78, TV2, VERSIONS)


def test_transaction_traces_contain_every_version_of_every_api() -> None:
    asked = {(s.api, s.version) for seed in range(60) for s in trace_of(seed, TV2, VERSIONS)}
    wanted = {(a, v) for a, (first, last) in VERSIONS.items() for v in range(first, last + 1)}
    assert wanted <= asked


def test_comparison_without_steps_reports_all_transaction_apis_as_not_compared() -> None:
    campaign = Campaign([], TV2, 1, 0, ranges=dict(VERSIONS))
    missing = campaign.missing()
    assert "EndTxn v5 was compared 0 times, not 20" in missing
    assert "no EndTxn TV2 commit before while CompleteAbort" in missing


@pytest.mark.parametrize("theirs", [NONE, OUT_OF_ORDER_SEQUENCE_NUMBER])
def test_later_producer_epoch_is_rejected_before_the_sequence_is_checked(theirs: int) -> None:
    def answer(code: int) -> dict[str, Any]:
        return {"responses": [{"partition_responses": [{"error_code": code}]}]}

    mine, other = answer(INVALID_PRODUCER_EPOCH), answer(theirs)
    reasons = [
        reason_of(Step(0, "Produce", 6, {"who": who}), "Ongoing", mine, other)
        for who in ("next", "own")
    ]
    assert reasons == [NEXT_EPOCH, None]


def test_differences_page_lists_exactly_the_accepted_transaction_differences() -> None:
    page = (CHECKOUT / "docs" / "use" / "differences.md").read_text().split("## Transactions")[1]
    page = page.split("\n## ")[0]
    rows = {line.split("|")[1].strip() for line in page.splitlines() if line.startswith("| ")}
    assert rows == {"what", *(reason.text for reason in REASONS)}
