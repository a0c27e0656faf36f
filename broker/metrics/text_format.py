"""Writes Prometheus' text format, version 0.0.4. The library prometheus_client is not used, because
it takes 18 us for each line.

A `Family` has the series of one name. `Families` has all families of one scrape, and limits the
number of series. Lines are encoded in blocks of a thousand, so that no step takes long.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from broker.loop.histogram import Histogram

LINES_PER_CHUNK = 1000


class Family:
    """The series of one name."""

    __slots__ = ("_chunks", "_lines", "name")

    def __init__(self, name: str, meaning: str, kind: str = "gauge") -> None:
        self.name = name
        self._lines = [f"# HELP {name} {meaning}\n# TYPE {name} {kind}\n"]
        self._chunks: list[bytes] = []

    def add(self, labels: str, value: int | float) -> None:
        """Adds a series. ``labels`` is the text between the braces."""
        lines = self._lines
        lines.append(f"{self.name}{{{labels}}} {value}\n")
        if len(lines) >= LINES_PER_CHUNK:
            self._end_chunk()

    def add_lines(self, lines: Iterable[str]) -> None:
        """Adds complete lines. Each has a name, labels, a value and a line end."""
        self._lines += lines
        if len(self._lines) >= LINES_PER_CHUNK:
            self._end_chunk()

    def add_plain(self, value: int | float) -> None:
        self._lines.append(f"{self.name} {value}\n")

    def add_histogram(
        self, labels: str, histogram: Histogram, first_bits: int, last_bits: int, unit: int
    ) -> None:
        """Adds the series of a histogram, with the bounds 2**``first_bits`` to 2**``last_bits``.

        ``unit`` is the divisor that converts values of the histogram to the exported unit.
        """
        name = self.name
        joined = f"{labels}," if labels else ""
        for bound, below in histogram.cumulative(first_bits, last_bits):
            self._lines.append(f'{name}_bucket{{{joined}le="{bound / unit}"}} {below}\n')
        count = histogram.count
        ending = f"{{{labels}}}" if labels else ""
        self._lines.append(
            f'{name}_bucket{{{joined}le="+Inf"}} {count}\n'
            f"{name}_sum{ending} {histogram.total / unit}\n"
            f"{name}_count{ending} {count}\n"
        )

    def chunks(self) -> list[bytes]:
        """Returns all lines, encoded."""
        self._end_chunk()
        return self._chunks

    def _end_chunk(self) -> None:
        if self._lines:
            self._chunks.append("".join(self._lines).encode())
            self._lines.clear()


class Families:
    """All families of one scrape, in the order in which they were added."""

    def __init__(self, series_max: int) -> None:
        self.room = series_max
        """The number of series that may still be added to metrics that have a series for each group
        or topic. Other metrics are not limited, and do not reduce this number."""
        self.left_out = 0
        """The number of series that were omitted because ``room`` was used up."""
        self._families: dict[str, Family] = {}

    def family(self, name: str, meaning: str, kind: str = "gauge") -> Family:
        """Adds and returns an empty family. A name can be used only once."""
        assert name not in self._families, name
        found = self._families[name] = Family(name, meaning, kind)
        return found

    def plain(self, name: str, meaning: str, value: float, kind: str = "gauge") -> None:
        """Adds a family with one series that has no labels."""
        self.family(name, meaning, kind).add_plain(value)

    def __getitem__(self, name: str) -> Family:
        return self._families[name]

    def has_room(self, series: int) -> bool:
        """If the scrape may have ``series`` more series, counts them and returns True. Otherwise
        counts them as omitted and returns False."""
        if series > self.room:
            self.left_out += series
            return False
        self.room -= series
        return True

    def chunks(self) -> Iterator[bytes]:
        for family in self._families.values():
            yield from family.chunks()


def label(name: str, value: str) -> str:
    """Returns the text of one label, with its value escaped."""
    if "\\" in value or "\n" in value or '"' in value:
        value = value.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')
    return f'{name}="{value}"'


def labels(pairs: Mapping[str, str]) -> str:
    """Returns the text of several labels, separated by commas."""
    return ",".join([label(name, value) for name, value in pairs.items()])
