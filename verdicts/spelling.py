"""How partitions and hosts are spelled, in findings and in the command line alike."""

from __future__ import annotations

from collections.abc import Iterable


def ranges(numbers: Iterable[int]) -> str:
    """Partitions of one topic: ``0-1,5``."""
    runs: list[list[int]] = []
    for number in sorted(set(numbers)):
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ",".join([str(low) if low == high else f"{low}-{high}" for low, high in runs])


def plain_host(host: str) -> str:
    """A client's host as its address alone: Java writes ``/127.0.0.1`` or ``name/127.0.0.1``."""
    return host.rpartition("/")[2]
