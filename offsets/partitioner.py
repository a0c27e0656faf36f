"""Which partition of ``__consumer_offsets`` keeps a group; Kafka's tools assume the same answer."""

from __future__ import annotations

from operator import mul

_POWERS: tuple[int, ...] = tuple(pow(31, exponent, 1 << 32) for exponent in range(256))


def java_hash(text: str) -> int:
    """Java's ``String.hashCode``: over UTF-16 code units, a signed 32-bit number."""
    if text.isascii() and len(text) <= len(_POWERS):
        value: int = sum(map(mul, text.encode()[::-1], _POWERS)) & 0xFFFFFFFF
    else:
        units = text.encode("utf-16-be", "surrogatepass")
        value = 0
        for position in range(0, len(units), 2):
            value = (31 * value + (units[position] << 8) + units[position + 1]) & 0xFFFFFFFF
    return value - (1 << 32) if value & 0x80000000 else value


def partition_for(group_id: str, partitions: int) -> int:
    """The partition, from 0, of a group among ``partitions``.

    Kafka's ``Utils.abs(hash) % count``, where the smallest number, having no positive twin, is 0.
    """
    hashed = java_hash(group_id)
    return 0 if hashed == -(1 << 31) else abs(hashed) % partitions
