"""The SCRAM users of a standalone broker, in ``users.json`` of its data directory.

  {"version": 1, "secret": "...", "users": {"alice": {"SCRAM-SHA-256": "salt=...,..."}}}

The credentials have the text form of Kafka's tools and ZooKeeper nodes. ``secret`` is the key from
which decoys (credentials of unknown names) are computed. While a broker serves the directory, only
its process writes the file; `muster users --data-dir` writes the file while no broker runs.
"""

from __future__ import annotations

import os
from base64 import b64decode, b64encode
from collections.abc import Mapping
from typing import Any, Final

import structlog

from broker.authentication.users import Credentials, Edit, Users
from broker.secured_file import SecuredFile
from broker.time import Time
from broker.topics.registry import BadDirectory
from log.files.filesystem import FileSystem
from security.credentials import BY_NAME, credential_text, parse_credential

logger = structlog.get_logger(__name__)

NAME: Final = "users.json"
_VERSION: Final = 1


class UserFile:
    """Implements `UserStore` with a file."""

    def __init__(self, fs: FileSystem, directory: str, time: Time) -> None:
        """Raises BadDirectory for an invalid file."""
        self._time = time
        self._file = SecuredFile(fs, os.path.join(directory, NAME), _VERSION)
        found = self._file.read() or {}
        self._texts: dict[str, dict[str, str]]
        try:
            self._texts = dict(found.get("users", {}))
            self._known = {name: _credentials(texts) for name, texts in self._texts.items()}
            secret = found.get("secret")
            self._secret = fresh_secret(time) if secret is None else b64decode(secret)
        except (AttributeError, KeyError, TypeError, ValueError):
            raise BadDirectory(
                f"{self._file.path} is damaged: its users are not in Muster's format"
            ) from None

    def users(self) -> Users:
        """Returns the users in the file. `Users` stores its changes in the same file."""
        return Users(self, self._known, self._secret)

    async def alter(self, edits: Mapping[str, Edit]) -> Mapping[str, Credentials | str]:
        """Implements `UserStore.alter`. Either all users are altered, or none."""
        try:
            altered, self._texts = await self._time.in_thread(self._put_edits, edits)
        except OSError as error:
            logger.warning("SCRAM users can't be written", path=self._file.path, error=str(error))
            return dict.fromkeys(
                edits, "the broker can't write the SCRAM users to the disk: see the broker's log"
            )
        for name, credentials in altered.items():
            if credentials:
                self._known[name] = credentials
            else:
                self._known.pop(name, None)
        return altered

    def _put_edits(
        self, edits: Mapping[str, Edit]
    ) -> tuple[dict[str, Credentials], dict[str, dict[str, str]]]:
        """Writes the file with the edits. Returns the changed credentials by user, and the new
        content of the file.

        Waits for the disk. Raises OSError.
        """
        altered: dict[str, Credentials] = {
            name: {
                mechanism: made
                for mechanism, made in {**self._known.get(name, {}), **edit}.items()
                if made is not None
            }
            for name, edit in edits.items()
        }
        return altered, self.put(altered)

    def put(self, changed: Mapping[str, Credentials]) -> dict[str, dict[str, str]]:
        """Writes the file with the changed users. Returns the new content of the file. Raises
        OSError."""
        texts = {name: each for name, each in self._texts.items() if name not in changed}
        texts |= {name: _texts(each) for name, each in changed.items() if each}
        self._write(texts)
        return texts

    def _write(self, texts: Mapping[str, Any]) -> None:
        self._file.write({"secret": b64encode(self._secret).decode(), "users": texts})


def fresh_secret(time: Time) -> bytes:
    """Returns 32 random bytes."""
    return time.fresh_id() + time.fresh_id()


def _credentials(texts: Mapping[str, str]) -> Credentials:
    return {BY_NAME[name]: parse_credential(text) for name, text in texts.items()}


def _texts(credentials: Credentials) -> dict[str, str]:
    return {each.mechanism: credential_text(value) for each, value in credentials.items()}
