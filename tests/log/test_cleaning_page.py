"""Tests that the example in docs/internals/cleaning.md shows the result of a cleaning."""

from __future__ import annotations

from pathlib import Path

from protocol.records.batch import encode_batch, read_header, records_of
from protocol.records.section import Record
from tests.log.cleaning_tools import clean_log
from tests.log.log_tools import open_log
from tests.simulated_files import SimulatedFiles

PAGE = Path(__file__).parents[2] / "docs" / "internals" / "cleaning.md"


def test_documented_cleaned_batch_equals_the_result_of_a_cleaning() -> None:
    example = PAGE.read_text().partition("## A worked example")[2]
    documented = bytes.fromhex(
        "".join(line for line in example.splitlines() if line.startswith("    "))
    )
    log = open_log(SimulatedFiles(), cleanup_policy="compact", delete_retention_ms=1000)
    for first, pairs in (
        (0, [(b"a", b"1"), (b"b", b"1"), (b"a", None), (b"c", b"1")]),
        (4, [(b"c", b"2")]),
    ):
        records = [Record(first + n, 1000 + first + n, *pair) for n, pair in enumerate(pairs)]
        log.append(encode_batch(records), 0, 5000)
    log.roll()

    clean_log(log, 0, 5000)

    data = log.read(0, 1000).data
    header = read_header(data)
    assert data[: header.size_bytes] == documented
    assert (header.last_offset, header.delete_horizon_ms) == (3, 6000)
    assert [record[:4] for record in records_of(data, header)] == [
        (1, 1001, b"b", b"1"),
        (2, 1002, b"a", None),
    ]
