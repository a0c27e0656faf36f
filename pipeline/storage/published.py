"""A store for formats that need a staging folder (Delta, Iceberg, object storage): an engine stages
the files of a table, then the format publishes them."""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Sequence

import pyarrow as pa

from pipeline.engines.engine import Engine
from pipeline.engines.files import LocalFiles
from pipeline.errors import NotInstalled, PipelineError
from pipeline.storage import s3
from pipeline.storage.formats import DELTA, ICEBERG, PARQUET, Format, format_at
from pipeline.storage.s3_parquet import S3Parquet
from pipeline.storage.store import Store


def format_named(name: str) -> Format:
    """Returns a format by name. Raises NotInstalled if its library is missing."""
    try:
        if name == DELTA:
            from pipeline.storage.delta import Delta

            return Delta()
        if name == ICEBERG:
            from pipeline.storage.iceberg import Iceberg

            return Iceberg()
    except ModuleNotFoundError as error:
        package = error.name or "a package"
        raise NotInstalled(f"the format {name}", package, "lakehouse") from None
    return S3Parquet()


class PublishedStore(Store):
    """A store whose tables are staged and then published by a `Format`, such as Delta or Iceberg.

    Staged files stay until the run ends, because other tables are made from them. The staging
    folder is next to the tables. For object storage, the staging folder is on this machine.
    """

    def __init__(self, folder: str, form: Format) -> None:
        self._remote = s3.is_s3(folder)
        super().__init__(folder, s3.files_at(folder))
        self.format = form.name
        self._form = form
        self._one_by_one = threading.Lock()
        """Allows only one publication at a time. Threads stage tables in parallel, but some
        libraries for formats are not thread-safe."""
        self._scratch: tempfile.TemporaryDirectory[str] | None = None
        self._staged: list[str] = []
        self._fetched: dict[str, list[str]] = {}

    def put(
        self,
        engine: Engine,
        name: str,
        query: str,
        schema: pa.Schema,
        by: str | None,
        overwrite: bool = False,
    ) -> Sequence[str]:
        """Implements `Store.put`. Returns the path of the staged files."""
        self.check_absent([name], overwrite)
        if self._remote and not engine.is_here:
            raise PipelineError(
                f"{engine.name} works on other machines and can't stage tables for {self.folder}:"
                " write to a folder that these machines share, or run with --master local[*]"
            )
        staged = f"{self._own_folder()}/{name}" if self._remote else self._aside(name, "partial")
        LocalFiles().delete(staged)
        self._staged.append(staged)
        engine.write(query, schema, staged, by)
        with self._one_by_one:
            self._form.publish(staged, self.path(name), schema, by)
        self._fetched.pop(name, None)
        return [staged]

    def table_files(self, name: str) -> Sequence[str]:
        """Implements `Store.table_files`. Copies files in object storage to this machine."""
        if not self._remote:
            return self.table_urls(name)
        if name not in self._fetched:
            folder = os.path.join(self._own_folder(), f"read-{name}")
            table = self.path(name)
            self._fetched[name] = [s3.fetch(url, table, folder) for url in self.table_urls(name)]
        return self._fetched[name]

    def table_urls(self, name: str) -> Sequence[str]:
        return self._form.files(self.path(name))

    def close(self) -> None:
        for staged in self._staged:
            LocalFiles().delete(staged)
        self._staged = []
        super().close()

    def _settle(self, name: str) -> None:
        """Does nothing: the table formats replace a table in one step, without a rename of the old
        table."""

    def _own_folder(self) -> str:
        """Returns a temporary local folder, which exists while the store is used."""
        with self._one_by_one:
            if self._scratch is None:
                self._scratch = tempfile.TemporaryDirectory(prefix="muster-tables-")
            return self._scratch.name


def store_at(place: str, table: str) -> Store | None:
    """Returns the store at ``place``, a folder or a URL of object storage; None if it does not
    contain the table ``table``."""
    if s3.is_s3(place):
        place = place.rstrip("/")
        form = format_at(s3.S3Files(), f"{place}/{table}")
        return None if form is None else PublishedStore(place, format_named(form))
    store = Store(place)
    form = format_at(LocalFiles(), f"{place}/{table}") if store.has(table) else None
    if form is None or form == PARQUET:
        return None if form is None else store
    return PublishedStore(place, format_named(form))
