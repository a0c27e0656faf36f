"""Accesses object storage with Amazon's S3 protocol, configured by the usual environment variables.

These are `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`, `AWS_SESSION_TOKEN` and `AWS_REGION` (or
`AWS_DEFAULT_REGION`). For storage that is not Amazon's, `AWS_ENDPOINT_URL_S3` (or
`AWS_ENDPOINT_URL`) has its address. Without keys, the IAM role of the machine is used.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from pyarrow import fs

from pipeline.engines.files import Files, LocalFiles
from pipeline.errors import PipelineError

SCHEME: Final = "s3://"
COPY_BYTES: Final = 8 << 20
"""The number of bytes in one read or write."""


def is_s3(where: str) -> bool:
    """Returns True if ``where`` is a URL of object storage."""
    return where.startswith(SCHEME)


@dataclass(frozen=True)
class Settings:
    """The address and the credentials of object storage."""

    endpoint: str | None = None
    """The URL of the object storage; None for Amazon S3."""
    region: str | None = None
    access_key: str | None = None
    secret_key: str | None = None
    token: str | None = None

    @classmethod
    def of_environment(cls, given: Mapping[str, str] = os.environ) -> Settings:
        """Reads the settings from environment variables. Raises PipelineError if the endpoint is
        not a URL."""
        endpoint = given.get("AWS_ENDPOINT_URL_S3") or given.get("AWS_ENDPOINT_URL") or None
        if endpoint and not endpoint.startswith(("http://", "https://")):
            raise PipelineError(
                f"AWS_ENDPOINT_URL={endpoint}: the URL must begin with http:// or https://"
            )
        return cls(
            endpoint,
            given.get("AWS_REGION") or given.get("AWS_DEFAULT_REGION") or None,
            given.get("AWS_ACCESS_KEY_ID") or None,
            given.get("AWS_SECRET_ACCESS_KEY") or None,
            given.get("AWS_SESSION_TOKEN") or None,
        )

    def file_system(self) -> fs.S3FileSystem:
        """Creates a file system of Arrow with these settings."""
        scheme, _, address = (self.endpoint or "").partition("://")
        return fs.S3FileSystem(
            access_key=self.access_key,
            secret_key=self.secret_key,
            session_token=self.token,
            region=self.region or ("us-east-1" if self.endpoint else None),
            scheme=scheme or None,
            endpoint_override=address.rstrip("/") or None,
        )

    def delta_options(self) -> dict[str, str]:
        """Returns the options for Delta's library. They have no access keys, because the library
        reads the keys from the environment."""
        options = {} if self.region else {"AWS_REGION": "us-east-1"}
        if self.endpoint:
            options["AWS_ENDPOINT_URL"] = self.endpoint
            options["AWS_ALLOW_HTTP"] = str(self.endpoint.startswith("http://")).lower()
        return options

    def iceberg_properties(self) -> dict[str, str]:
        """Returns the properties for Iceberg's library."""
        named = {
            "s3.endpoint": self.endpoint,
            "s3.region": self.region or ("us-east-1" if self.endpoint else None),
            "s3.access-key-id": self.access_key,
            "s3.secret-access-key": self.secret_key,
            "s3.session-token": self.token,
        }
        return {name: value for name, value in named.items() if value}


class S3Files:
    """Implements `Files` for object storage. Each object is written atomically. A folder is a
    common prefix of object names."""

    def __init__(self) -> None:
        self._fs = Settings.of_environment().file_system()

    def exists(self, path: str) -> bool:
        with _said_of(path):
            found: fs.FileInfo = self._fs.get_file_info(key_of(path))
        return bool(found.type != fs.FileType.NotFound)

    def rename(self, path: str, to: str) -> None:
        """Implements `Files.rename` for a single object. Folders can't be renamed, because they are
        not objects."""
        with _said_of(path):
            self._fs.move(key_of(path), key_of(to))

    def delete(self, path: str) -> None:
        with _said_of(path):
            kind = self._fs.get_file_info(key_of(path)).type
            if kind == fs.FileType.Directory:
                self._fs.delete_dir(key_of(path))
            elif kind == fs.FileType.File:
                self._fs.delete_file(key_of(path))

    def read_text(self, path: str) -> str | None:
        with _said_of(path):
            try:
                with self._fs.open_input_stream(key_of(path)) as stream:
                    return bytes(stream.read()).decode(errors="replace")
            except FileNotFoundError:
                return None

    def write_text(self, path: str, text: str) -> None:
        with _said_of(path), self._fs.open_output_stream(key_of(path)) as stream:
            stream.write(text.encode())


def files_at(place: str) -> Files:
    """Returns the file system that contains ``place``: object storage, or this machine's."""
    return S3Files() if is_s3(place) else LocalFiles()


@contextmanager
def _said_of(path: str) -> Iterator[None]:
    """Converts an error of the storage to a PipelineError that says which settings to check."""
    try:
        yield
    except OSError as error:
        raise PipelineError(
            f"{path} can't be reached; check AWS_ENDPOINT_URL, AWS_REGION and the keys: {error}"
        ) from error


def key_of(path: str) -> str:
    """Returns bucket and key of a URL in the form in which Arrow names objects."""
    return path.removeprefix(SCHEME)


def fetch(url: str, table: str, folder: str) -> str:
    """Copies the file ``url`` of the table ``table`` into the local folder ``folder``, to the same
    relative path. Returns the local path."""
    storage = Settings.of_environment().file_system()
    to = os.path.join(folder, os.path.relpath(key_of(url), key_of(table)))
    os.makedirs(os.path.dirname(to), exist_ok=True)
    try:
        with storage.open_input_stream(key_of(url)) as source, open(to, "wb") as out:
            while data := source.read(COPY_BYTES):
                out.write(data)
    except OSError as error:
        raise PipelineError(f"{url} can't be read: {error}") from error
    return to
