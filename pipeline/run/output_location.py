"""Opens the store for a run's tables: a local folder, a file system that the engine can access, or
a catalog."""

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
    """Opens the store ``where``: a folder's path or URI, or `catalog://` followed by a namespace.

    The tables have the file format ``form``; None means the format of the existing tables, or
    Parquet if no table exists. Raises PipelineError if the store can't have tables of this format.
    """
    if where.startswith(SCHEME):
        if not isinstance(engine, Commands):
            raise PipelineError(f"{engine.name} does not support catalogs: choose --engine spark")
        return CatalogStore(where.removeprefix(SCHEME), engine, form)
    if not (s3.is_s3(where) or is_local(where)):
        if form not in (None, PARQUET):
            raise PipelineError(f"can't write {form} tables to {where}: choose a folder or s3://")
        return Store(where, engine.files(where))
    place = where.rstrip("/") if s3.is_s3(where) else local_folder(where)
    name, there = _format_there(place)
    if form not in (None, there) and name is not None:
        raise PipelineError(
            f"{place}/{name} has the format {there}, not {form}: leave out --format, or choose"
            " another --out"
        )
    form = form or there
    if form == PARQUET and not s3.is_s3(place):
        return Store(place)
    return PublishedStore(place, format_named(form))


def _format_there(place: str) -> tuple[str | None, str]:
    """Returns the name and the format of the first table that exists at ``place``; None and Parquet
    if no table exists."""
    files = s3.files_at(place)
    formats = ((name, format_at(files, f"{place}/{name}")) for name in TABLES)
    return next(((name, form) for name, form in formats if form is not None), (None, PARQUET))
