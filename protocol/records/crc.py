"""Checksums: CRC-32C of record batches (magic 2), CRC-32 of messages (magic 0 and 1)."""

from __future__ import annotations

import zlib
from collections.abc import Callable

from protocol.buffer import Buffer


def fallback_crc32c() -> Callable[[Buffer], int]:
    """Make CRC-32C (Castagnoli, reflected, RFC 3720) from crcmod, for where no C package runs."""
    import crcmod.predefined

    checksum = crcmod.predefined.mkPredefinedCrcFun("crc-32c")

    def crc32c_of(buffer: Buffer) -> int:
        # crcmod's C extension takes bytes only, its pure form any of the three.
        return int(checksum(buffer if isinstance(buffer, bytes) else bytes(buffer)))

    return crc32c_of


def _fastest_crc32c() -> Callable[[Buffer], int]:
    try:
        import crc32c as package
    except ImportError:  # no wheel for this machine
        return fallback_crc32c()
    function: Callable[[Buffer], int] = package.crc32c
    return function


crc32c: Callable[[Buffer], int] = _fastest_crc32c()


def crc32(buffer: Buffer) -> int:
    """CRC-32 (IEEE 802.3, reflected) as an unsigned int."""
    return zlib.crc32(buffer)
