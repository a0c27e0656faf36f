"""Tests that `TokenBucket` always has exactly the same number of tokens as Kafka's token bucket."""

from __future__ import annotations

import csv
from itertools import groupby
from pathlib import Path

import pytest

from security.quotas.token_bucket import TokenBucket

WRITTEN = Path(__file__).parents[2] / "data" / "quotas" / "token_bucket.csv"
"""File with the tokens that a ``TokenBucket`` of kafka-clients 3.9.2 had in random histories."""


def test_token_bucket_has_the_same_tokens_as_in_kafka():
    rows = list(csv.DictReader(WRITTEN.open()))
    for shape, history in groupby(
        rows, lambda row: (row["windows"], row["window_ms"], row["rate"])
    ):
        bucket = None
        for row in history:
            now_ms = int(row["now_ms"])
            if bucket is None:
                bucket = TokenBucket(int(shape[0]), int(shape[1]), float(shape[2]), now_ms)
            if row["taken"] != "0":
                bucket.force(int(row["taken"]), now_ms)
            assert bucket.permits(now_ms) == pytest.approx(float(row["permits"])), row
    assert len(rows) == 180


def test_token_bucket_allows_one_overdraft_and_then_refuses():
    bucket = TokenBucket(11, 1000, 2, now_ms=0)
    assert bucket.take(20, 0)
    assert bucket.take(10, 0)  # 2 permits are left: this call overdraws the bucket
    assert not bucket.take(1, 0)
    assert bucket.permits(0) == -8
    assert bucket.wait_ms(0) == 4_000
    assert bucket.wait_ms(1_000) == 3_000
    assert bucket.take(1, 4_000)


def test_lower_rate_of_a_token_bucket_reduces_the_tokens_already_in_the_bucket():
    bucket = TokenBucket(10, 1000, 5, now_ms=0)
    bucket.configure(1, 0)
    assert bucket.permits(0) == 10
    assert bucket.permits(1_000_000) == 10
