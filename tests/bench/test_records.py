"""Tests of `bench.records`, which measures produced and consumed records."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench import records
from bench.records import BATCH_BYTES, Load, Measured, batch, line, loads, measure, values
from protocol.records.batch import iter_batches, records_of
from tests.absent import program
from tests.brokers import Broker, running

ROW = Load("produce", 1000, "lz4", "all", 16)


def test_benchmark_loads_are_different_combinations_of_size_codec_and_acks() -> None:
    found = list(loads())
    assert len(set(found)) == len(found) == 9 * 3 + 4
    assert {(each.api, each.clients) for each in found} == {
        (api, clients) for api in ("produce", "consume") for clients in (1, 16, 100)
    }


@pytest.mark.parametrize("load", [ROW, ROW._replace(record_bytes=10_000, codec="none")])
def test_bench_batch_has_the_record_size_and_codec_of_the_load(load: Load) -> None:
    data = batch(load)
    ((header, _),) = iter_batches(data)
    assert [record.value for record in records_of(data, header)] == values(load.record_bytes)
    assert header.compression == {"none": 0, "lz4": 3}[load.codec]
    assert {len(value) for value in values(load.record_bytes)} == {load.record_bytes}
    assert BATCH_BYTES / 2 < sum(map(len, values(load.record_bytes))) <= BATCH_BYTES


def test_line_has_the_medians_and_the_ratios_of_muster_to_kafka() -> None:
    of_broker = {
        "muster": [Measured(30.0, 90.0), Measured(10.0, 50.0), Measured(20.0, 60.0)],
        "kafka": [Measured(40.0, 20.0)],
    }
    assert line(ROW, of_broker).split()[-6:] == ["20", "40", "60", "20", "0.50", "3.00"]


@pytest.mark.campaign
def test_bench_records_measures_a_running_broker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program("go", "golang-go")
    monkeypatch.setenv("BROKER_BENCH_CACHE", str(tmp_path / "cache"))
    broker = Broker(tmp_path / "data", records.SETTINGS)
    file = tmp_path / "batch"
    file.write_bytes(batch(ROW))
    with running(broker):
        for number, api in enumerate(("produce", "consume")):
            load = ROW._replace(api=api, clients=2)
            found = measure(broker, load, f"t{number}", file, 0.3)
            assert found.mb_per_s > 0
            assert found.mb_per_cpu_s > 0

        data = batch(ROW)
        file.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
        with pytest.raises(SystemExit, match="responses had an error"):
            measure(broker, ROW, "damaged", file, 0.3)
