"""The compiled codecs. If ``make fast`` has built them, they replace the codecs in Python.

Their source is in ``protocol/c``. ``tools/make_codecs.py`` writes ``codecs.c`` from the tables from
which it also writes ``protocol/generated``. ``records.c`` encodes and decodes the records of a
commit. ``wire.h`` defines Kafka's types. A compiled codec returns the same tuple or bytes as the
codec in Python. It calls the codec in Python for everything unusual: tagged fields, null where it
is rare, values out of range, invalid bytes. Therefore only Python code decides what is an error.

The environment variable ``MUSTER_CODECS=python`` switches the compiled codecs off. A module that
was built from other sources is not used.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from types import ModuleType
from typing import Any, Final, TypeVar

SWITCH: Final = "MUSTER_CODECS"
COMPILED: Final = (
    "consumer_group_heartbeat",
    "end_txn",
    "fetch",
    "heartbeat",
    "join_group",
    "offset_commit",
    "offset_fetch",
    "produce",
    "share_fetch",
    "sync_group",
    "txn_offset_commit",
)
"""The modules of ``protocol/generated`` whose codecs also exist in C. Encoders that return chunks
exist only in Python."""
Codec = TypeVar("Codec", bound=Callable[..., Any])


def _built() -> tuple[ModuleType | None, str]:
    """Returns the compiled module and the text of `IN_USE`. The module is None if the Python codecs
    are used."""
    if os.environ.get(SWITCH) == "python":
        return None, f"python ({SWITCH}=python)"
    try:
        from protocol import _compiled  # type: ignore[attr-defined]
    except ImportError:
        return None, "python"
    from protocol.generated import C_SOURCES

    if _compiled.SOURCES != C_SOURCES:
        return None, "python (the compiled codecs are outdated: run make fast)"
    return _compiled, "compiled"


MODULE, IN_USE = _built()
"""The compiled module or None, and a text that says which codecs are in use, for the first log line
of a broker."""


def codecs(kind: str, name: str, by_version: dict[int, Codec]) -> dict[int, Codec]:
    """Returns the codecs of an API by version: compiled where they exist, otherwise those of
    ``by_version``.

    ``kind`` is ``decode`` or ``encode``. ``name`` is a module of ``protocol/generated``.
    """
    if MODULE is None:
        return by_version
    return {
        version: MODULE.codec(f"{kind} {name} {version}", codec) or codec
        for version, codec in by_version.items()
    }
