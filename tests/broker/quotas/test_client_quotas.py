"""The token buckets of client quotas: clients share buckets, unused buckets are evicted, and the
number of buckets is bounded."""

from __future__ import annotations

import pytest

from broker.config.config import Config
from broker.quotas import client_quotas
from broker.quotas.client_quotas import NAME_KEPT_MAX, OTHERS, UNUSED_MS, ClientQuotas, Kind
from security.quotas.entities import Entity
from tests.broker.mock_time import MockTime

BUCKETS = 8


@pytest.fixture
def time() -> MockTime:
    return MockTime()


@pytest.fixture
def quotas(time: MockTime, monkeypatch: pytest.MonkeyPatch) -> ClientQuotas:
    monkeypatch.setattr(client_quotas, "KEPT_MAX", BUCKETS)
    monkeypatch.setattr(client_quotas, "LOGGED_USERS_MAX", 2)
    quotas = ClientQuotas(Config({}), time)
    quotas.change({Entity(client_id=None): {"producer_byte_rate": 1000.0}})
    return quotas


def used(quotas: ClientQuotas, time: MockTime, client_id: str, amount: float = 9_000) -> int:
    share = quotas.shares_of("u", client_id).produce
    assert share is not None
    return share.use(amount, time.now().mono_ms)


def test_least_recently_used_quota_buckets_are_evicted(
    quotas: ClientQuotas, time: MockTime
) -> None:
    for number in range(BUCKETS):
        assert used(quotas, time, f"c{number}") == 0
        time.move(1)
    assert used(quotas, time, "c7") > 0
    used(quotas, time, "new")
    assert len(quotas._buckets) <= BUCKETS
    assert used(quotas, time, "c0") == 0, "forgotten"
    assert used(quotas, time, "c7") > 0, "remembered"


def test_clients_of_one_user_share_a_quota_bucket_after_the_old_bucket_was_evicted(
    time: MockTime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_quotas, "KEPT_MAX", BUCKETS)
    quotas = ClientQuotas(Config({}), time)
    rates = dict.fromkeys(("producer_byte_rate", "consumer_byte_rate"), 1000.0)
    quotas.change({Entity(user=None): {**rates, "controller_mutation_rate": 1.0}})
    for number in range(10 * BUCKETS):
        time.move(1)
        old = quotas.shares_of("u", "old")
        quotas.shares_of(f"user-{number}", "x")
        new = quotas.shares_of("u", f"new-{number}")
        assert old.produce is not None
        assert new.produce is not None
        again = quotas.shares_of("u", "old")
        assert again.produce is not None
        assert again.produce.bucket is new.produce.bucket, number
        assert again.mutation is not None
        assert new.mutation is not None
        assert again.mutation.bucket is new.mutation.bucket, number
    assert len(quotas._buckets) <= BUCKETS + 2


def test_quota_buckets_unused_for_an_hour_are_evicted_at_the_limit(
    quotas: ClientQuotas, time: MockTime
) -> None:
    for number in range(BUCKETS):
        used(quotas, time, f"c{number}")
    time.move(UNUSED_MS)
    used(quotas, time, "new")
    assert len(quotas._buckets) == 1


def test_long_client_name_is_not_stored_in_its_quota_bucket(
    quotas: ClientQuotas, time: MockTime
) -> None:
    beginning = "x" * NAME_KEPT_MAX
    rates = {"producer_byte_rate": 1000.0, "controller_mutation_rate": 1.0}
    quotas.change({Entity(client_id=None): rates, Entity(client_id=f"{beginning}b"): rates})
    for end in "ab":
        name = beginning + end
        assert used(quotas, time, name) == 0
        assert used(quotas, time, name) > 0, "it is the same one"
        quotas.shares_of(name, name)
    assert quotas.shares_of("u", f"{beginning}c" * 100) is quotas.shares_of(
        "u", f"{beginning}c" * 100
    )
    kept = [*quotas._shares, *quotas._buckets, *quotas._mutations]
    assert len(kept) == 5 + 3 + 3
    assert max(len(name) for place in kept for name in place) < 2 * NAME_KEPT_MAX


def test_token_bucket_adopts_a_changed_rate(quotas: ClientQuotas, time: MockTime) -> None:
    quotas.change({Entity("u"): {"controller_mutation_rate": 1.0}})
    tokens = quotas.shares_of("u", "c").mutation.bucket.tokens
    tokens.force(21, time.now().mono_ms)
    assert tokens.wait_ms(time.now().mono_ms) == 10_000
    quotas.change({Entity("u"): {"controller_mutation_rate": 10.0}})
    assert quotas.shares_of("u", "c").mutation.bucket.tokens is tokens
    assert tokens.wait_ms(time.now().mono_ms) == 1_000


def test_throttle_time_is_at_most_1_s_for_request_quotas_and_int32_max_ms_for_byte_quotas(
    quotas: ClientQuotas, time: MockTime
) -> None:
    quotas.change({Entity("u"): {"request_percentage": 1e-9, "consumer_byte_rate": 1.0}})
    shares = quotas.shares_of("u", "c")
    now_ms = time.now().mono_ms
    assert shares.request.use(50, now_ms) == 1_000
    assert shares.fetch.use(1 << 50, now_ms) == (1 << 31) - 1
    assert shares.fetch.at_once == 10


def test_throttle_times_of_users_above_the_maximum_number_are_summed_under_one_name(
    quotas: ClientQuotas,
) -> None:
    for user in ("a", "b", "c", "d", "a"):
        quotas.count(Kind.FETCH, 10, user)
    counted = {user: each.ms for user, each in quotas.throttled_users.items()}
    assert counted == {"a": 20, "b": 10, OTHERS: 20}
    assert quotas.throttled[Kind.FETCH].times == 5
