"""What is recorded of a request's time: never more than has passed, however its pieces nest."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from time import perf_counter

from broker.quotas.client_quotas import Share
from protocol.errors import NONE, TOPIC_AUTHORIZATION_FAILED
from protocol.messages.fetch import API as FETCH
from protocol.messages.metadata import API as METADATA
from tests.broker.apis.authorization.rules import Rules
from tests.broker.apis.throttling.bounded import ANYBODY, Bounded, bounded
from tests.broker.serving import asked
from tests.broker.topic_calls import fetch_request
from tests.broker.transactional import initialized
from tests.wire import Wire

MUCH = 1e9
"""Percent of the loop's time: nobody waits, and all is recorded."""
JUDGED_LATER = 300
"""Topics of a Fetch that are judged in a piece of work of its own."""


def recorded_s(bound: Bounded, client_id: str) -> float:
    """What the user has used, while the clock stands."""
    share = bound.broker.secured.quotas.quotas.shares_of(ANYBODY.user or "", client_id).request
    assert isinstance(share, Share)
    now_ms = bound.time.now().mono_ms
    windows_s = share.windows_ms / 1000
    return share.bucket.rate.per_second(now_ms) * windows_s / 100


@asynccontextmanager
async def no_more_than_passes(bound: Bounded, client_id: str) -> AsyncIterator[None]:
    """What is done meanwhile takes some time, and no more of it is recorded than has passed."""
    before_s, began_s = recorded_s(bound, client_id), perf_counter()
    yield
    used_s = recorded_s(bound, client_id) - before_s
    assert 0 < used_s < perf_counter() - began_s


async def test_partitions_added_to_a_transaction(tmp_path: Path) -> None:
    """The coordinator's reply is taken in one piece of work, which begins another."""

    def added(wire: Wire) -> int:
        return initialized(wire, "id", rules=1).add({"t": [0]}, version=3)

    async with bounded(tmp_path) as bound:
        await bound.set(request_percentage=MUCH)
        async with no_more_than_passes(bound, "wire"):
            assert await asked(bound.broker, added) == NONE


async def test_a_topic_that_is_made_for_who_asks_of_it(tmp_path: Path) -> None:
    async with bounded(tmp_path) as bound:
        await bound.set(request_percentage=MUCH)
        client = await bound.client()
        async with no_more_than_passes(bound, "tester"):
            answer = await client.call(METADATA.key, 9, topics=[{"name": "new"}])
        assert answer["topics"][0]["error_code"] == NONE
        assert "new" in bound.broker.logs.topics


async def test_a_fetch_whose_topics_are_judged_first(tmp_path: Path) -> None:
    async with bounded(tmp_path, authorizer=Rules()) as bound:
        await bound.set(request_percentage=MUCH)
        client = await bound.client()
        request = fetch_request("t")
        topics = [{**request["topics"][0], "topic": f"t{n}"} for n in range(JUDGED_LATER)]
        async with no_more_than_passes(bound, "tester"):
            answer = await client.call(FETCH.key, 12, **{**request, "topics": topics})
        told = {each["partitions"][0]["error_code"] for each in answer["responses"]}
        assert told == {TOPIC_AUTHORIZATION_FAILED}
