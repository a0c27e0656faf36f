"""Whether delegation tokens are enabled, and the secret that derives their passwords."""

from __future__ import annotations

from typing import Any, Final, Protocol

_SECRET: Final = ("delegation.token.secret.key", "delegation.token.master.key")
"""The newer name first: it takes precedence."""


class Settings(Protocol):
    """Typed values by Kafka's name."""

    def __getitem__(self, name: str) -> Any: ...


def token_secret(settings: Settings) -> str:
    """The secret that derives the passwords of tokens; "" if tokens are disabled."""
    return next((settings[name] for name in _SECRET if settings[name]), "")


def has_tokens(settings: Settings) -> bool:
    """Whether tokens are enabled."""
    return bool(token_secret(settings))
