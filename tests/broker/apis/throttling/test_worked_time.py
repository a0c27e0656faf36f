"""Tests that the recorded time of a request never exceeds the elapsed time, even if one measured
part of its work starts another measured part."""

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
from tests.broker.apis.throttling.bounded import ANYBODY, QuotaBroker, broker_with_quotas
from tests.broker.serving import asked
from tests.broker.topic_calls import fetch_request
from tests.broker.transactional import initialized
from tests.wire import Wire

MUCH = 1e9
"""A request quota in percent of the event loop's time. It is so high that no client is throttled,
but the time is recorded."""
JUDGED_LATER = 300
"""A number of topics so large that Fetch does not authorize them at once, but in slices."""


def recorded_s(bound: QuotaBroker, client_id: str) -> float:
    """Returns the request time in seconds that is recorded for a client. The mock clock must be
    frozen."""
    share = bound.broker.secured.quotas.quotas.shares_of(ANYBODY.user or "", client_id).request
    assert isinstance(share, Share)
    now_ms = bound.time.now().mono_ms
    windows_s = share.windows_ms / 1000
    return share.bucket.rate.per_second(now_ms) * windows_s / 100


@asynccontextmanager
async def recorded_time_is_bounded(bound: QuotaBroker, client_id: str) -> AsyncIterator[None]:
    """Checks that the time recorded within this context is above zero and at most the duration of
    the context."""
    before_s, began_s = recorded_s(bound, client_id), perf_counter()
    yield
    used_s = recorded_s(bound, client_id) - before_s
    assert 0 < used_s < perf_counter() - began_s


async def test_recorded_request_time_of_add_partitions_is_at_most_the_elapsed_time(
    tmp_path: Path,
) -> None:
    """The broker works on the request before it calls the coordinator, and after the reply."""

    def added(wire: Wire) -> int:
        return initialized(wire, "id", rules=1).add({"t": [0]}, version=3)

    async with broker_with_quotas(tmp_path) as bound:
        await bound.set(request_percentage=MUCH)
        async with recorded_time_is_bounded(bound, "wire"):
            assert await asked(bound.broker, added) == NONE


async def test_recorded_time_of_a_metadata_request_that_creates_topics_is_at_most_the_elapsed_time(
    tmp_path: Path,
) -> None:
    async with broker_with_quotas(tmp_path) as bound:
        await bound.set(request_percentage=MUCH)
        client = await bound.client()
        async with recorded_time_is_bounded(bound, "tester"):
            answer = await client.call(METADATA.key, 9, topics=[{"name": "new"}])
        assert answer["topics"][0]["error_code"] == NONE
        assert "new" in bound.broker.logs.topics


async def test_time_counted_for_a_fetch_of_denied_topics_is_at_most_the_elapsed_time(
    tmp_path: Path,
) -> None:
    async with broker_with_quotas(tmp_path, authorizer=Rules()) as bound:
        await bound.set(request_percentage=MUCH)
        client = await bound.client()
        request = fetch_request("t")
        topics = [{**request["topics"][0], "topic": f"t{n}"} for n in range(JUDGED_LATER)]
        async with recorded_time_is_bounded(bound, "tester"):
            answer = await client.call(FETCH.key, 12, **{**request, "topics": topics})
        told = {each["partitions"][0]["error_code"] for each in answer["responses"]}
        assert told == {TOPIC_AUTHORIZATION_FAILED}
