"""A small JSON file that only its owner may read, for secrets and security settings.

The content is written as a new file, fsynced and renamed, so that after a crash either the old or
the new file exists. The file has a format version. A broker rejects a file of a newer version,
since the broker might not understand a setting that protects the broker.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import islice
from typing import Any

from broker.topics.registry import BadDirectory
from log.files.filesystem import FileSystem, read_whole

_VERSION = "version"
_LINES_AT_ONCE = 500
"""The number of lines that are written in one step. Steps are short, so that other threads do not
wait long."""


class SecuredFile:
    """A JSON file that only its owner may read. Only one thread at a time may use it. `read`
    returns the value that `write` stored."""

    def __init__(self, fs: FileSystem, path: str, version: int) -> None:
        self.path = path
        self._fs = fs
        self._version = version

    def read(self) -> dict[str, Any] | None:
        """Returns the content of the file; None if the file does not exist. Raises BadDirectory for
        a damaged file or a newer version; the exception's text contains nothing from the file."""
        if not self._fs.exists(self.path):
            return None
        try:
            value = json.loads(read_whole(self._fs, self.path))
        except ValueError:
            raise BadDirectory(f"{self.path} is damaged: the content is not JSON") from None
        version = value.pop(_VERSION, None) if isinstance(value, dict) else None
        if not isinstance(version, int):
            raise BadDirectory(f"{self.path} is damaged: the version is missing")
        if version > self._version:
            raise BadDirectory(
                f"{self.path} has version {version}, but this Muster reads version"
                f" {self._version}: start the newer Muster that wrote it"
            )
        return dict(value)

    def write(self, value: Mapping[str, Any]) -> None:
        """Replaces the content with ``value``, which is on disk when this method returns. An
        iterator in ``value`` is written as a list that is never completely in memory. Raises
        OSError; the file is then unchanged, unless only the fsync of the directory failed."""
        fs, temporary = self._fs, self.path + ".tmp"
        fs.remove(temporary)
        try:
            file = fs.create_private(temporary)
            position = 0
            for text in _texts({_VERSION: self._version, **value}):
                data = text.encode()
                file.write(position, data)
                position += len(data)
            file.fsync()
            fs.rename(temporary, self.path)
        except OSError:
            with suppress(OSError):
                fs.remove(temporary)  # half a file would only use space on a full disk
            raise
        fs.fsync_directory(os.path.dirname(self.path))


def _texts(value: Mapping[str, Any]) -> Iterator[str]:
    """Yields the JSON text of a file. Each entry of a list or object in ``value`` has its own
    line."""
    before = "{\n"
    for name, part in value.items():
        yield f"{before}{json.dumps(name)}: "
        before = ",\n"
        if isinstance(part, list | Iterator):
            yield from _lines("[", (json.dumps(each) for each in part), "]")
        elif isinstance(part, dict):
            pairs = part.items()
            yield from _lines(
                "{", (f"{json.dumps(key)}: {json.dumps(of)}" for key, of in pairs), "}"
            )
        else:
            yield json.dumps(part)
    yield "\n}\n"


def _lines(start: str, lines: Iterable[str], end: str) -> Iterator[str]:
    yield start
    before = "\n"
    remaining = iter(lines)
    while some := list(islice(remaining, _LINES_AT_ONCE)):
        yield before + ",\n".join(some)
        before = ",\n"
    yield f"\n{end}"
