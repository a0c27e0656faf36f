"""The delegation tokens of a standalone broker, in ``tokens.json`` of its data directory.

  {"version": 1, "tokens": [{"tokenId": "...", "owner": "User:alice", "tokenRequester": ...}]}

An entry has the same fields as Kafka's token node in ZooKeeper. The file contains no secret: a
token's HMAC is computed from the token's id with the secret key in the broker's settings.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from broker.authentication.tokens import CannotKeep
from broker.secured_file import SecuredFile
from broker.topics.registry import BadDirectory
from log.files.filesystem import FileSystem
from security.principal import Principal
from security.tokens import Token

NAME: Final = "tokens.json"
_VERSION: Final = 1
_TOKENS: Final = "tokens"

Outside = Callable[..., Awaitable[None]]


class TokenFile:
    """Implements `TokenStore` with a file."""

    def __init__(self, fs: FileSystem, directory: str, run_outside: Outside) -> None:
        """``run_outside`` runs a function in another thread.

        Raises BadDirectory for an invalid file.
        """
        self._file = SecuredFile(fs, os.path.join(directory, NAME), _VERSION)
        self._run_outside = run_outside
        try:
            found = [_token(each) for each in (self._file.read() or {}).get(_TOKENS, ())]
        except (AttributeError, KeyError, TypeError, ValueError):
            raise BadDirectory(
                f"{self._file.path} is damaged: its delegation tokens are not in Muster's format"
            ) from None
        self.tokens = {each.token_id: each for each in found}

    async def read(self, token_id: str) -> Token | None:
        return self.tokens.get(token_id)

    async def keep(self, token: Token, before: Token | None) -> bool:  # noqa: ARG002
        """Implements `TokenStore.keep`. Always returns True, because no other broker changes the
        file."""
        await self._write({**self.tokens, token.token_id: token})
        return True

    async def remove(self, token: Token) -> None:
        left = {**self.tokens}
        left.pop(token.token_id, None)
        await self._write(left)

    async def _write(self, tokens: dict[str, Token]) -> None:
        try:
            await self._run_outside(self._put, tokens)
        except OSError as error:
            raise CannotKeep(f"{self._file.path} can't be written: {error.strerror}") from None
        self.tokens = tokens

    def _put(self, tokens: Mapping[str, Token]) -> None:
        """Writes the file; waits for the disk. Raises OSError."""
        self._file.write({_TOKENS: list(map(_json_of, tokens.values()))})


def _json_of(token: Token) -> dict[str, Any]:
    return {
        "tokenId": token.token_id,
        "owner": str(token.owner),
        "tokenRequester": str(token.requester),
        "renewers": list(map(str, token.renewers)),
        "issueTimestamp": token.issued_ms,
        "maxTimestamp": token.ends_ms,
        "expiryTimestamp": token.expires_ms,
    }


def _token(value: Mapping[str, Any]) -> Token:
    times = [value[key] for key in ("issueTimestamp", "maxTimestamp", "expiryTimestamp")]
    token_id = value["tokenId"]
    if not isinstance(token_id, str) or not all(type(each) is int for each in times):
        raise ValueError("no token")
    owner, requester = (_principal(value[key]) for key in ("owner", "tokenRequester"))
    renewers = tuple(map(_principal, value["renewers"]))
    return Token(token_id, owner, requester, renewers, *times)


def _principal(text: str) -> Principal:
    kind, _, name = text.partition(":")  # a renewer's name may be empty
    return Principal(kind, name)
