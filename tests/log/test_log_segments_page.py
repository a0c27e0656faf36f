"""A log writes and reads the same bytes as the example in docs/formats/segments.md."""

from __future__ import annotations

import re
from pathlib import Path

from tests.log.log_tools import DIRECTORY, NOW_MS, batch, open_log, values
from tests.simulated_files import SimulatedFiles

PAGE = Path(__file__).parents[2] / "docs" / "formats" / "segments.md"


def files_of_the_page() -> dict[str, bytes]:
    example = PAGE.read_text().split("## Example")[1].split("\n## ")[0]
    return {
        name: bytes.fromhex(dump)
        for name, dump in re.findall(r"^`(\S+)`\n\n((?:    [0-9a-f ]+\n)+)", example, re.M)
    }


def test_bytes_on_the_segments_page_equal_the_bytes_that_a_log_writes() -> None:
    fs = SimulatedFiles()
    log = open_log(fs, index_interval_bytes=100)
    for number, value in enumerate((b"a", b"b", b"c")):
        time = NOW_MS + number
        log.append(batch(0, value, timestamp_ms=time, producer=(7, 0, number)), 0, time)
    log.close()

    assert NOW_MS == 1700000000000
    assert files_of_the_page() == {
        name: fs.written(f"{DIRECTORY}/{name}") for name in fs.list(DIRECTORY)
    }


def test_log_opens_with_the_example_bytes_of_the_segments_page() -> None:
    fs = SimulatedFiles()
    for name, data in files_of_the_page().items():
        fs.put(f"{DIRECTORY}/{name}", data)

    log = open_log(fs, clean=True, recovery_point=3)

    assert log.recovery.rebuilt == []
    assert values(log) == [(0, b"a"), (1, b"b"), (2, b"c")]
    assert log.offset_for_timestamp(NOW_MS + 1) == (NOW_MS + 1, 1, 0)
    assert log.append(batch(0, b"c", producer=(7, 0, 2)), 0, NOW_MS).duplicate
