"""Parses broker addresses that are given as a source: `HOST:PORT,...` or `kafka://HOST:PORT,...`."""

from __future__ import annotations

import re
from collections.abc import Iterable

from client.connection import Address, name_of
from pipeline.errors import PipelineError

_SCHEME = "kafka://"
_ADDRESS = re.compile(r"(?P<host>[\w.-]+|\[[0-9a-fA-F:.]+\]):(?P<port>\d{1,5})")


def addresses_of(where: str) -> list[Address] | None:
    """Returns the broker addresses in ``where``; None if ``where`` is not a list of addresses.
    Raises PipelineError for an incomplete address."""
    text = where.removeprefix(_SCHEME).rstrip("/") if where.startswith(_SCHEME) else where
    found = [_ADDRESS.fullmatch(part.strip()) for part in text.split(",")]
    if all(found):
        return [(match["host"].strip("[]"), int(match["port"])) for match in found if match]
    if where.startswith(_SCHEME):
        raise PipelineError(f"{where} is not an address: write kafka://HOST:PORT")
    return None


def bootstrap_of(addresses: Iterable[Address]) -> str:
    """Returns the addresses in the format of Kafka's `bootstrap.servers`."""
    return ",".join(map(name_of, addresses))
