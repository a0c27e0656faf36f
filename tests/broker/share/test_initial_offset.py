"""The offset at which a new share group starts in a partition (``share.auto.offset.reset``)."""

from __future__ import annotations

import pytest

from broker.share.initial_offset import duration_ms


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("PT1H30M", 5_400_000),
        ("P3D", 259_200_000),
        ("P1DT2H", 93_600_000),
        ("PT0.5S", 500),
        ("PT-1S", -1_000),
        ("-PT1S", -1_000),
        ("P", None),
        ("PT", None),
        ("1h", None),
    ],
)
def test_duration_of_share_auto_offset_reset_is_parsed_as_in_java(
    text: str, ms: int | None
) -> None:
    assert duration_ms(text) == ms
