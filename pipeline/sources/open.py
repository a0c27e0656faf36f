"""Opens the source of a history: a broker, an archive, folders of segments, or tables."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from client.security import PLAINTEXT, Security
from pipeline.engines.files import Files
from pipeline.errors import PipelineError
from pipeline.sources.addresses import addresses_of
from pipeline.sources.archived import ArchiveSource
from pipeline.sources.folder import FolderSource
from pipeline.sources.segment_files import is_local, local_folder
from pipeline.sources.source import Source
from pipeline.sources.tables import EVENTS, TablesSource
from pipeline.sources.wire.brokers import TIMEOUT_S, Reach
from pipeline.sources.wire.feed import BrokerFeed
from pipeline.sources.wire.source import BrokerSource
from pipeline.storage.manifest import MANIFEST, has_manifest
from pipeline.storage.published import store_at
from pipeline.storage.s3 import S3Files, is_s3
from pipeline.storage.store import Store

if TYPE_CHECKING:
    from pipeline.sources.stored import StoredFeed


def is_remote(where: str) -> bool:
    """Returns True if the folder is in a file system that only an engine can access."""
    return addresses_of(where) is None and not is_local(where) and not is_s3(where)


def open_source(
    where: str,
    security: Security = PLAINTEXT,
    timeout_s: float = TIMEOUT_S,
    files: Callable[[str], Files] | None = None,
) -> Source:
    """Opens the source ``where``. Raises PipelineError if the name is invalid or no source exists
    there.

    - `HOST:PORT`, a comma-separated list of these, or `kafka://HOST:PORT` is a broker. Its client
      uses ``security``.
    - An archive, or a folder with the table `events`, may be on another machine. ``files`` then
      returns its file system.
    - Any other name is a folder with segments: the data folders of a broker (comma-separated), the
      folder of one partition, or copies of these.
    """
    addresses = addresses_of(where)
    if addresses is not None:
        return BrokerSource(where, Reach(tuple(addresses), security, timeout_s))
    if "," not in where:
        if is_local(where) and has_manifest(Path(local_folder(where))):
            return ArchiveSource(where)
        if is_s3(where) and S3Files().exists(f"{where.rstrip('/')}/{MANIFEST}"):
            return ArchiveSource.fetched(where)
        store = _store(where, files)
        if store is not None:
            return TablesSource(where, store)
        if is_s3(where):
            raise PipelineError(
                f"{where} has no table {EVENTS} and is not an archive: check --source"
            )
    return FolderSource(where)


def _store(where: str, files: Callable[[str], Files] | None) -> Store | None:
    """Returns the store of the tables in a folder; None if the folder has no table `events`."""
    if files is not None and is_remote(where):
        store = Store(where, files(where))
        return store if store.has(EVENTS) else None
    return store_at(where if is_s3(where) else local_folder(where), EVENTS)


def open_feed(
    where: str, security: Security = PLAINTEXT, timeout_s: float = TIMEOUT_S
) -> BrokerFeed | StoredFeed:
    """Opens the source ``where`` as a feed, for an archive. Raises PipelineError in the same cases
    as `open_source`."""
    addresses = addresses_of(where)
    if addresses is not None:
        return BrokerFeed(where, Reach(tuple(addresses), security, timeout_s))
    from pipeline.sources.stored import StoredFeed  # a cluster may not have DuckDB

    return StoredFeed(open_source(where))
