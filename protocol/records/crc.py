"""Checksums: CRC-32C for record batches (magic 2), CRC-32 for messages (magic 0 and 1)."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from importlib import import_module
from importlib.machinery import PathFinder
from importlib.util import find_spec, module_from_spec
from types import ModuleType

from protocol.buffer import Buffer


def fallback_crc32c() -> Callable[[Buffer], int]:
    """Returns the function of crcmod that computes CRC-32C (Castagnoli, reflected, RFC 3720), for
    systems without the package `crc32c`."""
    import crcmod.predefined

    checksum = crcmod.predefined.mkPredefinedCrcFun("crc-32c")

    def crc32c_of(buffer: Buffer) -> int:
        # crcmod's C extension accepts only bytes, its Python version every Buffer.
        return int(checksum(buffer if isinstance(buffer, bytes) else bytes(buffer)))

    return crc32c_of


def _fastest_crc32c() -> Callable[[Buffer], int]:
    try:
        function: Callable[[Buffer], int] = (_extension() or import_module("crc32c")).crc32c
    except ImportError:  # no wheel for this machine
        return fallback_crc32c()
    return function


def _extension() -> ModuleType | None:
    """Imports only the C part of the package `crc32c`. Returns None if its file is not at the usual
    path.

    The package itself determines its version when it is imported. For this it imports email,
    zipfile and 40 more modules, which takes a twentieth of a broker's start.
    """
    package = find_spec("crc32c")
    places = None if package is None else package.submodule_search_locations
    spec = PathFinder.find_spec("_crc32c", places) if places else None
    if spec is None or spec.loader is None:
        return None
    extension = module_from_spec(spec)
    spec.loader.exec_module(extension)
    return extension


crc32c: Callable[[Buffer], int] = _fastest_crc32c()


def crc32(buffer: Buffer) -> int:
    """Returns the CRC-32 (IEEE 802.3, reflected) as an unsigned int."""
    return zlib.crc32(buffer)
