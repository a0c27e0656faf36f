"""Sums of whole numbers that may exceed 64 bits."""

from __future__ import annotations


def whole_sum(value: str) -> str:
    """Returns the SQL aggregate for a sum of whole numbers. The result is null if the sum does not
    fit a BIGINT."""
    return f"try_cast(sum(CAST({value} AS DECIMAL(38, 0))) AS BIGINT)"
