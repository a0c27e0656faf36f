"""Where a run's tables go: a folder of this machine, or what only an engine reaches."""

from __future__ import annotations

from pipeline.engines.engine import Engine
from pipeline.sources.segment_files import is_local, local_folder
from pipeline.storage.store import Store


def store_of(where: str, engine: Engine) -> Store:
    """The store in the folder that ``where`` names, as a path or a URI."""
    if is_local(where):
        return Store(local_folder(where))
    return Store(where, engine.files(where))
