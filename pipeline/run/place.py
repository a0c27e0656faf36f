"""Where a run's tables go: a folder of this machine, or what only an engine reaches."""

from __future__ import annotations

import re

from pipeline.engines.engine import Engine
from pipeline.sources.segment_files import local_folder
from pipeline.storage.store import Store

_REMOTE = re.compile(r"(?!file:)[a-z][a-z0-9+.-]+://")


def store_of(where: str, engine: Engine) -> Store:
    """The store in the folder that ``where`` names, as a path or a URI."""
    if not _REMOTE.match(where):
        return Store(local_folder(where))
    return Store(where, engine.files(where))
