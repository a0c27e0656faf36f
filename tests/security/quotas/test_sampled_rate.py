"""Tests that `SampledRate` returns exactly the same rate as Kafka."""

from __future__ import annotations

import csv
from itertools import groupby
from pathlib import Path

import pytest

from security.quotas.sampled_rate import ClientRate, SampledRate

WRITTEN = Path(__file__).parents[2] / "data" / "quotas"
"""Folder with rates that the classes ``SimpleRate`` and ``Rate`` of kafka-clients 3.9.2 measured in
random histories."""
FIRST_MS = 1_000_000


@pytest.mark.parametrize(
    ("kind", "name"), [(SampledRate, "simple_rate.csv"), (ClientRate, "rate.csv")]
)
def test_sampled_rate_equals_the_rate_that_kafka_measures(
    kind: type[SampledRate], name: str
) -> None:
    rows = csv.DictReader((WRITTEN / name).open())
    compared = 0
    for shape, history in groupby(rows, lambda row: (int(row["windows"]), int(row["window_ms"]))):
        rate = kind(*shape)
        for row in history:
            now_ms = int(row["now_ms"])
            if row["recorded"] != "0":
                rate.record(int(row["recorded"]), now_ms)
            if row["per_second"]:
                assert rate.per_second(now_ms) == pytest.approx(float(row["per_second"])), row
                compared += 1
    assert compared > 80


def test_sampled_rate_is_0_when_no_amount_was_recorded() -> None:
    assert SampledRate(11, 1000).per_second(FIRST_MS) == 0


def test_rate_counts_a_partial_window_as_a_whole_window() -> None:
    rate = SampledRate(11, 1000)
    rate.record(500, FIRST_MS)
    assert rate.per_second(FIRST_MS + 1) == 500
    assert rate.per_second(FIRST_MS + 2_000) == 250


def test_values_older_than_all_windows_are_removed_from_the_rate() -> None:
    rate = SampledRate(2, 1000)
    rate.record(500, FIRST_MS)
    assert rate.per_second(FIRST_MS + 1_999) > 0
    assert rate.per_second(FIRST_MS + 2_000) == 0


def test_number_of_windows_of_a_rate_is_bounded() -> None:
    rate = SampledRate(2, 1000)
    for second in range(100):
        rate.record(10, FIRST_MS + second * 1000)
    assert len(rate._windows) == 3
    assert rate.per_second(FIRST_MS + 99_000) == 20


def test_rate_of_a_burst_is_measured_over_ten_seconds() -> None:
    rate = ClientRate(11, 1000)
    rate.record(30_000, FIRST_MS)
    assert rate.per_second(FIRST_MS) == 3_000
    assert rate.wait_ms(1_000, FIRST_MS) == 20_000
    assert rate.wait_ms(3_000, FIRST_MS) == 0


def test_method_take_back_ends_the_delay_of_the_value_that_is_taken_back() -> None:
    rate = ClientRate(11, 1000)
    rate.record(30_000, FIRST_MS)
    rate.take_back(30_000, FIRST_MS)
    assert rate.wait_ms(1, FIRST_MS) == 0
