"""Sums of whole numbers that may exceed 64 bits."""

from __future__ import annotations


def whole_sum(value: str) -> str:
    """Return the SQL aggregate for the sum of whole numbers; null if the sum does not fit a
    BIGINT."""
    return f"try_cast(sum(CAST({value} AS DECIMAL(38, 0))) AS BIGINT)"
