"""Reads the setting that enables delegation tokens: the secret from which the tokens' passwords are
derived."""

from __future__ import annotations

from typing import Any, Final, Protocol

_SECRET: Final = ("delegation.token.secret.key", "delegation.token.master.key")
"""The names of the setting with the secret; the first, newer name takes precedence."""


class Settings(Protocol):
    """Typed values of settings, by Kafka's name."""

    def __getitem__(self, name: str) -> Any: ...


def token_secret(settings: Settings) -> str:
    """Returns the secret from which the passwords of tokens are derived; "" if tokens are
    disabled."""
    return next((settings[name] for name in _SECRET if settings[name]), "")


def has_tokens(settings: Settings) -> bool:
    """Returns whether delegation tokens are enabled."""
    return bool(token_secret(settings))
