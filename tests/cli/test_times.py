from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cli.errors import USAGE, CommandError
from cli.times import datetime_ms, duration_ms, instant, span
from client.spelling import LONGEST_MS

NOON_MS = 1_769_860_800_000


@pytest.mark.parametrize(
    ("wall_ms", "shown"),
    [
        (0, "1970-01-01T00:00:00Z"),
        (NOON_MS + 999, "2026-01-31T12:00:00Z"),
        (-1, "1969-12-31T23:59:59Z"),
        (253_402_300_799_999, "9999-12-31T23:59:59Z"),
        (253_402_300_800_000, "253402300800000 ms"),
        (-(2**63), "-9223372036854775808 ms"),
    ],
)
def test_instant_is_printed_in_utc_with_seconds(wall_ms: int, shown: str) -> None:
    assert instant(wall_ms) == shown


def test_instant_is_printed_with_milliseconds_when_requested() -> None:
    assert instant(NOON_MS + 7, to_the_ms=True) == "2026-01-31T12:00:00.007Z"


@given(wall_ms=st.integers(0, 253_402_300_799_999))
def test_printed_instant_is_parsed_as_the_same_instant(wall_ms: int) -> None:
    assert datetime_ms(instant(wall_ms, to_the_ms=True)) == wall_ms
    assert datetime_ms(instant(wall_ms)) == wall_ms // 1000 * 1000


@pytest.mark.parametrize(
    "text",
    [
        "2026-01-31T12:00:00",
        "2026-01-31T12:00:00Z",
        " 2026-01-31 12:00 ",
        "2026-01-31T13:00:00.000+01:00",
        "2026-01-31T08:30:00-03:30",
        "20260131T120000Z",
        str(NOON_MS),
    ],
)
def test_time_is_parsed_in_utc_when_it_names_no_time_zone(text: str) -> None:
    assert datetime_ms(text) == NOON_MS


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "write the time as 2026-01-31T12:00:00Z"),
        ("noon", "write the time as"),
        ("0000-01-01T00:00:00", "write the time as"),
        ("99999-01-01T00:00:00", "write the time as"),
        ("2026-02-30", "write the time as"),
        ("12:00:00", "write the time as"),
        ("1769860800", "13 digits"),
        ("17698608000000", "13 digits"),
        ("1969-12-31T23:59:59.999", "before 1970"),
        ("0001-01-01T00:00:00+14:00", "before 1970"),
    ],
)
def test_invalid_time_is_rejected_with_the_reason(text: str, says: str) -> None:
    with pytest.raises(CommandError, match=says) as caught:
        datetime_ms(text, "--at")
    assert str(caught.value).startswith(f"--at {text}: ")
    assert caught.value.exit_code == USAGE


def test_number_of_13_digits_is_parsed_as_a_timestamp_in_milliseconds() -> None:
    assert instant(datetime_ms("2026112212053")) == "2034-03-16T08:56:52Z"


@pytest.mark.parametrize(
    ("text", "expected_s"),
    [
        ("PT1H30M", 5400),
        ("P7D", 604_800),
        ("P1DT1S", 86_401),
        ("pt0.5s", 0.5),
        ("250ms", 0.25),
        ("30s", 30),
        ("90m", 5400),
        ("12h", 43_200),
        ("7d", 604_800),
        ("2w", 1_209_600),
    ],
)
def test_duration_is_parsed_from_iso_8601_or_from_a_number_with_a_unit(
    text: str, expected_s: float
) -> None:
    assert duration_ms(text) == expected_s * 1000


@pytest.mark.parametrize("text", ["", "P", "PT", "90", "1h30m", "P1H", "-P1D"])
def test_invalid_duration_is_rejected(text: str) -> None:
    with pytest.raises(CommandError, match="PT1H30M"):
        duration_ms(text)


@pytest.mark.parametrize("text", [f"{LONGEST_MS + 1}ms", "9" * 5000 + "d", f"P{'9' * 400}W"])
def test_duration_beyond_100_years_is_rejected(text: str) -> None:
    with pytest.raises(CommandError, match="longer than 100 years") as caught:
        duration_ms(text, "--within")
    assert caught.value.exit_code == USAGE
    assert duration_ms(f"{LONGEST_MS}ms") == LONGEST_MS


@pytest.mark.parametrize(
    ("milliseconds", "shown"),
    [
        (0, "0 ms"),
        (999, "999 ms"),
        (10_200, "10.2 s"),
        (600_000, "10 min"),
        (7_200_000, "2 h"),
        (259_200_000, "3 days"),
    ],
)
def test_duration_is_printed_in_its_largest_suitable_unit(milliseconds: int, shown: str) -> None:
    assert span(milliseconds) == shown
