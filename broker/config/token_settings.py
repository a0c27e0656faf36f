"""Reads the setting that enables delegation tokens: the secret from which the passwords of tokens
are derived."""

from __future__ import annotations

from typing import Any, Final, Protocol

_SECRET: Final = ("delegation.token.secret.key", "delegation.token.master.key")
"""The two names of the setting that has the secret. The first, newer name takes precedence."""


class Settings(Protocol):
    """Gives access to typed values of settings, by Kafka's names."""

    def __getitem__(self, name: str) -> Any: ...


def token_secret(settings: Settings) -> str:
    """Returns the secret from which the passwords of tokens are derived; "" if tokens are
    disabled."""
    return next((settings[name] for name in _SECRET if settings[name]), "")


def has_tokens(settings: Settings) -> bool:
    return bool(token_secret(settings))
