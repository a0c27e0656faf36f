"""Sums that may be more than a long holds."""

from __future__ import annotations


def whole_sum(value: str) -> str:
    """Aggregate: the sum of whole numbers; null where it is more than a long holds."""
    return f"try_cast(sum(CAST({value} AS DECIMAL(38, 0))) AS BIGINT)"
