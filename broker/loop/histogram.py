"""Cheap histograms for hot paths: a list of counts, one for each power of two.

Values are whole numbers of a small unit (nanoseconds, records). Bucket n counts the values with n
bits, which are less than 2**n. To add a value takes a `bit_length` and two additions. The code that
exports a histogram chooses the exported buckets and their unit.
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
        """Index n: the number of values with n bits. Hot paths increment it directly."""
        self.total = 0
        """The sum of the values."""

    def add(self, value: int) -> None:
        """Counts one value, which is at least 0 and below 2**63."""
        self.counts[value.bit_length()] += 1
        self.total += value

    @property
    def count(self) -> int:
        """The number of values that were counted."""
        return sum(self.counts)

    def cumulative(self, first_bits: int, last_bits: int) -> list[tuple[int, int]]:
        """Returns pairs (bound, number of values below this bound), for the bounds 2**n with n from
        ``first_bits`` to ``last_bits``."""
        below = sum(self.counts[:first_bits])
        found = []
        for bits in range(first_bits, last_bits + 1):
            below += self.counts[bits]
            found.append((1 << bits, below))
        return found

    def quantiles(self, shares: Sequence[float]) -> list[float]:
        """Returns the quantile for each share (0 to 1), interpolated linearly between the bounds of
        a bucket."""
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
    """The durations and sizes of appends to the logs of one kind."""

    append: Histogram = field(default_factory=Histogram)
    """The durations of appends in nanoseconds."""
    records: Histogram = field(default_factory=Histogram)
    """The number of records of each append."""
    fsync: Histogram = field(default_factory=Histogram)
    """Durations of fsyncs in nanoseconds, as measured by the code that waits for the fsyncs."""
