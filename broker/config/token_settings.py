"""Whether delegation tokens are enabled, and the secret from which their passwords are derived."""

from __future__ import annotations

from typing import Any, Final, Protocol

_SECRET: Final = ("delegation.token.secret.key", "delegation.token.master.key")
"""The names of the secret; the first name, the newer one, takes precedence."""


class Settings(Protocol):
    """Typed values by Kafka's name."""

    def __getitem__(self, name: str) -> Any: ...


def token_secret(settings: Settings) -> str:
    """Returns the secret from which the passwords of tokens are derived; "" if tokens are
    disabled."""
    return next((settings[name] for name in _SECRET if settings[name]), "")


def has_tokens(settings: Settings) -> bool:
    """Returns whether delegation tokens are enabled."""
    return bool(token_secret(settings))
