"""Where a run's tables go: a folder of this machine, what only an engine reaches, a catalog."""

from __future__ import annotations

from pipeline.engines.engine import Engine
from pipeline.errors import PipelineError
from pipeline.run.catalog import TABLES
from pipeline.sources.segment_files import is_local, local_folder
from pipeline.storage import s3
from pipeline.storage.catalogued import SCHEME, CatalogStore, Commands
from pipeline.storage.formats import PARQUET, format_at
from pipeline.storage.published import PublishedStore, format_named
from pipeline.storage.store import Store


def store_of(where: str, engine: Engine, form: str | None = None) -> Store:
    """The store that ``where`` names: a folder's path or URI, or `catalog://` with a namespace.

    Its tables are in the format ``form``; None is that of those that are there, else Parquet.
    PipelineError where such tables can't be written there.
    """
    if where.startswith(SCHEME):
        if not isinstance(engine, Commands):
            raise PipelineError(f"{engine.name} has no catalogs: choose --engine spark")
        return CatalogStore(where.removeprefix(SCHEME), engine, form)
    if not (s3.is_s3(where) or is_local(where)):
        if form not in (None, PARQUET):
            raise PipelineError(f"tables in {form} go to folders and to s3://, not to {where}")
        return Store(where, engine.files(where))
    place = where.rstrip("/") if s3.is_s3(where) else local_folder(where)
    form = form or _format_there(place)
    if form == PARQUET and not s3.is_s3(place):
        return Store(place)
    return PublishedStore(place, format_named(form))


def _format_there(place: str) -> str:
    files = s3.files_at(place)
    formats = (format_at(files, f"{place}/{name}") for name in TABLES)
    return next((each for each in formats if each is not None), PARQUET)
