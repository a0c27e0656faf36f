"""Each response of the group coordinator equals that of Apache Kafka.

Random traces of many clients run concurrently on the broker under test, on Kafka 4.3.1 and on Kafka
3.9.2. See tests/interop/differential and docs/use/differences.md. `SEED=n` runs only the trace of
this seed. `STEPS=n` sets the number of compared responses.
"""

from __future__ import annotations

import asyncio
import os
import secrets
from pathlib import Path

import pytest

from tests.brokers import KIND
from tests.interop.differential.brokers import targets, three_brokers
from tests.interop.differential.campaign import Campaign
from tests.interop.differential.trace import MAX_SIZE
from tests.interop.differential.wire import Target

pytestmark = [pytest.mark.interop, pytest.mark.proves("kafka 1")]
STEPS = int(os.environ.get("STEPS", "4500"))
SOAK_STEPS = int(os.environ.get("STEPS", "100000"))
SETTINGS = {"group.max.size": str(MAX_SIZE)}


def run(brokers: list[Target], first_seed: int, steps: int, seeds: int = 1 << 30) -> Campaign:
    campaign = Campaign(brokers, first_seed, steps, seeds)
    asyncio.run(campaign.run())
    return campaign


def judge(campaign: Campaign, capsys: pytest.CaptureFixture[str], *, whole: bool) -> None:
    print(campaign.coverage.detail())
    with capsys.disabled():
        print("\n" + campaign.report() + "\n" + campaign.differences())
    assert not campaign.failed, f"differences:\n{campaign.differences()}"
    if whole and KIND == "muster":
        assert not campaign.coverage.missing()


def test_random_request_traces_get_the_same_responses_as_from_kafka(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    seed = os.environ.get("SEED")
    with three_brokers(tmp_path, SETTINGS, zookeeper=True) as brokers:
        if seed:
            judge(run(targets(brokers), int(seed), 1 << 30, 1), capsys, whole=False)
        else:
            judge(run(targets(brokers), 1, STEPS), capsys, whole=STEPS >= 4500)


@pytest.mark.soak
def test_random_request_traces_with_new_seeds_get_the_same_responses_as_from_kafka(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first_seed = int(os.environ.get("SEED") or secrets.randbelow(1 << 40))
    with capsys.disabled():
        print(f"\nseeds from {first_seed} on")
    with three_brokers(tmp_path, SETTINGS, zookeeper=True) as brokers:
        judge(run(targets(brokers), first_seed, SOAK_STEPS), capsys, whole=True)
