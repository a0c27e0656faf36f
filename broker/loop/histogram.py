"""Cheap histograms for hot paths: a list of counts, one for each power of two.

Values are integers in a small unit, such as nanoseconds. Bucket n counts the values that have n
bits, so they are less than 2**n. Adding a value costs a `bit_length` and two additions. The code
that exports a histogram chooses which buckets it exports, and in which unit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field

from protocol.slotted import slotted

BUCKETS = 64


class Histogram:
    """Counts of values by powers of two, and the sum of the values."""

    __slots__ = ("counts", "total")

    def __init__(self) -> None:
        self.counts = [0] * BUCKETS
        """The number of values that have n bits, at index n. Hot paths increment it directly."""
        self.total = 0

    def add(self, value: int) -> None:
        """Counts one value, which is at least 0 and below 2**63."""
        self.counts[value.bit_length()] += 1
        self.total += value

    @property
    def count(self) -> int:
        return sum(self.counts)

    def cumulative(self, first_bits: int, last_bits: int) -> list[tuple[int, int]]:
        """Returns pairs of a bound and the number of values below it. The bounds are 2**n, for n
        from ``first_bits`` to ``last_bits``."""
        below = sum(self.counts[:first_bits])
        found = []
        for bits in range(first_bits, last_bits + 1):
            below += self.counts[bits]
            found.append((1 << bits, below))
        return found

    def quantiles(self, shares: Sequence[float]) -> list[float]:
        """Returns a quantile for each number in ``shares`` (0 to 1), interpolated linearly within a
        bucket."""
        count = self.count
        found = []
        for share in shares:
            wanted = share * count
            low, below = 0.0, 0
            for bits, here in enumerate(self.counts):
                high = float(1 << bits) if bits else 0.0
                if here and below + here >= wanted:
                    low += (high - low) * (wanted - below) / here
                    break
                below += here
                low = high
            found.append(low if count else 0.0)
        return found


@slotted
class Writes:
    """The durations and sizes of the appends to one kind of log."""

    append: Histogram = field(default_factory=Histogram)
    """The durations of appends in nanoseconds."""
    records: Histogram = field(default_factory=Histogram)
    """The number of records of each append."""
    fsync: Histogram = field(default_factory=Histogram)
    """The durations of fsyncs in nanoseconds, measured by the code that waits for them."""
